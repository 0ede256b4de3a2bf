// The three batch-norms: statistics of each feature over all other dimensions, in f64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// training: (operand, scale, offset) -> (normalised, mean, variance); inference: (operand, scale,
// offset, mean, variance) -> normalised; grad: (operand, scale, mean, variance, output's gradient)
// -> gradients of (operand, scale, offset). outs are allocated.
//
// `written`: called with parts of outs[0] (first element, count) as they are there; what lies there
// may then change. Each element is in one of them.
// `moments` of training: filled, or where they are filled already, those of the same operand
// before.
using Written = std::function<void(int64_t first, int64_t count)>;
struct NormMoments {
  std::vector<double> mean, variance;  // of each feature
};
bool EvalBatchNorm(const Instruction& in, absl::Span<const Literal* const> operands,
                   absl::Span<Literal* const> outs, std::string* error,
                   const Written& written = nullptr, NormMoments* moments = nullptr);

}  // namespace tpuc
