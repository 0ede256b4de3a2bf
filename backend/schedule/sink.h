// After list scheduling: moves loads, pops and vector operations later, towards their readers,
// where that shortens the time registers are held and costs nothing.
//
//   0: v1 = vld ..                      12: v1 = vld ..
//   13: vadd v1, ..            ->       13: vadd v1, ..
//
// Never changes the block's length, the order of pushes, or what any instruction waits for.
#pragma once

#include "backend/schedule/graph.h"
#include "backend/schedule/list.h"

namespace tpuc::schedule {

void SinkTowardsReaders(const Graph& graph, const Chip& chip, BlockSchedule* schedule);

}  // namespace tpuc::schedule
