// Element-wise operations: edge cases of integers and floats. Expected values are XLA's
// (oracle/programs/int, unary, binary, convert) or follow from IEEE 754.
#include <cmath>
#include <limits>

#include "tests/unit/eval/literals.h"

namespace tpuc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

std::vector<int32_t> S32(Op op, std::vector<int32_t> a, std::vector<int32_t> b) {
  const int64_t n = static_cast<int64_t>(a.size());
  return ValuesOf<int32_t>(Eval(
      op, Type::kS32, {n}, {Make<int32_t>(Type::kS32, {n}, a), Make<int32_t>(Type::kS32, {n}, b)}));
}
std::vector<float> Floats(Op op, std::vector<float> a, std::vector<float> b = {}) {
  const int64_t n = static_cast<int64_t>(a.size());
  std::vector<Literal> operands{F32({n}, a)};
  if (!b.empty()) operands.push_back(F32({n}, b));
  return ValuesOf<float>(Eval(op, Type::kF32, {n}, operands));
}
void ExpectBits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else {
      EXPECT_EQ(num::BitsOfF32(got[i]), num::BitsOfF32(want[i])) << i << ": " << got[i];
    }
  }
}
using I = std::vector<int32_t>;

TEST(Elementwise, SignedEdges) {
  EXPECT_EQ(S32(Op::kDivide, {7, -7, 7, 5, kMin, kMin}, {2, 2, -2, 0, -1, 0}),
            (I{3, -3, -3, -1, kMin, -1}));
  EXPECT_EQ(S32(Op::kRemainder, {7, -7, 7, 5, kMin}, {2, 2, -2, 0, -1}), (I{1, -1, 1, 5, 0}));
  EXPECT_EQ(S32(Op::kAdd, {kMax, kMin}, {1, -1}), (I{kMin, kMax}));
  EXPECT_EQ(S32(Op::kMultiply, {kMax, 65536}, {2, 65536}), (I{-2, 0}));
  EXPECT_EQ(S32(Op::kShiftLeft, {1, 1, 1, -1, 3}, {0, 31, 32, -1, 1}), (I{1, kMin, 0, 0, 6}));
  EXPECT_EQ(S32(Op::kShiftRightArithmetic, {-8, -8, 8, kMin}, {1, 40, 40, -1}), (I{-4, -1, 0, -1}));
  EXPECT_EQ(S32(Op::kShiftRightLogical, {-8, -8, 8}, {1, 40, 3}), (I{0x7FFFFFFC, 0, 1}));
  EXPECT_EQ(S32(Op::kPower, {2, -3, 0, 1, -1, -1, 2, 3}, {10, 3, 0, -5, -5, -4, -1, 40}),
            (I{1024, -27, 1, 1, -1, 1, 0, static_cast<int32_t>(12157665459056928801u)}));
  EXPECT_EQ(S32(Op::kMulhi, {kMin, kMax, -1}, {2, 4, 1}), (I{-1, 1, -1}));
}

TEST(Elementwise, UnaryIntegers) {
  const Literal a = Make<int32_t>(Type::kS32, {5}, {0, 1, -1, kMin, 12});
  EXPECT_EQ(ValuesOf<int32_t>(Eval(Op::kPopcnt, Type::kS32, {5}, {a})), (I{0, 1, 32, 1, 2}));
  EXPECT_EQ(ValuesOf<int32_t>(Eval(Op::kCountLeadingZeros, Type::kS32, {5}, {a})),
            (I{32, 31, 0, 0, 28}));
  EXPECT_EQ(ValuesOf<int32_t>(Eval(Op::kNot, Type::kS32, {5}, {a})), (I{-1, -2, 0, kMax, -13}));
  EXPECT_EQ(ValuesOf<int32_t>(Eval(Op::kAbs, Type::kS32, {5}, {a})), (I{0, 1, 1, kMin, 12}));
  EXPECT_EQ(ValuesOf<int32_t>(Eval(Op::kSign, Type::kS32, {5}, {a})), (I{0, 1, -1, -1, 1}));
  EXPECT_EQ(ValuesOf<int32_t>(Eval(Op::kNegate, Type::kS32, {5}, {a})), (I{0, -1, 1, kMin, -12}));
}

