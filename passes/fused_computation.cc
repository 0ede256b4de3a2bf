// Building bodies of fusions (fused_computation.h).
#include "passes/fused_computation.h"

#include <algorithm>
#include <iterator>
#include <queue>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/diag/check.h"
#include "src/ir/op_table.h"

namespace tpuc {

FusedBody::FusedBody(Module* module, std::string name)
    : computation_(module->AddComputation(std::move(name))) {}

Instruction* FusedBody::Value(Instruction* outside) {
  auto it = map_.find(outside);
  if (it != map_.end()) return it->second;
  // Parameters are kept apart: they will stand first, so that the body is in topological order
  // whatever is added when.
  Instruction* parameter = computation_->Add(absl::StrCat("param_", parameters_.size()),
                                             Op::kParameter, outside->shape, {});
  parameter->parameter_number = static_cast<int64_t>(parameters_.size());
  parameters_.push_back(std::move(computation_->instructions.back()));
  computation_->instructions.pop_back();
  operands_.push_back(outside);
  return map_[outside] = parameter;
}

Computation* FusedBody::Finish(Instruction* root) {
  auto& list = computation_->instructions;
  list.insert(list.begin(), std::make_move_iterator(parameters_.begin()),
              std::make_move_iterator(parameters_.end()));
  parameters_.clear();
  computation_->root = root;
  return computation_;
}

Instruction* FusedBody::Add(const Instruction& i) {
  absl::InlinedVector<Instruction*, 2> operands;
  for (Instruction* operand : i.operands) operands.push_back(Value(operand));
  return map_[&i] = CloneInto(computation_, i, std::move(operands));
}

void FusedBody::AddKernel(Instruction* i) {
  if (i->op != Op::kFusion) {
    Add(*i);
    return;
  }
  const Computation& body = *i->ComputationAttr(AttrId::kCalls);
  for (const Instruction* p : body.Parameters()) {
    map_[p] = Value(i->operands[p->parameter_number]);
  }
  for (const auto& inner : body.instructions) {
    if (inner->op != Op::kParameter) Add(*inner);
  }
  map_[i] = map_.at(body.root);
}

std::string FusionName(const Computation& body) {
  std::vector<absl::string_view> names;
  for (const auto& i : body.instructions) {
    OpClass c = InfoOf(i->op).op_class;
    bool names_it = (c == OpClass::kElementwise || c == OpClass::kReduce || c == OpClass::kMove) &&
                    i->op != Op::kBroadcast && i->op != Op::kConvert && i->op != Op::kBitcast;
    if (!names_it) continue;
    absl::string_view name = OpName(i->op);
    auto it = std::find(names.begin(), names.end(), name);
    if (it != names.end()) names.erase(it);
    names.push_back(name);
  }
  if (names.size() > 2) names.erase(names.begin(), names.end() - 2);
  std::string out;
  for (absl::string_view name : names) {
    absl::StrAppend(&out, absl::StrReplaceAll(name, {{"-", "_"}}), "_");
  }
  return out + "fusion";
}

std::string FusionKind(const Computation& body) {
  for (const auto& i : body.instructions) {
    if (InfoOf(i->op).op_class == OpClass::kContract) return "kOutput";
  }
  return "kLoop";
}

void ReplaceAllUses(Computation* computation,
                    const absl::flat_hash_map<Instruction*, Instruction*>& by) {
  auto replace = [&](Instruction*& i) {
    auto it = by.find(i);
    if (it != by.end()) i = it->second;
  };
  for (const auto& i : computation->instructions) {
    for (Instruction*& operand : i->operands) replace(operand);
    for (Attr& attr : i->attrs) {
      auto* list = std::get_if<std::vector<Instruction*>>(&attr.value);
      if (!list) continue;
      // A second mention, or itself, is no constraint.
      absl::flat_hash_set<const Instruction*> seen = {i.get()};
      std::vector<Instruction*> kept;
      for (Instruction* before : *list) {
        replace(before);
        if (seen.insert(before).second) kept.push_back(before);
      }
      *list = std::move(kept);
    }
  }
  replace(computation->root);
}

void SortTopologically(Computation* computation) {
  auto& list = computation->instructions;
  absl::flat_hash_map<const Instruction*, int> number;
  for (const auto& i : list) number[i.get()] = static_cast<int>(number.size());
  std::vector<std::vector<int>> users(list.size());
  std::vector<int> waiting(list.size());
  auto edge = [&](const Instruction* from, size_t to) {
    users[number.at(from)].push_back(static_cast<int>(to));
    ++waiting[to];
  };
  for (size_t n = 0; n < list.size(); ++n) {
    for (const Instruction* operand : list[n]->operands) edge(operand, n);
    for (const Attr& attr : list[n]->attrs) {
      if (const auto* before = std::get_if<std::vector<Instruction*>>(&attr.value)) {
        for (const Instruction* i : *before) edge(i, n);
      }
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (size_t n = 0; n < list.size(); ++n) {
    if (waiting[n] == 0) ready.push(static_cast<int>(n));
  }
  std::vector<std::unique_ptr<Instruction>> sorted;
  while (!ready.empty()) {
    int n = ready.top();
    ready.pop();
    for (int user : users[n]) {
      if (--waiting[user] == 0) ready.push(user);
    }
    sorted.push_back(std::move(list[n]));
  }
  CHECK_MSG(sorted.size() == list.size(), "cycle in a computation");
  list = std::move(sorted);
}

}  // namespace tpuc
