// Writes a scheduled and coloured function as bundles, and proves on the way out that every read of
// a physical register finds the virtual register it means.
#pragma once

#include <vector>

#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "backend/llo/llo.h"
#include "backend/regalloc/color.h"
#include "backend/schedule/function_schedule.h"

namespace tpuc::regalloc {

// Bundles in layout order: idle ones are left out except in delay slots, and so are tokens.
// block_start[b] is the first bundle of block b (blocks.size(): the end).
void EmitBundles(const llo::Function& function, const schedule::FunctionSchedule& schedule,
                 const Coloring& coloring, const Chip& chip, isa::Function* out,
                 std::vector<int>* block_start);

// Turns the block numbers of branches into bundle numbers.
void ResolveBranches(const std::vector<int>& block_start, isa::Function* out);

// CHECKs, by data flow over the scheduled blocks, that each physical register holds the virtual one
// that is read from it, on every path.
void CheckColoring(const llo::Function& function, const schedule::FunctionSchedule& schedule,
                   const Coloring& coloring, const FixedScalars& fixed, const Chip& chip);

}  // namespace tpuc::regalloc
