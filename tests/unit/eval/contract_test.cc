// dot and reduce against plain loops in f64, and the rounding of chip numbers.
#include <cmath>
#include <random>

#include "src/eval/inputs.h"
#include "src/eval/reduce.h"
#include "tests/unit/eval/literals.h"

namespace tpuc {
namespace {

std::vector<Attr> DotAttrs(Ints lb, Ints lc, Ints rb, Ints rc) {
  return {{AttrId::kLhsBatchDims, lb},
          {AttrId::kLhsContractingDims, lc},
          {AttrId::kRhsBatchDims, rb},
          {AttrId::kRhsContractingDims, rc}};
}

// a[b, m, k] . b[b, k, n] by definition, in f64.
std::vector<double> Product(const Literal& a, const Literal& b, int64_t batch, int64_t m, int64_t n,
                            int64_t k) {
  std::vector<double> c(batch * m * n);
  for (int64_t z = 0; z < batch; ++z) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += double{a.data<float>()[(z * m + i) * k + p]} *
                 double{b.data<float>()[(z * k + p) * n + j]};
        }
        c[(z * m + i) * n + j] = sum;
      }
    }
  }
  return c;
}

double WorstError(const Literal& got, const std::vector<double>& want) {
  double scale = 1e-30, worst = 0;
  for (double w : want) scale = std::max(scale, std::abs(w));
  for (size_t i = 0; i < want.size(); ++i) {
    worst = std::max(worst, std::abs(got.data<float>()[i] - want[i]));
  }
  return worst / scale;
}

Literal Permuted(const Literal& a, Ints order) {
  Dims dims;
  for (int64_t d : order) dims.push_back(a.shape().dims[d]);
  return Eval(Op::kTranspose, Type::kF32, dims, {a}, {{AttrId::kDimensions, order}});
}

TEST(Dot, ManyShapesAndDimensionOrders) {
  const int64_t sizes[][4] = {{1, 1, 1, 1},      {1, 7, 5, 3},      {2, 13, 33, 40},
                              {3, 64, 64, 64},   {1, 1, 300, 700},  {1, 300, 1, 70},
                              {1, 65, 130, 520}, {1, 129, 1100, 9}, {4, 0, 3, 2},
                              {1, 3, 4, 0},      {5, 6, 16, 17}};
  for (const auto& [batch, m, n, k] : sizes) {
    const Literal a = GenerateInput(Shape::Array(Type::kF32, {batch, m, k}), 0, 1);
    const Literal b = GenerateInput(Shape::Array(Type::kF32, {batch, k, n}), 1, 1);
    const std::vector<double> want = Product(a, b, batch, m, n, k);
    const Dims dims{batch, m, n};
    EXPECT_LT(
        WorstError(Eval(Op::kDot, Type::kF32, dims, {a, b}, DotAttrs({0}, {2}, {0}, {1})), want),
        1.5e-6);
    // Contracting first, batch last.
    const Literal at = Permuted(a, {2, 1, 0}), bt = Permuted(b, {2, 0, 1});
    EXPECT_LT(
        WorstError(Eval(Op::kDot, Type::kF32, dims, {at, bt}, DotAttrs({2}, {0}, {1}, {2})), want),
        1.5e-6);
  }
}

TEST(Dot, TwoContractingAndOuterProduct) {
  const Literal a = F32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  // sum over i, j of a[x, i, j] * a[y, j, i]
  const Literal c = Eval(Op::kDot, Type::kF32, {2, 2}, {a, a}, DotAttrs({}, {1, 2}, {}, {2, 1}));
  EXPECT_EQ(ValuesOf<float>(c), (std::vector<float>{29, 69, 69, 173}));
  const Literal o = Eval(Op::kDot, Type::kF32, {2, 3}, {F32({2}, {1, 2}), F32({3}, {3, 4, 5})});
  EXPECT_EQ(ValuesOf<float>(o), (std::vector<float>{3, 4, 5, 6, 8, 10}));
  const Literal s = Eval(Op::kDot, Type::kF32, {}, {F32({2}, {1, 2}), F32({2}, {3, 4})},
                         DotAttrs({}, {0}, {}, {0}));
  EXPECT_EQ(s.data<float>()[0], 11);
}

TEST(Dot, IntegersAndNarrowFloats) {
  const Literal a = Make<int8_t>(Type::kS8, {1, 3}, {127, -128, 5});
  const Literal b = Make<int8_t>(Type::kS8, {3, 1}, {127, 127, -1});
  EXPECT_EQ(
      Eval(Op::kDot, Type::kS32, {1, 1}, {a, b}, DotAttrs({}, {1}, {}, {0})).data<int32_t>()[0],
      127 * 127 - 128 * 127 - 5);
  // 256 + 1 + 1 in f32, then to bf16: 258. Rounding after each product would stay at 256.
  const auto bf16 = [](float x) { return num::BF16FromF32(x); };
  const Literal x = Make<uint16_t>(Type::kBF16, {3}, {bf16(16), bf16(1), bf16(1)});
  EXPECT_EQ(Eval(Op::kDot, Type::kBF16, {}, {x, x}, DotAttrs({}, {0}, {}, {0})).data<uint16_t>()[0],
            bf16(258));
}

