// Asynchronous instructions (hlo-text.md section 16). The short form
//
//   %s = ((f32[10]), f32[20], s32[]) custom-call-start(%p), custom_call_target="foo"
//
// becomes an async-start that calls a made computation, one parameter for each operand and
// custom-call as its root; kAsyncOpcode remembers how it was written.
#include "grammar/hlo/reader.h"

namespace tpuc::hlo {

bool Reader::AsyncSugar(absl::string_view text, Op* op, absl::string_view* wrapped) const {
  constexpr std::pair<absl::string_view, Op> kForms[] = {
      {"-start", Op::kAsyncStart}, {"-update", Op::kAsyncUpdate}, {"-done", Op::kAsyncDone}};
  for (const auto& [suffix, async] : kForms) {
    if (text.size() <= suffix.size() || text.substr(text.size() - suffix.size()) != suffix)
      continue;
    absl::string_view base = text.substr(0, text.size() - suffix.size());
    Op inner;
    if (!OpFromName(base, &inner)) return false;
    switch (inner) {
      // These have opcodes of their own, or nothing to run.
      case Op::kAllGather:
      case Op::kAllReduce:
      case Op::kCollectivePermute:
      case Op::kCopy:
      case Op::kParameter:
      case Op::kConstant:
        return false;
      default:
        break;
    }
    if (InfoOf(inner).op_class == OpClass::kAsync) return false;
    *op = async;
    *wrapped = base;
    return true;
  }
  return false;
}

bool Reader::CheckAsync(Instruction* instruction, Instruction* wrapped, Op wrapped_op) {
  auto fail = [&](std::string message) {
    return Fail(DiagCode::kAsync, instruction->loc, std::move(message));
  };
  Op op = instruction->op;
  if (op != Op::kAsyncStart && op != Op::kAsyncUpdate && op != Op::kAsyncDone) return true;
  std::string name =
      wrapped ? absl::StrCat(OpName(wrapped_op), OpName(op).substr(5)) : std::string(OpName(op));
  const Shape& shape = instruction->shape;
  if (op != Op::kAsyncDone &&
      (!shape.IsTuple() || shape.elements.size() < 2 || !shape.elements[0].IsTuple())) {
    return fail(absl::StrCat("the shape of ", name,
                             " is a tuple ((operands ...), result, state ...), found ",
                             ToString(shape, false)));
  }
  if (op != Op::kAsyncStart) {
    const Instruction& chain = *instruction->operands[0];
    if (chain.op == Op::kAsyncDone) {
      return fail(absl::StrCat(name, " of '", chain.name, "', which is done already"));
    }
    if (chain.op != Op::kAsyncStart && chain.op != Op::kAsyncUpdate) return true;
    // Follow updates to the start; the chain may pass through other instructions.
    const Instruction* start = &chain;
    while (start->op == Op::kAsyncUpdate) start = start->operands[0];
    Computation* body = start->ComputationAttr(AttrId::kCalls);
    if (wrapped && body && body->root->op != wrapped_op) {
      return fail(
          absl::StrCat(name, " ends '", start->name, "', which started ", OpName(body->root->op)));
    }
    Computation* calls = instruction->ComputationAttr(AttrId::kCalls);
    if (calls && body && calls != body) {
      return fail(absl::StrCat(name, " calls '", calls->name, "', its start '", body->name, "'"));
    }
    absl::string_view thread = instruction->StringAttr(AttrId::kAsyncExecutionThread);
    absl::string_view wanted = start->StringAttr(AttrId::kAsyncExecutionThread);
    if (!thread.empty() && thread != "main" && thread != wanted) {
      return fail(
          absl::StrCat(name, " runs on thread '", thread, "', its start on '", wanted, "'"));
    }
    return true;
  }
  if (!wrapped) return true;
  auto computation = std::make_unique<Computation>();
  computation->name = absl::StrCat("async_", OpName(wrapped_op));
  computation->module = module_.get();
  computation->loc = instruction->loc;
  computation->execution_thread =
      std::string(instruction->StringAttr(AttrId::kAsyncExecutionThread));
  if (computation->execution_thread == "main") computation->execution_thread.clear();
  Instruction* root =
      computation->Add(std::string(OpName(wrapped_op)), wrapped_op, shape.elements[1], {});
  root->attrs = std::move(wrapped->attrs);
  root->loc = instruction->loc;
  const std::vector<Shape>& operands = shape.elements[0].elements;
  for (size_t i = 0; i < operands.size(); ++i) {
    Instruction* parameter =
        computation->AddBefore(root, absl::StrCat("p.", i), Op::kParameter, operands[i], {});
    parameter->parameter_number = static_cast<int64_t>(i);
    parameter->loc = instruction->loc;
    root->operands.push_back(parameter);
  }
  computation->root = root;
  if (!CheckOperandCount(*root) || !CheckInstruction(root)) return false;
  instruction->Set(AttrId::kCalls, computation.get());
  made_.push_back(computation.get());
  module_->computations.push_back(std::move(computation));
  return true;
}

}  // namespace tpuc::hlo