TEST(Elementwise, NarrowIntegersWrapAtTheirWidth) {
  using B = std::vector<int8_t>;
  const Literal a = Make<int8_t>(Type::kS8, {4}, {127, -128, -1, 64});
  const Literal b = Make<int8_t>(Type::kS8, {4}, {1, -1, 9, 2});
  const auto s8 = [&](Op op) { return ValuesOf<int8_t>(Eval(op, Type::kS8, {4}, {a, b})); };
  EXPECT_EQ(s8(Op::kAdd), (B{-128, 127, 8, 66}));
  EXPECT_EQ(s8(Op::kMultiply), (B{127, -128, -9, -128}));
  EXPECT_EQ(s8(Op::kDivide), (B{127, -128, 0, 32}));
  EXPECT_EQ(s8(Op::kShiftLeft), (B{-2, 0, 0, 0}));
  EXPECT_EQ(s8(Op::kShiftRightLogical), (B{63, 0, 0, 16}));
  EXPECT_EQ(s8(Op::kShiftRightArithmetic), (B{63, -1, -1, 16}));
  EXPECT_EQ(s8(Op::kMulhi), (B{0, 0, -1, 0}));
  EXPECT_EQ(ValuesOf<int8_t>(Eval(Op::kCountLeadingZeros, Type::kS8, {4}, {a})), (B{1, 0, 0, 1}));
  EXPECT_EQ(ValuesOf<int8_t>(Eval(Op::kPopcnt, Type::kS8, {4}, {a})), (B{7, 1, 8, 1}));
  const Literal u = Make<uint8_t>(Type::kU8, {3}, {200, 7, 0});
  const Literal v = Make<uint8_t>(Type::kU8, {3}, {100, 0, 255});
  using U = std::vector<uint8_t>;
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kAdd, Type::kU8, {3}, {u, v})), (U{44, 7, 255}));
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kDivide, Type::kU8, {3}, {u, v})), (U{2, 255, 0}));
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kNot, Type::kU8, {3}, {u})), (U{55, 248, 255}));
  const Literal s4 = Make<int8_t>(Type::kS4, {2}, {7, -8});
  const Literal t4 = Make<int8_t>(Type::kS4, {2}, {1, 1});
  EXPECT_EQ(ValuesOf<int8_t>(Eval(Op::kAdd, Type::kS4, {2}, {s4, t4})), (B{-8, -7}));
}

TEST(Elementwise, WideIntegers) {
  const uint64_t all = ~uint64_t{0};
  const Literal a = Make<uint64_t>(Type::kU64, {3}, {all, uint64_t{1} << 63, 5});
  const Literal b = Make<uint64_t>(Type::kU64, {3}, {all, 2, 0});
  using U = std::vector<uint64_t>;
  EXPECT_EQ(ValuesOf<uint64_t>(Eval(Op::kMulhi, Type::kU64, {3}, {a, b})), (U{all - 1, 1, 0}));
  EXPECT_EQ(ValuesOf<uint64_t>(Eval(Op::kDivide, Type::kU64, {3}, {a, b})),
            (U{1, uint64_t{1} << 62, all}));
  EXPECT_EQ(ValuesOf<uint64_t>(Eval(Op::kShiftRightArithmetic, Type::kU64, {3}, {a, b})),
            (U{all, uint64_t{7} << 61 << 0, 5}));
}

