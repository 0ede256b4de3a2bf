// What changes the place of elements in registers, against the reference evaluator: broadcasts and
// dots of every arrangement of dimensions, rearrangements through memory, narrow types; small and
// large. And the functions of special arguments.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/unit/lower/run_kernel.h"

namespace tpuc {
namespace {

using kernel::NodeId;

void Expect(const KernelBuilder& b, const std::string& what, double limit = 0) {
  Outcome r = RunBoth(b.k);
  ASSERT_TRUE(r.ok) << what << ": " << r.error;
  EXPECT_LE(r.max_error, limit) << what;
}

std::string Name(const Dims& d) { return absl::StrCat("[", absl::StrJoin(d, ","), "]"); }

// Each choice of dimensions of the result for those of the operand, in order.
TEST(Relayout, BroadcastsOfEveryDimension) {
  for (const Dims& d : {Dims{5, 12, 20, 36}, Dims{3, 40, 130, 9}, Dims{2, 9, 300, 140}}) {
    for (Type t : {Type::kF32, Type::kBF16}) {
      for (int mask = 1; mask < 15; ++mask) {
        Ints map;
        Dims from;
        for (int i = 0; i < 4; ++i) {
          if (mask >> i & 1) {
            map.push_back(i);
            from.push_back(d[i]);
          }
        }
        KernelBuilder b;
        int x = b.In(from, 1, t), y = b.In(d, 0, t), o = b.Out(d, 0, t);
        b.Store(o, b.Like(Op::kAdd, {b.Load(y), b.Broadcast(b.Load(x), d, map)}));
        Expect(b, absl::StrCat("broadcast ", Name(from), " to ", Name(d), " dims ",
                               absl::StrJoin(map, ","), " ", TypeName(t)));
      }
    }
  }
}

// Statistics of other dimensions than the lanes, back to where they came from.
TEST(Relayout, SoftmaxOverEachDimension) {
  for (const Dims& d : {Dims{4, 9, 30}, Dims{6, 72, 200}, Dims{150, 20, 16}}) {
    for (int64_t over = 0; over < 3; ++over) {
      Ints kept;
      for (int64_t i = 0; i < 3; ++i) {
        if (i != over) kept.push_back(i);
      }
      KernelBuilder b;
      int x = b.In(d), o = b.Out(d);
      NodeId v = b.Load(x);
      NodeId m = b.Broadcast(b.Reduce(Op::kMaximum, v, {over}), d, kept);
      NodeId e = b.Like(Op::kExponential, {b.Like(Op::kSubtract, {v, m})});
      NodeId s = b.Broadcast(b.Reduce(Op::kAdd, e, {over}), d, kept);
      b.Store(o, b.Like(Op::kDivide, {e, s}));
      Expect(b, absl::StrCat("softmax over ", over, " of ", Name(d)), 2e-5);
    }
  }
}

// [B, M, H, K] . [B, N, H, K] and the like: batch dimensions in the middle, as attention has them.
TEST(Relayout, DotsOfEveryBatch) {
  struct Case {
    Ints lhs, rhs;  // places of batch 0, batch 1, free, contracted
  };
  for (int64_t size : {1, 3}) {
    const int64_t batch = 2, heads = 3, m = 13 * size, n = 17 * size, k = 24 * size;
    for (const Case& c : {Case{{0, 2, 1, 3}, {0, 2, 1, 3}}, Case{{0, 1, 2, 3}, {0, 2, 3, 1}},
                          Case{{1, 3, 0, 2}, {0, 1, 3, 2}}, Case{{2, 0, 3, 1}, {3, 2, 1, 0}}}) {
      Dims l(4), r(4);
      l[c.lhs[0]] = r[c.rhs[0]] = batch;
      l[c.lhs[1]] = r[c.rhs[1]] = heads;
      l[c.lhs[2]] = m;
      r[c.rhs[2]] = n;
      l[c.lhs[3]] = r[c.rhs[3]] = k;
      KernelBuilder b;
      int x = b.In(l), y = b.In(r, 1), o = b.Out({batch, heads, m, n});
      b.Store(o, b.Dot(b.Load(x), b.Load(y), {c.lhs[3]}, {c.rhs[3]}, {c.lhs[0], c.lhs[1]},
                       {c.rhs[0], c.rhs[1]}));
      Expect(b, absl::StrCat("dot ", Name(l), Name(r)), 1e-5);
    }
  }
}

TEST(Relayout, DotsOfSeveralFreeDimensions) {
  KernelBuilder b;
  int x = b.In({4, 7, 40}), v = b.In({40}), o = b.Out({4, 7});
  b.Store(o, b.Dot(b.Load(x), b.Load(v), {2}, {0}));
  Expect(b, "rank 3 and a vector", 1e-5);
  KernelBuilder c;
  int p = c.In({4, 40, 7}), q = c.In({5, 40, 6}), r = c.Out({4, 7, 5, 6});
  c.Store(r, c.Dot(c.Load(p), c.Load(q), {1}, {1}));
  Expect(c, "two and two", 1e-5);
}

TEST(Move, LargeReshapes) {
  struct Case {
    Dims from, to;
  };
  for (const Case& c : {Case{{512, 768}, {512, 12, 64}},
                        {{512, 12, 64}, {512, 768}},
                        {{20, 300}, {6000}},
                        {{6000}, {20, 300}},
                        {{3, 1922, 2}, {31, 31, 12}},
                        {{31, 31, 12}, {3, 1922, 2}},
                        {{24, 130, 1}, {39, 80}},
                        {{4, 20, 200}, {80, 200}},
                        {{64, 96}, {48, 128}}}) {
    for (Type t : {Type::kF32, Type::kS8}) {
      KernelBuilder b;
      int x = b.In(c.from, 0, t), o = b.Out(c.to, 0, t);
      b.Store(o, b.Hlo(Op::kReshape, t, c.to, {b.Load(x)}));
      Expect(b, absl::StrCat("reshape ", Name(c.from), Name(c.to), TypeName(t)));
    }
  }
}

// Along rows, lanes and leading dimensions alike.
TEST(Move, StridesPadsAndPieces) {
  for (const Dims& d : {Dims{3, 31, 20}, Dims{4, 100, 150}, Dims{20, 9, 300}}) {
    for (int along = 0; along < 3; ++along) {
      Dims half = d, wide = d, twice = d;
      std::vector<SliceDim> slices;
      std::vector<PadDim> pads(3);
      for (int64_t n : d) slices.push_back({0, n, 1});
      slices[along] = {1, d[along], 2};
      half[along] = d[along] / 2;
      pads[along] = {1, 2, 1};
      wide[along] = 2 * d[along] + 2;
      twice[along] = 2 * d[along];
      KernelBuilder b;
      int x = b.In(d), s = b.Out(half), p = b.Out(wide), c = b.Out(twice), r = b.Out(d);
      NodeId v = b.Load(x);
      b.Store(s, b.Hlo(Op::kSlice, Type::kF32, half, {v}, {{AttrId::kSlice, slices}}));
      b.Store(p, b.Hlo(Op::kPad, Type::kF32, wide, {v, b.Constant(7)}, {{AttrId::kPadding, pads}}));
      b.Store(c, b.Hlo(Op::kConcatenate, Type::kF32, twice, {v, v},
                       {{AttrId::kDimensions, Ints{along}}}));
      b.Store(r, b.Like(Op::kReverse, {v}, {{AttrId::kDimensions, Ints{along}}}));
      Expect(b, absl::StrCat("moves along ", along, " of ", Name(d)));
    }
  }
}

TEST(NarrowTypes, FloatsThroughMemoryAndArithmetic) {
  for (Type t : {Type::kF16, Type::kF8E4M3FN, Type::kF8E5M2, Type::kF8E4M3, Type::kF8E3M4}) {
    for (const Dims& d : {Dims{40}, Dims{300}, Dims{9, 130}, Dims{64, 300}, Dims{3, 20, 7}}) {
      KernelBuilder b;
      int x = b.In(d, 0, t), y = b.In(d, 1, t), z = b.In(d);
      int o = b.Out(d, 0, t), p = b.Out(d), q = b.Out(d, 0, t);
      NodeId v = b.Load(x);
      b.Store(o, b.Like(Op::kAdd, {b.Like(Op::kMultiply, {v, b.Load(y)}), v}));
      b.Store(p, b.Hlo(Op::kConvert, Type::kF32, d, {v}));
      NodeId wide = b.Like(Op::kMultiply, {b.Load(z), b.Splat(1e-3f, d)});  // many are subnormal
      b.Store(q, b.Hlo(Op::kConvert, t, d, {wide}));
      Expect(b, absl::StrCat(TypeName(t), " ", Name(d)));
    }
  }
}

TEST(NarrowTypes, EveryF16AndEveryF8) {
  for (Type t : {Type::kF16, Type::kF8E4M3FN, Type::kF8E5M2, Type::kF8E4M3, Type::kF8E3M4}) {
    const int64_t n = t == Type::kF16 ? 65536 : 256;
    Dims d{n / 128, 128};
    KernelBuilder b;
    int x = b.In(d, 0, t), o = b.Out(d), p = b.Out(d, 0, t);
    NodeId wide = b.Hlo(Op::kConvert, Type::kF32, d, {b.Load(x)});
    b.Store(o, wide);
    b.Store(p, b.Hlo(Op::kConvert, t, d, {b.Like(Op::kMultiply, {wide, b.Splat(0.7f, d)})}));
    Literal all(Shape::Array(t, d));
    for (int64_t i = 0; i < n; ++i) {
      if (t == Type::kF16) {
        all.data<uint16_t>()[i] = static_cast<uint16_t>(i);
      } else {
        all.bytes()[i] = static_cast<uint8_t>(i);
      }
    }
    RunSettings settings;
    settings.inputs = {all};
    Outcome r = RunBoth(b.k, settings);
    ASSERT_TRUE(r.ok) << r.error;
    EXPECT_LE(r.max_error, 0) << TypeName(t);
  }
}

TEST(NarrowTypes, ReducePrecision) {
  for (auto [exponent, mantissa] :
       {std::pair<int64_t, int64_t>{8, 7}, {5, 10}, {4, 3}, {8, 23}, {3, 0}}) {
    Dims d{16, 200};
    KernelBuilder b;
    int x = b.In(d), o = b.Out(d), p = b.Out(d);
    std::vector<Attr> attrs = {{AttrId::kExponentBits, exponent},
                               {AttrId::kMantissaBits, mantissa}};
    NodeId v = b.Load(x);
    b.Store(o, b.Like(Op::kReducePrecision, {b.Like(Op::kMultiply, {v, b.Splat(300, d)})}, attrs));
    b.Store(p,
            b.Like(Op::kReducePrecision, {b.Like(Op::kMultiply, {v, b.Splat(0.02f, d)})}, attrs));
    Expect(b, absl::StrCat("reduce-precision ", exponent, ", ", mantissa));
  }
}

TEST(NarrowTypes, Dots) {
  for (Type t : {Type::kF16, Type::kF8E4M3FN, Type::kF8E5M2}) {
    KernelBuilder b;
    int x = b.In({32, 80}, 0, t), w = b.In({80, 64}, 0, t), o = b.Out({32, 64});
    b.Store(o, b.Dot(b.Load(x), b.Load(w), {1}, {0}));
    Expect(b, absl::StrCat("dot of ", TypeName(t)), 1e-5);
  }
  for (Type t : {Type::kS8, Type::kU8}) {
    for (int64_t k : {100, 3000}) {
      KernelBuilder b;
      Dims r{24, 40};
      int x = b.In({24, k}, 0, t), w = b.In({40, k}, 0, t), o = b.Out(r, 0, Type::kS32);
      NodeId dot = b.Dot(b.Load(x), b.Load(w), {1}, {1});
      b.k.nodes[dot].shape.type = Type::kS32;
      b.Store(o, dot);
      Expect(b, absl::StrCat("dot of ", TypeName(t), " over ", k));
    }
  }
}

// ---- functions of special arguments; what they must give is C's double function ----

const std::vector<float>& Special() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  static const std::vector<float>& v = *new std::vector<float>{
      0.0f,       -0.0f,   1.0f,     -1.0f,       0.5f,        -0.5f,       2.0f,        -2.0f,
      3.0f,       -3.0f,   1.5f,     -2.5f,       inf,         -inf,        NAN,         1e-20f,
      -1e-20f,    3.4e38f, -3.4e38f, 1e10f,       1e22f,       -1e22f,      750000.0f,   1.5707964f,
      3.1415927f, 88.7f,   -87.0f,   0.99999994f, 1.0000001f,  16777216.0f, 16777217.0f, 0.1f,
      -100.0f,    9.5e15f, 127.0f,   128.0f,      0.33333334f, 12345.678f,  -7.0f,       2e-38f};
  return v;
}

void CheckValue(float got, double want, double near_zero, const std::string& what) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << what << " = " << got;
    return;
  }
  const double largest = std::numeric_limits<float>::max();
  if (std::fabs(want) > largest * (1 + 1e-5)) {
    EXPECT_TRUE(std::isinf(got) && (got > 0) == (want > 0)) << what << " = " << got;
  } else if (std::fabs(want) < largest * (1 - 1e-5)) {
    EXPECT_NEAR(got, want, 1e-5 * std::fabs(want) + near_zero) << what;
  }
}

