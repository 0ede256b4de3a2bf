// Scalar literals that kernels need: constants of any type, the identity of a reduction, and the
// poison that stands for undefined contents.
#pragma once

#include "src/ir/hlo.h"
#include "src/ir/literal.h"

namespace tpuc::kernel {

// A scalar of an integer, pred or float type; floats round to nearest even, integers wrap.
Literal ScalarOf(Type type, double value);
Literal ScalarOf(Type type, int64_t value);

// What a reduction by `reducer` (add, multiply, maximum, minimum, and, or, xor) starts from.
Literal IdentityOf(Op reducer, Type type);
// True where combining with this scalar changes no value (for add: 0 and -0).
bool IsIdentity(Op reducer, const Literal& scalar);

// Every element NaN (floats), the smallest integer, all ones (unsigned) or true
// (pallas-semantics PS-4.4).
void FillPoison(Literal* array);

}  // namespace tpuc::kernel
