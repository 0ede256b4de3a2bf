// Counts what one trip takes of every resource.
#include "backend/schedule/loop_bounds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/llo/operands.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {

using isa::Inst;
using isa::Slot;

namespace {

int CeilDiv(int a, int b) { return b > 0 ? (a + b - 1) / b : a; }

// Slots and unit cycles that instructions take.
struct Use {
  explicit Use(const Chip& chip)
      : xlu_of(chip.xlus), lhs(chip.mxus), weight(chip.mxus), mrf(chip.mxus) {}
  void Add(const Inst& inst, const Chip& chip);
  void AddSlot(const Inst& inst);

  int salu = 0, valu = 0, eup = 0, vex = 0, pop = 0, load = 0, store = 0, misc = 0, smem = 0;
  int dma = 0;
  int xpose = 0;                      // cycles between starts of transposes, on either XLU
  int xlu = 0;                        // cycles of either
  std::vector<int> xlu_of;            // cycles that only this one will do
  std::vector<int> lhs, weight, mrf;  // cycles by MXU
};

void Use::AddSlot(const Inst& inst) {
  switch (isa::Info(inst.op).slot) {
    case Slot::kSalu:
      ++salu;
      smem += llo::IsSmem(inst.op);
      dma += llo::IsDma(inst.op);
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
}

void Use::Add(const Inst& inst, const Chip& chip) {
  AddSlot(inst);
  const isa::OpInfo& info = isa::Info(inst.op);
  if (llo::IsPop(inst.op)) return;
  if (llo::IsXposeStart(inst.op)) xpose += chip.interval(IntervalKey::kXposeGroup);
  if (info.unit == isa::Unit::kXlu) {
    xlu += IssueInterval(inst, chip);
    if (inst.unit >= 0 && inst.unit < chip.xlus) xlu_of[inst.unit] += IssueInterval(inst, chip);
  }
  if (info.unit == isa::Unit::kMxu && inst.unit >= 0 && inst.unit < chip.mxus) {
    if (llo::IsMatmul(inst.op)) {
      lhs[inst.unit] += IssueInterval(inst, chip);
      mrf[inst.unit] +=
          llo::ResultsOf(inst.op, chip.mxu_tiles()) * chip.interval(IntervalKey::kMrfPop);
    } else if (llo::IsWeightPush(inst.op)) {
      weight[inst.unit] += IssueInterval(inst, chip);
    }
  }
}

}  // namespace

LoopBound FindResourceBound(const llo::Function& function, int first, int last,
                            const std::vector<char>* dead, const Chip& chip) {
  Use use(chip);
  for (int b = first; b <= last; ++b) {
    const std::vector<Inst>& insts = function.blocks[b].insts;
    for (size_t i = 0; i < insts.size(); ++i) {
      if (dead != nullptr && i < dead->size() && (*dead)[i]) continue;
      use.Add(insts[i], chip);
    }
  }
  LoopBound bound;
  auto raise = [&](int cycles, const auto&... name) {
    if (cycles <= bound.cycles && !bound.name.empty()) return;
    bound = {std::max(1, cycles), absl::StrCat(name...)};
  };
  raise(CeilDiv(use.valu, chip.valu), "valu");
  raise(CeilDiv(use.eup, chip.eup), "eup");
  raise(CeilDiv(use.vex, chip.vex), "vex");
  raise(CeilDiv(use.pop, chip.pop), "pops");
  raise(CeilDiv(use.load, chip.load), "loads");
  raise(CeilDiv(use.store, chip.store), "stores");
  raise(CeilDiv(use.load + use.store, chip.memory_total), "loads and stores");
  raise(CeilDiv(use.misc, chip.misc), "misc");
  raise(CeilDiv(use.salu, chip.salu), "salu");
  raise(CeilDiv(use.smem, chip.smem_access), "smem");
  raise(CeilDiv(use.dma, chip.dma_start), "dma starts");
  raise(CeilDiv(use.xlu, chip.xlus), "xlu");
  raise(CeilDiv(use.xpose, chip.xlus), "xlu transposes");
  for (int u = 0; u < chip.xlus; ++u) raise(use.xlu_of[u], "xlu", u);
  for (int u = 0; u < chip.mxus; ++u) {
    raise(use.lhs[u], "mxu", u, " lhs");
    raise(use.weight[u], "mxu", u, " weights");
    raise(use.mrf[u], "mxu", u, " results");
  }
  return bound;
}

}  // namespace tpuc::schedule
