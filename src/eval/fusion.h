// Loop fusion in the evaluator: element-wise steps on large arrays of equal dimensions that read
// one another, or the same array, stand together and run as one loop (fused_loop.h). A batch-norm
// before them hands its result on as it writes it.
#pragma once

#include "src/eval/plan.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Moves steps to where their loop begins, across such as neither make nor read large arrays, and
// fills plan->together. Reads the plan's steps, operands, splat and dynamic.
void FuseLoops(const Computation& computation, Plan* plan);

}  // namespace tpuc
