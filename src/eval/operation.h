// One operation without called computations: the dispatch from opcode to the family that runs it.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"

namespace tpuc {

// *out is allocated with the result's shape. False and *error, which names the operation and the
// type, where it is not supported.
bool EvalOperation(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                   const EvalOptions& options, Literal* out, std::string* error);

// Bytes that literals may take when nothing else is said: three quarters of physical memory.
int64_t DefaultMemoryLimit();

// Any instruction on arrays, those with called computations and several results included (not calls
// and loops, which are frames of a run). outs: the leaves of the result, allocated; of scatter they
// hold the operands.
bool EvalInstruction(const Instruction& in, absl::Span<const Literal* const> operands,
                     const EvalOptions& options, absl::Span<Literal* const> outs,
                     std::string* error);

// scan; see scan.cc.
bool EvalScan(const Instruction& in, absl::Span<const Literal* const> operands,
              const EvalOptions& options, absl::Span<Literal* const> outs, std::string* error);

}  // namespace tpuc
