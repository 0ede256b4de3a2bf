// What operations are called in .tk files: HLO's names with '_' for '-', shorter names as NumPy has
// them, and the infix operators. One table for parser and printer.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "backend/kernel/kernel.h"
#include "src/ir/hlo.h"

namespace tpuc::kernel_text {

// exp, maximum, round_nearest_even ...; false for names that are no operation.
bool OpOfCall(absl::string_view callee, Op* op);
// The name printed: the short one where there is one.
std::string CallName(Op op);

// "+" for kAdd; "" where an operation has no infix form.
absl::string_view InfixOf(Op op);
bool OpOfInfix(absl::string_view op_text, Op* op);
// "==" and "EQ"; "" where there is none.
absl::string_view DirectionOf(absl::string_view relation);
absl::string_view RelationOf(absl::string_view direction);

// sum, prod, max, min, all, any; "" for xor, and for and/or of integers: reduce(x, op=...).
absl::string_view ReductionName(Op reducer, Type type);
bool ReducerOf(absl::string_view callee, Op* reducer);

// Operators and two-argument functions (cdiv, min, max) of integer expressions; nothing for
// another.
std::optional<kernel::Expr::Kind> IntegerOperator(absl::string_view text);
std::optional<kernel::Expr::Kind> IntegerFunction(absl::string_view callee);

}  // namespace tpuc::kernel_text
