// EUP functions against libm in double: within 1 ulp over the whole range, and the same bytes for
// every Highway target of the host.
#include "src/num/eup.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "src/num/convert.h"

namespace tpuc::num {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Eup kAll[] = {Eup::kPow2, Eup::kLog2, Eup::kRcp, Eup::kRsqrt, Eup::kTanh};

double True(Eup function, double x) {
  switch (function) {
    case Eup::kPow2:
      return std::exp2(x);
    case Eup::kLog2:
      return std::log2(x);
    case Eup::kRcp:
      return 1 / x;
    case Eup::kRsqrt:
      return 1 / std::sqrt(x);
    case Eup::kTanh:
      return std::tanh(x);
  }
  return 0;
}

// Error in units of the last place of f32 at `want`.
double Ulps(float got, double want) {
  int exponent;
  std::frexp(want, &exponent);
  return std::abs(got - want) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

// Largest error over the f32 values with bits first, first + step, ... of both signs.
double Worst(Eup function, uint32_t first, uint32_t last, uint32_t step) {
  double worst = 0;
  std::vector<float> in, out;
  for (uint64_t at = first; at <= last;) {
    in.clear();
    for (; at <= last && in.size() < 8192; at += step) {
      in.push_back(F32OfBits(static_cast<uint32_t>(at)));
      in.push_back(-in.back());
    }
    out.resize(in.size());
    EupBlock(function, in.data(), static_cast<int64_t>(in.size()), out.data());
    for (size_t i = 0; i < in.size(); ++i) {
      const double want = True(function, in[i]);
      if (std::isnan(want)) {
        EXPECT_EQ(BitsOfF32(out[i]), 0x7FC00000u) << in[i];
      } else if (std::abs(want) < 0x1p-126) {
        EXPECT_TRUE(std::abs(out[i]) == 0 || out[i] == 0x1p-126f) << in[i];
      } else if (std::abs(want) > 3.4028235677973366e38) {
        EXPECT_TRUE(std::isinf(out[i]) && (out[i] > 0) == (want > 0)) << in[i];
      } else {
        worst = std::max(worst, Ulps(out[i], want));
      }
    }
  }
  return worst;
}

TEST(Eup, WithinOneUlpEverywhere) {
  // All normal numbers by a step coprime to the mantissa's: about two million a function.
  for (Eup f : kAll) {
    const double worst = Worst(f, 0x00800000, 0x7F7FFFFF, 1021);
    EXPECT_LT(worst, 1.0) << static_cast<int>(f);
    RecordProperty("worst_ulps_" + std::to_string(static_cast<int>(f)), std::to_string(worst));
  }
}

TEST(Eup, WithinOneUlpWhereItIsHard) {
  EXPECT_LT(Worst(Eup::kLog2, BitsOfF32(0.7f), BitsOfF32(1.5f), 7), 1.0);
  EXPECT_LT(Worst(Eup::kTanh, BitsOfF32(0.25f), BitsOfF32(2.0f), 11), 1.0);
  EXPECT_LT(Worst(Eup::kPow2, BitsOfF32(0.25f), BitsOfF32(8.0f), 23), 1.0);
  EXPECT_LT(Worst(Eup::kRsqrt, BitsOfF32(1.0f), BitsOfF32(4.0f), 11), 1.0);
  EXPECT_LE(Worst(Eup::kRcp, BitsOfF32(1.0f), BitsOfF32(2.0f), 5), 0.5);
}

TEST(Eup, Specials) {
  struct Row {
    Eup function;
    float x, want;
  };
  const float tiny = 0x1p-127f;  // subnormal
  const Row rows[] = {
      {Eup::kPow2, 0, 1},
      {Eup::kPow2, -0.0f, 1},
      {Eup::kPow2, kInf, kInf},
      {Eup::kPow2, -kInf, 0},
      {Eup::kPow2, 128, kInf},
      {Eup::kPow2, -126, 0x1p-126f},
      {Eup::kPow2, -126.5f, 0},
      {Eup::kPow2, 127, 0x1p127f},
      {Eup::kPow2, tiny, 1},
      {Eup::kPow2, -1e30f, 0},
      {Eup::kLog2, 1, 0},
      {Eup::kLog2, 0, -kInf},
      {Eup::kLog2, -0.0f, -kInf},
      {Eup::kLog2, tiny, -kInf},
      {Eup::kLog2, kInf, kInf},
      {Eup::kLog2, 0x1p-126f, -126},
      {Eup::kLog2, 1024, 10},
      {Eup::kRcp, 0, kInf},
      {Eup::kRcp, -0.0f, -kInf},
      {Eup::kRcp, tiny, kInf},
      {Eup::kRcp, -kInf, -0.0f},
      {Eup::kRcp, 0x1p127f, 0},
      {Eup::kRcp, -0x1p127f, -0.0f},
      {Eup::kRcp, 4, 0.25f},
      {Eup::kRsqrt, 0, kInf},
      {Eup::kRsqrt, -0.0f, -kInf},
      {Eup::kRsqrt, tiny, kInf},
      {Eup::kRsqrt, kInf, 0},
      {Eup::kRsqrt, 0.25f, 2},
      {Eup::kTanh, 0, 0},
      {Eup::kTanh, -0.0f, -0.0f},
      {Eup::kTanh, kInf, 1},
      {Eup::kTanh, -kInf, -1},
      {Eup::kTanh, 20, 1},
      {Eup::kTanh, -tiny, -0.0f},
      {Eup::kTanh, 1e-20f, 1e-20f},
  };
  for (const Row& row : rows) {
    float got;
    EupBlock(row.function, &row.x, 1, &got);
    EXPECT_EQ(BitsOfF32(got), BitsOfF32(row.want))
        << static_cast<int>(row.function) << " of " << row.x << " is " << got;
  }
  EXPECT_EQ(BitsOfF32(vlog2(-1.0f)), 0x7FC00000u);
  EXPECT_EQ(BitsOfF32(vrsqrt(-1.0f)), 0x7FC00000u);
  EXPECT_EQ(BitsOfF32(vlog2(-kInf)), 0x7FC00000u);
  for (Eup f : kAll) {
    const float in = F32OfBits(0xFFA12345);  // a signalling NaN with a payload
    float got;
    EupBlock(f, &in, 1, &got);
    EXPECT_EQ(BitsOfF32(got), 0x7FC00000u);
  }
  EXPECT_EQ(BitsOfF32(vtanh(kNaN)), 0x7FC00000u);
}

TEST(Eup, SameBytesOnEveryTarget) {
  std::mt19937 random(3);
  std::vector<float> in(100003);
  for (float& x : in) x = F32OfBits(static_cast<uint32_t>(random()));
  for (size_t i = 0; i < 50000; ++i) in[i] = static_cast<float>(random()) * 0x1p-28f - 8;
  const int64_t supported = hwy::SupportedTargets();
  for (Eup f : kAll) {
    std::vector<float> want;
    int targets = 0;
    for (int64_t bits = supported; bits != 0; bits &= bits - 1) {
      const int64_t target = bits & -bits;
      if ((target & HWY_TARGETS) == 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      std::vector<float> got(in.size());
      EupBlock(f, in.data(), static_cast<int64_t>(in.size()), got.data());
      if (want.empty()) want = got;
      EXPECT_EQ(std::memcmp(want.data(), got.data(), 4 * got.size()), 0) << hwy::TargetName(target);
      ++targets;
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_GE(targets, 1);
    for (size_t i = 0; i < in.size(); i += 997) {  // and the scalar entry
      float one;
      EupBlock(f, &in[i], 1, &one);
      EXPECT_EQ(BitsOfF32(one), BitsOfF32(want[i]));
    }
  }
}

}  // namespace
}  // namespace tpuc::num