TEST(Elementwise, Pred) {
  const Literal a = Make<uint8_t>(Type::kPred, {4}, {0, 0, 1, 1});
  const Literal b = Make<uint8_t>(Type::kPred, {4}, {0, 1, 0, 1});
  using P = std::vector<uint8_t>;
  const auto pred = [&](Op op) { return ValuesOf<uint8_t>(Eval(op, Type::kPred, {4}, {a, b})); };
  EXPECT_EQ(pred(Op::kAnd), (P{0, 0, 0, 1}));
  EXPECT_EQ(pred(Op::kOr), (P{0, 1, 1, 1}));
  EXPECT_EQ(pred(Op::kXor), (P{0, 1, 1, 0}));
  EXPECT_EQ(pred(Op::kAdd), (P{0, 1, 1, 1}));
  EXPECT_EQ(pred(Op::kMultiply), (P{0, 0, 0, 1}));
  EXPECT_EQ(pred(Op::kMaximum), (P{0, 1, 1, 1}));
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kNot, Type::kPred, {4}, {a})), (P{1, 1, 0, 0}));
}

TEST(Elementwise, FloatEdges) {
  ExpectBits(Floats(Op::kMaximum, {1, kNaN, 1, -kInf, 0}, {2, 1, kNaN, kInf, 0}),
             {2, kNaN, kNaN, kInf, 0});
  ExpectBits(Floats(Op::kMinimum, {1, kNaN, 1, -kInf}, {2, 1, kNaN, kInf}), {1, kNaN, kNaN, -kInf});
  ExpectBits(Floats(Op::kRemainder, {5.5f, -5.5f, 5.5f, 1, kInf, 3, -6}, {2, 2, -2, 0, 1, kInf, 3}),
             {1.5f, -1.5f, 1.5f, kNaN, kNaN, 3, -0.0f});
  ExpectBits(Floats(Op::kDivide, {1, -1, 0, kInf}, {0, 0, 0, kInf}), {kInf, -kInf, kNaN, kNaN});
  ExpectBits(
      Floats(Op::kPower, {0, 0, -2, -2, 1, kNaN, 2, 4}, {0, -1, 3, 0.5f, kNaN, 0, -kInf, 0.5f}),
      {1, kInf, -8, kNaN, 1, 1, 0, 2});
  ExpectBits(Floats(Op::kAtan2, {0, -0.0f, 0}, {1, -1, -1}), {0, -3.14159274f, 3.14159274f});
  ExpectBits(Floats(Op::kSign, {-3, -0.0f, 0, kInf, kNaN}), {-1, -0.0f, 0, 1, kNaN});
  ExpectBits(Floats(Op::kNegate, {0, -0.0f, kInf}), {-0.0f, 0, -kInf});
  ExpectBits(Floats(Op::kAbs, {-0.0f, -kInf, -2}), {0, kInf, 2});
  ExpectBits(Floats(Op::kRoundNearestEven, {0.5f, 1.5f, -2.5f, -0.3f}), {0, 2, -2, -0.0f});
  ExpectBits(Floats(Op::kRoundNearestAfz, {0.5f, 1.5f, -2.5f}), {1, 2, -3});
  ExpectBits(Floats(Op::kFloor, {-0.5f, 2.7f}), {-1, 2});
  ExpectBits(Floats(Op::kCeil, {-0.5f, 2.2f}), {-0.0f, 3});
  ExpectBits(Floats(Op::kLog, {0, 1, -1, kInf}), {-kInf, 0, kNaN, kInf});
  ExpectBits(Floats(Op::kExponential, {0, -kInf, kInf, 89}), {1, 0, kInf, kInf});
  ExpectBits(Floats(Op::kLogistic, {0, kInf, -kInf}), {0.5f, 1, 0});
  ExpectBits(Floats(Op::kTanh, {-0.0f, kInf}), {-0.0f, 1});
  ExpectBits(Floats(Op::kSqrt, {4, -1, -0.0f}), {2, kNaN, -0.0f});
  ExpectBits(Floats(Op::kRsqrt, {4, 0, kInf}), {0.5f, kInf, 0});
  ExpectBits(Floats(Op::kCbrt, {-27, 8}), {-3, 2});
  const Literal finite = Eval(Op::kIsFinite, Type::kPred, {3}, {F32({3}, {1, kInf, kNaN})});
  EXPECT_EQ(ValuesOf<uint8_t>(finite), (std::vector<uint8_t>{1, 0, 0}));
}

