// Lowered kernels on the interpreter against the reference evaluator, over shapes around the tile
// sizes, on small (one block) and large (loop nests) values, at -O2 and for some at -O0.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/unit/lower/run_kernel.h"

namespace tpuc {
namespace {

using kernel::NodeId;

void Expect(const KernelBuilder& b, const std::string& what, double limit = 2e-5,
            const RunSettings& settings = {}) {
  Outcome r = RunBoth(b.k, settings);
  ASSERT_TRUE(r.ok) << what << ": " << r.error;
  EXPECT_LE(r.max_error, limit) << what;
  if (std::getenv("TPUC_VERBOSE")) {
    fprintf(stderr, "%-40s cycles %8lld bundles %6lld spills %4lld error %.2g\n", what.c_str(),
            (long long)r.cycles, (long long)r.bundles, (long long)r.spills, r.max_error);
  }
}

// On every chip that tpuc knows.
void ExpectOnAll(const KernelBuilder& b, const std::string& what, double limit = 2e-5) {
  for (const std::string& chip : BuiltinChipNames()) {
    RunSettings settings;
    settings.chip = chip;
    Expect(b, absl::StrCat(what, " on ", chip), limit, settings);
  }
}

std::string Name(const Dims& d) { return absl::StrCat("[", absl::StrJoin(d, ","), "]"); }

const std::vector<Dims>& Shapes() {
  static const std::vector<Dims>& shapes = *new std::vector<Dims>{
      {},          {1},        {7},       {128},       {129},         {300},       {1000},
      {5000},      {1, 1},     {1, 300},  {8, 128},    {9, 127},      {7, 129},    {300, 1},
      {1000, 300}, {64, 1024}, {2, 3, 4}, {3, 9, 130}, {40, 16, 256}, {2, 1, 3, 5}};
  return shapes;
}

TEST(Elementwise, Shapes) {
  for (const Dims& d : Shapes()) {
    for (int space : {0, 1}) {
      KernelBuilder b;
      int x = b.In(d, space), y = b.In(d, 0), o = b.Out(d, space);
      NodeId s = b.Like(Op::kAdd, {b.Load(x), b.Load(y)});
      b.Store(o, b.Like(Op::kMultiply, {s, b.Splat(3, d)}));
      Expect(b, absl::StrCat("elementwise ", Name(d), " space ", space), 0);
    }
  }
}

TEST(Elementwise, NarrowTypes) {
  for (Type t :
       {Type::kBF16, Type::kS8, Type::kU8, Type::kS16, Type::kU16, Type::kS32, Type::kU32}) {
    for (const Dims& d : Shapes()) {
      KernelBuilder b;
      int x = b.In(d, 0, t), y = b.In(d, 1, t), o = b.Out(d, 0, t);
      NodeId s = b.Like(Op::kAdd, {b.Load(x), b.Load(y)});
      b.Store(o, b.Like(Op::kMultiply, {s, s}));
      Expect(b, absl::StrCat(TypeName(t), " ", Name(d)), 0);
    }
  }
}

TEST(Elementwise, Predicates) {
  for (const Dims& d : Shapes()) {
    KernelBuilder b;
    int x = b.In(d), p = b.In(d, 0, Type::kPred), o = b.Out(d), q = b.Out(d, 0, Type::kPred);
    NodeId v = b.Load(x), m = b.Load(p);
    NodeId c = b.Compare("GT", v, b.Splat(0.25f, d));
    b.Store(o, b.Like(Op::kSelect, {b.Like(Op::kAnd, {m, c}), v, b.Like(Op::kNegate, {v})}));
    b.Store(q, b.Like(Op::kXor, {m, c}));
    Expect(b, absl::StrCat("pred ", Name(d)), 0);
  }
}

TEST(Reduce, OverEachDimension) {
  for (const Dims& d : Shapes()) {
    if (d.empty()) continue;
    for (Op r : {Op::kAdd, Op::kMaximum}) {
      for (int mask = 1; mask < (1 << d.size()); ++mask) {
        Ints over;
        for (size_t i = 0; i < d.size(); ++i) {
          if (mask >> i & 1) over.push_back(i);
        }
        KernelBuilder b;
        int x = b.In(d);
        NodeId v = b.Reduce(r, b.Like(Op::kMultiply, {b.Load(x), b.Splat(0.5f, d)}), over);
        Dims rd = b.dims(v);
        int o = b.Out(rd);
        b.Store(o, v);
        Expect(b, absl::StrCat(r == Op::kAdd ? "sum " : "max ", Name(d), " over ",
                               absl::StrJoin(over, ",")));
      }
    }
  }
}

TEST(Reduce, IntegersAndPredicates) {
  for (Dims d : {Dims{9, 130}, Dims{300, 200}}) {
    for (Op r : {Op::kAdd, Op::kMaximum, Op::kMinimum, Op::kMultiply}) {
      for (Ints over : {Ints{0}, Ints{1}, Ints{0, 1}}) {
        KernelBuilder b;
        int x = b.In(d, 0, Type::kS32);
        NodeId v = b.Reduce(r, b.Load(x), over);
        int o = b.Out(b.dims(v), 0, Type::kS32);
        b.Store(o, v);
        Expect(b, absl::StrCat("s32 ", OpName(r), Name(d), absl::StrJoin(over, ",")), 0);
      }
    }
    for (Op r : {Op::kAnd, Op::kOr}) {
      for (Ints over : {Ints{0}, Ints{1}}) {
        KernelBuilder b;
        int x = b.In(d, 0, Type::kPred);
        NodeId v = b.Reduce(r, b.Load(x), over);
        int o = b.Out(b.dims(v), 0, Type::kPred);
        b.Store(o, v);
        Expect(b, absl::StrCat("pred ", OpName(r), Name(d), absl::StrJoin(over, ",")), 0);
      }
    }
  }
}

TEST(Broadcast, RowsAndColumns) {
  for (Dims d : {Dims{16, 64}, Dims{9, 130}, Dims{300, 200}, Dims{1000, 300}}) {
    for (int which : {0, 1}) {
      KernelBuilder b;
      int x = b.In(d), y = b.In({d[which]}), o = b.Out(d);
      b.Store(o, b.Like(Op::kAdd, {b.Load(x), b.Broadcast(b.Load(y), d, {which})}));
      Expect(b, absl::StrCat("broadcast ", which, " ", Name(d)), 0);
    }
  }
}

NodeId Softmax(KernelBuilder& b, NodeId v, Dims d) {
  Ints rows;
  for (size_t i = 0; i + 1 < d.size(); ++i) rows.push_back(i);
  Ints last{static_cast<int64_t>(d.size()) - 1};
  NodeId m = b.Broadcast(b.Reduce(Op::kMaximum, v, last), d, rows);
  NodeId e = b.Like(Op::kExponential, {b.Like(Op::kSubtract, {v, m})});
  NodeId s = b.Broadcast(b.Reduce(Op::kAdd, e, last), d, rows);
  return b.Like(Op::kDivide, {e, s});
}

TEST(Reduce, Softmax) {
  for (Dims d : {Dims{7, 300}, Dims{64, 128}, Dims{256, 1024}, Dims{100, 3000}, Dims{4, 40, 200}}) {
    KernelBuilder b;
    int x = b.In(d), o = b.Out(d);
    b.Store(o, Softmax(b, b.Load(x), d));
    Expect(b, absl::StrCat("softmax ", Name(d)));
  }
}

TEST(Reduce, LayerNorm) {
  for (Dims d : {Dims{16, 64}, Dims{512, 768}}) {
    KernelBuilder b;
    int x = b.In(d), g = b.In({d[1]}), o = b.Out(d), mean = b.Out({d[0]});
    NodeId v = b.Load(x);
    float inv = 1.0f / d[1];
    NodeId mu = b.Like(Op::kMultiply, {b.Reduce(Op::kAdd, v, {1}), b.Splat(inv, {d[0]})});
    NodeId c = b.Like(Op::kSubtract, {v, b.Broadcast(mu, d, {0})});
    NodeId var = b.Like(Op::kMultiply, {b.Reduce(Op::kAdd, b.Like(Op::kMultiply, {c, c}), {1}),
                                        b.Splat(inv, {d[0]})});
    NodeId r = b.Like(Op::kRsqrt, {b.Like(Op::kAdd, {var, b.Splat(1e-5f, {d[0]})})});
    NodeId y = b.Like(Op::kMultiply, {c, b.Broadcast(r, d, {0})});
    b.Store(o, b.Like(Op::kMultiply, {y, b.Broadcast(b.Load(g), d, {1})}));
    b.Store(mean, mu);
    Expect(b, absl::StrCat("layer norm ", Name(d)));
  }
}

TEST(Dot, Sizes) {
  struct Case {
    int64_t m, k, n;
  };
  for (Case c : {Case{1, 1, 1},
                 {8, 128, 128},
                 {16, 64, 64},
                 {7, 100, 130},
                 {130, 200, 260},
                 {1, 300, 7},
                 {256, 256, 256},
                 {513, 129, 65},
                 {64, 300, 600},
                 {300, 700, 500},
                 {2000, 64, 64},
                 {1100, 256, 512},
                 {40, 384, 128},
                 {72, 200, 250},
                 {600, 512, 128},
                 {5, 384, 384}}) {
    for (int form = 0; form < 4; ++form) {
      KernelBuilder b;
      bool lt = form & 1, rt = form & 2;
      if ((lt || rt) && c.m * c.k * c.n > 40000000) continue;
      int x = b.In(lt ? Dims{c.k, c.m} : Dims{c.m, c.k});
      int w = b.In(rt ? Dims{c.n, c.k} : Dims{c.k, c.n}, 1);
      int o = b.Out({c.m, c.n});
      b.Store(o, b.Dot(b.Load(x), b.Load(w), {lt ? 0 : 1}, {rt ? 1 : 0}));
      ExpectOnAll(
          b, absl::StrCat("dot ", c.m, "x", c.k, "x", c.n, lt ? " lhsT" : "", rt ? " rhsT" : ""),
          1e-5);
    }
  }
}

TEST(Dot, BiasActivationAndRows) {
  for (Dims d : {Dims{16, 64}, Dims{300, 200}}) {
    KernelBuilder b;
    int x = b.In({d[0], 96}), w = b.In({96, d[1]}), bias = b.In({d[1]}), o = b.Out(d),
        r = b.Out({d[0]});
    NodeId y = b.Like(Op::kAdd,
                      {b.Dot(b.Load(x), b.Load(w), {1}, {0}), b.Broadcast(b.Load(bias), d, {1})});
    NodeId t = b.Like(Op::kTanh, {y});
    b.Store(o, t);
    b.Store(r, b.Reduce(Op::kAdd, t, {1}));
    ExpectOnAll(b, absl::StrCat("dot+bias ", Name(d)), 1e-4);
  }
}

TEST(Dot, Batches) {
  for (Dims d : {Dims{2, 8, 16}, Dims{8, 200, 64}, Dims{3, 100, 600}}) {
    KernelBuilder b;
    int q = b.In({d[0], d[1], d[2]}), k = b.In({d[0], d[1], d[2]}), o = b.Out({d[0], d[1], d[1]});
    b.Store(o, b.Dot(b.Load(q), b.Load(k), {2}, {2}, {0}, {0}));
    ExpectOnAll(b, absl::StrCat("batched dot ", Name(d)), 1e-5);
  }
}

TEST(Dot, Chain) {
  for (int64_t s : {16, 256}) {
    KernelBuilder b;
    int q = b.In({s, 64}), k = b.In({s, 64}), v = b.In({s, 64}), o = b.Out({s, 64});
    NodeId p = Softmax(b, b.Dot(b.Load(q), b.Load(k), {1}, {1}), {s, s});
    b.Store(o, b.Dot(p, b.Load(v), {1}, {0}));
    ExpectOnAll(b, absl::StrCat("attention ", s), 4e-3);
  }
}

TEST(Move, Transposes) {
  for (Dims d : {Dims{16, 64}, Dims{9, 130}, Dims{300, 200}}) {
    KernelBuilder b;
    int x = b.In(d), o = b.Out({d[1], d[0]});
    b.Store(o, b.Hlo(Op::kTranspose, Type::kF32, {d[1], d[0]}, {b.Load(x)},
                     {{AttrId::kDimensions, Ints{1, 0}}}));
    Expect(b, absl::StrCat("transpose ", Name(d)), 0);
  }
  for (Ints perm : {Ints{1, 0, 2}, Ints{2, 1, 0}, Ints{0, 2, 1}, Ints{1, 2, 0}, Ints{2, 0, 1}}) {
    for (Dims d : {Dims{3, 16, 20}, Dims{12, 9, 130}, Dims{24, 40, 150}}) {
      Dims t{d[perm[0]], d[perm[1]], d[perm[2]]};
      KernelBuilder b;
      int x = b.In(d), o = b.Out(t);
      b.Store(o, b.Hlo(Op::kTranspose, Type::kF32, t, {b.Load(x)}, {{AttrId::kDimensions, perm}}));
      Expect(b, absl::StrCat("transpose ", Name(d), " ", absl::StrJoin(perm, ",")), 0);
    }
  }
}

TEST(Move, SlicesAndPieces) {
  for (Dims d : {Dims{20, 200}, Dims{300, 400}}) {
    KernelBuilder b;
    Dims s{d[0] - 5, d[1] - 70};
    int x = b.In(d), o = b.Out(s), c = b.Out({2 * d[0], d[1]}), p = b.Out({d[0] + 3, d[1] + 128});
    NodeId v = b.Load(x);
    b.Store(o,
            b.Hlo(Op::kSlice, Type::kF32, s, {v},
                  {{AttrId::kSlice, std::vector<SliceDim>{{3, d[0] - 2, 1}, {50, d[1] - 20, 1}}}}));
    b.Store(c, b.Hlo(Op::kConcatenate, Type::kF32, {2 * d[0], d[1]}, {v, v},
                     {{AttrId::kDimensions, Ints{0}}}));
    b.Store(p, b.Hlo(Op::kPad, Type::kF32, {d[0] + 3, d[1] + 128}, {v, b.Constant(7)},
                     {{AttrId::kPadding, std::vector<PadDim>{{2, 1, 0}, {128, 0, 0}}}}));
    Expect(b, absl::StrCat("slice, concatenate, pad ", Name(d)), 0);
  }
  KernelBuilder b;
  int x = b.In({5, 70}), y = b.In({5, 90}), o = b.Out({5, 160});
  b.Store(o, b.Hlo(Op::kConcatenate, Type::kF32, {5, 160}, {b.Load(x), b.Load(y)},
                   {{AttrId::kDimensions, Ints{1}}}));
  Expect(b, "concatenate lanes", 0);
}

TEST(Move, Reshapes) {
  struct Case {
    Dims from, to;
  };
  for (const Case& c : {Case{{4, 64}, {2, 128}},
                        {{16, 64}, {1024}},
                        {{6, 10}, {3, 20}},
                        {{64}, {8, 8}},
                        {{8, 16, 128}, {128, 128}},
                        {{256, 256}, {4, 64, 256}},
                        {{16, 1}, {16}},
                        {{16}, {16, 1}},
                        {{1, 40}, {40}},
                        {{40}, {1, 40}},
                        {{300, 1}, {300}},
                        {{2, 3, 4}, {4, 6}}}) {
    KernelBuilder b;
    int x = b.In(c.from), o = b.Out(c.to);
    b.Store(o, b.Hlo(Op::kReshape, Type::kF32, c.to, {b.Load(x)}));
    Expect(b, absl::StrCat("reshape ", Name(c.from), Name(c.to)), 0);
  }
}

// Values with two users, many times over: the number of paths is 2^60.
TEST(Depth, SharedValues) {
  for (Dims d : {Dims{16, 64}, Dims{600, 512}}) {
    KernelBuilder b;
    int x = b.In(d), o = b.Out(d);
    NodeId v = b.Load(x);
    for (int i = 0; i < 60; ++i) {
      NodeId half = b.Like(Op::kMultiply, {v, b.Splat(0.5f, d)});
      v = b.Like(Op::kAdd, {half, half});
    }
    b.Store(o, v);
    Expect(b, absl::StrCat("shared values ", Name(d)), 0);
  }
}

TEST(Depth, LongChainIsAnError) {
  KernelBuilder b;
  int x = b.In({8, 128}), o = b.Out({8, 128});
  NodeId v = b.Load(x);
  for (int i = 0; i < 20000; ++i) v = b.Like(Op::kNegate, {v});
  b.Store(o, v);
  Outcome r = RunBoth(b.k);
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.error.find("E1200"), std::string::npos) << r.error;
}

TEST(Limits, TemporariesBeyondVmem) {
  KernelBuilder b;
  int x = b.In({4096, 1024}), y = b.In({4096, 1024}), o = b.Out({4096, 1024});
  b.Store(o, b.Like(Op::kAdd, {b.Load(x), b.Load(y)}));
  Outcome r = RunBoth(b.k);
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.error.find("E1001"), std::string::npos) << r.error;
}

