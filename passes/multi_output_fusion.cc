// multi-output-fusion. A kernel whose result a later kernel reads element by element over the same
// shape takes that kernel in: the value is used while it is in registers, and leaves as a second
// result only if others still read it.
//
//   h = dot(x, w); s = multiply_reduce_fusion(h); ... h ...
//   becomes   t = (f32[16], f32[16,64]) multiply_reduce_fusion(x, w); s = t.0; h = t.1
//
// Refused: a reader that also waits for h by another way (a cycle), that reads h in another shape
// or reduces its rows (a grid over rows would carry the sum), that holds a contraction itself, or
// that is out of reach (multi_output_fusion.h).
//
// The entry is held as a row of slots, two an instruction. A merged kernel takes the place of its
// last reader, the reads of its results stand as late as may be, and what needs them behind; only
// the slots in reach of the producer are looked at and sorted anew.
#include "passes/multi_output_fusion.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "passes/fused_computation.h"
#include "passes/op_cost.h"
#include "src/diag/check.h"
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

size_t SizeOf(const Instruction& kernel) {
  if (kernel.op != Op::kFusion) return 1;
  return kernel.ComputationAttr(AttrId::kCalls)->instructions.size();
}

class Merger {
 public:
  Merger(Module* module, PassContext* context);
  bool Run();

 private:
  using Set = absl::flat_hash_set<const Instruction*>;
  struct Place {
    int64_t slot = 0, index = 0;  // index within the slot
    bool operator<(const Place& o) const {
      return std::tie(slot, index) < std::tie(o.slot, o.index);
    }
  };
  static constexpr int64_t kReach = 2 * kMergeReach;  // in slots

  // Everything that must run before `i`.
  template <typename F>
  void EachBefore(const Instruction& i, const F& f) const {
    for (Instruction* operand : i.operands) f(operand);
    for (const Attr& attr : i.attrs) {
      if (const auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
        for (Instruction* before : *list) f(before);
      }
    }
    if (auto it = effect_before_.find(&i); it != effect_before_.end()) f(it->second);
  }

  bool Gone(const Instruction* i) const { return !places_.contains(i); }
  int64_t SlotOf(const Instruction* i) const { return places_.at(i).slot; }
  std::vector<Instruction*> UsersOf(const Instruction* i) const;
  std::vector<Instruction*> InSlots(int64_t first, int64_t last) const;
  Set WaitingByAnotherWay(const Instruction* producer, int64_t last) const;
  std::string Refusal(const Instruction& user, const Instruction& producer) const;
  bool MergeAt(Instruction* producer);
  void Merge(Instruction* producer, const std::vector<Instruction*>& consumers);
  Instruction* MakeKernel(Instruction* producer, const std::vector<Instruction*>& consumers,
                          const std::vector<Instruction*>& results);
  Instruction* MakeRead(Instruction* kernel, int64_t index, const Shape& shape);
  void ReplaceUses(Instruction* from, Instruction* to);
  void Drop(Instruction* i);
  void SortSlots(int64_t first, int64_t last, const std::vector<Instruction*>& now);
  void WriteBack();

  Module* module_;
  Computation* entry_;
  PassContext* context_;
  std::vector<std::vector<Instruction*>> slots_;  // the order
  absl::flat_hash_map<const Instruction*, Place> places_;
  // In no order; kernels that are gone may still be among them.
  UserMap users_, followers_;  // followers: by control predecessor
  // Of what has side effects (no kernel that is merged has): the one before it.
  absl::flat_hash_map<const Instruction*, Instruction*> effect_before_;
};

Merger::Merger(Module* module, PassContext* context)
    : module_(module),
      entry_(module->entry),
      context_(context),
      slots_(2 * entry_->instructions.size()),
      users_(Users(*entry_)) {
  Instruction* effect = nullptr;
  for (const auto& i : entry_->instructions) {
    const int64_t slot = 2 * static_cast<int64_t>(places_.size());
    places_[i.get()] = {slot, 0};
    slots_[slot].push_back(i.get());
    if (HasSideEffect(*i)) {
      if (effect != nullptr) effect_before_[i.get()] = effect;
      effect = i.get();
    }
    for (const Attr& attr : i->attrs) {
      if (const auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
        for (Instruction* before : *list) followers_[before].push_back(i.get());
      }
    }
  }
}

// In order.
std::vector<Instruction*> Merger::UsersOf(const Instruction* i) const {
  std::vector<Instruction*> users;
  for (Instruction* user : users_.at(i)) {
    if (!Gone(user)) users.push_back(user);
  }
  std::sort(users.begin(), users.end(),
            [&](auto* a, auto* b) { return places_.at(a) < places_.at(b); });
  return users;
}

std::vector<Instruction*> Merger::InSlots(int64_t first, int64_t last) const {
  std::vector<Instruction*> out;
  for (int64_t s = first; s <= last; ++s) {
    out.insert(out.end(), slots_[s].begin(), slots_[s].end());
  }
  context_->CountSteps(static_cast<int64_t>(out.size()));
  return out;
}

