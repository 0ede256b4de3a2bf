// Comparison of arrays and the limits of --check, on values worked out by hand.
#include "src/cli/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/cli/check.h"

namespace tpuc::cli {
namespace {

template <typename T>
Literal Vector(Type type, std::vector<T> values) {
  Literal l(Shape::Array(type, {static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), l.data<T>());
  return l;
}
Literal F32(std::vector<float> v) { return Vector<float>(Type::kF32, std::move(v)); }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Compare, ExactByDefault) {
  Comparison c = Compare(F32({1, 2, 4}), F32({1, 2.5f, 3}), {});
  EXPECT_EQ(c.count, 3);
  EXPECT_EQ(c.bad, 2);
  EXPECT_EQ(c.first_bad, 1);
  EXPECT_EQ(c.max_abs, 1);
  EXPECT_EQ(c.max_rel, 0.25);
  EXPECT_EQ(c.scale, 4);
  EXPECT_NEAR(c.rms, std::sqrt((0.125 * 0.125 + 0.25 * 0.25) / 3), 1e-12);
  EXPECT_EQ(c.worst, "got 2.5, expected 2 at [1]");
}

TEST(Compare, WhatCountsAsEqual) {
  Comparison c = Compare(F32({kNan, 0, kInf, -kInf}), F32({kNan, -0.0f, kInf, -kInf}), {});
  EXPECT_EQ(c.bad, 0);
  EXPECT_EQ(c.nan_pairs, 1);
  EXPECT_EQ(c.signed_zero_pairs, 1);
  EXPECT_NE(Describe(c).find("taken as equal: 1 pairs of NaN, 1 pairs of 0 and -0"),
            std::string::npos);
  c = Compare(F32({kNan, 1, kInf}), F32({1, kNan, -kInf}), {1, 1, 1 << 30});
  EXPECT_EQ(c.bad, 3);
  EXPECT_EQ(c.special, 3);
}

TEST(Compare, Tolerances) {
  EXPECT_EQ(Compare(F32({100}), F32({101}), {0.01, 0, -1}).bad, 0);
  EXPECT_EQ(Compare(F32({100}), F32({101.1f}), {0.01, 0, -1}).bad, 1);
  EXPECT_EQ(Compare(F32({0}), F32({0.5f}), {0, 0.5, -1}).bad, 0);
  float next = std::nextafter(std::nextafter(1.0f, 2.0f), 2.0f);
  EXPECT_EQ(Compare(F32({1}), F32({next}), {}).max_ulp, 2);
  EXPECT_EQ(Compare(F32({1}), F32({next}), {0, 0, 2}).bad, 0);
  EXPECT_EQ(Compare(F32({1}), F32({next}), {0, 0, 1}).bad, 1);
  // Across zero: the smallest subnormals of both signs are two steps apart.
  float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(Compare(F32({tiny}), F32({-tiny}), {}).max_ulp, 2);
}

TEST(Compare, OtherTypes) {
  Comparison c = Compare(Vector<uint16_t>(Type::kBF16, {0x3f80, 0x4000}),
                         Vector<uint16_t>(Type::kBF16, {0x3f81, 0x4000}), {});
  EXPECT_EQ(c.max_ulp, 1);
  EXPECT_EQ(c.max_abs, 1.0 / 128);
  c = Compare(Vector<int8_t>(Type::kS8, {-128, 5}), Vector<int8_t>(Type::kS8, {127, 5}), {});
  EXPECT_EQ(c.max_abs, 255);
  // Neighbouring 64-bit integers that are the same double still differ.
  int64_t big = (int64_t{1} << 60);
  c = Compare(Vector<int64_t>(Type::kS64, {big}), Vector<int64_t>(Type::kS64, {big + 1}), {});
  EXPECT_EQ(c.bad, 1);
  EXPECT_EQ(c.max_ulp, 1);
  Literal z(Shape::Array(Type::kC64, {1})), w = z;
  w.data<float>()[1] = 2;
  EXPECT_EQ(Compare(z, w, {}).bad, 1);
  EXPECT_EQ(Compare(z, w, {}).max_abs, 2);
}

TEST(Compare, HistogramOfScale) {
  Comparison c = Compare(F32({1, 1, 1}), F32({1, 1.005f, 3}), {});
  EXPECT_EQ(c.histogram[0], 1);
  EXPECT_EQ(c.histogram[6], 1);  // below 1e-2 of the scale, 1
  EXPECT_EQ(c.histogram[8], 1);
}

TEST(Check, OracleLimits) {
  std::string text;
  CheckLimits dots{false, {}, 1, false};
  EXPECT_TRUE(CheckResults({F32({1, 1, 1, 1})}, {F32({1, 1, 1, 1.0001f})}, dots, &text).ok);
  // 3.9e-3 in one element of four: within the maximum, not within the root mean square.
  EXPECT_FALSE(CheckResults({F32({1, 1, 1, 1})}, {F32({1, 1, 1, 1.0039f})}, dots, &text).ok);
  EXPECT_NE(text.find("root mean square"), std::string::npos);
  CheckLimits none{false, {}, 0, false};
  EXPECT_TRUE(CheckResults({F32({1, 0.5f})}, {F32({1, 0.500015f})}, none, &text).ok);
  EXPECT_FALSE(CheckResults({F32({1, 0.5f})}, {F32({1, 0.50003f})}, none, &text).ok);
  EXPECT_FALSE(CheckResults({Vector<int32_t>(Type::kS32, {1})}, {Vector<int32_t>(Type::kS32, {2})},
                            dots, &text)
                   .ok);
  // Subnormal results equal zero, also where there are no others.
  EXPECT_TRUE(CheckResults({F32({1e-39f, 1e-40f})}, {F32({0, 0})}, dots, &text).ok);
  CheckLimits loose{true, {0, 5, -1}, 0, false};
  EXPECT_TRUE(CheckResults({F32({1})}, {F32({6})}, loose, &text).ok);
}

}  // namespace
}  // namespace tpuc::cli
