// Schedules every block of a function, in layout order, and keeps for each the best of a few list
// schedules: free of register limits, within limits, and within ever narrower windows of program
// order. Best is fewest cycles, with the values that would have to be spilled counted at their
// cost.
#pragma once

#include <array>
#include <vector>

#include "absl/container/btree_map.h"
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
  bool fit_loops = false;             // the same, of loops that may be pipelined
  bool must_fit = false;  // a schedule that needs spills loses against any that does not
};

struct FunctionSchedule {
  std::vector<Graph> graphs;  // by block; refer to the function
  std::vector<BlockSchedule> blocks;
  std::vector<int> choices;  // by block: which of the policies gave its schedule
};

// The list schedules that choices for one function have made so far. What a spill is taken to cost
// decides between them; it does not change them.
struct Candidate {
  BlockSchedule schedule;  // length 0: given up, or stuck
  int spills = 0;
  int longer_than = 0;  // given up there
};
using CandidateKey = std::vector<int>;  // block, and when the values that are late arrive
using Candidates = absl::btree_map<CandidateKey, std::vector<Candidate>>;

// False: the pops of some block (*bad_block) cannot leave their queues in the order of their
// pushes. `candidates` are of the same function and options but for the weight; may be null.
bool ScheduleFunction(const llo::Function& function, const Chip& chip,
                      const ScheduleOptions& options, Candidates* candidates, FunctionSchedule* out,
                      int* bad_block);

// A loop of one block, whose trips are known: they may overlap, and so its length matters little.
bool IsPipelinable(const llo::Function& function, int block);

// Cycles of the longest chain of latencies through a block, branch and delay slots included.
int CriticalPath(const Graph& graph, const Chip& chip);

// The registers of the chip, by ClassIndex.
std::array<int, 4> RegistersOf(const Chip& chip);

// Least number of values of a class to keep out of registers so that the rest fit (the value that
// is needed furthest in the future goes first).
int CountSpills(const Graph& graph, const BlockSchedule& schedule, isa::RegClass cls,
                int registers);

}  // namespace tpuc::schedule
