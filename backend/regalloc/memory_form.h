// Code at -O0: one operation a bundle, in program order, every value through memory. Slow and
// plain: what it computes is what LLO says, so that a wrong result at -O2 can be laid at one door.
//
//   %v3 = vadd.f32 %v1, %v2  ->  { v0 = vld [home of %v1] } { v1 = vld [home of %v2] }
//                                { v0 = vadd.f32 v0, v1 } { vst [home of %v3], v0 }
//
// Results are popped into a place of their own right after their push, so that queues never hold
// more than one push, in whatever order the LLO pops them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "backend/llo/llo.h"
#include "backend/regalloc/spill.h"

namespace tpuc::regalloc {

// `function` has been through Prepare. False if an instruction has more operands of a class than
// the chip has registers. block_start as EmitBundles.
bool EmitMemoryForm(const llo::Function& function, const Chip& chip, SpillArea* area,
                    SpillCounts* counts, isa::Function* out, std::vector<int>* block_start);

}  // namespace tpuc::regalloc
