// multi-output-fusion. A kernel whose result a later kernel reads element by element over the same
// shape takes that kernel in: the value is used while it is in registers, and leaves as a second
// result only if others still read it.
//
//   h = dot(x, w); s = multiply_reduce_fusion(h); ... h ...
//   becomes   t = (f32[16], f32[16,64]) multiply_reduce_fusion(x, w); s = t.0; h = t.1
//
// Refused: a reader that also waits for h by another way (a cycle), that reads h in another shape
// or reduces its rows (a grid over rows would carry the sum), or that holds a contraction itself.
#include "passes/multi_output_fusion.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "passes/fused_computation.h"
#include "passes/op_cost.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

bool IsElementwiseOrSource(const Instruction& i) {
  OpClass c = InfoOf(i.op).op_class;
  return c == OpClass::kElementwise || i.op == Op::kBroadcast || i.op == Op::kConstant ||
         i.op == Op::kIota || i.op == Op::kParameter;
}

// A kernel that computes one array element by element, perhaps behind a contraction.
bool CanProduce(const Instruction& i) {
  if (!i.shape.IsArray() || i.shape.rank() < 2 || i.Has(AttrId::kControlPredecessors)) return false;
  if (i.op == Op::kDot) return true;
  if (i.op != Op::kFusion) {
    return InfoOf(i.op).op_class == OpClass::kElementwise && i.op != Op::kMap;
  }
  for (const auto& inner : i.ComputationAttr(AttrId::kCalls)->instructions) {
    if (!IsElementwiseOrSource(*inner) && inner->op != Op::kDot) return false;
  }
  return true;
}

// Why `consumer` cannot run over the elements of `shape`; empty if it can.
std::string WhyNot(const Instruction& consumer, const Shape& shape) {
  auto check = [&](const Instruction& i, bool root) -> std::string {
    if (i.op == Op::kReduce && root) {
      if (i.operands[0]->shape.dims != shape.dims) return "reduces another shape";
      const Ints& dims = i.IntsAttr(AttrId::kDimensions);
      if (dims.size() != 1 || dims[0] != shape.rank() - 1) return "reduces rows";
      return "";
    }
    if (!IsElementwiseOrSource(i)) return absl::StrCat("holds ", OpName(i.op));
    if (root && i.shape.dims != shape.dims) return "yields another shape";
    return "";
  };
  if (consumer.op == Op::kFusion) {
    const Computation& body = *consumer.ComputationAttr(AttrId::kCalls);
    for (const auto& inner : body.instructions) {
      std::string why = check(*inner, inner.get() == body.root);
      if (!why.empty()) return why;
    }
    return "";
  }
  if (consumer.op != Op::kReduce && InfoOf(consumer.op).op_class != OpClass::kElementwise) {
    return absl::StrCat("is ", OpName(consumer.op));
  }
  return check(consumer, true);
}

using Numbers = absl::flat_hash_map<const Instruction*, int>;  // place in the entry

// `to` depends on `from` by a path that is longer than one edge.
bool DependsIndirectly(const Instruction* to, const Instruction* from, const Numbers& numbers) {
  std::vector<const Instruction*> work;
  absl::flat_hash_set<const Instruction*> seen;
  auto visit = [&](const Instruction* i) {
    // What stands before `from` cannot depend on it.
    if (numbers.at(i) > numbers.at(from) && seen.insert(i).second) work.push_back(i);
  };
  for (const Instruction* operand : to->operands) visit(operand);
  while (!work.empty()) {
    const Instruction* at = work.back();
    work.pop_back();
    for (const Instruction* operand : at->operands) {
      if (operand == from) return true;
      visit(operand);
    }
  }
  return false;
}

Instruction* MakeRead(Computation* entry, Instruction* tuple, int64_t index, const Shape& shape) {
  Instruction* read =
      entry->AddBefore(entry->root, "get-tuple-element", Op::kGetTupleElement, shape, {tuple});
  read->Set(AttrId::kIndex, index);
  return read;
}

