// Writes HLO text in XLA's canonical form (hlo-text.md section 19): '%' names, no operand shapes,
// attributes in XLA's order, those at their defaults left out. Unlike XLA's, constants are printed
// in full, so that parse(print(m)) is m; print(parse(print(m))) is the same bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/ir/hlo.h"

namespace tpuc {

std::string PrintHlo(const Module& module);
// "%a = f32[8]{0} add(%x, %y), metadata={...}": no indent, no ROOT, no newline.
std::string PrintInstruction(const Instruction& instruction);
// The text between the parentheses of constant(...): "{ { 1, 2 }, { 3, 4 } }".
std::string PrintLiteral(const Literal& literal);

namespace hlo {
// {key="value",dict={...}}
std::string FrontendAttributesText(
    const std::vector<std::pair<std::string, std::string>>& attributes);
// An instruction in the short async form (add-start, add-update, add-done): the opcode it wraps;
// "" for all others. A start whose computation has become more than one operation is no such.
absl::string_view AsyncShortForm(const Instruction& instruction);
// Attribute parts of the printer (print_attributes.cc): ", name=value" for each, in XLA's order.
void AppendAttributes(const Instruction& instruction, std::string* out);
}  // namespace hlo

}  // namespace tpuc
