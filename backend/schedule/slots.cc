// Slot counting of one bundle.
#include "backend/schedule/slots.h"

#include <algorithm>

#include "backend/llo/operands.h"

namespace tpuc::schedule {

using isa::Inst;
using isa::Slot;

namespace {

template <typename F>
void ForEachImmediate(const Inst& inst, F f) {
  for (const isa::Operand& o : inst.src) {
    if (o.is_imm()) f(o.imm);
  }
  if (isa::Info(inst.op).has_memory) {
    f(inst.mem.offset + (inst.mem.base.is_imm() ? inst.mem.base.imm : 0));
  }
}

}  // namespace

bool SlotUse::Fits(const Inst& inst, const Chip& chip) const {
  switch (isa::Info(inst.op).slot) {
    case Slot::kSalu:
      if (salu_ >= chip.salu) return false;
      if (llo::IsSmem(inst.op) && smem_ >= chip.smem_access) return false;
      if (inst.op == isa::Opcode::kSbr && branch_ >= chip.branch) return false;
      if (llo::IsDma(inst.op) && dma_ >= chip.dma_start) return false;
      break;
    case Slot::kEup:
      if (valu_ >= chip.valu || eup_ >= chip.eup) return false;
      break;
    case Slot::kValu:
      if (valu_ >= chip.valu) return false;
      break;
    case Slot::kVex:
      if (vex_ >= chip.vex) return false;
      break;
    case Slot::kPop:
      if (pop_ >= chip.pop) return false;
      break;
    case Slot::kLoad:
      if (load_ >= chip.load || load_ + store_ >= chip.memory_total) return false;
      break;
    case Slot::kStore:
      if (store_ >= chip.store || load_ + store_ >= chip.memory_total) return false;
      break;
    case Slot::kMisc:
      if (misc_ >= chip.misc || load_ >= chip.load || load_ + store_ >= chip.memory_total) {
        return false;
      }
      break;
    case Slot::kMiscStore:
      if (misc_ >= chip.misc || store_ >= chip.store || load_ + store_ >= chip.memory_total) {
        return false;
      }
      break;
  }
  if (chip.immediates <= 0) return true;
  absl::InlinedVector<int32_t, 4> more;
  ForEachImmediate(inst, [&](int32_t imm) {
    bool known = std::find(more.begin(), more.end(), imm) != more.end();
    for (const Literal& l : literals_) known |= l.value == imm;
    if (!known) more.push_back(imm);
  });
  return more.empty() || static_cast<int>(literals_.size() + more.size()) <= chip.immediates;
}

void SlotUse::Count(const Inst& inst, int by) {
  switch (isa::Info(inst.op).slot) {
    case Slot::kSalu:
      salu_ += by;
      if (llo::IsSmem(inst.op)) smem_ += by;
      if (inst.op == isa::Opcode::kSbr) branch_ += by;
      if (llo::IsDma(inst.op)) dma_ += by;
      break;
    case Slot::kEup:
      eup_ += by;
      valu_ += by;
      break;
    case Slot::kValu:
      valu_ += by;
      break;
    case Slot::kVex:
      vex_ += by;
      break;
    case Slot::kPop:
      pop_ += by;
      break;
    case Slot::kMisc:
      misc_ += by;
      load_ += by;
      break;
    case Slot::kLoad:
      load_ += by;
      break;
    case Slot::kMiscStore:
      misc_ += by;
      store_ += by;
      break;
    case Slot::kStore:
      store_ += by;
      break;
  }
}

void SlotUse::Add(const Inst& inst) {
  Count(inst, 1);
  ForEachImmediate(inst, [&](int32_t imm) {
    for (Literal& l : literals_) {
      if (l.value == imm) {
        ++l.uses;
        return;
      }
    }
    literals_.push_back({imm, 1});
  });
}

void SlotUse::Remove(const Inst& inst) {
  Count(inst, -1);
  ForEachImmediate(inst, [&](int32_t imm) {
    auto it = std::find_if(literals_.begin(), literals_.end(),
                           [&](const Literal& l) { return l.value == imm; });
    if (--it->uses > 0) return;
    *it = literals_.back();
    literals_.pop_back();
  });
}

}  // namespace tpuc::schedule
