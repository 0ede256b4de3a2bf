// After how many trips two accesses of a loop may meet: distances counted by hand, and all pairs
// against the definition.
#include <vector>

#include "backend/schedule/affine.h"
#include "gtest/gtest.h"
#include "tests/unit/schedule/llo_text.h"

namespace tpuc::schedule {
namespace {

// Rows of 8 sublanes from s1 * step + offset on.
std::vector<LoopAccess> Accesses() {
  llo::Function f = LloFromText(R"(
  blocks first=0 last=0 trips=10 grid=0
  block 0 "body" trips=10 grid=0
    %s2 = sshll.u32 %s1, 3
    %v0 = vld [vmem:%s2] buf:1
    vst [vmem:%s2+8], %v0 buf:1
    vst [vmem:%s2+16], %v0 buf:2
    %v1 = vld [vmem:%s2+17] sm:0x01 buf:2
    vst [vmem:40], %v0 buf:3
    %v2 = vld [vmem:47] buf:3
    %s1 = sadd.s32 %s1, 1
)",
                                1);
  return FindLoopAccesses(f.blocks[0], static_cast<int>(f.blocks[0].insts.size()));
}

TEST(Conflicts, DistancesByHand) {
  std::vector<LoopAccess> a = Accesses();
  ASSERT_EQ(a.size(), 6u);
  EXPECT_EQ(a[0].step, 8);
  EXPECT_EQ(ConflictDistance(a[1], a[0]), 1);  // written at 8i + 8 .. 15, read a trip later
  EXPECT_EQ(ConflictDistance(a[0], a[1]), 0);  // what is read has been written
  EXPECT_EQ(ConflictDistance(a[2], a[3]), 0);  // one row, in the trip itself only
  EXPECT_EQ(ConflictDistance(a[1], a[2]), 0);  // other buffers
  EXPECT_EQ(ConflictDistance(a[4], a[5]), 1);  // row 47, every trip
  EXPECT_EQ(ConflictDistance(a[5], a[4]), 1);
  EXPECT_EQ(ConflictDistance(a[4], a[4]), 1);
  EXPECT_EQ(ConflictDistance(a[1], a[1]), 0);
}

TEST(Conflicts, AllPairsAreFound) {
  std::vector<LoopAccess> a = Accesses();
  std::vector<LoopConflict> expected, few, many;
  for (int i = 0; i < static_cast<int>(a.size()); ++i) {
    for (int j = 0; j < static_cast<int>(a.size()); ++j) {
      if (!a[i].store && !a[j].store) continue;
      if (int d = ConflictDistance(a[i], a[j]); d > 0) expected.push_back({i, j, d});
    }
  }
  ASSERT_TRUE(FindConflicts(a, 10, &few));
  ASSERT_TRUE(FindConflicts(a, -1, &many));
  ASSERT_EQ(few.size(), expected.size());
  ASSERT_EQ(many.size(), expected.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    for (const LoopConflict& c : {few[k], many[k]}) {
      EXPECT_EQ(c.earlier, expected[k].earlier);
      EXPECT_EQ(c.later, expected[k].later);
      EXPECT_EQ(c.distance, expected[k].distance);
    }
  }
}

}  // namespace
}  // namespace tpuc::schedule
