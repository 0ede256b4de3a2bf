// Modules, computations and instructions as text (printer.h).
#include "grammar/hlo/printer.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grammar/hlo/lexer.h"
#include "grammar/hlo/print_literal.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace hlo {
namespace {

void AppendName(absl::string_view name, std::string* out) {
  *out += '%';
  out->append(name.data(), name.size());
}

std::string IndexText(const Ints& index) {
  return absl::StrCat("{", absl::StrJoin(index, ","), "}");
}

// The computation is one operation on its parameters in order, and carries nothing that the short
// form has no place for.
bool IsPlainWrapper(const Computation& computation, absl::string_view opcode) {
  const Instruction* root = computation.root;
  if (OpName(root->op) != opcode || root->metadata ||
      root->operands.size() + 1 != computation.instructions.size()) {
    return false;
  }
  for (const Attr& attr : root->attrs) {
    if (IsCommonAttr(attr.id)) return false;
  }
  for (size_t i = 0; i < root->operands.size(); ++i) {
    const Instruction* operand = root->operands[i];
    if (operand->op != Op::kParameter || operand->parameter_number != static_cast<int64_t>(i) ||
        !operand->attrs.empty() || operand->metadata) {
      return false;
    }
  }
  return true;
}

void AppendOpcode(const Instruction& instruction, std::string* out) {
  absl::string_view wrapped = AsyncShortForm(instruction);
  absl::string_view name = OpName(instruction.op);
  if (!wrapped.empty())
    absl::StrAppend(out, wrapped, name.substr(5));  // "async-start"
  else
    out->append(name.data(), name.size());
}

void AppendInstruction(const Instruction& instruction, std::string* out) {
  AppendName(instruction.name, out);
  *out += " = ";
  AppendTo(instruction.shape, true, out);
  *out += ' ';
  AppendOpcode(instruction, out);
  *out += '(';
  if (instruction.op == Op::kParameter) {
    absl::StrAppend(out, instruction.parameter_number);
  } else if (instruction.op == Op::kConstant) {
    if (instruction.literal) AppendLiteral(*instruction.literal, out);
  } else {
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (i) *out += ", ";
      if (i && i % 5 == 0) absl::StrAppend(out, "/*index=", i, "*/");
      AppendName(instruction.operands[i]->name, out);
    }
  }
  *out += ')';
  AppendAttributes(instruction, out);
}

void AppendComputation(const Computation& computation, bool is_entry, std::string* out) {
  if (is_entry) *out += "ENTRY ";
  AppendName(computation.name, out);
  *out += " (";
  bool first = true;
  for (const Instruction* parameter : computation.Parameters()) {
    if (!first) *out += ", ";
    first = false;
    absl::StrAppend(out, parameter->name, ": ");
    AppendTo(parameter->shape, false, out);
  }
  *out += ") -> ";
  AppendTo(computation.root->shape, false, out);
  *out += " {\n";
  // Names of operands lie all over the memory of a large program: they are asked for in time.
  constexpr size_t kAhead = 8;
  const auto& list = computation.instructions;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i + kAhead < list.size()) {
      for (const Instruction* operand : list[i + kAhead]->operands) __builtin_prefetch(operand);
    }
    *out += list[i].get() == computation.root ? "  ROOT " : "  ";
    AppendInstruction(*list[i], out);
    *out += '\n';
  }
  *out += '}';
  if (!computation.execution_thread.empty()) {
    absl::StrAppend(out, ", execution_thread=", Quoted(computation.execution_thread));
  }
  *out += '\n';
}

void AppendHeader(const Module& module, std::string* out) {
  absl::StrAppend(out, "HloModule ", IsReservedWord(module.name) ? "%" : "", module.name);
  if (module.is_scheduled) *out += ", is_scheduled=true";
  if (!module.aliases.empty()) {
    *out += ", input_output_alias={ ";
    for (size_t i = 0; i < module.aliases.size(); ++i) {
      const AliasEntry& a = module.aliases[i];
      absl::StrAppend(out, i ? ", " : "", IndexText(a.output_index), ": (", a.parameter, ", ",
                      IndexText(a.parameter_index), ", ", a.must_alias ? "must-alias" : "may-alias",
                      ")");
    }
    *out += " }";
  }
  if (!module.donors.empty()) {
    *out += ", buffer_donor={ ";
    for (size_t i = 0; i < module.donors.size(); ++i) {
      absl::StrAppend(out, i ? ", (" : "(", module.donors[i].parameter, ", ",
                      IndexText(module.donors[i].parameter_index), ")");
    }
    *out += " }";
  }
  bool layout_done = !module.entry_layout;
  auto layout = [&] {
    *out += ", entry_computation_layout={(";
    for (size_t i = 0; i < module.entry_layout->parameters.size(); ++i) {
      if (i) *out += ", ";
      if (i && i % 5 == 0) absl::StrAppend(out, "/*index=", i, "*/");
      AppendTo(module.entry_layout->parameters[i], true, out);
    }
    *out += ")->";
    AppendTo(module.entry_layout->result, true, out);
    *out += '}';
    layout_done = true;
  };
  for (const auto& [name, text] : module.other_attributes) {
    if (!layout_done && name != "alias_passthrough_params") layout();
    absl::StrAppend(out, ", ", name, "=", text);
  }
  if (!layout_done) layout();
  *out += '\n';
}