// What depends on the producer by a path of more than one edge, up to slot `last`.
Merger::Set Merger::WaitingByAnotherWay(const Instruction* producer, int64_t last) const {
  Set waiting, longer;
  for (const Instruction* i : InSlots(SlotOf(producer), last)) {
    bool direct = false, indirect = false;
    EachBefore(*i, [&](const Instruction* before) {
      direct |= before == producer;
      indirect |= waiting.contains(before);
    });
    if (direct || indirect) waiting.insert(i);
    if (indirect) longer.insert(i);
  }
  return longer;
}

// The kernel of `producer` and `consumers`, last in the entry.
Instruction* Merger::MakeKernel(Instruction* producer, const std::vector<Instruction*>& consumers,
                                const std::vector<Instruction*>& results) {
  FusedBody body(module_, "fused_computation");
  body.AddKernel(producer);
  for (Instruction* consumer : consumers) body.AddKernel(consumer);
  absl::InlinedVector<Instruction*, 2> roots;
  std::vector<Shape> shapes;
  for (Instruction* result : results) {
    roots.push_back(body.Value(result));
    shapes.push_back(result->shape);
  }
  Shape shape = results.size() == 1 ? shapes[0] : Shape::Tuple(shapes);
  Computation* computation = body.Finish(
      results.size() == 1 ? roots[0] : body.computation()->Add("tuple", Op::kTuple, shape, roots));
  std::string name = FusionName(*computation);
  for (Instruction* consumer : consumers) {
    if (consumer->name != name) continue;
    // The merged kernel takes over the name of the one it replaces.
    consumer->name = entry_->UniqueName("merged");
    entry_->names->Release(name);
  }
  Instruction* fusion = entry_->Add(name, Op::kFusion, shape, body.operands());
  fusion->Set(AttrId::kKind, FusionKind(*computation));
  fusion->Set(AttrId::kCalls, computation);
  fusion->loc = producer->loc;
  const Instruction* named = producer->metadata ? producer : consumers.back();
  if (named->metadata) fusion->metadata = std::make_unique<Metadata>(*named->metadata);
  return fusion;
}

// Sorts the slots topologically, changing as little as possible: always the first that is ready.
// `now` is what stands there, in the order wished for.
void Merger::SortSlots(int64_t first, int64_t last, const std::vector<Instruction*>& now) {
  const int64_t count = static_cast<int64_t>(now.size());
  absl::flat_hash_map<const Instruction*, int> number;
  number.reserve(now.size());
  for (Instruction* i : now) number[i] = static_cast<int>(number.size());
  std::vector<std::vector<int>> users(count);
  std::vector<int> waiting(count);
  for (int n = 0; n < count; ++n) {
    EachBefore(*now[n], [&](const Instruction* before) {
      auto it = number.find(before);
      if (it == number.end()) return;
      users[it->second].push_back(n);
      ++waiting[n];
    });
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int n = 0; n < count; ++n) {
    if (waiting[n] == 0) ready.push(n);
  }
  for (int64_t s = first; s <= last; ++s) slots_[s].clear();
  int64_t sorted = 0;
  for (; !ready.empty(); ++sorted) {
    const int n = ready.top();
    ready.pop();
    for (int user : users[n]) {
      if (--waiting[user] == 0) ready.push(user);
    }
    // Spread evenly, so that every reach holds about as many.
    const int64_t slot = first + sorted * (last - first + 1) / count;
    places_[now[n]] = {slot, static_cast<int64_t>(slots_[slot].size())};
    slots_[slot].push_back(now[n]);
  }
  CHECK_MSG(sorted == count, "cycle in a computation");
  context_->CountSteps(count);
}

void Merger::ReplaceUses(Instruction* from, Instruction* to) {
  for (Instruction* user : users_.at(from)) {
    if (Gone(user)) continue;
    std::replace(user->operands.begin(), user->operands.end(), from, to);
    users_[to].push_back(user);
  }
  if (auto it = followers_.find(from); it != followers_.end()) {
    const std::vector<Instruction*> list = std::move(it->second);
    followers_.erase(it);
    for (Instruction* follower : list) {
      if (Gone(follower)) continue;
      for (Attr& attr : follower->attrs) {
        auto* before = std::get_if<std::vector<Instruction*>>(&attr.value);
        if (!before) continue;
        const bool known = std::find(before->begin(), before->end(), to) != before->end();
        if (known) before->erase(std::remove(before->begin(), before->end(), from), before->end());
        std::replace(before->begin(), before->end(), from, to);
      }
      followers_[to].push_back(follower);
    }
  }
  if (entry_->root == from) entry_->root = to;
}

void Merger::Drop(Instruction* i) {
  entry_->names->Release(i->name);
  places_.erase(i);
  users_.erase(i);
}

Instruction* Merger::MakeRead(Instruction* kernel, int64_t index, const Shape& shape) {
  Instruction* read = entry_->Add("get-tuple-element", Op::kGetTupleElement, shape, {kernel});
  read->Set(AttrId::kIndex, index);
  users_[kernel].push_back(read);
  users_[read];
  return read;
}