TEST(Special, FunctionsOfOne) {
  struct Case {
    Op op;
    double (*exact)(double);
    double near_zero = 1.2e-38;
  };
  for (const Case& c :
       {Case{Op::kSine, std::sin, 4e-6}, Case{Op::kCosine, std::cos, 4e-6},
        Case{Op::kTan, std::tan, 4e-6}, Case{Op::kLogPlusOne, std::log1p},
        Case{Op::kExponentialMinusOne, std::expm1}, Case{Op::kLog, std::log},
        Case{Op::kSqrt, std::sqrt}, Case{Op::kTanh, std::tanh}, Case{Op::kCbrt, std::cbrt},
        Case{Op::kAsinh, std::asinh}, Case{Op::kAcosh, std::acosh}, Case{Op::kAtanh, std::atanh},
        Case{Op::kSinh, std::sinh}, Case{Op::kCosh, std::cosh}, Case{Op::kErf, std::erf}}) {
    const int64_t n = static_cast<int64_t>(Special().size());
    KernelBuilder b;
    int x = b.In({n}), o = b.Out({n});
    b.Store(o, b.Like(c.op, {b.Load(x)}));
    Literal in(Shape::Array(Type::kF32, {n}));
    std::copy(Special().begin(), Special().end(), in.data<float>());
    RunSettings settings;
    settings.inputs = {in};
    Outcome r = RunBoth(b.k, settings);
    ASSERT_TRUE(r.ok) << OpName(c.op) << ": " << r.error;
    for (int64_t i = 0; i < n; ++i) {
      float v = Special()[i];
      // A tangent whose argument's rounding decides its size is not compared.
      if (c.op == Op::kTan && std::fabs(std::cos(double{v})) < 1e-6) continue;
      CheckValue(r.got[0].data<float>()[i], c.exact(v), c.near_zero,
                 absl::StrCat(OpName(c.op), " ", v));
    }
  }
}

