// What explicit copies, signals and waits may name: memory spaces, shapes, whole rows of tiles.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "backend/kernel/kernel.h"
#include "backend/kernel/scalar_facts.h"

namespace tpuc::kernel {

struct CopyProblem {
  DiagCode code = DiagCode::kCopyShape;
  std::string message, hint;  // empty message: none
};

// `loops`: the kFor nodes around it, outermost first.
CopyProblem FindCopyProblem(const Kernel& kernel, const Node& node, absl::Span<const NodeId> loops,
                            bool guarded);

// Whether a start lies in [0, most] for all that is known of it, or nothing is known, or a
// condition guards the access. What this lets through is checked at run time.
bool MayBeInside(const ScalarFacts& facts, int64_t most, bool guarded);

// Bytes that the copy moves, without padding: what the block evaluator counts.
int64_t CopyBytes(const Kernel& kernel, const Node& copy);

// Whether the start of a slice is known (or promised) to be a multiple of `n`.
bool StartIsMultiple(const Kernel& kernel, const Slice& slice, int64_t n,
                     absl::Span<const NodeId> loops);

}  // namespace tpuc::kernel