void AppendFrames(const FrameTables& tables, std::string* out) {
  auto names = [&](absl::string_view title, const std::vector<std::string>& rows) {
    absl::StrAppend(out, title, "\n");
    for (size_t i = 0; i < rows.size(); ++i)
      absl::StrAppend(out, i + 1, " ", Quoted(rows[i]), "\n");
    *out += '\n';
  };
  *out += '\n';
  names("FileNames", tables.file_names);
  names("FunctionNames", tables.function_names);
  *out += "FileLocations\n";
  int64_t number = 0;
  for (const FrameTables::Location& row : tables.locations) {
    absl::StrAppend(out, ++number, " {file_name_id=", row.file_name_id,
                    " function_name_id=", row.function_name_id, " line=", row.line);
    absl::StrAppend(out, " end_line=", row.end_line, " column=", row.column,
                    " end_column=", row.end_column, "}\n");
  }
  *out += "\nStackFrames\n";
  number = 0;
  for (const FrameTables::Frame& row : tables.frames) {
    absl::StrAppend(out, ++number, " {file_location_id=", row.file_location_id,
                    " parent_frame_id=", row.parent_frame_id, "}\n");
  }
}

// Computations that short async forms make anew when they are read.
absl::flat_hash_set<const Computation*> HiddenComputations(const Module& module) {
  absl::flat_hash_set<const Computation*> hidden, shown;
  for (const auto& computation : module.computations) {
    for (const auto& instruction : computation->instructions) {
      if (instruction->op == Op::kAsyncStart && !AsyncShortForm(*instruction).empty()) {
        hidden.insert(instruction->ComputationAttr(AttrId::kCalls));
        continue;
      }
      bool calls = false;
      for (const Attr& attr : instruction->attrs) {
        calls |= InfoOf(attr.id).form == AttrForm::kComputation ||
                 InfoOf(attr.id).form == AttrForm::kComputations;
      }
      if (!calls) continue;
      for (const Computation* callee : instruction->CalledComputations()) shown.insert(callee);
    }
  }
  for (const Computation* computation : shown) hidden.erase(computation);
  hidden.erase(module.entry);
  return hidden;
}

}  // namespace

absl::string_view AsyncShortForm(const Instruction& instruction) {
  if (instruction.op != Op::kAsyncStart && instruction.op != Op::kAsyncUpdate &&
      instruction.op != Op::kAsyncDone) {
    return "";
  }
  const Instruction* start = &instruction;
  while (start->op != Op::kAsyncStart && !start->operands.empty() &&
         (start == &instruction || start->op == Op::kAsyncUpdate)) {
    start = start->operands[0];
  }
  if (start->op != Op::kAsyncStart) start = nullptr;
  absl::string_view opcode = (start ? start : &instruction)->StringAttr(AttrId::kAsyncOpcode);
  if (opcode.empty()) return "";
  if (start) {
    const Computation* body = start->ComputationAttr(AttrId::kCalls);
    if (!body || !IsPlainWrapper(*body, opcode)) return "";
  }
  return opcode;
}

}  // namespace hlo

std::string PrintInstruction(const Instruction& instruction) {
  std::string out;
  hlo::AppendInstruction(instruction, &out);
  return out;
}

std::string PrintLiteral(const Literal& literal) {
  std::string out;
  hlo::AppendLiteral(literal, &out);
  return out;
}

std::string PrintHlo(const Module& module) {
  std::string out;
  size_t count = 0;
  for (const auto& computation : module.computations) count += computation->instructions.size();
  const size_t read = module.source ? module.source->text.size() : 0;
  out.reserve(std::max(count * 120, read + read / 8) + 256);
  hlo::AppendHeader(module, &out);
  if (module.frames.present) hlo::AppendFrames(module.frames, &out);
  auto hidden = hlo::HiddenComputations(module);
  for (const auto& computation : module.computations) {
    if (hidden.contains(computation.get())) continue;
    out += '\n';
    hlo::AppendComputation(*computation, computation.get() == module.entry, &out);
  }
  return out;
}

}  // namespace tpuc
