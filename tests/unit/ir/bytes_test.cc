// Memory that arrays hand on (bytes.h): whatever pieces it comes in, an array holds what was
// written to it and nobody else writes there.
#include "src/ir/bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace tpuc {
namespace {

constexpr size_t kMega = size_t{1} << 20;

TEST(Bytes, GivenValuesAreSet) {
  for (const size_t size : {size_t{5}, 3 * kMega, 9 * kMega + 1}) {
    Bytes(size, 7);  // leaves its mark
    const Bytes zeros(size, 0);
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(zeros[i], 0) << i;
  }
}

// Each array is filled with a number of its own; arrays of other sizes come and go, so that pages
// move between them.
TEST(Bytes, ArraysKeepTheirContents) {
  std::mt19937 random(1);
  std::vector<std::pair<Bytes, uint8_t>> live;
  uint8_t number = 0;
  const auto check = [](const std::pair<Bytes, uint8_t>& array) {
    for (size_t i = 0; i < array.first.size(); i += 511) {
      if (array.first[i] != array.second) return false;
    }
    return array.first.back() == array.second;
  };
  for (int step = 0; step < 400; ++step) {
    if (live.size() > 6 || (!live.empty() && random() % 3 == 0)) {
      const size_t which = random() % live.size();
      ASSERT_TRUE(check(live[which])) << step;
      std::swap(live[which], live.back());
      live.pop_back();
      continue;
    }
    Bytes bytes(1 + random() % (20 * kMega));
    std::memset(bytes.data(), ++number, bytes.size());
    live.push_back({std::move(bytes), number});
  }
  for (const auto& array : live) EXPECT_TRUE(check(array));
}

TEST(Bytes, GrowingKeepsWhatIsThere) {
  Bytes bytes;
  for (size_t i = 0; i < 12 * kMega; ++i) bytes.push_back(static_cast<uint8_t>(i * 7));
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<uint8_t>(i * 7));
}

}  // namespace
}  // namespace tpuc
