// simplify. Runs the rules of passes/simplify (one file an op family, one rule a line) over every
// computation that holds values of the program; reduction bodies and fusions are left as they are.
#include "passes/algebraic_simplifier.h"

#include "absl/container/flat_hash_set.h"
#include "passes/simplify/rewriter.h"

namespace tpuc {

std::vector<Computation*> SimplifiableComputations(const Module& module) {
  absl::flat_hash_set<const Computation*> skip;
  for (const auto& computation : module.computations) {
    for (const auto& i : computation->instructions) {
      bool control = i->op == Op::kWhile || i->op == Op::kConditional || i->op == Op::kCall;
      if (control) continue;
      for (const Computation* callee : i->CalledComputations()) skip.insert(callee);
    }
  }
  std::vector<Computation*> out;
  for (const auto& computation : module.computations) {
    if (!skip.contains(computation.get())) out.push_back(computation.get());
  }
  return out;
}

bool AlgebraicSimplifier::Run(Module* module, PassContext* context) {
  static const auto* rules = new std::vector<simplify::RuleRow>(simplify::AllRules());
  int applied = 0;
  for (Computation* computation : SimplifiableComputations(*module)) {
    applied += simplify::ApplyRules(computation, simplify::BitcastRules(), context->remarks);
    applied += simplify::ApplyRules(computation, *rules, context->remarks);
  }
  return applied > 0;
}

}  // namespace tpuc