TEST(Dot, ChipNumbersRoundTheOperands) {
  const float odd = 1 + 0x1p-8f;   // a tie: rounds to 1
  const float up = 1 + 0x1.8p-8f;  // rounds to 1 + 2^-7
  const Literal a = F32({2}, {odd, up}), b = F32({2}, {odd, 1});
  EvalOptions chip;
  chip.numbers = Numbers::kChip;
  std::vector<Attr> attrs = DotAttrs({}, {0}, {}, {0});
  EXPECT_EQ(Eval(Op::kDot, Type::kF32, {}, {a, b}, attrs).data<float>()[0], odd * odd + up);
  EXPECT_EQ(Eval(Op::kDot, Type::kF32, {}, {a, b}, attrs, chip).data<float>()[0], 2 + 0x1p-7f);
  attrs.push_back({AttrId::kOperandPrecision, std::vector<std::string>{"highest", "highest"}});
  EXPECT_EQ(Eval(Op::kDot, Type::kF32, {}, {a, b}, attrs, chip).data<float>()[0], odd * odd + up);
}

Literal Reduced(Op op, const Literal& a, const Literal& init, Ints dimensions, Dims dims) {
  std::string error;
  auto result = EvaluateReduce(op, Shape::Array(a.shape().type, dims), a, init, dimensions, &error);
  EXPECT_TRUE(result) << error;
  return *std::move(result);
}

TEST(Reduce, SubsetsOfDimensions) {
  const Dims dims{3, 5, 2, 7, 4};
  const Literal a = GenerateInput(Shape::Array(Type::kF32, dims), 0, 3);
  for (int subset = 0; subset < 32; ++subset) {
    Ints reduced;
    Dims kept;
    for (int d = 0; d < 5; ++d) {
      if (subset >> d & 1) {
        reduced.push_back(d);
      } else {
        kept.push_back(dims[d]);
      }
    }
    const Literal sum = Reduced(Op::kAdd, a, F32({}, {0.5f}), reduced, kept);
    const Literal top = Reduced(Op::kMaximum, a, F32({}, {-INFINITY}), reduced, kept);
    std::vector<double> want(sum.size(), 0.5), most(sum.size(), -INFINITY);
    for (int64_t i = 0; i < a.size(); ++i) {
      int64_t rest = i, at = 0, stride = 1;
      for (int d = 4; d >= 0; --d) {
        const int64_t index = rest % dims[d];
        rest /= dims[d];
        if (subset >> d & 1) continue;
        at += index * stride;
        stride *= dims[d];
      }
      want[at] += a.data<float>()[i];
      most[at] = std::max<double>(most[at], a.data<float>()[i]);
    }
    EXPECT_LT(WorstError(sum, want), 1e-6) << subset;
    EXPECT_EQ(WorstError(top, most), 0) << subset;
  }
}

TEST(Reduce, TypesAndSpecials) {
  const Literal x = F32({3}, {1, NAN, 2});
  EXPECT_TRUE(std::isnan(Reduced(Op::kMaximum, x, F32({}, {-INFINITY}), {0}, {}).data<float>()[0]));
  EXPECT_EQ(Reduced(Op::kAdd, F32({0, 3}, {}), F32({}, {2}), {0}, {3}).data<float>()[2], 2);
  const Literal b = Make<int8_t>(Type::kS8, {3}, {100, 100, 100});
  EXPECT_EQ(Reduced(Op::kAdd, b, Make<int8_t>(Type::kS8, {}, {0}), {0}, {}).data<int8_t>()[0], 44);
  const Literal p = Make<uint8_t>(Type::kPred, {2, 2}, {1, 0, 1, 1});
  const Literal yes = Make<uint8_t>(Type::kPred, {}, {1});
  EXPECT_EQ(ValuesOf<uint8_t>(Reduced(Op::kAnd, p, yes, {1}, {2})), (std::vector<uint8_t>{0, 1}));
  // A long f32 sum stays exact to f32.
  Literal ones(Shape::Array(Type::kF32, {1 << 20, 3}));
  for (int64_t i = 0; i < ones.size(); ++i) ones.data<float>()[i] = 0.1f;
  const Literal sum = Reduced(Op::kAdd, ones, F32({}, {0}), {0}, {3});
  EXPECT_EQ(sum.data<float>()[1], static_cast<float>(double{0.1f} * (1 << 20)));
  std::string error;
  EXPECT_FALSE(EvaluateReduce(Op::kAnd, Shape::Array(Type::kF32, {}), x, x, {0}, &error));
  EXPECT_EQ(error, "reduce of f32 by and");
}

// Expected value: oracle/corpus gpu_hlo_buffers, XLA's f16 sum of 2^20 generated values (-596; the
// sum rounded once is -597).
TEST(Reduce, NarrowSumsRoundAfterEachStep) {
  const Literal a = GenerateInput(Shape::Array(Type::kF16, {1048576}), 0, 0);
  const Literal zero(Shape::Array(Type::kF16, {}));
  Literal out(Shape::Array(Type::kF16, {}));
  std::string error;
  const Combiner add(Op::kAdd);
  ASSERT_TRUE(EvalReduceInWindows(add, a, zero, {0}, {}, &out, &error)) << error;
  EXPECT_EQ(num::F32FromF16(out.data<uint16_t>()[0]), -596);
  EXPECT_EQ(num::F32FromF16(Reduced(Op::kAdd, a, zero, {0}, {}).data<uint16_t>()[0]), -597);
}

}  // namespace
}  // namespace tpuc
