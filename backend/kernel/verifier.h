// Verifier of kernel programs: everything a parser or a pass may get wrong, checked before
// lowering, with the rule, the offending dimension and the nearest values that are allowed.
//
// Rules: node shapes (HLO's), window shapes (pallas-semantics PS-2.6, E2002), dynamic starts
// (PS-6.4, E2003), index maps within the array at every grid point (PS-2.4), output blocks written
// and visited in one run (PS-3.4), VMEM of windows and scratch (PS-2.9, E1001).
#pragma once

#include "backend/chip/chip.h"
#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"

namespace tpuc {

// False where an error was added to `diags`.
bool VerifyKernels(const kernel::Program& program, const Chip& chip, DiagSink* diags);

}  // namespace tpuc
