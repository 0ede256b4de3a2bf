// sort and topk.
//
// A comparator that compares one function of the left values with the same function of the right
// ones (all of JAX's single-key sorts) is turned into integer keys, which are sorted by radix. Any
// other runs in lanes: a merge sort in which every element finds its place by binary search.
// Both are stable (the first only where asked: see sort.cc). A comparator that orders nothing (or
// not consistently) gives some permutation.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"

namespace tpuc {

// operands: n arrays of equal dimensions; outs: n allocated results.
bool EvalSort(const Instruction& in, absl::Span<const Literal* const> operands,
              const EvalOptions& options, absl::Span<Literal* const> outs, std::string* error);

// The k largest (or smallest) of each line along the last dimension in total order, equal ones by
// place; outs: values and s32 indices.
bool EvalTopk(const Literal& operand, bool largest, Literal* values, Literal* indices,
              std::string* error);

}  // namespace tpuc
