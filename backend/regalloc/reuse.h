// Computes what a block computes twice only once: arithmetic on the same operands, and pushes of
// one result (EUP, cross-lane) of the same value.
//
//   %vm0 = vcmp.ge %v1, 1     %t0 = vrcp %v1    %v2 = vpop %t0
//   %vm1 = vcmp.ge %v1, 1     %t1 = vrcp %v1    %v3 = vpop %t1      -> %vm0 for %vm1, %v2 for %v3
//
// Constants are left alone (they are made again at will), and so is what is far apart: a register
// held long costs more than a slot.
#pragma once

#include "backend/llo/llo.h"

namespace tpuc::regalloc {

void ReuseResults(llo::Function* function);

}  // namespace tpuc::regalloc