TEST(Special, FunctionsOfTwo) {
  struct Case {
    Op op;
    double (*exact)(double, double);
  };
  const int64_t n = static_cast<int64_t>(Special().size());
  Literal left(Shape::Array(Type::kF32, {n, n})), right(Shape::Array(Type::kF32, {n, n}));
  for (int64_t i = 0; i < n * n; ++i) {
    left.data<float>()[i] = Special()[i / n];
    right.data<float>()[i] = Special()[i % n];
  }
  for (const Case& c : {Case{Op::kPower, std::pow}, Case{Op::kRemainder, std::fmod},
                        Case{Op::kAtan2, std::atan2}}) {
    KernelBuilder b;
    int x = b.In({n, n}), y = b.In({n, n}), o = b.Out({n, n});
    b.Store(o, b.Like(c.op, {b.Load(x), b.Load(y)}));
    RunSettings settings;
    settings.inputs = {left, right};
    Outcome r = RunBoth(b.k, settings);
    ASSERT_TRUE(r.ok) << OpName(c.op) << ": " << r.error;
    for (int64_t i = 0; i < n * n; ++i) {
      double p = left.data<float>()[i], q = right.data<float>()[i];
      CheckValue(r.got[0].data<float>()[i], c.exact(p, q), 1.2e-38,
                 absl::StrCat(OpName(c.op), " ", p, ", ", q));
    }
  }
}

}  // namespace
}  // namespace tpuc
