// In-order replay of packed bundles: when does each issue, if control takes the counted path? The
// same rules as the interpreter's, on registers and addresses instead of values (schedule/rules.h).
//
// Loops of known trip count are walked until their trips repeat; branches out of line are taken not
// to happen. DMA takes no time.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/isa/program.h"

namespace tpuc::schedule {

struct ReplayLoop {  // bundles [first, last]; loops nest or are disjoint
  int first = 0, last = 0;
  int64_t trips = 1;  // -1 (unknown) counts as 1
  bool is_grid = false;
};

struct Replay {
  int64_t cycles = 0;          // last issue + 1
  int64_t grid_step = -1;      // steady-state time of one trip of the grid loop; -1: none
  std::vector<int64_t> issue;  // first issue of each bundle
};

Replay ReplayTiming(const std::vector<isa::Bundle>& bundles, int args,
                    const std::vector<ReplayLoop>& loops, const Chip& chip);

}  // namespace tpuc::schedule
