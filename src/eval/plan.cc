// Liveness of one computation, backwards from its root (plan.h).
#include "src/eval/plan.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "src/diag/check.h"
#include "src/eval/fusion.h"
#include "src/eval/inlining.h"
#include "src/eval/order.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

bool IsElement(const Instruction& in) { return in.op == Op::kGetTupleElement; }

// Who reads a value last and who takes an element: scanning backwards, the first reader. A value
// that is computed again is another one before.
void FindLast(const Computation& computation, Plan* plan) {
  const size_t n = computation.instructions.size(), steps = plan->steps.size();
  std::vector<bool> whole(n, false), read_later(n, false);
  whole[plan->root] = read_later[plan->root] = true;  // whole: read by more than get-tuple-element
  for (int i : plan->steps) {
    if (IsElement(*computation.instructions[i])) continue;
    for (int operand : plan->operands[i]) whole[operand] = true;
  }
  plan->last.resize(steps);
  plan->takes_element.resize(steps, false);
  absl::flat_hash_map<int, absl::flat_hash_set<int64_t>> read;  // elements of each tuple
  for (size_t s = steps; s-- > 0;) {
    const int i = plan->steps[s];
    const std::vector<int>& operands = plan->operands[i];
    const Instruction& in = *computation.instructions[i];
    read_later[i] = i == plan->root;
    if (in.shape.IsTuple()) read.erase(i);
    if (IsElement(in) && !whole[operands[0]]) {
      plan->takes_element[s] = read[operands[0]].insert(in.IntAttr(AttrId::kIndex)).second;
    }
    plan->last[s].resize(operands.size());
    for (size_t j = operands.size(); j-- > 0;) {
      plan->last[s][j] = !read_later[operands[j]];
      read_later[operands[j]] = true;
    }
  }
}

// Elements of a loop's state that its body yields as it got them.
std::vector<bool> PassedOn(const Computation& body) {
  std::vector<bool> passed;
  if (body.root->op != Op::kTuple) return passed;
  for (size_t i = 0; i < body.root->operands.size(); ++i) {
    const Instruction& in = *body.root->operands[i];
    passed.push_back(IsElement(in) && in.operands[0]->op == Op::kParameter &&
                     in.IntAttr(AttrId::kIndex) == static_cast<int64_t>(i));
  }
  return passed;
}

// What takes much longer than reading its result.
bool IsCostly(const Instruction& in) {
  switch (InfoOf(in.op).op_class) {
    case OpClass::kContract:
    case OpClass::kReduce:
      return true;
    default:
      return in.op == Op::kSort || in.op == Op::kScatter || in.op == Op::kFft ||
             in.op == Op::kCholesky || in.op == Op::kTriangularSolve || in.op == Op::kScan;
  }
}

// Takes the next of a sequence of random numbers, itself or in what it calls: it runs though nobody
// reads it, so that others get the same numbers whether it was inlined or not.
bool TakesRandom(const Instruction& in) {
  std::vector<const Computation*> work;
  absl::flat_hash_set<const Computation*> seen;
  const auto takes = [&](const Instruction& x) {
    for (const Computation* callee : x.CalledComputations()) {
      if (seen.insert(callee).second) work.push_back(callee);
    }
    return x.op == Op::kRng || x.op == Op::kRngGetAndUpdateState;
  };
  if (takes(in)) return true;
  while (!work.empty()) {
    const Computation* computation = work.back();
    work.pop_back();
    for (const auto& inner : computation->instructions) {
      if (takes(*inner)) return true;
    }
  }
  return false;
}

void FindKept(const Computation& computation, bool is_body, Plan* plan) {
  constexpr int64_t kSmall = int64_t{1} << 20;  // bytes that any value may keep
  const int n = static_cast<int>(computation.instructions.size());
  const std::vector<bool> passed = is_body ? PassedOn(computation) : std::vector<bool>();
  std::vector<bool> same(n, false), costly(n, false), work(n, false);
  for (int i = 0; i < n; ++i) {
    const Instruction& in = *computation.instructions[i];
    if (!plan->needed[i] || in.op == Op::kParameter || plan->dynamic[i]) continue;
    const size_t index = IsElement(in) ? static_cast<size_t>(in.IntAttr(AttrId::kIndex)) : 0;
    if (IsElement(in) && in.operands[0]->op == Op::kParameter) {
      same[i] = index < passed.size() && passed[index];
      continue;
    }
    // Calls are looked into by their own plans; here they would be walked again and again.
    same[i] = InfoOf(in.op).op_class != OpClass::kCall && !HasSideEffect(in);
    costly[i] = IsCostly(in);
    work[i] = in.op != Op::kConstant && in.op != Op::kTuple && !IsElement(in);
    for (int operand : plan->operands[i]) {
      same[i] = same[i] && same[operand];
      costly[i] = costly[i] || costly[operand];
      work[i] = work[i] || work[operand];
    }
  }
  std::vector<bool> read(n, false);  // by one that is not the same, or as the root
  read[plan->root] = true;
  for (int i = 0; i < n; ++i) {
    if (!plan->needed[i] || same[i]) continue;
    for (int operand : plan->operands[i]) read[operand] = true;
  }
  plan->kept.resize(n, false);
  for (int i = 0; i < n; ++i) {
    const Instruction& in = *computation.instructions[i];
    plan->kept[i] = plan->needed[i] && same[i] && read[i] && work[i] && in.shape.IsArray() &&
                    (costly[i] || in.shape.LiteralBytes() <= kSmall);
    plan->keeps = plan->keeps || plan->kept[i];
  }
  plan->needed_again.resize(n, false);
  plan->needed_again[plan->root] = true;
  for (int i = n - 1; i >= 0; --i) {
    if (plan->random[i]) plan->needed_again[i] = true;
    if (!plan->needed_again[i] || plan->kept[i]) continue;
    for (int operand : plan->operands[i]) plan->needed_again[operand] = true;
  }
}