// One kernel of `producer` and `consumers`; results in the consumers' order, then the producer's
// own where someone else still reads it.
void Merge(Module* module, Instruction* producer, const std::vector<Instruction*>& consumers,
           PassContext* context) {
  Computation* entry = module->entry;
  UserMap users = Users(*entry);
  bool kept = producer == entry->root;
  for (Instruction* user : users.at(producer)) {
    kept |= std::find(consumers.begin(), consumers.end(), user) == consumers.end();
  }
  FusedBody body(module, "fused_computation");
  body.AddKernel(producer);
  for (Instruction* consumer : consumers) body.AddKernel(consumer);
  std::vector<Instruction*> results = consumers;
  if (kept) results.push_back(producer);

  absl::InlinedVector<Instruction*, 2> roots;
  std::vector<Shape> shapes;
  for (Instruction* result : results) {
    roots.push_back(body.Value(result));
    shapes.push_back(result->shape);
  }
  Shape shape = results.size() == 1 ? shapes[0] : Shape::Tuple(shapes);
  body.computation()->root =
      results.size() == 1 ? roots[0] : body.computation()->Add("tuple", Op::kTuple, shape, roots);
  Instruction* last = consumers.back();
  std::string name = FusionName(*body.computation());
  for (Instruction* consumer : consumers) {
    if (consumer->name != name) continue;
    // The merged kernel takes over the name of the one it replaces.
    consumer->name = entry->UniqueName("merged");
    entry->names->Release(name);
  }
  Instruction* fusion = entry->AddBefore(last, name, Op::kFusion, shape, body.operands());
  fusion->Set(AttrId::kKind, FusionKind(*body.computation()));
  fusion->Set(AttrId::kCalls, body.computation());
  fusion->loc = producer->loc;
  const Instruction* named = producer->metadata ? producer : last;
  if (named->metadata) fusion->metadata = std::make_unique<Metadata>(*named->metadata);
  for (size_t n = 0; n < results.size(); ++n) {
    Instruction* value = results.size() == 1
                             ? fusion
                             : MakeRead(entry, fusion, static_cast<int64_t>(n), results[n]->shape);
    entry->ReplaceUses(results[n], value);
  }
  SortTopologically(entry);
  context->Remark("kernel ", fusion->name, " has ", results.size(), " results");
}

bool MergeAt(Module* module, Instruction* producer, const UserMap& users, const Numbers& numbers,
             PassContext* context) {
  const Chip& chip = *context->chip;
  std::vector<Instruction*> taken;
  for (Instruction* user : users.at(producer)) {
    std::string why;
    bool kernel = user->op == Op::kFusion ? user->shape.IsArray() : true;
    if (user->op == Op::kTuple || user->op == Op::kGetTupleElement) continue;
    why = !kernel ? "has several results" : WhyNot(*user, producer->shape);
    if (why.empty() && DependsIndirectly(user, producer, numbers))
      why = "waits for it by another way";
    for (Instruction* other : taken) {
      if (why.empty() && DependsIndirectly(user, other, numbers))
        why = "waits for a kernel taken in";
      if (why.empty() && std::count(user->operands.begin(), user->operands.end(), other)) {
        why = "reads a kernel taken in";
      }
    }
    double saved = HbmCycles(DeviceBytes(producer->shape), chip) + CallCycles(chip);
    context->Remark(absl::StrFormat("%s into %s: %s", user->name, producer->name,
                                    why.empty() ? absl::StrFormat("saves %.1f cycles", saved)
                                                : absl::StrCat("refused, ", why)));
    if (why.empty()) taken.push_back(user);
  }
  if (taken.empty()) return false;
  Merge(module, producer, taken, context);
  return true;
}

}  // namespace

bool MultiOutputFusion::Run(Module* module, PassContext* context) {
  bool changed = false;
  // Looked at once each, so that a refusal is remarked once; a merged kernel is a new candidate.
  absl::flat_hash_set<std::string> seen;
  for (bool merged = true; merged;) {
    merged = false;
    UserMap users = Users(*module->entry);
    Numbers numbers;
    for (const auto& i : module->entry->instructions) {
      numbers[i.get()] = static_cast<int>(numbers.size());
    }
    for (const auto& i : module->entry->instructions) {
      if (!CanProduce(*i) || !seen.insert(i->name).second) continue;
      merged = MergeAt(module, i.get(), users, numbers, context);
      if (merged) break;
    }
    if (merged) module->entry->RemoveDead();
    changed |= merged;
  }
  return changed;
}

}  // namespace tpuc
