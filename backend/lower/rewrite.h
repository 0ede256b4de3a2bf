// Rewrites of a kernel's body before lowering: dots in forms that the matrix unit has, and a row
// maximum of scaled values as the scaled extremes of the row. Each keeps the value exactly, but for
// the order of summation in dots.
#pragma once

#include "backend/kernel/kernel.h"

namespace tpuc::lower {

//   dot, operand_precision highest  ->  six dots of bf16 parts, smallest products first
//   dot of s8 or u8                 ->  dots of f32 (exact below 2^24), converted and summed
//   dot of f8 or f16                ->  dot of f32 (f16: of two bf16 parts), rounded
//   dot over two dimensions         ->  batched dot and a sum over the first of them
//   dot with a right operand of several free dimensions  ->  operands swapped, transposed
//   max_j (x_ij / r_i)              ->  max(max_j x_ij / r_i, min_j x_ij / r_i, - min_j |x_ij| /
//   |r_i|)
//     (rounding is monotone; the last term is NaN exactly where some quotient 0/0 is); only for few
//     rows, where the latency of bringing r into rows would be paid before the maximum
void RewriteBody(kernel::Kernel* kernel);

}  // namespace tpuc::lower
