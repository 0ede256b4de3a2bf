// Bodies back to syntax trees: nodes become statements and nested expressions. Internal to
// grammar/kernel.
//
// A node without a name that is used once, by the next node that uses anything, is printed where it
// is used; scalar constants are printed without type and broadcasts of scalars not at all where the
// partner says both. Everything else is a statement. Elaboration of the result gives the same nodes
// in the same order.
#pragma once

#include <string>
#include <vector>

#include "backend/kernel/kernel.h"
#include "grammar/kernel/syntax.h"

namespace tpuc::kernel_text {

std::vector<Statement> BodySyntax(const kernel::Kernel& kernel);

// Integer expressions of a kernel, by the names of its parameters and axes.
Expr StaticSyntax(const kernel::Expr& e, const kernel::Kernel& kernel);
Expr MaskSyntax(const kernel::Mask& mask, const kernel::Kernel& kernel);  // its condition
Expr IntegerSyntax(int64_t value);

// Element `index` of a literal as it is written: "-1.5", "7", "inf", "true".
std::string NumberText(const Literal& literal, int64_t index);

}  // namespace tpuc::kernel_text
