// Instructions that move a value between a register and its place in memory.
#pragma once

#include <vector>

#include "backend/llo/llo.h"
#include "backend/regalloc/spill.h"

namespace tpuc::regalloc {

// A place for one value of the class: rows of VMEM (vectors, masks) or a word of SMEM.
int64_t NewHome(isa::RegClass cls, SpillArea* area);

// Stores `value` at `home`, under the predicate of `like` if it has one.
void AppendStore(isa::Reg value, int64_t home, const isa::Inst& like, const SpillArea& area,
                 llo::Function* function, std::vector<isa::Inst>* out);
// Loads it into `dest`.
void AppendLoad(isa::Reg dest, int64_t home, const SpillArea& area, llo::Function* function,
                std::vector<isa::Inst>* out);

}  // namespace tpuc::regalloc
