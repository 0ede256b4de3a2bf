// List scheduling of one block: cycle by cycle, the ready instruction of highest priority first, on
// the slots, units and queues of the chip. Queue order, unit choice and intervals are decided here.
//
// Priority is the latency path to the block's end. A policy may narrow the choice to a window of
// program order behind the oldest instruction not yet issued, and hold back instructions that would
// raise the number of live registers above a limit: the lowering promises that program order needs
// few, so a narrow window does too. Window 1 packs in program order.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/schedule/graph.h"
#include "backend/schedule/slots.h"

namespace tpuc::schedule {

constexpr int kNoLimit = std::numeric_limits<int>::max();

struct Policy {
  int window = kNoLimit;
  std::array<int, 4> limits = {kNoLimit, kNoLimit, kNoLimit, kNoLimit};  // by ClassIndex
  bool oldest_first = false;  // program order as priority
  int reserve = 0;            // registers of the limit that nothing new may take
  bool order_fits =
      false;  // program order stays within the limits: what is oldest may always start
  bool ordered_pushes = false;  // pushes of one kind of unit in program order
  // Instead of `reserve`: each so many instructions ahead of the oldest leave one register more to
  // what comes before them; pops too, whose results may as well wait in their queue. 0: not.
  int graded = 0;
};

struct BlockSchedule {
  std::vector<int32_t> time;         // issue cycle by node, from the block's start
  std::vector<int8_t> unit;          // MXU or XLU by node, -1: none
  int terminator = -1;               // cycle of the closing sbr.rel or call
  int length = 0;                    // cycles, delay slots included
  std::vector<SlotUse> slots;        // by cycle
  std::array<int, 4> max_live = {};  // by ClassIndex
};

enum class Listed : uint8_t {
  kDone,
  kTooLong,  // given up: it would take more cycles than wanted
  kStuck,    // the pops cannot leave their queues in the order of the pushes (as reordered)
};

// Schedules a block's graph in at most `longest` cycles.
Listed ListSchedule(const Graph& graph, const Chip& chip, const Policy& policy, int longest,
                    BlockSchedule* out);

// Most registers of each class that the schedule holds at once, from the issue times.
std::array<int, 4> MaxLive(const Graph& graph, const BlockSchedule& schedule);

}  // namespace tpuc::schedule