TEST(Elementwise, NarrowFloatsRoundAfterEachOperation) {
  const auto bf16 = [](float x) { return num::BF16FromF32(x); };
  const Literal a = Make<uint16_t>(Type::kBF16, {2}, {bf16(256), bf16(1)});
  const Literal b = Make<uint16_t>(Type::kBF16, {2}, {bf16(1), bf16(0.00390625f)});
  // 257 is halfway between 256 and 258; 1 + 2^-8 halfway between 1 and 1 + 2^-7: both to even.
  EXPECT_EQ(ValuesOf<uint16_t>(Eval(Op::kAdd, Type::kBF16, {2}, {a, b})),
            (std::vector<uint16_t>{bf16(256), bf16(1)}));
  const Literal f8 = Make<uint8_t>(Type::kF8E4M3FN, {2}, {0x7E, 0x38});  // 448, 1
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kAdd, Type::kF8E4M3FN, {2}, {f8, f8})),
            (std::vector<uint8_t>{0x7F, 0x40}));  // 896 is NaN, 2
}

TEST(Elementwise, Convert) {
  const Literal f = F32({9}, {1.9f, -1.9f, kNaN, kInf, -kInf, 3e9f, -3e9f, 300, -0.5f});
  EXPECT_EQ(ValuesOf<int32_t>(Eval(Op::kConvert, Type::kS32, {9}, {f})),
            (I{1, -1, 0, kMax, kMin, kMax, kMin, 300, 0}));
  EXPECT_EQ(ValuesOf<uint32_t>(Eval(Op::kConvert, Type::kU32, {9}, {f})),
            (std::vector<uint32_t>{1, 0, 0, ~0u, 0, 3000000000u, 0, 300, 0}));
  EXPECT_EQ(ValuesOf<int8_t>(Eval(Op::kConvert, Type::kS8, {9}, {f})),
            (std::vector<int8_t>{1, -1, 0, 127, -128, 127, -128, 127, 0}));
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kConvert, Type::kU4, {9}, {f})),
            (std::vector<uint8_t>{1, 0, 0, 15, 0, 15, 0, 15, 0}));
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kConvert, Type::kPred, {9}, {f})),
            (std::vector<uint8_t>{1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(ValuesOf<int64_t>(Eval(Op::kConvert, Type::kS64, {3}, {F32({3}, {kInf, -1e30f, 2})})),
            (std::vector<int64_t>{INT64_MAX, INT64_MIN, 2}));
  const Literal big = Make<int32_t>(Type::kS32, {3}, {300, -1, 16777217});
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kConvert, Type::kU8, {3}, {big})),
            (std::vector<uint8_t>{44, 255, 1}));
  EXPECT_EQ(ValuesOf<float>(Eval(Op::kConvert, Type::kF32, {3}, {big})),
            (std::vector<float>{300, -1, 16777216}));
  const Literal high = Make<int64_t>(Type::kS64, {2}, {int64_t{1} << 32, 0});
  EXPECT_EQ(ValuesOf<uint8_t>(Eval(Op::kConvert, Type::kPred, {2}, {high})),
            (std::vector<uint8_t>{1, 0}));
  // Once, not twice: to f32 first this would become the tie 1 + 2^-8 and round down.
  const Literal d = Make<double>(Type::kF64, {1}, {1 + 0x1p-8 + 0x1p-40});
  EXPECT_EQ(ValuesOf<uint16_t>(Eval(Op::kConvert, Type::kBF16, {1}, {d}))[0], 0x3F81);
}

