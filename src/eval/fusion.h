// Loop fusion in the evaluator: element-wise steps on large arrays of equal dimensions that read
// one another, or the same array, stand together and run as one loop (fused_loop.h). A batch-norm
// before them hands its result on as it writes it.
#pragma once

#include "src/eval/plan.h"
#include "src/ir/hlo.h"

namespace tpuc {

// More elements than this: the array leaves the caches.
inline constexpr int64_t kLargeElements = int64_t{1} << 17;
bool IsLarge(const Shape& shape);

// An element-wise instruction of large arrays of its own dimensions, or scalars, that fused_loop.h
// runs. Reads the plan's operands, splat and dynamic.
bool IsLoop(const Computation& computation, const Plan& plan, int i);

// Moves steps to where their loop begins, across such as neither make nor read large arrays, and
// fills plan->together. Reads the plan's steps, operands, splat and dynamic.
void FuseLoops(const Computation& computation, Plan* plan);

}  // namespace tpuc
