// The number format (src/num/convert.h) of a float type.
#pragma once

#include "src/ir/shape.h"
#include "src/num/convert.h"

namespace tpuc {

// Of floats of at most 16 bits; null for f32, f64, f8e8m0fnu and types that are no floats.
const num::FloatFormat* FloatFormatOf(Type type);

}  // namespace tpuc
