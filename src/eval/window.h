// Windows that slide over an array: reduce-window and select-and-scatter.
//
// The loop is over the places in the window, not over the windows: place k of all windows is a
// strided view of the operand, combined with all accumulators at once.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"

namespace tpuc {

// operands: n arrays of equal dimensions, then n initial scalars; outs: n allocated results. What
// the padding holds does not take part; the initial value enters each window once.
bool EvalReduceWindow(const Instruction& in, absl::Span<const Literal* const> operands,
                      const EvalOptions& options, absl::Span<Literal* const> outs,
                      std::string* error);

// Each window chooses one of its elements (select yields true where the first stays chosen); the
// source's value is scattered there, starting from init.
bool EvalSelectAndScatter(const Instruction& in, const Literal& operand, const Literal& source,
                          const Literal& init, const EvalOptions& options, Literal* out,
                          std::string* error);

}  // namespace tpuc
