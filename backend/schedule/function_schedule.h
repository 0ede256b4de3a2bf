// Schedules every block of a function, in layout order, and keeps for each the best of a few list
// schedules: free of register limits, within limits, and within ever narrower windows of program
// order. Best is fewest cycles, with the values that would have to be spilled counted at their
// cost.
#pragma once

#include <array>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"
#include "backend/schedule/graph.h"
#include "backend/schedule/list.h"

namespace tpuc::schedule {

struct ScheduleOptions {
  std::array<int, 4> registers = {};  // of each class, by ClassIndex
  int window = kNoLimit;              // widest to try; 1: program order only
  double spill_weight = 0.5;          // cycles a spilled value is taken to cost
  bool near_order = false;            // program order fits the registers: stay near it
  bool must_fit = false;  // a schedule that needs spills loses against any that does not
};

struct FunctionSchedule {
  std::vector<Graph> graphs;  // by block; refer to the function
  std::vector<BlockSchedule> blocks;
};

// False: the pops of some block (*bad_block) cannot leave their queues in the order of their
// pushes.
bool ScheduleFunction(const llo::Function& function, const Chip& chip,
                      const ScheduleOptions& options, FunctionSchedule* out, int* bad_block);

// Cycles of the longest chain of latencies through a block, branch and delay slots included.
int CriticalPath(const Graph& graph, const Chip& chip);

// The registers of the chip, by ClassIndex.
std::array<int, 4> RegistersOf(const Chip& chip);

// Least number of values of a class to keep out of registers so that the rest fit (the value that
// is needed furthest in the future goes first).
int CountSpills(const Graph& graph, const BlockSchedule& schedule, isa::RegClass cls,
                int registers);

}  // namespace tpuc::schedule
