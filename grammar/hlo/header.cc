// The module header and the stack frame tables (hlo-text.md sections 4 and 5).
//
//   HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}
#include <algorithm>

#include "absl/strings/str_join.h"
#include "grammar/hlo/printer.h"
#include "grammar/hlo/reader.h"

namespace tpuc::hlo {
namespace {

constexpr absl::string_view kHeaderAttributes[] = {"is_scheduled",
                                                   "entry_computation_layout",
                                                   "input_output_alias",
                                                   "buffer_donor",
                                                   "alias_passthrough_params",
                                                   "replica_count",
                                                   "num_partitions",
                                                   "allow_spmd_sharding_propagation_to_parameters",
                                                   "allow_spmd_sharding_propagation_to_output",
                                                   "frontend_attributes",
                                                   "origin_recovery_table",
                                                   "debug_attributes"};

// Where XLA prints those that Module keeps as text; smaller is earlier.
size_t PrintingOrder(absl::string_view name) {
  constexpr absl::string_view kOrder[] = {"alias_passthrough_params",
                                          "allow_spmd_sharding_propagation_to_parameters",
                                          "allow_spmd_sharding_propagation_to_output",
                                          "replica_count",
                                          "num_partitions",
                                          "frontend_attributes",
                                          "origin_recovery_table",
                                          "debug_attributes"};
  return std::find(std::begin(kOrder), std::end(kOrder), name) - kOrder;
}

}  // namespace

bool Reader::ReadHeader() {
  lexer_.Next();
  const Token& token = lexer_.token();
  if (token.kind != Tok::kName && token.kind != Tok::kIdent) return Expected("the module's name");
  module_->name = std::string(token.text);
  lexer_.Next();
  std::vector<absl::string_view> seen;
  while (Accept(',')) {
    const Token attribute = lexer_.token();
    if (attribute.kind != Tok::kAttrName) return Expected("a module attribute NAME=VALUE");
    if (std::find(seen.begin(), seen.end(), attribute.text) != seen.end()) {
      return Fail(DiagCode::kDuplicateAttribute, attribute.loc,
                  absl::StrCat("module attribute '", attribute.text, "' is given twice"));
    }
    seen.push_back(attribute.text);
    lexer_.Next();
    if (!ReadHeaderAttribute(attribute.text, attribute.loc)) return false;
  }
  std::stable_sort(
      module_->other_attributes.begin(), module_->other_attributes.end(),
      [](const auto& a, const auto& b) { return PrintingOrder(a.first) < PrintingOrder(b.first); });
  return true;
}

bool Reader::ReadHeaderAttribute(absl::string_view name, Loc loc) {
  auto keep = [&](std::string text) {
    module_->other_attributes.push_back({std::string(name), std::move(text)});
    return true;
  };
  if (name == "is_scheduled") return ReadBool(&module_->is_scheduled);
  if (name == "entry_computation_layout") return ReadEntryLayout();
  if (name == "input_output_alias") return ReadAliases();
  if (name == "buffer_donor") return ReadDonors();
  if (name == "alias_passthrough_params") {
    bool value = false;
    return ReadBool(&value) && (!value || keep("true"));
  }
  if (name == "replica_count" || name == "num_partitions") {
    int64_t value = 0;
    return ReadInt(&value) && (value == 1 || keep(absl::StrCat(value)));
  }
  if (name == "allow_spmd_sharding_propagation_to_parameters" ||
      name == "allow_spmd_sharding_propagation_to_output") {
    Ints values;
    if (lexer_.IsPunct('{')) {
      if (!ReadBools(&values)) return false;
    } else {
      bool value = false;
      if (!ReadBool(&value)) return false;
      values.push_back(value);
    }
    std::string text;
    for (int64_t value : values)
      absl::StrAppend(&text, text.empty() ? "" : ",", value ? "true" : "false");
    return text == "false" || keep(absl::StrCat("{", text, "}"));
  }
  if (name == "frontend_attributes") {
    std::vector<std::pair<std::string, std::string>> attributes;
    return ReadFrontendAttributes(&attributes) &&
           (attributes.empty() || keep(FrontendAttributesText(attributes)));
  }
  if (name == "origin_recovery_table" || name == "debug_attributes") {
    std::string text;
    return ReadBraced(&text) && keep(std::move(text));
  }
  std::vector<std::string> known(std::begin(kHeaderAttributes), std::end(kHeaderAttributes));
  std::string near = Nearest(name, known);
  return Fail(DiagCode::kUnknownAttribute, loc,
              absl::StrCat("a module has no attribute '", name, "'"),
              near.empty() ? "" : absl::StrCat("did you mean '", near, "'?"));
}

bool Reader::ReadEntryLayout() {
  auto layout = std::make_unique<Module::ProgramShape>();
  if (!Expect('{', "before the entry layout")) return false;
  if (!Expect('(', "before the parameters' shapes")) return false;
  while (!lexer_.IsPunct(')')) {
    if (!layout->parameters.empty() && !Expect(',', "or ')' between the shapes")) return false;
    if (!ReadShape(&layout->parameters.emplace_back())) return false;
  }
  lexer_.Next();
  if (lexer_.token().kind != Tok::kArrow) return Expected("'->' and the result shape");
  lexer_.Next();
  if (!ReadShape(&layout->result)) return false;
  module_->entry_layout = std::move(layout);
  return Expect('}', "after the entry layout");
}

// { {0}: (0, {}, may-alias), {1}: (1, {0}, must-alias) }
bool Reader::ReadAliases() {
  if (!Expect('{', "before the aliases")) return false;
  absl::flat_hash_set<Ints> outputs;
  while (!lexer_.IsPunct('}')) {
    Loc loc = lexer_.token().loc;
    AliasEntry entry;
    if (!ReadShapeIndex(&entry.output_index) || !Expect(':', "after the output index") ||
        !Expect('(', "before the parameter number") ||
        !ReadInt(&entry.parameter, "a parameter number") ||
        !Expect(',', "after the parameter number") || !ReadShapeIndex(&entry.parameter_index)) {
      return false;
    }
    if (Accept(',')) {
      absl::string_view kind = lexer_.token().text;
      if (lexer_.token().kind != Tok::kIdent || (kind != "may-alias" && kind != "must-alias")) {
        return Expected("may-alias or must-alias");
      }
      entry.must_alias = kind == "must-alias";
      lexer_.Next();
    }
    if (!Expect(')', "after the alias")) return false;
    if (!outputs.insert(entry.output_index).second) {
      return Fail(
          DiagCode::kDuplicateAttribute, loc,
          absl::StrCat("output {", absl::StrJoin(entry.output_index, ","), "} is aliased twice"));
    }
    module_->aliases.push_back(std::move(entry));
    if (!Accept(',')) break;
  }
  return Expect('}', "after the aliases");
}

bool Reader::ReadDonors() {
  if (!Expect('{', "before the buffer donors")) return false;
  while (!lexer_.IsPunct('}')) {
    DonorEntry entry;
    if (!Expect('(', "before the parameter number") ||
        !ReadInt(&entry.parameter, "a parameter number") ||
        !Expect(',', "after the parameter number") || !ReadShapeIndex(&entry.parameter_index) ||
        !Expect(')', "after the buffer donor")) {
      return false;
    }
    module_->donors.push_back(std::move(entry));
    if (!Accept(',')) break;
  }
  return Expect('}', "after the buffer donors");
}

// ---- stack frames ----

bool Reader::ReadNameTable(Keyword section, absl::string_view title,
                           std::vector<std::string>* rows) {
  if (lexer_.token().keyword != section) return Expected(absl::StrCat("the section ", title));
  lexer_.Next();
  while (lexer_.token().kind == Tok::kInt) {
    lexer_.Next();
    if (!ReadString(&rows->emplace_back())) return false;
  }
  return true;
}

// {a=1 b=2}: all of `names`, in any order, commas optional.
bool Reader::ReadFields(absl::Span<const absl::string_view> names,
                        absl::Span<int32_t* const> fields) {
  Loc loc = lexer_.token().loc;
  if (!Expect('{', "before the fields of the row")) return false;
  std::vector<bool> given(names.size());
  while (lexer_.token().kind == Tok::kAttrName) {
    const Token token = lexer_.token();
    size_t at = std::find(names.begin(), names.end(), token.text) - names.begin();
    if (at == names.size()) {
      return Fail(DiagCode::kUnknownAttribute, token.loc,
                  absl::StrCat("a row of the stack frame tables has no field '", token.text, "'"));
    }
    given[at] = true;
    lexer_.Next();
    if (!ReadInt32(fields[at])) return false;
    Accept(',');
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (given[i]) continue;
    return Fail(DiagCode::kMissingAttribute, loc,
                absl::StrCat("a row of the stack frame tables needs the field '", names[i], "'"));
  }
  return Expect('}', "after the fields of the row");
}

bool Reader::ReadFrameTables() {
  FrameTables& tables = module_->frames;
  tables.present = true;
  if (!ReadNameTable(Keyword::kFileNames, "FileNames", &tables.file_names) ||
      !ReadNameTable(Keyword::kFunctionNames, "FunctionNames", &tables.function_names)) {
    return false;
  }
  if (lexer_.token().keyword != Keyword::kFileLocations) {
    return Expected("the section FileLocations");
  }
  lexer_.Next();
  while (lexer_.token().kind == Tok::kInt) {
    lexer_.Next();
    FrameTables::Location& row = tables.locations.emplace_back();
    constexpr absl::string_view kNames[] = {"file_name_id", "function_name_id", "line",
                                            "end_line",     "column",           "end_column"};
    int32_t* const fields[] = {&row.file_name_id, &row.function_name_id, &row.line,
                               &row.end_line,     &row.column,           &row.end_column};
    if (!ReadFields(kNames, fields)) return false;
  }
  if (lexer_.token().keyword != Keyword::kStackFrames) return Expected("the section StackFrames");
  lexer_.Next();
  while (lexer_.token().kind == Tok::kInt) {
    lexer_.Next();
    FrameTables::Frame& row = tables.frames.emplace_back();
    constexpr absl::string_view kNames[] = {"file_location_id", "parent_frame_id"};
    int32_t* const fields[] = {&row.file_location_id, &row.parent_frame_id};
    if (!ReadFields(kNames, fields)) return false;
  }
  return true;
}

}  // namespace tpuc::hlo
