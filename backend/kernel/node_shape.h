// Shapes of body nodes: HLO's rules (src/ir/shape_inference.h) on block values.
//
//   dot of f32[128,256] and f32[256,512] contracting {1} x {0} is f32[128,512].
#pragma once

#include <string>

#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

// The shape of a kHlo node from its operands and attributes. Operations whose result HLO writes out
// (broadcast, reshape, convert, iota, slice ...) must have it in node.shape: it is checked.
// False with a message that names the offending dimension or type.
bool InferNodeShape(const Kernel& kernel, const Node& node, Shape* shape, std::string* error);

// Dimensions of a bitcast-convert: another last one where the widths differ (f32[8] is u16[8,2]).
Dims BitcastDims(const Shape& from, Type to);

}  // namespace tpuc::kernel
