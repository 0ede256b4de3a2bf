// Instructions and operands (hlo-text.md section 7).
//
//   ROOT %a = f32[8]{0} add(%x, negate(%y)), metadata={...}
//
// Nested instructions become instructions of their own before the one that holds them; p#1#0
// becomes get-tuple-element instructions, one for each distinct path.
#include <algorithm>

#include "grammar/hlo/reader.h"
#include "src/ir/shape_inference.h"

namespace tpuc::hlo {

bool Reader::ReadInstruction(Scope* scope) {
  bool is_root = lexer_.token().keyword == Keyword::kRoot;
  Loc root_loc = lexer_.token().loc;
  if (is_root) lexer_.Next();
  const Token& token = lexer_.token();
  if (token.kind != Tok::kName && token.kind != Tok::kIdent) {
    if (token.kind == Tok::kAttrName) {
      return Fail(
          DiagCode::kSyntax, token.loc,
          absl::StrCat("expected an instruction name, found the attribute '", token.text, "='"),
          absl::StrCat("put a space before '=', or write %", token.text, "="));
    }
    if (token.kind == Tok::kKeyword || token.kind == Tok::kType) {
      return Fail(DiagCode::kSyntax, token.loc,
                  absl::StrCat("'", token.text, "' is a reserved word and no name"),
                  token.kind == Tok::kKeyword ? absl::StrCat("write %", token.text) : "");
    }
    return Expected("an instruction name");
  }
  absl::string_view name = token.text;
  Loc loc = token.loc;
  lexer_.Next();
  Instruction* made = nullptr;
  if (scope->implicit_parameters && lexer_.IsPunct('(')) {
    return Fail(
        DiagCode::kSyntax, lexer_.token().loc,
        "expected '=' after the name of a single instruction, found '('",
        "a text that begins with a computation's signature needs 'HloModule NAME' before it");
  }
  if (Expect('=', "after the instruction name")) {
    made = ReadRhs(scope, std::string(name), loc, false);
  }
  if (!made) {
    scope->names.Add(name, nullptr);
    return false;
  }
  if (!is_root) return true;
  if (scope->root) {
    Fail(DiagCode::kRootOrEntry, root_loc, "second ROOT in a computation");
    return Note(scope->root_loc, "the first is here");
  }
  scope->root = made;
  scope->root_loc = root_loc;
  return true;
}

Instruction* Reader::ReadRhs(Scope* scope, std::string name, Loc loc, bool nested) {
  Shape shape;
  bool has_shape = AtShape();
  if (has_shape && !ReadShape(&shape)) return nullptr;
  return ReadRest(scope, std::move(name), loc, nested, std::move(shape), has_shape);
}

bool Reader::ReadOpcode(Op* op, absl::string_view* wrapped) {
  const Token& token = lexer_.token();
  if (token.kind != Tok::kIdent) return Expected("an opcode");
  if (!OpFromName(token.text, op) && !AsyncSugar(token.text, op, wrapped)) {
    // A word before '[' was meant to be a shape.
    if (lexer_.PeekChar() == '[') {
      Shape ignored;
      return ReadShape(&ignored);
    }
    std::vector<std::string> known;
    for (const OpInfo& row : OpTable()) known.push_back(std::string(row.name));
    std::string near = Nearest(token.text, known);
    // Names that other systems use for the same thing.
    static constexpr std::pair<absl::string_view, absl::string_view> kOther[] = {
        {"exp", "exponential"},
        {"log1p", "log-plus-one"},
        {"expm1", "exponential-minus-one"},
        {"sin", "sine"},
        {"cos", "cosine"},
        {"sigmoid", "logistic"},
        {"max", "maximum"},
        {"min", "minimum"},
        {"neg", "negate"},
        {"pow", "power"},
        {"rem", "remainder"},
        {"mul", "multiply"},
        {"sub", "subtract"},
        {"div", "divide"},
        {"matmul", "dot"},
        {"optimization-barrier", "opt-barrier"}};
    for (const auto& [other, ours] : kOther) {
      if (token.text == other) near = std::string(ours);
    }
    return Fail(DiagCode::kUnknownOpcode, token.loc,
                absl::StrCat("unknown opcode ", Describe(token)),
                near.empty() ? "" : absl::StrCat("did you mean '", near, "'?"));
  }
  lexer_.Next();
  return true;
}

// From the opcode on. A nested instruction has no name yet: its operands are named before it.
Instruction* Reader::ReadRest(Scope* scope, std::string name, Loc loc, bool nested, Shape shape,
                              bool has_shape) {
  Op op;
  absl::string_view wrapped_name;
  if (!ReadOpcode(&op, &wrapped_name)) return nullptr;
  if (!CheckNameIsLegal(name, loc)) return nullptr;
  auto instruction = std::make_unique<Instruction>();
  instruction->name = std::move(name);
  instruction->op = op;
  instruction->shape = std::move(shape);
  instruction->loc = loc;
  instruction->parent = scope->computation;
  if (!has_shape && InfoOf(op).shape == ShapeRule::kWritten) {
    Fail(DiagCode::kShapeNotWritten, loc,
         absl::StrCat("the shape of ", OpName(op), " must be written"),
         absl::StrCat("write NAME = SHAPE ", OpName(op), "(...)"));
    return nullptr;
  }
  std::unique_ptr<Instruction> wrapped;
  if (!wrapped_name.empty()) {
    wrapped = std::make_unique<Instruction>();
    OpFromName(wrapped_name, &wrapped->op);
    instruction->Set(AttrId::kAsyncOpcode, std::string(wrapped_name));
  }
  if (!Expect('(', "before the operands")) return nullptr;
  bool ok;
  if (op == Op::kParameter) {
    ok = ReadParameterNumber(instruction.get());
  } else if (op == Op::kConstant) {
    instruction->literal = std::make_unique<Literal>();
    ok = ReadLiteral(instruction->shape, instruction->literal.get());
  } else {
    ok = ReadOperands(scope, instruction.get());
  }
  if (!ok || !Expect(')', "after the operands")) return nullptr;
  if (nested) instruction->name = FreeName(scope, absl::StrCat(OpName(op), ".anon"));
  if (!nested && !ReadAttributes(scope, instruction.get(), wrapped.get())) return nullptr;
  if (!CheckOperandCount(*instruction)) return nullptr;
  if (!CheckAttributes(wrapped && op == Op::kAsyncStart ? *wrapped : *instruction, loc)) {
    return nullptr;
  }
  if (!has_shape) {
    std::string error;
    if (!InferShape(*instruction, &instruction->shape, &error)) {
      Fail(DiagCode::kShapeNotWritten, loc,
           absl::StrCat("the shape is not written and cannot be inferred: ", error));
      return nullptr;
    }
  }
  Op wrapped_op = wrapped ? wrapped->op : op;
  if (InfoOf(op).op_class == OpClass::kAsync &&
      !CheckAsync(instruction.get(), wrapped.get(), wrapped_op)) {
    return nullptr;
  }
  if (!CheckInstruction(instruction.get())) return nullptr;
  Instruction* made = nullptr;
  return Define(scope, std::move(instruction), &made) ? made : nullptr;
}

bool Reader::Define(Scope* scope, std::unique_ptr<Instruction> instruction, Instruction** made) {
  *made = instruction.get();
  scope->parameters += instruction->op == Op::kParameter;
  if (Instruction* const* before = scope->names.Add((*made)->name, *made)) {
    Fail(DiagCode::kDuplicateName, instruction->loc,
         absl::StrCat("instruction '", instruction->name, "' is already defined"));
    if (*before) Note((*before)->loc, "it was defined here");
    return false;
  }
  scope->computation->instructions.push_back(std::move(instruction));
  return true;
}

bool Reader::CheckNameIsLegal(absl::string_view name, Loc loc) {
  bool hidden = absl::string_view(name).substr(0, 2) == "__" && name.substr(0, 6) != "__xla_";
  if (!hidden && !(name.size() <= 14 && TypeFromName(name))) return true;
  return Fail(
      DiagCode::kBadName, loc,
      absl::StrCat("'", name, "' cannot name an instruction",
                   hidden ? ": names that begin with __ are reserved" : ": it is an element type"),
      absl::StrCat("call it ", hidden ? name.substr(2) : name, "_"));
}

bool Reader::ReadParameterNumber(Instruction* instruction) {
  const Token& token = lexer_.token();
  if (token.kind != Tok::kInt) return Expected("the parameter's number");
  if (token.integer < 0) {
    return Fail(DiagCode::kBadParameter, token.loc, "parameter numbers run from 0");
  }
  instruction->parameter_number = token.integer;
  lexer_.Next();
  return true;
}

bool Reader::ReadOperands(Scope* scope, Instruction* instruction) {
  if (lexer_.IsPunct(')')) return true;
  do {
    Instruction* operand = nullptr;
    if (!ReadOperand(scope, &operand)) return false;
    instruction->operands.push_back(operand);
  } while (Accept(','));
  return true;
}

bool Reader::UndefinedName(const Scope& scope, absl::string_view name, Loc loc) {
  // Poisoned names are known, too; they are not worth proposing.
  std::vector<std::string> known;
  const auto& list = scope.computation->instructions;
  for (size_t i = list.size() > 2000 ? list.size() - 2000 : 0; i < list.size(); ++i) {
    known.push_back(list[i]->name);
  }
  std::string near = Nearest(name, known);
  // A definition further down?
  absl::string_view rest = lexer_.Rest();
  size_t end = rest.find("\n}");
  rest =
      rest.substr(0, std::min<size_t>(end == absl::string_view::npos ? rest.size() : end, 1 << 20));
  bool later = rest.find(absl::StrCat("\n  ", name, " =")) != absl::string_view::npos ||
               rest.find(absl::StrCat("%", name, " =")) != absl::string_view::npos;
  std::string hint;
  if (later) {
    hint = "it is defined further down; an instruction must stand before its uses";
  } else if (!near.empty()) {
    hint = absl::StrCat("did you mean '", near, "'?");
  }
  return Fail(DiagCode::kUndefinedName, loc,
              absl::StrCat("instruction '", name, "' is not defined in this computation"),
              std::move(hint));
}

bool Reader::ReadOperand(Scope* scope, Instruction** operand) {
  Shape shape;
  bool has_shape = AtShape();
  Loc shape_loc = lexer_.token().loc;
  if (has_shape && !ReadShape(&shape)) return false;
  const Token& token = lexer_.token();
  Loc loc = token.loc;
  if (token.kind != Tok::kName && token.kind != Tok::kIdent) {
    bool ends = lexer_.IsPunct(',') || lexer_.IsPunct(')');
    if (!has_shape || !ends || !scope->implicit_parameters) return Expected("an operand");
    // add(f32[2], f32[2]): parameters without names.
    auto made = std::make_unique<Instruction>();
    made->name = FreeName(scope, "p");
    made->op = Op::kParameter;
    made->shape = std::move(shape);
    made->parameter_number = scope->parameters;
    made->parent = scope->computation;
    made->loc = shape_loc;
    return Define(scope, std::move(made), operand);
  }
  absl::string_view name = token.text;
  if (Instruction* const* found = scope->names.Find(name)) {
    lexer_.Next();
    if (!*found) return false;  // reported where it was defined
    *operand = *found;
    if (lexer_.IsPunct('#') && !ReadTuplePath(scope, operand)) return false;
    return !has_shape || CheckOperandShape(**operand, shape, loc);
  }
  Op op;
  absl::string_view wrapped;
  if (token.kind == Tok::kIdent && lexer_.PeekChar() == '(' &&
      (has_shape || OpFromName(name, &op) || AsyncSugar(name, &op, &wrapped))) {
    return Deeper([&] {
      *operand = ReadRest(scope, "", loc, true, std::move(shape), has_shape);
      return *operand != nullptr;
    });
  }
  if (scope->implicit_parameters && has_shape) {
    lexer_.Next();
    auto made = std::make_unique<Instruction>();
    made->name = std::string(name);
    made->op = Op::kParameter;
    made->shape = std::move(shape);
    made->parameter_number = scope->parameters;
    made->parent = scope->computation;
    made->loc = loc;
    return Define(scope, std::move(made), operand);
  }
  if (scope->implicit_parameters) {
    return Fail(DiagCode::kUndefinedName, loc,
                absl::StrCat("operand '", name, "' of a single instruction needs its shape"),
                absl::StrCat("write f32[...] ", name));
  }
  return UndefinedName(*scope, name, loc);
}

bool Reader::CheckOperandShape(const Instruction& operand, const Shape& declared, Loc loc) {
  if (Compatible(operand.shape, declared)) return true;
  Fail(DiagCode::kOperandShape, loc,
       absl::StrCat("operand '", operand.name, "' is written as ", ToString(declared, false),
                    ", but it is ", ToString(operand.shape, false)));
  return Note(operand.loc, "it is defined here");
}

std::string Reader::FreeName(Scope* scope, absl::string_view base) {
  if (!scope->names.Contains(base)) return std::string(base);
  int64_t& next = scope->next_name[std::string(base)];
  while (true) {
    std::string name = absl::StrCat(base, ".", ++next);
    if (!scope->names.Contains(name)) return name;
  }
}

// p#1#0, from the first '#' on.
bool Reader::ReadTuplePath(Scope* scope, Instruction** operand) {
  while (Accept('#')) {
    const Token& token = lexer_.token();
    if (token.kind != Tok::kInt) return Expected("the number of a tuple element after '#'");
    int64_t index = token.integer;
    Instruction* tuple = *operand;
    if (!tuple->shape.IsTuple() || index < 0 ||
        index >= static_cast<int64_t>(tuple->shape.elements.size())) {
      return Fail(DiagCode::kOperandShape, token.loc,
                  absl::StrCat("'", tuple->name, "' is ", ToString(tuple->shape, false),
                               " and has no element ", index));
    }
    Loc loc = token.loc;
    lexer_.Next();
    auto [at, fresh] = scope->elements.try_emplace({tuple, index}, nullptr);
    if (fresh) {
      auto made = std::make_unique<Instruction>();
      made->name = FreeName(scope, absl::StrCat(tuple->name, "_", index));
      made->op = Op::kGetTupleElement;
      made->shape = tuple->shape.elements[index];
      made->operands = {tuple};
      made->Set(AttrId::kIndex, index);
      made->parent = scope->computation;
      made->loc = loc;
      if (!Define(scope, std::move(made), &at->second)) return false;
    }
    *operand = at->second;
  }
  return true;
}

bool Reader::CheckOperandCount(const Instruction& instruction) {
  const OpInfo& info = InfoOf(instruction.op);
  int64_t count = static_cast<int64_t>(instruction.operands.size());
  bool ok = info.exact_operands ? count == info.min_operands : count >= info.min_operands;
  absl::string_view wanted;
  if (ok) {
    if (instruction.op == Op::kReduce || instruction.op == Op::kReduceWindow) {
      ok = count % 2 == 0;
      wanted = "an even number of";
    } else if (instruction.op == Op::kScatter) {
      ok = count % 2 == 1;
      wanted = "an odd number of";
    }
  }
  if (ok) return true;
  std::string text = !wanted.empty()
                         ? std::string(wanted)
                         : absl::StrCat(info.exact_operands ? "" : "at least ", info.min_operands);
  return Fail(DiagCode::kOperandCount, instruction.loc,
              absl::StrCat(info.name, " takes ", text, " operand",
                           wanted.empty() && info.min_operands == 1 ? "" : "s", ", found ", count));
}

// What XLA's parser checks of single opcodes; shapes are the verifier's.
bool Reader::CheckInstruction(Instruction* instruction) {
  const Shape& shape = instruction->shape;
  auto fail = [&](DiagCode code, std::string message) {
    return Fail(code, instruction->loc, std::move(message));
  };
  switch (instruction->op) {
    case Op::kReshape: {
      const Shape& from = instruction->operands[0]->shape;
      auto unbounded = [](const Shape& s) {
        return std::find(s.dim_kinds.begin(), s.dim_kinds.end(), DimKind::kUnbounded) !=
               s.dim_kinds.end();
      };
      if (from.ElementCount() == shape.ElementCount() || unbounded(from)) return true;
      return fail(DiagCode::kResultShape,
                  absl::StrCat("reshape of ", ToString(from, false), " to ", ToString(shape, false),
                               " changes the number of elements from ", from.ElementCount(), " to ",
                               shape.ElementCount()));
    }
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice: {
      int64_t first = instruction->op == Op::kDynamicSlice ? 1 : 2;
      int64_t count = static_cast<int64_t>(instruction->operands.size()) - first;
      int64_t rank = instruction->operands[0]->shape.rank();
      bool vector = count == 1 && instruction->operands[first]->shape.rank() == 1;
      if (vector || count == rank) return true;
      return fail(DiagCode::kOperandCount,
                  absl::StrCat(OpName(instruction->op), " of ",
                               ToString(instruction->operands[0]->shape, false), " takes ", rank,
                               " start indices, found ", count));
    }
    case Op::kTuple:
      if (shape.IsTuple() && shape.elements.size() == instruction->operands.size()) return true;
      return fail(DiagCode::kResultShape,
                  absl::StrCat("tuple of ", instruction->operands.size(),
                               " operands is written as ", ToString(shape, false)));
    case Op::kBroadcast:
      if (instruction->Has(AttrId::kDimensions)) return true;
      if (instruction->operands[0]->shape.IsScalar()) {
        instruction->Set(AttrId::kDimensions, Ints{});
        return true;
      }
      return fail(DiagCode::kMissingAttribute,
                  "broadcast of an array needs the attribute dimensions={...}");
    case Op::kInfeed:
      if (shape.IsTuple() && !shape.elements.empty()) return true;
      return fail(DiagCode::kResultShape, "the shape of infeed is a tuple (data, token[])");
    case Op::kRecv:
      if (shape.IsTuple() && !shape.elements.empty()) return true;
      return fail(DiagCode::kResultShape, "the shape of recv is a tuple (data, u32[], token[])");
    default:
      return CheckControlFlow(*instruction) && CheckCommunication(*instruction);
  }
}

bool Reader::CheckControlFlow(const Instruction& instruction) {
  auto fail = [&](DiagCode code, std::string message) {
    return Fail(code, instruction.loc, std::move(message));
  };
  if (instruction.op == Op::kConditional) {
    bool two =
        instruction.Has(AttrId::kTrueComputation) || instruction.Has(AttrId::kFalseComputation);
    bool many = instruction.Has(AttrId::kBranchComputations);
    bool is_pred = instruction.operands[0]->shape.type == Type::kPred;
    if (is_pred ? many || !instruction.Has(AttrId::kTrueComputation) ||
                      !instruction.Has(AttrId::kFalseComputation)
                : two || !many) {
      return fail(DiagCode::kMissingAttribute,
                  is_pred ? "conditional on a pred takes true_computation and false_computation"
                          : "conditional on an integer takes branch_computations");
    }
    size_t branches = instruction.CalledComputations().size();
    if (instruction.operands.size() == branches + 1) return true;
    return fail(DiagCode::kOperandCount,
                absl::StrCat("conditional of ", branches, " branches takes ", branches + 1,
                             " operands (the selector, then one a branch), found ",
                             instruction.operands.size()));
  }
  if (const AttrValue* value = instruction.Find(AttrId::kParameterReplication)) {
    int64_t leaves = instruction.shape.LeafCount();
    int64_t given = static_cast<int64_t>(std::get<Ints>(*value).size());
    if (leaves != given) {
      return fail(DiagCode::kBadAttribute,
                  absl::StrCat("parameter_replication has ", given, " values, the parameter ",
                               leaves, " arrays"));
    }
  }
  if (instruction.op != Op::kCustomCall) return true;
  const AttrValue* layouts = instruction.Find(AttrId::kOperandLayoutConstraints);
  if (!layouts) return true;
  const auto& shapes = std::get<std::vector<Shape>>(*layouts);
  if (shapes.size() != instruction.operands.size()) {
    return fail(DiagCode::kBadAttribute,
                absl::StrCat("operand_layout_constraints has ", shapes.size(), " shapes, the call ",
                             instruction.operands.size(), " operands"));
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (Compatible(shapes[i], instruction.operands[i]->shape)) continue;
    return fail(DiagCode::kBadAttribute,
                absl::StrCat("operand_layout_constraints gives operand ", i, " as ",
                             ToString(shapes[i], false), ", but it is ",
                             ToString(instruction.operands[i]->shape, false)));
  }
  return true;
}

bool Reader::CheckCommunication(const Instruction& instruction) {
  auto fail = [&](std::string message) {
    return Fail(DiagCode::kBadAttribute, instruction.loc, std::move(message));
  };
  switch (instruction.op) {
    case Op::kAllReduce:
    case Op::kAllReduceStart:
    case Op::kReduceScatter:
      if (!instruction.BoolAttr(AttrId::kUseGlobalDeviceIds) ||
          instruction.Has(AttrId::kChannelId)) {
        return true;
      }
      return fail("use_global_device_ids=true needs a channel_id");
    case Op::kCollectivePermute:
    case Op::kCollectivePermuteStart:
      for (const Ints& pair :
           std::get<std::vector<Ints>>(*instruction.Find(AttrId::kSourceTargetPairs))) {
        if (pair.size() != 2) {
          return fail(absl::StrCat("source_target_pairs holds pairs {source,target}, found one of ",
                                   pair.size()));
        }
      }
      return true;
    case Op::kSendDone:
    case Op::kRecvDone: {
      const Instruction& start = *instruction.operands[0];
      bool paired = start.op == Op::kSend || start.op == Op::kRecv || start.op == Op::kSendDone ||
                    start.op == Op::kRecvDone;
      int64_t channel = instruction.IntAttr(AttrId::kChannelId, -1);
      int64_t wanted = start.IntAttr(AttrId::kChannelId, -1);
      if (!paired || channel == wanted) return true;
      return fail(absl::StrCat(OpName(instruction.op), " has channel_id ", channel, ", its ",
                               OpName(start.op), " '", start.name, "' ", wanted));
    }
    default:
      return true;
  }
}

}  // namespace tpuc::hlo
