// schedule. Puts the entry's instructions in the order in which they will run: that of the kernels
// with the smallest peak of live bytes (kernel_order.h), and around them
//
//   parameters by number, constants, then kernels; tuples and bitcasts right behind what they name
//
// Time to hide copies behind is made by memory-space-assignment, which starts them early.
#include "passes/scheduling.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "passes/kernel_order.h"
#include "passes/live_ranges.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;  // of one array: sums of them do not overflow

int RankOf(const Instruction& i) {
  if (i.op == Op::kParameter) return 0;
  if (i.op == Op::kConstant) return 1;
  // Names of values, and waits for copies under way, cost nothing where they stand.
  if (!IsKernel(i)) return 2;
  return 3;
}

// The side effect before each side effect: they keep their order.
using Effects = absl::flat_hash_map<const Instruction*, const Instruction*>;

Effects EffectsOf(const Computation& entry) {
  Effects previous;
  const Instruction* last = nullptr;
  for (const auto& i : entry.instructions) {
    if (!HasSideEffect(*i)) continue;
    if (last) previous[i.get()] = last;
    last = i.get();
  }
  return previous;
}

std::set<const Instruction*> Before(const Instruction& i, const Effects& effects) {
  std::set<const Instruction*> before(i.operands.begin(), i.operands.end());
  if (auto it = effects.find(&i); it != effects.end()) before.insert(it->second);
  for (const Attr& attr : i.attrs) {
    if (const auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
      before.insert(list->begin(), list->end());
    }
  }
  return before;
}

using Numbers = absl::flat_hash_map<const Instruction*, int64_t>;

// A topological order: by rank, then by number.
void Reorder(Computation* entry, const Effects& effects, const Numbers& number) {
  absl::flat_hash_map<const Instruction*, int> waiting;
  absl::flat_hash_map<const Instruction*, std::vector<Instruction*>> after;
  absl::flat_hash_map<const Instruction*, std::unique_ptr<Instruction>> owned;
  using Key = std::tuple<int, int64_t, Instruction*>;
  auto earlier = [](const Key& a, const Key& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  };
  std::set<Key, decltype(earlier)> ready(earlier);
  auto add = [&](Instruction* i) {
    const int rank = RankOf(*i);
    ready.insert({rank, rank == 0 ? i->parameter_number : number.at(i), i});
  };
  for (auto& i : entry->instructions) {
    std::set<const Instruction*> before = Before(*i, effects);
    waiting[i.get()] = static_cast<int>(before.size());
    for (const Instruction* b : before) after[b].push_back(i.get());
    if (before.empty()) add(i.get());
    const Instruction* key = i.get();
    owned[key] = std::move(i);
  }
  entry->instructions.clear();
  while (!ready.empty()) {
    Instruction* next = std::get<2>(*ready.begin());
    ready.erase(ready.begin());
    entry->instructions.push_back(std::move(owned.at(next)));
    for (Instruction* user : after[next]) {
      if (--waiting[user] == 0) add(user);
    }
  }
}

// The kernels of an entry in order; constants and parameters, which last, are not in it.
KernelGraph GraphOf(const Computation& entry, const Effects& effects,
                    std::vector<const Instruction*>* kernels) {
  KernelGraph graph;
  Numbers kernel;
  absl::flat_hash_map<const Instruction*, std::set<int>> through;  // of what only names values
  for (const auto& i : entry.instructions) {
    std::set<int> before;
    for (const Instruction* b : Before(*i, effects)) {
      if (auto it = kernel.find(b); it != kernel.end()) {
        before.insert(static_cast<int>(it->second));
      } else if (auto named = through.find(b); named != through.end()) {
        before.insert(named->second.begin(), named->second.end());
      }
    }
    if (RankOf(*i) < 3) {
      if (!before.empty()) through[i.get()] = std::move(before);
      continue;
    }
    kernel[i.get()] = graph.size();
    kernels->push_back(i.get());
    graph.before.emplace_back(before.begin(), before.end());
  }
  const LiveRanges ranges = ComputeLiveRanges(entry);
  for (const LiveBuffer& b : ranges.buffers) {
    auto maker = kernel.find(b.instruction);
    if (maker == kernel.end()) continue;
    KernelGraph::Buffer buffer{
        std::min(b.bytes, kMostBytes), static_cast<int>(maker->second), {}, b.result};
    for (int64_t position : b.reads) {
      auto reader = kernel.find(entry.instructions[position].get());
      if (reader == kernel.end()) {
        buffer.lasting = true;  // a loop or the like: not moved past by what is here
      } else {
        buffer.readers.push_back(static_cast<int>(reader->second));
      }
    }
    graph.buffers.push_back(std::move(buffer));
  }
  return graph;
}

}  // namespace

bool Scheduling::Run(Module* module, PassContext* context) {
  Computation* entry = module->entry;
  if (module->is_scheduled) return false;
  Numbers number;
  for (const auto& i : entry->instructions) number.emplace(i.get(), number.size());
  const Effects effects = EffectsOf(*entry);
  Reorder(entry, effects, number);
  std::vector<const Instruction*> kernels;
  const KernelGraph graph = GraphOf(*entry, effects, &kernels);
  std::vector<int> as_is(graph.size());
  for (int k = 0; k < graph.size(); ++k) as_is[k] = k;
  const std::vector<int> order = SmallestPeak(graph);
  context->Remark("peak of live intermediates: as it stands ", PeakOf(graph, as_is),
                  " bytes, chosen order ", PeakOf(graph, order), " bytes");
  for (size_t p = 0; p < order.size(); ++p) {
    number[kernels[order[p]]] = static_cast<int64_t>(p);
  }
  Reorder(entry, effects, number);
  module->is_scheduled = true;
  return true;
}

}  // namespace tpuc
