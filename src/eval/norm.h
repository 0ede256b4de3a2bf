// The three batch-norms: statistics of each feature over all other dimensions, in f64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// What training finds of each feature; the normalised value is (x - centre) * factor + addend, in
// the type that it computes in. The centre is the mean as that type has it.
struct NormMoments {
  std::vector<double> mean, variance, centre, factor, addend;
  int64_t run = 1;  // elements of one feature that lie together
};

// Parts of an array: the first element, how many.
using PartDone = std::function<void(int64_t first, int64_t count)>;
struct NormHooks {
  // Parts of outs[0] as they are there; what lies there may then change. Each element is in one.
  PartDone written = nullptr;
  // grad: parts of the output's gradient before they are read; not in the place of the operand.
  PartDone wanted = nullptr;
  // training: filled, or where they are filled already, those of the same operand before.
  NormMoments* moments = nullptr;
};

// training: (operand, scale, offset) -> (normalised, mean, variance), outs[0] null: only these two;
// inference: (operand, scale, offset, mean, variance) -> normalised; grad: (operand, scale, mean,
// variance, output's gradient) -> gradients of (operand, scale, offset). outs are allocated.
bool EvalBatchNorm(const Instruction& in, absl::Span<const Literal* const> operands,
                   absl::Span<Literal* const> outs, std::string* error,
                   const NormHooks& hooks = {});

// Bounds of a clamp.
struct NormBounds {
  double low, high;  // no NaN; values of the type that is clamped
};
// The normalised values, within the bounds if there are any: x and *out, floats of one type, hold
// the elements of a training's operand and result from `first` on.
void EvalNormalise(const NormMoments& moments, const NormBounds* bounds, const Literal& x,
                   int64_t first, Literal* out);

}  // namespace tpuc