// Steps that do not run each time are in no loop.
void KeepApart(Plan* plan) {
  for (size_t s = 0; plan->keeps && s < plan->steps.size(); ++s) {
    for (int k = 0; k < plan->together[s]; ++k) {
      const int i = plan->steps[s + static_cast<size_t>(k)];
      if (plan->kept[i] || !plan->needed_again[i]) plan->together[s] = 1;
    }
  }
}

// What the root depends on, and what takes random numbers.
void FindNeeded(const Computation& computation, Plan* plan) {
  const int n = static_cast<int>(computation.instructions.size());
  plan->needed.resize(n, false);
  plan->random.resize(n, false);
  plan->needed[plan->root] = true;
  for (int i = n - 1; i >= 0; --i) {
    if (!plan->needed[i])
      plan->needed[i] = plan->random[i] = TakesRandom(*computation.instructions[i]);
    if (!plan->needed[i]) continue;
    for (int operand : plan->operands[i]) plan->needed[operand] = true;
  }
}

// Takes an operand of one element for an array of equal ones (elementwise.h).
bool TakesSplats(const Instruction& in) {
  switch (in.op) {
    case Op::kCompare:
    case Op::kSelect:
    case Op::kClamp:
      return in.shape.IsArray();
    default:
      return InfoOf(in.op).op_class == OpClass::kElementwise && in.operands.size() == 2 &&
             in.op != Op::kStochasticConvert && in.op != Op::kMap &&
             ClassOf(in.shape.type) != TypeClass::kComplex;
  }
}

void FindSplats(const Computation& computation, Plan* plan) {
  const int n = static_cast<int>(computation.instructions.size());
  plan->splat.resize(n, false);
  for (int i = 0; i < n; ++i) {
    const Instruction& in = *computation.instructions[i];
    if (in.op == Op::kBroadcast && i != plan->root && !plan->dynamic[i]) {
      const TypeClass type = ClassOf(in.shape.type);
      plan->splat[i] = in.operands[0]->shape.ElementCount() == 1 && type != TypeClass::kComplex;
    }
    for (int operand : plan->operands[i]) {
      if (!TakesSplats(in) || plan->dynamic[i]) plan->splat[operand] = false;
    }
  }
}

bool HasDynamic(const Shape& shape) {
  if (shape.is_dynamic()) return true;
  for (const Shape& element : shape.elements) {
    if (HasDynamic(element)) return true;
  }
  return false;
}

}  // namespace

bool IsEndless(const Instruction& loop) {
  const std::vector<bool> passed = PassedOn(*loop.ComputationAttr(AttrId::kBody));
  const Computation& condition = *loop.ComputationAttr(AttrId::kCondition);
  for (const auto& in : condition.instructions) {
    if (HasSideEffect(*in)) return false;
    for (const Instruction* operand : in->operands) {
      if (operand->op != Op::kParameter) continue;
      const size_t index = IsElement(*in) ? static_cast<size_t>(in->IntAttr(AttrId::kIndex)) : 0;
      if (!IsElement(*in) || index >= passed.size() || !passed[index]) return false;
    }
  }
  return condition.root->op != Op::kParameter;
}

Plan MakePlan(const Computation& computation, bool is_body) {
  const int n = static_cast<int>(computation.instructions.size());
  absl::flat_hash_map<const Instruction*, int> position;
  Plan plan;
  plan.operands.resize(n);
  plan.dynamic.resize(n, false);
  std::vector<bool> is_dynamic(n, false);
  for (int i = 0; i < n; ++i) {
    const Instruction& in = *computation.instructions[i];
    position[&in] = i;
    is_dynamic[i] = HasDynamic(in.shape);
    plan.dynamic[i] = is_dynamic[i];
    for (const Instruction* operand : in.operands) {
      const auto it = position.find(operand);
      CHECK_MSG(it != position.end(), "operand after its user");
      plan.operands[i].push_back(it->second);
      if (is_dynamic[it->second]) plan.dynamic[i] = true;
    }
    if (in.op == Op::kParameter) {
      const size_t number = static_cast<size_t>(in.parameter_number);
      if (plan.parameters.size() <= number) plan.parameters.resize(number + 1, -1);
      plan.parameters[number] = i;
    }
  }
  plan.root = position.at(computation.root);
  FindNeeded(computation, &plan);
  FindSplats(computation, &plan);
  InlineProducers(computation, &plan);
  FindSteps(computation, &plan);
  FuseLoops(computation, &plan);
  FindLast(computation, &plan);
  FindKept(computation, is_body, &plan);
  KeepApart(&plan);
  return plan;
}

}  // namespace tpuc
