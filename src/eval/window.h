// Windows that slide over an array: reduce-window and select-and-scatter.
//
// The loop is over the places in the window, not over the windows: place k of all windows is a
// strided view of the operand, combined with all accumulators at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"
#include "src/eval/lanes.h"

namespace tpuc {

// acc = f(acc, x) over n lanes: one binary operation (SimpleReducer), or a computation of one or
// more accumulators.
class Combiner {
 public:
  // `count` accumulators. nullopt and *error as LaneProgram::Make.
  static std::optional<Combiner> Make(const Computation& computation, size_t count,
                                      std::string* error);
  explicit Combiner(Op simple) : simple_(simple) {}

  // acc: of the types that the computation yields; x: of the same dimensions.
  bool Run(absl::Span<Literal> acc, absl::Span<const Literal> x, const EvalOptions& options,
           std::string* error) const;

 private:
  Combiner() = default;

  std::optional<Op> simple_;
  std::optional<LaneProgram> program_;
};

// The initial value in the type that is accumulated: floats of another precision may come. nullopt
// and *error as EvalConvert.
std::optional<Literal> StartAs(Type type, const Literal& init, std::string* error);

// Combines with each of outs, which hold the initial values, the elements of the operand that its
// window sees, row major in the window. operands and outs: as many as the combiner's accumulators.
bool CombineWindows(const Window& window, const Combiner& combiner,
                    absl::Span<const Literal* const> operands, const EvalOptions& options,
                    absl::Span<Literal* const> outs, std::string* error);

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
