// The reference evaluator: runs an HLO module on literals, one instruction at a time (element-wise
// ones on large arrays block by block, fusion.h), simple and right before fast. What XLA computes
// on a CPU without excess precision (kIeee), or with f32 dots rounded as the MXU rounds them
// (kChip).
//
// Integers wrap; arrays of dynamic dimensions are held at their actual sizes while the program runs
// and padded with zeros to their bounds where they are results. Random numbers (rng) come from
// Philox keyed by the instruction, so that a run repeats; see random.h.
// Subnormals count as zero (src/num/flush.h), as XLA's CPU code has them; what only moves bits
// keeps them. Narrow floats compute each operation in f32 and round back to nearest even. x/0 is -1
// (signed) or all ones, x%0 is x, shifts by the width or more leave nothing (or the sign).
// Evaluation order is the computation's instruction order, without recursion over operands; values
// are freed after their last use. Operations and types it cannot run are diagnostics naming them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/diag/diag.h"
#include "src/ir/hlo.h"
#include "src/ir/literal.h"

namespace tpuc {

// kChip: both operands of an f32 dot of default precision round to bf16 (nearest even); products
// accumulate in f32. Precision high and highest stay full f32.
enum class Numbers : uint8_t { kIeee, kChip };

struct EvalOptions {
  Numbers numbers = Numbers::kIeee;
  // Bytes of values that may live at once; 0: the physical memory of the host.
  int64_t memory_limit = 0;
  // Steps (work.h) that the run may still take; it counts them down, and what goes beyond is a
  // diagnostic. Null: no limit.
  int64_t* work = nullptr;
  // Runs a custom-call: operands in order (tuples flattened) to the leaves of the result. nullopt
  // after a diagnostic. Unset: custom-calls are unsupported.
  std::function<std::optional<std::vector<Literal>>(const Instruction& call,
                                                    std::vector<Literal> operands, DiagSink* diags)>
      custom_call;
  // Computations being run for single elements of others (a loop in a reducer ...). Callers leave
  // it at 0.
  int nesting = 0;
};

// Runs the entry computation. inputs[i] is parameter i, of a compatible shape. A wrong number or
// shape of inputs is a diagnostic (kEvalInputs), as are elided constants (kEvalElided), values that
// cannot be allocated (kEvalMemory) and unsupported operations (kUnsupportedOp).
std::optional<Literal> Evaluate(const Module& module, std::vector<Literal> inputs,
                                const EvalOptions& options, DiagSink* diags);

// Runs a computation on array arguments to the leaves of its result. nullopt and *error where it
// cannot be run, or where too many of these are under way (options.nesting).
std::optional<std::vector<Literal>> EvaluateComputation(const Computation& computation,
                                                        std::vector<Literal> arguments,
                                                        const EvalOptions& options,
                                                        std::string* error);

// One operation without called computations on literals; the result has `shape`. Operands are
// dense row major. Operands and attributes must be those of a verified instruction. nullopt and
// *error where the operation or a type of it is not supported.
std::optional<Literal> EvaluateOp(Op op, const Shape& shape,
                                  absl::Span<const Literal* const> operands,
                                  absl::Span<const Attr> attrs, const EvalOptions& options,
                                  std::string* error);

// A reduce of one array, exactly as Evaluate runs it.
std::optional<Literal> EvaluateReduce(const Instruction& reduce, const Literal& operand,
                                      const Literal& init, const EvalOptions& options,
                                      std::string* error);

// reduce by one of the simple reducers (add, multiply, maximum, minimum, and, or, xor) over
// `dimensions` of operand, starting from the scalar init, as the chip does it: narrow floats
// accumulate in f32 and round once.
std::optional<Literal> EvaluateReduce(Op reducer, const Shape& shape, const Literal& operand,
                                      const Literal& init, const Ints& dimensions,
                                      std::string* error);

}  // namespace tpuc
