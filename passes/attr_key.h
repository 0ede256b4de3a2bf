// Text keys that are equal exactly where two instructions compute the same thing from the same
// operands: used by cse.
#pragma once

#include <string>

#include "src/ir/hlo.h"

namespace tpuc {

// Attributes of `i` that change its value (metadata, sharding and the like left out), in a fixed
// order. Reduction bodies that compute the same simple operation have the same key.
std::string ValueAttrsKey(const Instruction& i);

}  // namespace tpuc