// One kernel of `producer` and `consumers`; results in the consumers' order, then the producer's
// own where someone else still reads it.
void Merger::Merge(Instruction* producer, const std::vector<Instruction*>& consumers) {
  const Set taken(consumers.begin(), consumers.end());
  bool kept = producer == entry_->root;
  for (Instruction* user : UsersOf(producer)) kept |= !taken.contains(user);
  std::vector<Instruction*> results = consumers;
  if (kept) results.push_back(producer);
  Instruction* fusion = MakeKernel(producer, consumers, results);
  users_[fusion];

  const int64_t first = SlotOf(producer);
  const int64_t last = std::min<int64_t>(first + kReach, slots_.size() - 1);
  std::vector<Instruction*> now = InSlots(first, last);
  now.insert(std::find(now.begin(), now.end(), consumers.back()), fusion);
  const Place root = places_.at(entry_->root);
  for (size_t n = 0; n < results.size(); ++n) {
    Instruction* value = fusion;
    if (results.size() > 1) {
      value = MakeRead(fusion, static_cast<int64_t>(n), results[n]->shape);
      // In front of the root, where that is in reach.
      auto at = std::find(now.begin(), now.end(), entry_->root);
      if (at == now.end() && root < places_.at(producer)) at = now.begin();
      now.insert(at, value);
    }
    ReplaceUses(results[n], value);
  }
  if (!kept) ReplaceUses(producer, fusion);  // of it as a control predecessor
  Set used;
  for (Instruction* operand : fusion->operands) {
    if (used.insert(operand).second) users_[operand].push_back(fusion);
  }
  Drop(producer);
  for (Instruction* consumer : consumers) Drop(consumer);
  now.erase(std::remove_if(now.begin(), now.end(),
                           [&](auto* i) { return i == producer || taken.contains(i); }),
            now.end());
  SortSlots(first, last, now);
  context_->Remark("kernel ", fusion->name, " has ", results.size(), " results");
}

// Why `user` is refused whatever stands between it and the producer.
std::string Merger::Refusal(const Instruction& user, const Instruction& producer) const {
  if (user.op == Op::kFusion && !user.shape.IsArray()) return "has several results";
  if (user.Has(AttrId::kControlPredecessors)) return "has control predecessors";
  if (SlotOf(&user) - SlotOf(&producer) > kReach) return "is out of reach";
  return WhyNot(user, producer.shape);
}

bool Merger::MergeAt(Instruction* producer) {
  const Chip& chip = *context_->chip;
  std::vector<std::pair<Instruction*, std::string>> users;  // why not
  int64_t last = -1;
  for (Instruction* user : UsersOf(producer)) {
    if (user->op == Op::kTuple || user->op == Op::kGetTupleElement) continue;
    users.push_back({user, Refusal(*user, *producer)});
    if (users.back().second.empty()) last = SlotOf(user);
  }
  const Set longer = WaitingByAnotherWay(producer, last);
  std::vector<Instruction*> taken;
  size_t size = SizeOf(*producer);
  for (auto& [user, why] : users) {
    if (why.empty() && longer.contains(user)) why = "waits for it by another way";
    if (why.empty() && size + SizeOf(*user) > kMergedOperations) {
      why = "the kernel would be too large";
    }
    if (context_->remarks) {
      double saved = HbmCycles(DeviceBytes(producer->shape), chip) + CallCycles(chip);
      context_->Remark(absl::StrFormat("%s into %s: %s", user->name, producer->name,
                                       why.empty() ? absl::StrFormat("saves %.1f cycles", saved)
                                                   : absl::StrCat("refused, ", why)));
    }
    if (!why.empty()) continue;
    taken.push_back(user);
    size += SizeOf(*user);
  }
  if (taken.empty()) return false;
  Merge(producer, taken);
  return true;
}

void Merger::WriteBack() {
  absl::flat_hash_map<const Instruction*, std::unique_ptr<Instruction>> owned;
  for (auto& i : entry_->instructions) {
    const Instruction* key = i.get();
    owned[key] = std::move(i);
  }
  std::vector<std::unique_ptr<Instruction>> list;
  for (const auto& slot : slots_) {
    for (const Instruction* i : slot) list.push_back(std::move(owned.at(i)));
  }
  entry_->instructions = std::move(list);
}

bool Merger::Run() {
  bool changed = false;
  // Looked at once each; a merged kernel is a new candidate, and stands where its producer stood or
  // behind.
  absl::flat_hash_set<std::string> seen;
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (size_t n = 0; n < slots_[s].size(); ++n) {
      Instruction* i = slots_[s][n];
      if (!CanProduce(*i) || !seen.insert(i->name).second || !MergeAt(i)) continue;
      changed = true;
      n = static_cast<size_t>(-1);  // the slot holds others now
    }
  }
  if (!changed) return false;
  WriteBack();
  entry_->RemoveDead();
  return true;
}

}  // namespace

bool MultiOutputFusion::Run(Module* module, PassContext* context) {
  return Merger(module, context).Run();
}

}  // namespace tpuc
