// The loops found in lists of rows.
#include "backend/lower/move_plan.h"

#include "gtest/gtest.h"

namespace tpuc::lower {
namespace {

// Unit i goes to row `to(i)` and takes all its lanes from row `from(i)`.
template <typename To, typename From>
MovePlan Rows(int64_t n, To to, From from) {
  MovePlan plan;
  for (int64_t i = 0; i < n; ++i) {
    plan.Begin(to(i), 1);
    plan.Add({0, 64, 0, 0, from(i)});
  }
  return plan;
}

TEST(MovePlan, RunsJoin) {
  MovePlan plan;
  plan.Begin(0, 1);
  plan.Add({0, 1, 0, 5, 3});
  plan.Add({1, 1, 0, 6, 3});
  plan.Add({2, 1, 0, 0, 4});
  plan.Add({3, 1, -1, 0, 0});
  plan.Add({4, 1, -1, 0, 0});
  ASSERT_EQ(plan.units[0].count, 3);
  EXPECT_EQ(plan.runs[0].count, 2);
  EXPECT_EQ(plan.runs[2].count, 2);
  EXPECT_EQ(plan.Runs(0, 1), 3);
}

TEST(MovePlan, OneStride) {
  Repeat r = FindRepeat(Rows(
                            100, [](int64_t i) { return i; }, [](int64_t i) { return 3 * i; }),
                        0, 100);
  EXPECT_EQ(r.period, 1);
  EXPECT_EQ(r.times, 100);
  EXPECT_EQ(r.to, 1);
  EXPECT_EQ(r.from[0], 3);
}

// Rows of tiles 4 lane tiles wide: 8 rows, then 24 rows of others.
TEST(MovePlan, TileRows) {
  MovePlan plan = Rows(
      64, [](int64_t i) { return i; }, [](int64_t i) { return i / 8 * 32 + i % 8; });
  Repeat r = FindRepeat(plan, 0, 64);
  EXPECT_EQ(r.period, 8);
  EXPECT_EQ(r.times, 8);
  EXPECT_EQ(r.from[0], 32);
}

// 20 rows of every 24: whole periods of 20 before periods of 8 that stop half-way.
TEST(MovePlan, WholePeriodsFirst) {
  MovePlan plan = Rows(
      80, [](int64_t i) { return i; },
      [](int64_t i) { return i / 20 * 96 + i % 20 / 8 * 32 + i % 20 % 8; });
  Repeat outer = FindRepeat(plan, 0, 80);
  EXPECT_EQ(outer.period, 20);
  EXPECT_EQ(outer.times, 4);
  Repeat inner = FindRepeat(plan, 0, 20);
  EXPECT_EQ(inner.period * inner.times, 16);
}

TEST(MovePlan, NoLoop) {
  MovePlan plan = Rows(
      9, [](int64_t i) { return i; }, [](int64_t i) { return i * i * i; });
  EXPECT_EQ(FindRepeat(plan, 0, 9).times, 1);
}

}  // namespace
}  // namespace tpuc::lower
