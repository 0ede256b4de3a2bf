// Float bits <-> numbers and text for every float type of HLO, with HLO text's range rules. The
// conversions themselves are src/num/convert.h's.
#pragma once

#include <cstdint>
#include <string>

#include "src/ir/shape.h"

namespace tpuc::hlo {

// The bits of `value` in the float type `type`, to nearest even. False: a finite value that only
// an infinity, a NaN or a largest value far off could stand for, or an infinity the type has not.
bool FloatBits(Type type, double value, uint64_t* bits);
// The NaN of that sign and payload (0: the default quiet NaN). False: the type has none such.
bool NanBits(Type type, bool negative, uint64_t payload, uint64_t* bits);
// Appends the shortest of XLA's two precisions (6 digits or as many as the type needs) that reads
// back to the same bits. NaN as nan, -nan or with its payload.
void AppendFloatText(Type type, uint64_t bits, std::string* out);
// `%.6g` if that reads back as the same double, else 17 digits (attributes such as epsilon).
std::string DoubleText(double value);

}  // namespace tpuc::hlo
