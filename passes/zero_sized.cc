// zero-sized. An array without elements has only one value, so whatever makes it is a constant.
// Operands without elements that change nothing in a larger result leave it:
//
//   f32[0,5] add(x, y)                    becomes   f32[0,5] constant({})
//   concatenate(f32[0,5] a, f32[3,5] b)   becomes   b
#include "passes/zero_sized.h"

#include "src/ir/op_table.h"

namespace tpuc {
namespace {

bool IsEmpty(const Shape& shape) { return shape.IsArray() && shape.ElementCount() == 0; }

Instruction* Replace(Computation* computation, Instruction* i) {
  if (IsEmpty(i->shape) && i->op != Op::kParameter && i->op != Op::kConstant &&
      i->op != Op::kGetTupleElement && !i->shape.is_dynamic() && !HasSideEffect(*i)) {
    Instruction* made = computation->AddBefore(i, "constant", Op::kConstant, i->shape, {});
    made->literal = std::make_unique<Literal>(i->shape);
    return made;
  }
  if (i->op != Op::kConcatenate) return nullptr;
  absl::InlinedVector<Instruction*, 2> kept;
  for (Instruction* operand : i->operands) {
    if (!IsEmpty(operand->shape)) kept.push_back(operand);
  }
  if (kept.size() == i->operands.size() || kept.empty()) return nullptr;
  if (kept.size() == 1) return kept[0];
  i->operands = kept;
  return i;
}

}  // namespace

bool ZeroSized::Run(Module* module, PassContext* context) {
  bool changed = false;
  for (const auto& computation : module->computations) {
    std::vector<Instruction*> list;
    for (const auto& i : computation->instructions) list.push_back(i.get());
    for (Instruction* i : list) {
      Instruction* made = Replace(computation.get(), i);
      if (!made) continue;
      context->Remark("without elements: ", i->name);
      computation->ReplaceUses(i, made);
      changed = true;
    }
    if (changed) computation->RemoveDead();
  }
  return changed;
}

}  // namespace tpuc
