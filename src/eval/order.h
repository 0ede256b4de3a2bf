// The order in which a computation's instructions run: as they stand, unless less memory is needed
// another way. Then what makes much of an array into less runs as soon as it can, and what is cheap
// to compute is dropped between two readers far apart and computed again for the second.
//
//   y = x * 2; z = (long computation of y); p = y > 1; r = f(z, p)
//   -> y, p, z, r: the truth values wait instead of y
#pragma once

#include <vector>

#include "src/eval/plan.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Finds the plan's steps, the needed instructions but parameters in the order to run (one may come
// again), and its peak. Random numbers, calls and side effects keep their order. Reads the plan's
// operands, root, needed and splat.
void FindSteps(const Computation& computation, Plan* plan);

// May the result take the place of operand i, of its own type and dimensions? Block-wise loops read
// an element before they write it.
bool WorksInPlace(const Instruction& in, size_t i);

}  // namespace tpuc
