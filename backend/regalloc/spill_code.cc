// Spill stores and loads of each register class.
#include "backend/regalloc/spill_code.h"

namespace tpuc::regalloc {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

namespace {

constexpr int kRowsOfVector = 8;

bool InVmem(RegClass cls) { return cls == RegClass::kVector || cls == RegClass::kMask; }

Inst Make(Opcode op, Reg dest, std::initializer_list<Operand> sources, const Inst& like) {
  Inst inst;
  inst.op = op;
  inst.dest = dest;
  inst.src.assign(sources.begin(), sources.end());
  inst.pred = like.pred;
  inst.pred_negated = like.pred_negated;
  inst.source = like.source;
  return inst;
}

void SetMemory(Inst* inst, int64_t home, bool vmem, const SpillArea& area) {
  inst->mem.base = Operand::Imm(0);
  inst->mem.offset = static_cast<int32_t>(home);
  inst->mem.buffer = vmem ? area.vmem_buffer : area.smem_buffer;
}

}  // namespace

int64_t NewHome(RegClass cls, SpillArea* area) {
  if (!InVmem(cls)) return area->first_word + area->words++;
  int64_t row = area->first_row + area->rows;
  area->rows += kRowsOfVector;
  return row;
}

void AppendStore(Reg value, int64_t home, const Inst& like, const SpillArea& area,
                 llo::Function* function, std::vector<Inst>* out) {
  Reg stored = value;
  Inst always = like;  // a predicated write would read the old value of a register that has none
  always.pred = Reg();
  if (value.cls == RegClass::kMask) {
    stored = function->New(RegClass::kVector);
    out->push_back(Make(Opcode::kVsel, stored, {value, Operand::Imm(1), Operand::Imm(0)}, always));
  } else if (value.cls == RegClass::kPredicate) {
    stored = function->New(RegClass::kScalar);
    out->push_back(
        Make(Opcode::kSselect, stored, {value, Operand::Imm(1), Operand::Imm(0)}, always));
  }
  bool vmem = InVmem(value.cls);
  Inst store = Make(vmem ? Opcode::kVst : Opcode::kSst, Reg(), {stored}, like);
  SetMemory(&store, home, vmem, area);
  out->push_back(store);
}

void AppendLoad(Reg dest, int64_t home, const SpillArea& area, llo::Function* function,
                std::vector<Inst>* out) {
  bool vmem = InVmem(dest.cls);
  bool direct = dest.cls == RegClass::kVector || dest.cls == RegClass::kScalar;
  Reg loaded = direct ? dest : function->New(vmem ? RegClass::kVector : RegClass::kScalar);
  Inst load = Make(vmem ? Opcode::kVld : Opcode::kSld, loaded, {}, Inst{});
  SetMemory(&load, home, vmem, area);
  out->push_back(load);
  if (direct) return;
  Opcode test = vmem ? Opcode::kVcmpNeS32 : Opcode::kScmpNe;
  out->push_back(Make(test, dest, {loaded, Operand::Imm(0)}, Inst{}));
}

}  // namespace tpuc::regalloc
