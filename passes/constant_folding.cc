// constant-folding. An operation whose operands are all constants is evaluated by the reference
// evaluator and becomes a constant:
//
//   add(constant(1), constant(2))     becomes     constant(3)
//
// Not folded: broadcast and iota (cheaper to make than to read), results or operands above the size
// limit, elided constants, operations that only the chip rounds (dot), and what the evaluator
// cannot.
#include "passes/constant_folding.h"

#include "src/eval/evaluator.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

bool Foldable(const Instruction& i, int64_t limit) {
  if (!i.shape.IsArray() || i.operands.empty() || i.shape.ElementCount() > limit) return false;
  if (i.Has(AttrId::kControlPredecessors) || i.shape.is_dynamic()) return false;
  switch (InfoOf(i.op).op_class) {
    case OpClass::kElementwise:
    case OpClass::kMove:
      break;
    case OpClass::kReduce:
      if (i.op != Op::kReduce || i.operands.size() != 2) return false;
      break;
    default:
      return false;
  }
  if (i.op == Op::kBroadcast || i.op == Op::kCopy || i.op == Op::kMap) return false;
  for (const Instruction* operand : i.operands) {
    if (operand->op != Op::kConstant || !operand->shape.IsArray() || operand->literal->elided() ||
        operand->shape.ElementCount() > limit) {
      return false;
    }
  }
  return true;
}

std::optional<Literal> ValueOf(const Instruction& i) {
  std::string error;
  if (i.op == Op::kReduce) {
    Op reducer;
    if (!SimpleReducer(*i.ComputationAttr(AttrId::kToApply), &reducer)) return std::nullopt;
    return EvaluateReduce(i, *i.operands[0]->literal, *i.operands[1]->literal, EvalOptions{},
                          &error);
  }
  std::vector<const Literal*> operands;
  for (const Instruction* operand : i.operands) operands.push_back(operand->literal.get());
  return EvaluateOp(i.op, i.shape, operands, i.attrs, EvalOptions{}, &error);
}

}  // namespace

bool ConstantFolding::Run(Module* module, PassContext* context) {
  bool changed = false;
  for (const auto& computation : module->computations) {
    bool here = false;
    for (const auto& i : computation->instructions) {
      if (!Foldable(*i, context->max_folded_elements)) continue;
      std::optional<Literal> value = ValueOf(*i);
      if (!value) continue;
      context->Remark("folded ", i->name, " = ", OpName(i->op), " of constants");
      // In place: the users stay as they are.
      i->op = Op::kConstant;
      i->operands.clear();
      i->attrs.clear();
      i->literal = std::make_unique<Literal>(std::move(*value));
      here = true;
    }
    if (here) computation->RemoveDead();
    changed |= here;
  }
  return changed;
}

}  // namespace tpuc
