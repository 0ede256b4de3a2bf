// reduce: over any dimensions, by a simple reducer (fast) or by any computation on scalars.
//
// Order of combination is free (HLO asks for an associative reducer); the initial value enters
// exactly once. f32 sums accumulate in f64. Narrow floats accumulate in f32 and round once, as the
// chip does, or (EvalNarrowReduce) round after each step, as XLA on a CPU does.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"

namespace tpuc {

// The instruction: n operands, n initial values, n allocated outs.
bool EvalReduceInstruction(const Instruction& in, absl::Span<const Literal* const> operands,
                           const EvalOptions& options, absl::Span<Literal* const> outs,
                           std::string* error);

// reducer: kAdd kMultiply kMaximum kMinimum kAnd kOr kXor. *out is allocated: the operand's
// dimensions less `dimensions`.
bool EvalSimpleReduce(Op reducer, const Literal& operand, const Literal& init,
                      const Ints& dimensions, Literal* out, std::string* error);

// The same for a non-empty operand, step by step in the order of XLA's CPU backend: narrow floats
// round after each step, and an initial value that changes its partner enters as often as there.
bool EvalNarrowReduce(Op reducer, const Literal& operand, const Literal& init,
                      const Ints& dimensions, Literal* out, std::string* error);

// operands: n of equal dimensions; inits: n scalars; computation: n accumulators and n values to n
// results. outs: n allocated results.
bool EvalGeneralReduce(const Computation& computation, absl::Span<const Literal* const> operands,
                       absl::Span<const Literal* const> inits, const Ints& dimensions,
                       const EvalOptions& options, absl::Span<Literal* const> outs,
                       std::string* error);

}  // namespace tpuc
