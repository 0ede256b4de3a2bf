// One run of one kernel on literals: the grid loop, windows and the body (block_eval.h says what is
// undefined and how it shows).
#pragma once

#include <string>
#include <vector>

#include "backend/kernel/kernel.h"
#include "src/eval/evaluator.h"
#include "src/ir/literal.h"

namespace tpuc::kernel {

// arrays[r] for each `in` and `out` ref, null for scratch: logical literals of the refs' shapes.
// Outputs are written; they hold what an aliased input holds, or poison, before. False with the
// place (kernel, grid point, statement) in *error. follow_undefined: undefined contents that reach
// a result are an error (undefined.h), not NaN.
bool RunKernel(const Kernel& kernel, const std::vector<Literal*>& arrays,
               const EvalOptions& options, bool follow_undefined, DiagCode* code, Loc* loc,
               std::string* error);

}  // namespace tpuc::kernel
