// The attribute loop: name, table row, value by form (hlo-text.md sections 11 and 12). Which opcode
// takes what is hlo_ops.def; how a form reads is attribute_forms.cc.
#include <algorithm>

#include "grammar/hlo/reader.h"

namespace tpuc::hlo {
namespace {

// "a, b, c" of everything the opcode takes.
std::vector<std::string> AllowedNames(Op op) {
  std::vector<std::string> names;
  for (absl::Span<const AttrId> own : {InfoOf(op).required, InfoOf(op).optional}) {
    for (AttrId id : own) names.push_back(std::string(AttrName(id)));
  }
  for (const AttrInfo& row : AttrTable()) {
    if (IsCommonAttr(row.id)) names.push_back(std::string(row.name));
  }
  return names;
}

// Opcodes whose `dimensions` holds exactly one.
bool TakesOneDimension(Op op) {
  switch (op) {
    case Op::kConcatenate:
    case Op::kGetDimensionSize:
    case Op::kSetDimensionSize:
    case Op::kScan:
    case Op::kSort:
    case Op::kReduceScatter:
    case Op::kAllGather:
    case Op::kAllGatherStart:
    case Op::kAllToAll:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Reader::ReadAttributes(Scope* scope, Instruction* instruction, Instruction* wrapped) {
  while (Accept(',')) {
    const Token& token = lexer_.token();
    if (token.kind == Tok::kIdent && lexer_.PeekChar() == '=') {
      return Fail(DiagCode::kSyntax, token.loc,
                  absl::StrCat("expected an attribute NAME=VALUE, found ", Describe(token)),
                  "no space may stand before '='");
    }
    if (token.kind != Tok::kAttrName) return Expected("an attribute NAME=VALUE");
    absl::string_view name = token.text;
    Loc loc = token.loc;
    AttrId id;
    Instruction* owner = instruction;
    // In add-start(...), what `add` takes is its own; the rest is the async-start's.
    if (wrapped && AttrOf(wrapped->op, name, &id) && !IsCommonAttr(id)) {
      owner = wrapped;
    } else if (!AttrOf(instruction->op, name, &id) ||
               (wrapped && instruction->op == Op::kAsyncStart && id == AttrId::kCalls)) {
      Op op = wrapped ? wrapped->op : instruction->op;
      std::string near = Nearest(name, AllowedNames(op));
      return Fail(DiagCode::kUnknownAttribute, loc,
                  absl::StrCat(OpName(op), " takes no attribute '", name, "'"),
                  near.empty() ? "" : absl::StrCat("did you mean '", near, "'?"));
    }
    if (owner->Has(id) || (id == AttrId::kMetadata && instruction->metadata)) {
      return Fail(DiagCode::kDuplicateAttribute, loc,
                  absl::StrCat("attribute '", name, "' is given twice"));
    }
    lexer_.Next();
    // Values that refer to the instruction's name refer to the one that is defined.
    if (owner == wrapped) wrapped->name = instruction->name;
    if (!ReadAttribute(scope, owner, id)) return false;
  }
  for (Instruction* owner : {instruction, wrapped}) {
    if (!owner) continue;
    owner->attrs.erase(std::remove_if(owner->attrs.begin(), owner->attrs.end(),
                                      [&](const Attr& a) { return IsDefault(*owner, a); }),
                       owner->attrs.end());
  }
  return true;
}

bool Reader::ReadAttribute(Scope* scope, Instruction* instruction, AttrId id) {
  if (id == AttrId::kMetadata) return ReadMetadata(&instruction->metadata);
  Loc loc = lexer_.token().loc;
  AttrValue value;
  if (!ReadValue(scope, instruction, id, &value)) return false;
  if (id == AttrId::kDimensions && TakesOneDimension(instruction->op) &&
      std::get<Ints>(value).size() != 1) {
    return Fail(DiagCode::kBadAttribute, loc,
                absl::StrCat("dimensions of ", OpName(instruction->op),
                             " holds exactly one number, found ", std::get<Ints>(value).size()));
  }
  instruction->attrs.push_back({id, std::move(value)});
  return true;
}

bool Reader::CheckAttributes(const Instruction& instruction, Loc loc) {
  for (AttrId id : InfoOf(instruction.op).required) {
    if (instruction.Has(id)) continue;
    return Fail(DiagCode::kMissingAttribute, loc,
                absl::StrCat(OpName(instruction.op), " needs the attribute '", AttrName(id), "'"));
  }
  return true;
}

bool Reader::ReadValue(Scope* scope, Instruction* instruction, AttrId id, AttrValue* value) {
  std::string raw;
  auto text = [&](bool ok) {
    if (ok) *value = RawText{std::move(raw)};
    return ok;
  };
  // The name that an inline computation gets.
  auto made_name = [&] { return absl::StrCat(instruction->name, "_", AttrName(id)); };
  switch (InfoOf(id).form) {
    case AttrForm::kBool:
      return ReadBool(&value->emplace<bool>());
    case AttrForm::kInt:
      if (id == AttrId::kCrossProgramPrefetchIndex) {
        int32_t narrow = 0;
        bool ok = ReadInt32(&narrow);
        value->emplace<int64_t>(narrow);
        return ok;
      }
      return ReadInt(&value->emplace<int64_t>());
    case AttrForm::kFloat:
      return ReadFloat(&value->emplace<double>());
    case AttrForm::kWord:
      return ReadWord(id, &value->emplace<std::string>());
    case AttrForm::kString:
      return ReadString(&value->emplace<std::string>());
    case AttrForm::kStringOrJson:
      return ReadStringOrJson(&value->emplace<std::string>());
    case AttrForm::kInts:
      return ReadInts(&value->emplace<Ints>());
    case AttrForm::kIntLists:
      return ReadIntLists(&value->emplace<std::vector<Ints>>());
    case AttrForm::kIntsOrLists:
      if (instruction->op == Op::kGather) return ReadInts(&value->emplace<Ints>());
      return ReadIntLists(&value->emplace<std::vector<Ints>>());
    case AttrForm::kBools:
      return ReadBools(&value->emplace<Ints>());
    case AttrForm::kWords:
      return ReadWords(id, &value->emplace<std::vector<std::string>>());
    case AttrForm::kWindow:
      return ReadWindow(&value->emplace<Window>());
    case AttrForm::kDimLabels:
      return ReadDimLabels(&value->emplace<DimLabels>());
    case AttrForm::kPadConfig:
      return ReadPadConfig(&value->emplace<std::vector<PadDim>>());
    case AttrForm::kSlices:
      return ReadSlices(&value->emplace<std::vector<SliceDim>>());
    case AttrForm::kShape:
      return ReadShape(&value->emplace<std::vector<Shape>>().emplace_back());
    case AttrForm::kShapes:
      return ReadShapes(&value->emplace<std::vector<Shape>>());
    case AttrForm::kComputation:
      return ReadComputationRef(made_name(), &value->emplace<Computation*>());
    case AttrForm::kComputations:
      return ReadComputations(made_name(), &value->emplace<std::vector<Computation*>>());
    case AttrForm::kInstructions:
      return ReadPredecessors(scope, &value->emplace<std::vector<Instruction*>>());
    case AttrForm::kFrontendAttributes:
      return ReadFrontendAttributes(
          &value->emplace<std::vector<std::pair<std::string, std::string>>>());
    case AttrForm::kUntypedLiteral: {
      auto literal = std::make_shared<Literal>();
      bool ok = ReadUntypedLiteral(literal.get());
      *value = std::move(literal);
      return ok;
    }
    case AttrForm::kSharding:
      return text(ReadSharding(&raw));
    case AttrForm::kReplicaGroups:
      return text(ReadReplicaGroups(&raw));
    case AttrForm::kResultAccuracy:
      return text(ReadResultAccuracy(&raw));
    case AttrForm::kDomain:
      return text(ReadDomain(&raw));
    case AttrForm::kBraced:
      if (id == AttrId::kOutputToOperandAliasing) return text(ReadAliasing(&raw));
      return text(ReadBraced(&raw));
    case AttrForm::kRaw:
      return text(ReadRaw(&raw));
    case AttrForm::kMetadata:
      break;
  }
  return false;
}

// ---- metadata ----

bool Reader::ReadMetadata(std::unique_ptr<Metadata>* metadata) {
  if (!Expect('{', "before the metadata")) return false;
  auto made = std::make_unique<Metadata>();
  absl::InlinedVector<absl::string_view, 8> seen;
  while (true) {
    while (Accept(',')) continue;
    if (lexer_.IsPunct('}')) break;
    const Token& token = lexer_.token();
    if (token.kind != Tok::kAttrName) return Expected("a metadata field NAME=VALUE or '}'");
    absl::string_view field = token.text;
    if (std::find(seen.begin(), seen.end(), field) != seen.end()) {
      return Fail(DiagCode::kDuplicateAttribute, token.loc,
                  absl::StrCat("metadata field '", field, "' is given twice"));
    }
    seen.push_back(field);
    if (!ReadMetadataField(field, made.get())) return false;
  }
  lexer_.Next();
  if (!made->empty()) *metadata = std::move(made);
  return true;
}

bool Reader::ReadMetadataField(absl::string_view field, Metadata* metadata) {
  struct Text {
    absl::string_view name;
    SharedText Metadata::*member;
  };
  struct Number {
    absl::string_view name;
    int32_t Metadata::*member;
  };
  static constexpr Text kTexts[] = {{"op_name", &Metadata::op_name},
                                    {"op_type", &Metadata::op_type},
                                    {"source_file", &Metadata::source_file}};
  static constexpr Number kNumbers[] = {{"source_line", &Metadata::source_line},
                                        {"stack_frame_id", &Metadata::stack_frame_id},
                                        {"source_end_line", &Metadata::source_end_line},
                                        {"source_column", &Metadata::source_column},
                                        {"source_end_column", &Metadata::source_end_column}};
  for (const Text& text : kTexts) {
    if (text.name != field) continue;
    lexer_.Next();
    return ReadSharedText(&(metadata->*text.member));
  }
  for (const Number& number : kNumbers) {
    if (number.name != field) continue;
    lexer_.Next();
    return ReadInt32(&(metadata->*number.member));
  }
  Loc loc = lexer_.token().loc;
  std::string text;
  if (field == "deduplicated_name" || field == "scheduling_name" || field == "metadata_payload") {
    lexer_.Next();
    if (!ReadString(&text)) return false;
    text = Quoted(text);
  } else if (field == "profile_type") {
    lexer_.Next();
    Ints types;
    if (!ReadInts(&types)) return false;
    for (size_t i = 0; i < types.size(); ++i) absl::StrAppend(&text, i ? "," : "", types[i]);
    text = absl::StrCat("{", text, "}");
  } else if (field == "preserve_layout") {
    lexer_.Next();  // written until 2024; means nothing here
    bool ignored;
    return ReadBool(&ignored);
  } else {
    return Fail(DiagCode::kUnknownAttribute, loc,
                absl::StrCat("metadata has no field '", field, "'"));
  }
  metadata->other = SharedText(
      absl::StrCat(metadata->other.view(), metadata->other.empty() ? "" : " ", field, "=", text));
  return true;
}

bool Reader::ReadSharedText(SharedText* text) {
  const bool plain = lexer_.token().kind == Tok::kString && !lexer_.token().escaped;
  absl::string_view written = lexer_.token().text;
  std::string unescaped;
  if (plain) {
    lexer_.Next();
  } else {
    if (!ReadString(&unescaped)) return false;
    written = unescaped;
  }
  auto at = texts_.find(written);
  if (at == texts_.end()) {
    SharedText made(written);
    at = texts_.try_emplace(made.view(), made).first;
  }
  *text = at->second;
  return true;
}

}  // namespace tpuc::hlo
