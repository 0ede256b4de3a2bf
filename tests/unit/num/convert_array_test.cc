// Arrays of bf16 and f16: the same bits as value by value, over all 16-bit patterns, all rounding
// cases and every alignment of the tail.
#include "src/num/convert_array.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "src/num/convert.h"

namespace tpuc::num {
namespace {

void ExpectSame(const std::vector<float>& in, int64_t first, int64_t n) {
  std::vector<uint16_t> bf16(n), f16(n);
  BF16sFromF32s(in.data() + first, n, bf16.data());
  F16sFromF32s(in.data() + first, n, f16.data());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(bf16[i], BF16FromF32(in[first + i])) << std::hex << BitsOfF32(in[first + i]);
    ASSERT_EQ(f16[i], F16FromF32(in[first + i])) << std::hex << BitsOfF32(in[first + i]);
  }
}

TEST(ConvertArray, WidensEveryPattern) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> bf16(all.size()), f16(all.size());
  F32sFromBF16s(all.data(), all.size(), bf16.data());
  F32sFromF16s(all.data(), all.size(), f16.data());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(BitsOfF32(bf16[i]), BitsOfF32(F32FromBF16(all[i]))) << i;
    ASSERT_EQ(BitsOfF32(f16[i]), BitsOfF32(F32FromF16(all[i]))) << i;
  }
}

TEST(ConvertArray, NarrowsEveryHighHalf) {
  // Low halves: exact, just below, at and above a tie, of both formats.
  std::vector<float> in;
  for (uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u,
                       0x9000u, 0xB000u, 0xEFFFu, 0xF000u, 0xFFFFu}) {
    for (uint32_t high = 0; high < 1 << 16; ++high) in.push_back(F32OfBits(high << 16 | low));
  }
  ExpectSame(in, 0, static_cast<int64_t>(in.size()));
}

TEST(ConvertArray, EveryTail) {
  std::vector<float> in;
  for (int i = 0; i < 100; ++i) in.push_back((i - 50) * 0.123f);
  for (int64_t first = 0; first < 20; ++first) {
    for (int64_t n = 0; n < 80; ++n) ExpectSame(in, first, n);
  }
}

TEST(ConvertArray, KnownValues) {
  const float in[] = {1, -2, 0.1f, 65519, 65520, 1e-8f, 0x1p-24f};
  uint16_t f16[7], bf16[7];
  F16sFromF32s(in, 7, f16);
  BF16sFromF32s(in, 7, bf16);
  const uint16_t want_f16[] = {0x3C00, 0xC000, 0x2E66, 0x7BFF, 0x7C00, 0, 1};
  const uint16_t want_bf16[] = {0x3F80, 0xC000, 0x3DCD, 0x4780, 0x4780, 0x322C, 0x3380};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(f16[i], want_f16[i]) << i;
    EXPECT_EQ(bf16[i], want_bf16[i]) << i;
  }
}

}  // namespace
}  // namespace tpuc::num
