// Producers inlined into their readers in the evaluator: what is cheap to compute from a large
// array, element by element, is no array of its own where all its readers can compute it as they
// read: convolutions their input, batch-norm-grad its gradient. A reader then reads what is
// computed from, and memory holds one array for all that is made of it.
//
//   x = conv(...); n = batch-norm(x); y = clamp(0, n, 6); r = conv(y, k); s = conv(y, g)
//   -> x, the statistics, r and s, each of which computes y from x a part at a time
#pragma once

#include "src/eval/plan.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Fills plan->inlined and plan->statistics_only. Changes operands of the steps that inline, and
// `needed` of what is inlined. Reads operands, needed, splat, dynamic, root.
void InlineProducers(const Computation& computation, Plan* plan);

}  // namespace tpuc
