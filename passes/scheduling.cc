// schedule. Puts the entry's instructions in the order in which they will run. Two orders are made
// and the one with the smaller peak of live bytes is kept: the order that stands there, and a
// greedy one that always runs the ready kernel which frees most (or adds least).
//
//   parameters by number, constants, then kernels; tuples and bitcasts right behind what they name
//
// Time to hide copies behind is made by memory-space-assignment, which starts them early.
#include "passes/scheduling.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "passes/live_ranges.h"

namespace tpuc {
namespace {

using Sequence = std::vector<Instruction*>;

constexpr int64_t kMostBytes = int64_t{1} << 40;  // of one array: sums of them do not overflow

int RankOf(const Instruction& i) {
  if (i.op == Op::kParameter) return 0;
  if (i.op == Op::kConstant) return 1;
  // Names of values, and waits for copies under way, cost nothing where they stand.
  if (!IsKernel(i)) return 2;
  return 3;
}

int64_t OwnBytes(const Instruction& i) {
  if (!IsKernel(i)) return 0;
  int64_t bytes = 0;
  for (const Shape* leaf : LeavesOf(i.shape)) {
    if (leaf->IsArray()) bytes += std::min(DeviceBytes(*leaf), kMostBytes);
  }
  return bytes;
}

class Scheduler {
 public:
  explicit Scheduler(Computation* entry) : entry_(entry), users_(Users(*entry)) {
    int n = 0;
    for (const auto& i : entry->instructions) number_[i.get()] = n++;
  }

  // `greedy`: kernels by bytes; else as they stand.
  Sequence Order(bool greedy);
  static int64_t Peak(const Sequence& order, const Computation& entry);

 private:
  struct Key {
    int rank;
    int64_t cost, number;
    Instruction* i;
    bool operator<(const Key& o) const {
      return std::tie(rank, cost, number) < std::tie(o.rank, o.cost, o.number);
    }
  };
  Key KeyOf(Instruction* i, bool greedy) {
    Key key = {RankOf(*i), 0, number_.at(i), i};
    if (key.rank == 0) key.number = i->parameter_number;
    if (key.rank == 3 && greedy) key.cost = OwnBytes(*i) - Freed(*i);
    return key;
  }
  // Bytes whose last reader i is.
  int64_t Freed(const Instruction& i) {
    int64_t bytes = 0;
    for (const Instruction* operand : i.operands) {
      if (left_.at(operand) == 1) bytes += OwnBytes(*operand);
    }
    return bytes;
  }

  Computation* entry_;
  UserMap users_;
  absl::flat_hash_map<const Instruction*, int64_t> number_;
  absl::flat_hash_map<const Instruction*, int> left_;  // users not yet run
};

Sequence Scheduler::Order(bool greedy) {
  absl::flat_hash_map<const Instruction*, int> waiting;
  absl::flat_hash_map<const Instruction*, std::vector<Instruction*>> after;
  for (const auto& i : entry_->instructions) {
    std::set<const Instruction*> before(i->operands.begin(), i->operands.end());
    for (const Attr& attr : i->attrs) {
      if (const auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
        before.insert(list->begin(), list->end());
      }
    }
    waiting[i.get()] = static_cast<int>(before.size());
    for (const Instruction* b : before) after[b].push_back(i.get());
    left_[i.get()] = static_cast<int>(users_.at(i.get()).size());
  }
  Sequence order, ready;
  for (const auto& i : entry_->instructions) {
    if (waiting[i.get()] == 0) ready.push_back(i.get());
  }
  while (!ready.empty()) {
    auto best = std::min_element(ready.begin(), ready.end(), [&](Instruction* a, Instruction* b) {
      return KeyOf(a, greedy) < KeyOf(b, greedy);
    });
    Instruction* next = *best;
    ready.erase(best);
    order.push_back(next);
    for (const Instruction* operand :
         std::set<const Instruction*>(next->operands.begin(), next->operands.end())) {
      --left_[operand];
    }
    for (Instruction* user : after[next]) {
      if (--waiting[user] == 0) ready.push_back(user);
    }
  }
  return order;
}

int64_t Scheduler::Peak(const Sequence& order, const Computation& entry) {
  absl::flat_hash_map<const Instruction*, int> left;
  UserMap users = Users(entry);
  int64_t live = 0, peak = 0;
  for (const Instruction* i : order) {
    live += OwnBytes(*i);
    peak = std::max(peak, live);
    left[i] = static_cast<int>(users.at(i).size()) + (i == entry.root ? 1 : 0);
    for (const Instruction* operand :
         std::set<const Instruction*>(i->operands.begin(), i->operands.end())) {
      if (--left[operand] == 0) live -= OwnBytes(*operand);
    }
  }
  return peak;
}

}  // namespace

bool Scheduling::Run(Module* module, PassContext* context) {
  Computation* entry = module->entry;
  if (module->is_scheduled) return false;
  Scheduler scheduler(entry);
  Sequence as_is = scheduler.Order(false), greedy = scheduler.Order(true);
  int64_t peak_as_is = Scheduler::Peak(as_is, *entry), peak = Scheduler::Peak(greedy, *entry);
  context->Remark("peak of live intermediates: as it stands ", peak_as_is, " bytes, greedy ", peak,
                  " bytes");
  const Sequence& order = peak < peak_as_is ? greedy : as_is;
  absl::flat_hash_map<const Instruction*, std::unique_ptr<Instruction>> owned;
  for (auto& i : entry->instructions) {
    const Instruction* key = i.get();
    owned[key] = std::move(i);
  }
  entry->instructions.clear();
  for (Instruction* i : order) entry->instructions.push_back(std::move(owned.at(i)));
  module->is_scheduled = true;
  return true;
}

}  // namespace tpuc
