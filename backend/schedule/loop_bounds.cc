// Resource and recurrence bounds of loops.
#include "backend/schedule/loop_bounds.h"

#include <algorithm>
#include <vector>

#include "absl/container/btree_map.h"
#include "backend/llo/operands.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {

using isa::Inst;
using isa::Reg;
using isa::RegClass;
using isa::Slot;

namespace {

int CeilDiv(int a, int b) { return b > 0 ? (a + b - 1) / b : a; }

}  // namespace

int ResourceBound(const llo::Function& function, int first, int last, const Chip& chip) {
  int salu = 0, valu = 0, eup = 0, vex = 0, pop = 0, load = 0, store = 0, misc = 0, smem = 0;
  int xlu = 0;  // cycles of either
  std::vector<int> lhs(chip.mxus), weight(chip.mxus), mrf(chip.mxus);
  for (int b = first; b <= last; ++b) {
    for (const Inst& inst : function.blocks[b].insts) {
      const isa::OpInfo& info = isa::Info(inst.op);
      switch (info.slot) {
        case Slot::kSalu:
          ++salu;
          smem += llo::IsSmem(inst.op);
          break;
        case Slot::kEup:
          ++eup;
          ++valu;
          break;
        case Slot::kValu:
          ++valu;
          break;
        case Slot::kVex:
          ++vex;
          break;
        case Slot::kPop:
          ++pop;
          break;
        case Slot::kMisc:
          ++misc;
          ++load;
          break;
        case Slot::kLoad:
          ++load;
          break;
        case Slot::kMiscStore:
          ++misc;
          ++store;
          break;
        case Slot::kStore:
          ++store;
          break;
      }
      if (info.unit == isa::Unit::kXlu && !llo::IsPop(inst.op)) xlu += IssueInterval(inst, chip);
      if (info.unit == isa::Unit::kMxu && inst.unit >= 0 && inst.unit < chip.mxus) {
        if (llo::IsMatmul(inst.op)) {
          lhs[inst.unit] += IssueInterval(inst, chip);
          mrf[inst.unit] += llo::ResultsOf(inst.op) * chip.interval(IntervalKey::kMrfPop);
        } else if (llo::IsWeightPush(inst.op)) {
          weight[inst.unit] += IssueInterval(inst, chip);
        }
      }
    }
  }
  int bound = std::max({CeilDiv(salu, chip.salu), CeilDiv(valu, chip.valu), CeilDiv(eup, chip.eup),
                        CeilDiv(vex, chip.vex), CeilDiv(pop, chip.pop), CeilDiv(load, chip.load),
                        CeilDiv(store, chip.store), CeilDiv(load + store, chip.memory_total),
                        CeilDiv(misc, chip.misc), CeilDiv(smem, chip.smem_access),
                        CeilDiv(xlu, chip.xlus), 1});
  for (int u = 0; u < chip.mxus; ++u) bound = std::max({bound, lhs[u], weight[u], mrf[u]});
  return bound;
}

int MinimumInterval(const llo::Function& function, int first, int last, const Chip& chip) {
  int bound = std::max(ResourceBound(function, first, last, chip), chip.delay_slots + 1);
  if (first != last) return bound;
  // Longest path, by register, from each register's value at the block's start to its next value.
  using Key = std::pair<int, int>;  // class, register
  const std::vector<Inst>& insts = function.blocks[first].insts;
  absl::btree_map<Key, bool> carried;  // read before it is written
  absl::btree_map<Key, bool> written;
  for (const Inst& inst : insts) {
    llo::ForEachRead(inst, [&](Reg r) {
      Key key{static_cast<int>(r.cls), r.id};
      if (!written.contains(key)) carried[key] = true;
    });
    if (inst.dest.valid()) written[{static_cast<int>(inst.dest.cls), inst.dest.id}] = true;
  }
  for (const auto& [start, unused] : carried) {
    if (!written.contains(start)) continue;
    absl::btree_map<Key, int> distance = {{start, 0}};
    for (const Inst& inst : insts) {
      int longest = -1;
      llo::ForEachRead(inst, [&](Reg r) {
        auto it = distance.find({static_cast<int>(r.cls), r.id});
        if (it != distance.end()) longest = std::max(longest, it->second);
      });
      if (!inst.dest.valid()) continue;
      Key dest{static_cast<int>(inst.dest.cls), inst.dest.id};
      if (longest >= 0) {
        distance[dest] = longest + Latency(inst, chip);
      } else if (!inst.pred.valid()) {
        distance.erase(dest);
      }
    }
    auto it = distance.find(start);
    if (it != distance.end()) bound = std::max(bound, it->second);
  }
  return bound;
}

}  // namespace tpuc::schedule
