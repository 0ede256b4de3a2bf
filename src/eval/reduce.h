// reduce: over any dimensions, by a simple reducer (fast) or by any computation on scalars.
//
// Order of combination is free (HLO asks for an associative reducer), but it shows where steps
// round, where the initial value is no identity and where the reducer is not associative. There the
// order is XLA's on a CPU (EvalReduceInWindows); elsewhere, and in the chip's numbers, the fastest:
// the initial value enters once, f32 sums accumulate in f64, narrow floats in f32 and round once.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"
#include "src/eval/window.h"

namespace tpuc {

// The instruction: n operands, n initial values, n allocated outs.
bool EvalReduceInstruction(const Instruction& in, absl::Span<const Literal* const> operands,
                           const EvalOptions& options, absl::Span<Literal* const> outs,
                           std::string* error);

// reducer: kAdd kMultiply kMaximum kMinimum kAnd kOr kXor. *out is allocated: the operand's
// dimensions less `dimensions`.
bool EvalSimpleReduce(Op reducer, const Literal& operand, const Literal& init,
                      const Ints& dimensions, Literal* out, std::string* error);

// A non-empty operand in the order of XLA's CPU backend: windows of 32, each from the initial
// value.
bool EvalReduceInWindows(const Combiner& combiner, const Literal& operand, const Literal& init,
                         const Ints& dimensions, const EvalOptions& options, Literal* out,
                         std::string* error);

// operands: n of equal dimensions; inits: n scalars; computation: n accumulators and n values to n
// results. outs: n allocated results.
bool EvalGeneralReduce(const Computation& computation, absl::Span<const Literal* const> operands,
                       absl::Span<const Literal* const> inits, const Ints& dimensions,
                       const EvalOptions& options, absl::Span<Literal* const> outs,
                       std::string* error);

}  // namespace tpuc
