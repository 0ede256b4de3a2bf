// Orders of kernels against the optimum found by trying all of them.
#include "passes/kernel_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

namespace tpuc {
namespace {

// Kernel k reads buffer k of some earlier ones; some results last.
KernelGraph Random(int n, uint32_t seed) {
  std::mt19937 random(seed);
  KernelGraph g;
  g.before.resize(n);
  for (int k = 0; k < n; ++k) {
    g.buffers.push_back({static_cast<int64_t>(1 + random() % 64), k, {}, random() % 8 == 0});
  }
  for (int k = 1; k < n; ++k) {
    for (int from = 0; from < k; ++from) {
      if (random() % 100 >= 25) continue;
      g.before[k].push_back(from);
      g.buffers[from].readers.push_back(k);
    }
  }
  return g;
}

// Bytes live while kernel `k` runs after the set `ran`, from the definition: made, and not yet read
// by all. `peak` by set of kernels that have run.
int64_t Optimum(const KernelGraph& g) {
  const int n = g.size();
  std::vector<int64_t> best(size_t{1} << n, INT64_MAX);
  best[0] = 0;
  for (uint32_t ran = 0; ran + 1 < best.size(); ++ran) {
    if (best[ran] == INT64_MAX) continue;
    for (int k = 0; k < n; ++k) {
      bool can = (ran >> k & 1) == 0;
      for (int b : g.before[k]) can = can && (ran >> b & 1);
      if (!can) continue;
      int64_t live = 0;
      for (const auto& b : g.buffers) {
        bool made = b.maker == k || (ran >> b.maker & 1);
        bool wanted = b.lasting || b.maker == k ||
                      std::any_of(b.readers.begin(), b.readers.end(),
                                  [&](int r) { return (ran >> r & 1) == 0; });
        if (made && wanted) live += b.bytes;
      }
      int64_t& to = best[ran | uint32_t{1} << k];
      to = std::min(to, std::max(best[ran], live));
    }
  }
  return best.back();
}

bool Legal(const KernelGraph& g, const std::vector<int>& order) {
  std::vector<int> at(g.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) at[order[i]] = static_cast<int>(i);
  for (int k = 0; k < g.size(); ++k) {
    if (at[k] < 0) return false;
    for (int b : g.before[k]) {
      if (at[b] >= at[k]) return false;
    }
  }
  return static_cast<int>(order.size()) == g.size();
}

TEST(KernelOrder, SmallGraphsNearTheOptimum) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    KernelGraph g = Random(4 + seed % 9, seed);  // 4 .. 12 kernels
    std::vector<int> order = SmallestPeak(g);
    ASSERT_TRUE(Legal(g, order)) << seed;
    ASSERT_TRUE(Legal(g, GreedyOrder(g))) << seed;
    EXPECT_LE(PeakOf(g, order) * 10, Optimum(g) * 11) << seed;
  }
}

TEST(KernelOrder, NeverWorseThanAsItStands) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    KernelGraph g = Random(300 - 20 * (seed % 10), seed);
    std::vector<int> as_is(g.size());
    std::iota(as_is.begin(), as_is.end(), 0);
    std::vector<int> order = SmallestPeak(g);
    ASSERT_TRUE(Legal(g, order)) << seed;
    EXPECT_LE(PeakOf(g, order), PeakOf(g, as_is)) << seed;
  }
}

// Two chains that shrink: one after the other needs less than side by side.
TEST(KernelOrder, FinishesWhatItBegins) {
  KernelGraph g;
  g.before = {{}, {}, {0}, {1}, {2, 3}};
  g.buffers = {{100, 0, {2}, false},
               {100, 1, {3}, false},
               {1, 2, {4}, false},
               {1, 3, {4}, false},
               {1, 4, {}, true}};
  EXPECT_EQ(PeakOf(g, {0, 1, 2, 3, 4}), 201);
  EXPECT_EQ(PeakOf(g, SmallestPeak(g)), 102);
  EXPECT_EQ(PeakOf(g, GreedyOrder(g)), 102);
}

}  // namespace
}  // namespace tpuc
