// The dot operation: any batch and contracting dimensions, any pair of numeric types. Floats up to
// f32 accumulate in f32, f64 in f64, integers modulo the result type's width.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"

namespace tpuc {

// *out is allocated: dimensions batch, lhs free, rhs free. False and *error where not supported.
bool EvalDot(const Literal& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
             const EvalOptions& options, Literal* out, std::string* error);

// Do the operands of a dot or convolution round to bf16 in chip numbers? Yes where an operand is
// f32 at default precision and no algorithm asks for more.
bool RoundsToBF16(absl::Span<const Attr> attrs, const EvalOptions& options);

}  // namespace tpuc
