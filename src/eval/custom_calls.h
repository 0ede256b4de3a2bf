// Custom calls with a public meaning: those that JAX and XLA put into programs for any device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/ir/hlo.h"

namespace tpuc {

// The call yields its first operand: Sharding, MoveToHost, MoveToDevice ...
bool PassesOn(const Instruction& in);
bool IsKnownCall(const Instruction& in);
// The leaves of the result; operands in order, tuples flattened. nullopt and *error where the
// call's shapes are not those of its meaning.
std::optional<std::vector<Literal>> RunKnownCall(const Instruction& in,
                                                 const std::vector<Literal>& operands,
                                                 std::string* error);

}  // namespace tpuc
