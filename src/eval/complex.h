// Element-wise operations where an operand or the result is complex (c64, c128).
#pragma once

#include <complex>
#include <string>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Unary, binary, compare (EQ and NE), complex, real, imag, abs, is-finite, convert. *out is
// allocated. False and *error where the operation or a type is not supported.
bool EvalComplex(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                 Literal* out, std::string* error);

// out[i] = op(a[i], b[i]); false where the operation does not exist for complex values.
template <typename C>
bool ComplexBlock(Op op, const C* a, const C* b, int64_t n, C* out);

}  // namespace tpuc
