// The three batch-norms: statistics of each feature over all other dimensions, in f64.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// training: (operand, scale, offset) -> (normalised, mean, variance); inference: (operand, scale,
// offset, mean, variance) -> normalised; grad: (operand, scale, mean, variance, output's gradient)
// -> gradients of (operand, scale, offset). outs are allocated.
bool EvalBatchNorm(const Instruction& in, absl::Span<const Literal* const> operands,
                   absl::Span<Literal* const> outs, std::string* error);

}  // namespace tpuc
