// Checks that an LLO function follows the rules that scheduler and allocator rely on: operand
// classes as isa.def says, registers written before they are read on every path, each push popped
// as often as it has results, transposes complete, branches last in their block and inside the
// function. Of the chip it knows only how many results a matmul has.
#pragma once

#include "backend/llo/llo.h"
#include "src/diag/diag.h"

namespace tpuc {

// Reports kLloMalformed, kLloUndefined and kLloQueue; true if there was nothing to report.
// mxu_tiles: Chip::mxu_tiles.
bool VerifyLlo(const llo::Function& function, DiagSink* diags, int mxu_tiles = 2);

}  // namespace tpuc
