// What rules ask about an instruction: is it one value everywhere, which, and how do the dimensions
// of a reshape correspond.
#pragma once

#include <optional>

#include "passes/simplify/rewriter.h"

namespace tpuc::simplify {

// The scalar constant that fills all of x (x is a constant of one element or a broadcast of one),
// or null.
const Literal* SplatOf(const Instruction* x);
// Its value; nullopt where x is no splat of a number.
std::optional<double> SplatValue(const Instruction* x);
inline bool IsSplat(const Instruction* x) { return SplatOf(x) != nullptr; }
bool IsSplat(const Instruction* x, double value);  // zeros of either sign are equal
bool IsPositiveZero(const Instruction* x);         // +0.0, or integer 0
bool IsNegativeZero(const Instruction* x);         // -0.0
bool IsAllOnes(const Instruction* x);              // pred true, integer -1
// |value| is a power of two whose reciprocal is a normal number of the type.
bool IsExactReciprocal(const Instruction* x);

inline bool IsFloatArray(const Instruction* x) { return IsFloat(x->shape.type); }
inline bool IsIntegerArray(const Instruction* x) { return IsInteger(x->shape.type); }

// The value that leaves `reducer` unchanged fills x: 0 (either sign) for add, 1, -inf, inf, ...
bool IsIdentityOf(Op reducer, const Instruction* x);

// A reshape from `from` to `to` that only adds or drops dimensions of size 1: map[f] is the
// dimension of `to` that dimension f of `from` becomes, -1 where it is dropped.
struct DegenerateMap {
  Ints map;
  Ints added;  // dimensions of `to` without a counterpart
};
std::optional<DegenerateMap> MatchDegenerate(const Dims& from, const Dims& to);

// dims[i] for i in order.
Dims Pick(const Dims& dims, const Ints& order);
bool IsIota(absl::Span<const int64_t> v);  // 0, 1, 2, ...

}  // namespace tpuc::simplify
