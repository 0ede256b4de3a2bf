// What XLA's verifier holds a module to and its parser does not: result shapes follow from the
// operands, called computations fit, layouts are permutations, the entry layout fits the entry.
//
//   ROOT %a = f32[8,128] add(%x, %y)   with %y f32[8,256]
//   -> error: operand shapes f32[8,128] and f32[8,256] differ [E0104]
//
// Reports every fault it finds; changes nothing.
#pragma once

#include "src/diag/diag.h"
#include "src/ir/hlo.h"

namespace tpuc {

// True if the module is well formed; else at least one error is in `diags`, at the instruction's
// place in module.source.
bool VerifyHlo(const Module& module, DiagSink* diags);

}  // namespace tpuc
