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

struct BodyText {
  std::vector<Statement> setup, body;
};
BodyText BodySyntax(const kernel::Kernel& kernel);

Expr IntegerSyntax(int64_t value);

// Element `index` of a literal as it is written: "-1.5", "7", "inf", "true".
std::string NumberText(const Literal& literal, int64_t index);

}  // namespace tpuc::kernel_text
