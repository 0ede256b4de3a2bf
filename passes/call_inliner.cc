// call-inliner. Computations are stored callees first, so that one walk over them inlines bodies in
// which no call is left:
//
//   c = call(x, y), to_apply=f; f(p, q) = p + q     becomes     c = add(x, y)
//
// Calls with side effects stay what they are; composite calls are calls.
#include "passes/call_inliner.h"

#include "absl/container/flat_hash_map.h"

namespace tpuc {
namespace {

using Replacements = absl::flat_hash_map<Instruction*, Instruction*>;

// Appends the body of `callee` to `computation`; returns what its root became.
Instruction* AppendBody(Computation* computation, const Computation& callee,
                        const Instruction& call) {
  Replacements map;
  for (const auto& inner : callee.instructions) {
    if (inner->op == Op::kParameter) {
      map[inner.get()] = call.operands[inner->parameter_number];
      continue;
    }
    absl::InlinedVector<Instruction*, 2> operands;
    for (Instruction* operand : inner->operands) operands.push_back(map.at(operand));
    Instruction* made = CloneInto(computation, *inner, std::move(operands));
    if (!made->metadata && call.metadata) {
      made->metadata = std::make_unique<Metadata>(*call.metadata);
    }
    map[inner.get()] = made;
  }
  return map.at(callee.root);
}

bool InlineCalls(Computation* computation, PassContext* context) {
  bool found = false;
  for (const auto& i : computation->instructions) found |= i->op == Op::kCall;
  if (!found) return false;
  if (!computation->names) {  // new names must not meet those of the instructions set aside
    computation->names = std::make_unique<NameTable>();
    for (const auto& i : computation->instructions) computation->names->Take(i->name);
  }
  std::vector<std::unique_ptr<Instruction>> old = std::move(computation->instructions);
  computation->instructions.clear();
  Replacements map;
  auto mapped = [&](Instruction* i) {
    auto it = map.find(i);
    return it == map.end() ? i : it->second;
  };
  std::vector<std::unique_ptr<Instruction>> calls;  // alive until all uses are rewritten
  for (auto& instruction : old) {
    for (Instruction*& operand : instruction->operands) operand = mapped(operand);
    Computation* callee =
        instruction->op == Op::kCall ? instruction->ComputationAttr(AttrId::kToApply) : nullptr;
    if (!callee) {
      computation->instructions.push_back(std::move(instruction));
      continue;
    }
    context->Remark("inlined ", instruction->name, " (", callee->name, ")");
    map[instruction.get()] = AppendBody(computation, *callee, *instruction);
    calls.push_back(std::move(instruction));
  }
  computation->root = mapped(computation->root);
  for (auto& instruction : computation->instructions) {
    for (Attr& attr : instruction->attrs) {
      if (auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
        for (Instruction*& predecessor : *list) predecessor = mapped(predecessor);
      }
    }
  }
  return true;
}

}  // namespace

bool CallInliner::Run(Module* module, PassContext* context) {
  bool changed = false;
  for (const auto& computation : module->computations) {
    changed |= InlineCalls(computation.get(), context);
  }
  return changed;
}

}  // namespace tpuc
