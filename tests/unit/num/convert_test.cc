// Narrow float formats against values from their specifications and against brute force: the
// nearest of all values of the format, ties to the even code.
#include "src/num/convert.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tpuc::num {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Convert, KnownBits) {
  struct Row {
    const FloatFormat& format;
    double value;
    uint32_t bits;
  };
  const Row rows[] = {
      {kF16Format, 1.0, 0x3C00},        {kF16Format, 65504, 0x7BFF},
      {kF16Format, 65519.99, 0x7BFF},   {kF16Format, 65520, 0x7C00},
      {kF16Format, -kInf, 0xFC00},      {kF16Format, 0x1p-24, 0x0001},
      {kF16Format, 0x1p-25, 0x0000},    {kF16Format, 0x1.000002p-25, 0x0001},
      {kF16Format, -0.0, 0x8000},       {kBF16Format, 3.140625, 0x4049},
      {kF8E4M3FNFormat, 448, 0x7E},     {kF8E4M3FNFormat, 464, 0x7E},
      {kF8E4M3FNFormat, 465, 0x7F},     {kF8E4M3FNFormat, -kInf, 0xFF},
      {kF8E4M3FNFormat, 0x1p-9, 0x01},  {kF8E4M3FNFormat, 0x1p-10, 0x00},
      {kF8E4M3FNFormat, 0x1p-6, 0x08},  {kF8E4M3FNFormat, -1.125, 0xB9},
      {kF8E5M2Format, 57344, 0x7B},     {kF8E5M2Format, 61439, 0x7B},
      {kF8E5M2Format, 61440, 0x7C},     {kF8E5M2Format, kInf, 0x7C},
      {kF8E5M2Format, 0x1p-16, 0x01},   {kF8E4M3Format, 240, 0x77},
      {kF8E4M3Format, 248, 0x78},       {kF8E3M4Format, 15.5, 0x6F},
      {kF8E4M3FNUZFormat, 240, 0x7F},   {kF8E4M3FNUZFormat, -0.0, 0x00},
      {kF8E4M3FNUZFormat, kInf, 0x80},  {kF8E5M2FNUZFormat, 57344, 0x7F},
      {kF8E4M3B11FNUZFormat, 30, 0x7F}, {kF4E2M1FNFormat, 6, 0x7},
      {kF4E2M1FNFormat, -100, 0xF},     {kF6E3M2FNFormat, 28, 0x1F},
      {kF6E2M3FNFormat, 7.5, 0x1F},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(NarrowFloat(row.format, row.value), row.bits) << row.value;
  }
  EXPECT_EQ(NarrowFloat(kF8E4M3FNFormat, kNaN), 0x7Fu);
  EXPECT_EQ(NarrowFloat(kF8E5M2Format, kNaN), 0x7Eu);
  EXPECT_EQ(NarrowFloat(kF8E4M3FNUZFormat, kNaN), 0x80u);
}

TEST(Convert, NarrowIsTheNearestValue) {
  const FloatFormat formats[] = {kF16Format,      kBF16Format,       kF8E5M2Format,
                                 kF8E4M3Format,   kF8E3M4Format,     kF8E4M3FNFormat,
                                 kF6E3M2FNFormat, kF8E4M3FNUZFormat, kF8E4M3B11FNUZFormat,
                                 kF6E2M3FNFormat, kF4E2M1FNFormat,   kF8E5M2FNUZFormat};
  for (const FloatFormat& f : formats) {
    // Positive finite values in order of their codes: strictly increasing.
    std::vector<double> values;
    for (uint32_t code = 0; code < 1u << (f.bits() - 1); ++code) {
      const double v = WidenFloat(f, code);
      if (!std::isfinite(v)) break;
      ASSERT_TRUE(code == 0 || v > values.back());
      values.push_back(v);
      ASSERT_EQ(NarrowFloat(f, v), code);
    }
    for (size_t code = 0; code + 1 < values.size(); ++code) {
      const double middle = (values[code] + values[code + 1]) / 2;
      ASSERT_EQ(NarrowFloat(f, middle), code % 2 == 0 ? code : code + 1) << f.mantissa_bits;
      ASSERT_EQ(NarrowFloat(f, std::nextafter(middle, 0)), code);
      ASSERT_EQ(NarrowFloat(f, std::nextafter(middle, 1e300)), code + 1);
    }
  }
}

TEST(Convert, FastPathsAgreeWithTheTable) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000000; ++i) {
    const float x = F32OfBits(static_cast<uint32_t>(random()));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(F32FromBF16(BF16FromF32(x))));
      ASSERT_TRUE(std::isnan(F32FromF16(F16FromF32(x))));
      continue;
    }
    ASSERT_EQ(F16FromF32(x), NarrowFloat(kF16Format, x)) << x;
    ASSERT_EQ(BF16FromF32(x), NarrowFloat(kBF16Format, x)) << x;
  }
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = F32FromF16(static_cast<uint16_t>(bits));
    const double table = WidenFloat(kF16Format, bits);
    if (std::isnan(table)) {
      ASSERT_TRUE(std::isnan(wide));
    } else {
      ASSERT_EQ(wide, table);
      ASSERT_EQ(std::signbit(wide), std::signbit(table));
    }
  }
}

TEST(Convert, E8M0) {
  EXPECT_EQ(F8E8M0FromF64(1.0), 127);
  EXPECT_EQ(F8E8M0FromF64(1.4), 127);
  EXPECT_EQ(F8E8M0FromF64(1.5), 128);  // the tie between 127 and 128
  EXPECT_EQ(F8E8M0FromF64(3.0), 128);  // between 128 and 129
  EXPECT_EQ(F8E8M0FromF64(-1.0), 255);
  EXPECT_TRUE(std::isnan(F64FromF8E8M0(255)));
  EXPECT_EQ(F64FromF8E8M0(0), 0x1p-127);
}

// Expected values: oracle convert/reduce_precision (XLA).
TEST(Convert, ReducePrecision) {
  EXPECT_EQ(ReducePrecision(1.0e-3f, 8, 7), RoundToBF16(1.0e-3f));
  EXPECT_EQ(ReducePrecision(1.0e-3f, 5, 10), 1.00040436e-3f);
  EXPECT_EQ(ReducePrecision(1.0e-3f, 4, 3), 0.0f);
  EXPECT_EQ(ReducePrecision(-100.0f, 4, 3), -96.0f);
  EXPECT_EQ(ReducePrecision(1.0e4f, 4, 3), kInf);
  EXPECT_EQ(ReducePrecision(3.4028235e38f, 8, 7), kInf);
  EXPECT_TRUE(std::isnan(ReducePrecision(kNaN, 5, 2)));
  EXPECT_TRUE(std::signbit(ReducePrecision(-1e-10f, 5, 10)));
  EXPECT_EQ(ReducePrecision(1.0e-3, 8, 7), static_cast<double>(RoundToBF16(1.0e-3f)));
}

}  // namespace
}  // namespace tpuc::num
