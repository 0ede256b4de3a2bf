// Inputs that the user does not give: a pure function of shape, parameter number and seed, the
// same for every tool of the project (oracle README, "Generated inputs").
//
//   GenerateInput(f32[4], 0, 0) = {0.76662159, 0.13312304, 0.18237936, -0.77309942}
#pragma once

#include <cstdint>

#include "src/ir/literal.h"
#include "src/ir/shape.h"

namespace tpuc {

// The draw for element i of parameter p under seed s: splitmix64 of (s << 56) ^ (p << 40) ^ i.
uint64_t InputDraw(uint64_t seed, int64_t parameter, int64_t element);

// A literal of `shape`: floats in [-1, 1), signed integers -8..7, unsigned 0..15, pred from the top
// bit. A tuple's array leaves continue the element count one after the other; tokens are empty.
// The caller has checked that shape.LiteralBytes() can be allocated.
Literal GenerateInput(const Shape& shape, int64_t parameter, uint64_t seed);

}  // namespace tpuc