TEST(Dot, Precision) {
  for (const char* word : {"high", "highest"}) {
    KernelBuilder b;
    int x = b.In({16, 64}), w = b.In({64, 32}), o = b.Out({16, 32});
    NodeId d = b.Dot(b.Load(x), b.Load(w), {1}, {0});
    b.k.nodes[d].attrs.push_back({AttrId::kOperandPrecision, std::vector<std::string>{word, word}});
    b.Store(o, d);
    ExpectOnAll(b, absl::StrCat("precision ", word), std::string(word) == "high" ? 4e-5 : 2e-6);
  }
}

TEST(Dot, SeveralDimensions) {
  KernelBuilder b;
  int x = b.In({6, 5, 40}), w = b.In({5, 40, 30}), o = b.Out({6, 30});
  b.Store(o, b.Dot(b.Load(x), b.Load(w), {1, 2}, {0, 1}));
  ExpectOnAll(b, "two contracted dimensions", 1e-5);
  KernelBuilder c;
  int p = c.In({12, 40}), q = c.In({40, 3, 20}), r = c.Out({12, 3, 20});
  c.Store(r, c.Dot(c.Load(p), c.Load(q), {1}, {0}));
  ExpectOnAll(c, "two free dimensions on the right", 1e-5);
}

TEST(Grid, Matmul) {
  for (int64_t m : {256, 300}) {
    KernelBuilder b;
    using kernel::Expr;
    int64_t k = 512, n = 512, bm = 128, bk = 256, bn = 256;
    for (auto [name, extent] :
         {std::pair<const char*, int64_t>{"i", (m + bm - 1) / bm}, {"j", n / bn}, {"k", k / bk}}) {
      kernel::GridAxis a;
      a.name = name;
      a.extent = extent;
      a.size = Expr::Const(extent);
      b.k.grid.push_back(a);
    }
    int x = b.In({m, k});
    b.Block({bm, bk}, {Expr::Axis(0), Expr::Axis(2)});
    int w = b.In({k, n});
    b.Block({bk, bn}, {Expr::Axis(2), Expr::Axis(1)});
    int o = b.Out({m, n});
    b.Block({bm, bn}, {Expr::Axis(0), Expr::Axis(1)});
    int acc = b.Scratch({bm, bn});
    NodeId kk = b.Axis(2);
    b.When(b.Compare("EQ", kk, b.Int(0)), [&] { b.Store(acc, b.Splat(0, {bm, bn})); });
    b.Store(acc, b.Like(Op::kAdd, {b.Load(acc), b.Dot(b.Load(x), b.Load(w), {1}, {0})}));
    b.When(b.Compare("EQ", kk, b.Int(1)), [&] { b.Store(o, b.Load(acc)); });
    ExpectOnAll(b, absl::StrCat("grid matmul ", m), 1e-5);
  }
}

TEST(Grid, ElementwiseEdges) {
  using kernel::Expr;
  for (Dims d : {Dims{100, 300}, Dims{64, 256}}) {
    KernelBuilder b;
    for (int64_t extent : {(d[0] + 23) / 24, (d[1] + 127) / 128}) {
      kernel::GridAxis a;
      a.name = "i";
      a.extent = extent;
      a.size = Expr::Const(extent);
      b.k.grid.push_back(a);
    }
    int x = b.In(d);
    b.Block({24, 128}, {Expr::Axis(0), Expr::Axis(1)});
    int o = b.Out(d);
    b.Block({24, 128}, {Expr::Axis(0), Expr::Axis(1)});
    b.Store(o, b.Like(Op::kMultiply, {b.Load(x), b.Splat(2, {24, 128})}));
    Expect(b, absl::StrCat("grid elementwise ", Name(d)), 0);
  }
}

}  // namespace
}  // namespace tpuc
