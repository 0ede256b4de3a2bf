// A rearrangement as a list of units: each is one row of 128 lanes of the result in memory, put
// together from runs of lanes of source rows; and the loops in that list.
//
//   f32[512,768] -> f32[512,12,64]: 12 units (and one for padding) for each row of the operand;
//   units 0..103 repeat 64 times, each time 8 operand rows further on: one loop of 104 units
#pragma once

#include <cstdint>
#include <vector>

namespace tpuc::lower {

struct LaneRun {
  int32_t lane = 0, count = 0;  // in the result's row
  int32_t source = 0;           // operand; -1: the padding value
  int32_t from = 0;             // lane of the source row
  int64_t row = 0;              // memory row of the source
};

struct MoveUnit {
  int64_t to = 0;     // memory row of the result
  int32_t rows = 1;   // rows that get the same value (padding: all that are left of a tile)
  int32_t first = 0;  // of its runs
  int32_t count = 0;
};

struct MovePlan {
  std::vector<MoveUnit> units;
  std::vector<LaneRun> runs;
  int sources = 1;

  void Begin(int64_t to, int32_t rows) {
    units.push_back({to, rows, static_cast<int32_t>(runs.size()), 0});
  }
  // Adds a lane to the last unit.
  void Add(const LaneRun& lane);
  int64_t Runs(int64_t begin, int64_t end) const;
};

// Units [begin, begin + period * times) are `times` copies of the first `period`, each `to` rows
// further on in the result and `from[s]` rows in source s.
struct Repeat {
  int64_t period = 0, times = 1;
  int64_t to = 0;
  std::vector<int64_t> from;
};
// The shortest period that fills [begin, end); else the one that reaches farthest; times is 1 where
// there is none.
Repeat FindRepeat(const MovePlan& plan, int64_t begin, int64_t end);

}  // namespace tpuc::lower