TEST(Elementwise, CompareAndTotalOrder) {
  const Literal a = F32({6}, {1, kNaN, -0.0f, 0, -kNaN, 2});
  const Literal b = F32({6}, {2, kNaN, 0, -0.0f, -kInf, 2});
  const auto compare = [&](const char* direction, const char* type) {
    return ValuesOf<uint8_t>(Eval(
        Op::kCompare, Type::kPred, {6}, {a, b},
        {{AttrId::kDirection, std::string(direction)}, {AttrId::kCompareType, std::string(type)}}));
  };
  using P = std::vector<uint8_t>;
  EXPECT_EQ(compare("LT", "FLOAT"), (P{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(compare("EQ", "FLOAT"), (P{0, 0, 1, 1, 0, 1}));
  EXPECT_EQ(compare("NE", "FLOAT"), (P{1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(compare("GE", "FLOAT"), (P{0, 0, 1, 1, 0, 1}));
  EXPECT_EQ(compare("LT", "TOTALORDER"), (P{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(compare("EQ", "TOTALORDER"), (P{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(compare("GT", "TOTALORDER"), (P{0, 0, 0, 1, 0, 0}));
}

TEST(Elementwise, SelectAndClamp) {
  const Literal p = Make<uint8_t>(Type::kPred, {3}, {1, 0, 1});
  const Literal one = Make<uint8_t>(Type::kPred, {}, {0});
  const Literal a = F32({3}, {1, 2, 3}), b = F32({3}, {4, 5, 6});
  ExpectBits(ValuesOf<float>(Eval(Op::kSelect, Type::kF32, {3}, {p, a, b})), {1, 5, 3});
  ExpectBits(ValuesOf<float>(Eval(Op::kSelect, Type::kF32, {3}, {one, a, b})), {4, 5, 6});
  const Literal x = F32({4}, {-5, 0.5f, 9, kNaN});
  ExpectBits(ValuesOf<float>(Eval(Op::kClamp, Type::kF32, {4}, {F32({}, {0}), x, F32({}, {1})})),
             {0, 0.5f, 1, kNaN});
}

TEST(Elementwise, BitsAndPrecision) {
  const Literal f = F32({2}, {1, -0.0f});
  EXPECT_EQ(ValuesOf<uint32_t>(Eval(Op::kBitcastConvert, Type::kU32, {2}, {f})),
            (std::vector<uint32_t>{0x3F800000, 0x80000000}));
  EXPECT_EQ(ValuesOf<uint16_t>(Eval(Op::kBitcastConvert, Type::kU16, {2, 2}, {f})),
            (std::vector<uint16_t>{0, 0x3F80, 0, 0x8000}));
  ExpectBits(ValuesOf<float>(
                 Eval(Op::kReducePrecision, Type::kF32, {2}, {F32({2}, {0.1f, 1e6f})},
                      {{AttrId::kExponentBits, int64_t{5}}, {AttrId::kMantissaBits, int64_t{10}}})),
             {9.9975586e-02f, kInf});
}

TEST(Elementwise, EmptyAndLong) {
  EXPECT_EQ(Eval(Op::kAdd, Type::kF32, {0, 3}, {F32({0, 3}, {}), F32({0, 3}, {})}).size(), 0);
  std::vector<float> many(5000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i) * 0.01f - 25;
  const auto tanh = Floats(Op::kTanh, many);
  for (size_t i = 0; i < many.size(); ++i) {
    ASSERT_NEAR(tanh[i], std::tanh(static_cast<double>(many[i])), 6e-8);
  }
}

TEST(Elementwise, UnsupportedTypesAreNamed) {
  const Literal c(Shape::Array(Type::kC64, {2}));
  const Literal* operands[] = {&c, &c};
  std::string error;
  EXPECT_FALSE(EvaluateOp(Op::kXor, Shape::Array(Type::kC64, {2}), operands, {}, {}, &error));
  EXPECT_EQ(error, "xor of c64");
  const Literal f = F32({2}, {1, 2});
  const Literal* floats[] = {&f, &f};
  EXPECT_FALSE(EvaluateOp(Op::kXor, Shape::Array(Type::kF32, {2}), floats, {}, {}, &error));
  EXPECT_EQ(error, "xor of f32");
}

}  // namespace
}  // namespace tpuc
