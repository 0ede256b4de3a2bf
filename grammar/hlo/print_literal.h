// Constants as text (print_literal.cc), without and with their shape.
#pragma once

#include <string>

#include "src/ir/literal.h"

namespace tpuc::hlo {

// "{ { 1, 2 }, { 3, 4 } }"; "{...}" where elided.
void AppendLiteral(const Literal& literal, std::string* out);
// "s32[2]{0} {1, 2}": the form of custom-call's literal=.
void AppendUntypedLiteral(const Literal& literal, std::string* out);

}  // namespace tpuc::hlo
