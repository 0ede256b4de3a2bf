// Arrays of dynamic dimensions. While a program runs they are held at their actual sizes, so that
// every operation sees plain arrays; what an instruction then yields follows from XLA's shape rules
// applied to the actual operands.
//
//   f32[<=8] of size 5 is a literal f32[5]; a reduce of it sums five elements
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// The shape that the instruction yields for these operands. False and *error where it does not
// follow (a reshape of several dynamic dimensions).
bool ActualShape(const Instruction& in, absl::Span<const Literal* const> operands, Shape* shape,
                 std::string* error);

// x cut or padded with zeros to the dimensions of `shape`.
Literal Resized(const Literal& x, const Shape& shape);

}  // namespace tpuc
