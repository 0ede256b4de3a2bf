// Operations that only move elements: broadcast, reshape, bitcast, copy, transpose, slice,
// concatenate, pad, reverse; and iota, which makes them. All are strided copies (strided.h).
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// *out is allocated with the result's shape. False and *error where the operation is none of the
// above or its type is not supported.
bool EvalMove(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
              Literal* out, std::string* error);
// bitcast of a value that lies in memory by `layout` (row major where there is none).
bool EvalBitcast(const Literal& a, const std::optional<Layout>& layout, Literal* out,
                 std::string* error);
// set-dimension-size and dynamic-reshape: *out has the actual dimensions; what is cut off is lost,
// what is missing is 0.
bool EvalResize(Op op, const Literal& a, Literal* out, std::string* error);
bool EvalIota(int64_t dimension, Literal* out, std::string* error);

}  // namespace tpuc
