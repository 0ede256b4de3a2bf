// Element-wise operations on literals: unary, binary, compare, select, clamp, casts. One function
// an opcode family, written once over the compute types of native.h.
//
// Operands have the dimensions of *out; those of compare, select, clamp and binary operations may
// hold one element, which stands for as many as wanted. *out is allocated and
// has the result's shape; it may be an operand of its own type. False and *error where a type is
// not supported.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

bool EvalElementwise(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                     Literal* out, std::string* error);

// The families behind it.
bool EvalUnary(Op op, const Literal& a, Literal* out, std::string* error);
bool EvalBinary(Op op, const Literal& a, const Literal& b, Literal* out, std::string* error);
bool EvalConvert(const Literal& a, Literal* out, std::string* error);
bool EvalReducePrecision(const Literal& a, int exponent_bits, int mantissa_bits, Literal* out,
                         std::string* error);
// Between types of different width the minor dimension holds the parts, the low one first.
bool EvalBitcastConvert(const Literal& a, Literal* out, std::string* error);
// To an integer, up or down by the fraction's chance: up where the random bits are below it.
bool EvalStochasticConvert(const Literal& a, const Literal& random, Literal* out,
                           std::string* error);

// One binary operation on n values of a compute type; `bits` is the width of the element type.
// False where the operation does not exist for T.
template <typename T>
bool BinaryBlock(Op op, int bits, const T* a, const T* b, int64_t n, T* out);

}  // namespace tpuc
