// Pipelines the innermost loops of a scheduled and coloured function where that makes them shorter
// and the registers suffice, and says of each what binds it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"
#include "backend/regalloc/color.h"
#include "backend/schedule/function_schedule.h"

namespace tpuc::regalloc {

struct LoopReport {
  int loop = 0;       // in llo::Function::loops
  int64_t trips = 0;  // as they were
  int mii = 0, ii = 0, stages = 1;
  std::string bound;  // isa::LoopInfo::bound
};

// A loop of one block with a known trip count becomes three blocks with fixed issue times, or one
// if the trips are few; the function, its schedule and its colouring change together or not at all.
// Reports every innermost loop, in the order of llo::Function::loops.
std::vector<LoopReport> PipelineLoops(const FixedScalars& fixed, const Chip& chip,
                                      llo::Function* function, schedule::FunctionSchedule* schedule,
                                      Coloring* coloring);

}  // namespace tpuc::regalloc
