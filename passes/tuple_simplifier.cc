// tuple-simplifier. Reads of a tuple that was just made read the element itself, and a tuple of all
// elements of one tuple, in order, is that tuple:
//
//   t = tuple(a, b); g = get-tuple-element(t), index=1     uses of g become uses of b
#include "passes/tuple_simplifier.h"

namespace tpuc {
namespace {

// What `i` is the same as, or null.
Instruction* SameAs(const Instruction& i) {
  if (i.op == Op::kGetTupleElement) {
    const Instruction& tuple = *i.operands[0];
    return tuple.op == Op::kTuple ? tuple.operands[i.IntAttr(AttrId::kIndex)] : nullptr;
  }
  if (i.op != Op::kTuple || i.operands.empty()) return nullptr;
  Instruction* whole = nullptr;
  for (size_t n = 0; n < i.operands.size(); ++n) {
    const Instruction& element = *i.operands[n];
    if (element.op != Op::kGetTupleElement || element.IntAttr(AttrId::kIndex) != n) return nullptr;
    if (n == 0) whole = element.operands[0];
    if (element.operands[0] != whole) return nullptr;
  }
  return whole->shape.elements.size() == i.operands.size() ? whole : nullptr;
}

}  // namespace

bool TupleSimplifier::Run(Module* module, PassContext*) {
  bool changed = false;
  for (const auto& computation : module->computations) {
    bool here = false;
    absl::flat_hash_map<Instruction*, Instruction*> map;
    for (const auto& instruction : computation->instructions) {
      for (Instruction*& operand : instruction->operands) {
        auto it = map.find(operand);
        if (it != map.end()) operand = it->second;
      }
      if (Instruction* same = SameAs(*instruction)) {
        map[instruction.get()] = same;
        here = true;
      }
    }
    if (!here) continue;
    auto it = map.find(computation->root);
    if (it != map.end()) computation->root = it->second;
    changed |= computation->RemoveDead() > 0;
  }
  return changed;
}

}  // namespace tpuc
