// See builder.h.
#include "backend/lower/builder.h"

#include <algorithm>
#include <utility>

#include "src/diag/check.h"

namespace tpuc::lower {

int Builder::NewBlock(std::string label) {
  f_->blocks.emplace_back();
  f_->blocks.back().label = std::move(label);
  block_ = static_cast<int>(f_->blocks.size()) - 1;
  return block_;
}

isa::Inst& Builder::Append(Opcode op) {
  std::vector<isa::Inst>& insts = f_->blocks[block_].insts;
  insts.emplace_back();
  isa::Inst& inst = insts.back();
  inst.op = op;
  inst.source = source_;
  return inst;
}

namespace {

// What must not happen when the predicate does not hold. Values may be computed for nothing.
bool HasEffect(Opcode op) {
  switch (isa::Info(op).slot) {
    case isa::Slot::kStore:
    case isa::Slot::kMisc:
      return true;
    default:
      break;
  }
  return op == Opcode::kShalt || (op >= Opcode::kDmaHbmToVmem && op <= Opcode::kDmaSmemToHbm);
}

}  // namespace

Reg Builder::Op(Opcode op, absl::Span<const Operand> src, int unit) {
  const isa::OpInfo& info = isa::Info(op);
  Reg dest;
  if (info.dest != RegClass::kNone) dest = f_->New(info.dest);
  isa::Inst& inst = Append(op);
  inst.unit = static_cast<int8_t>(unit);
  inst.dest = dest;
  inst.src.assign(src.begin(), src.end());
  if (pred_.valid() && HasEffect(op)) {
    inst.pred = pred_;
    inst.pred_negated = pred_negated_;
  }
  return dest;
}

void Builder::Into(Reg dest, Opcode op, std::initializer_list<Operand> src) {
  isa::Inst& inst = Append(op);
  inst.dest = dest;
  inst.src.assign(src.begin(), src.end());
}

Reg Builder::Load(const isa::MemRef& mem) {
  Reg dest = f_->New(RegClass::kVector);
  isa::Inst& inst = Append(Opcode::kVld);
  inst.dest = dest;
  inst.mem = mem;
  return dest;
}

void Builder::Store(const isa::MemRef& mem, Operand value) {
  Reg v = AsReg(value);
  isa::Inst& inst = Append(Opcode::kVst);
  inst.mem = mem;
  inst.src = {v};
  inst.pred = pred_;
  inst.pred_negated = pred_negated_;
}

void Builder::StoreMasked(const isa::MemRef& mem, Operand mask, Operand value, int packing) {
  Reg v = AsReg(value);
  isa::Inst& inst = Append(packing == 1   ? Opcode::kVstMsk
                           : packing == 2 ? Opcode::kVstMskB16
                           : packing == 4 ? Opcode::kVstMskB8
                                          : Opcode::kVstMskB4);
  inst.mem = mem;
  inst.src = {mask, v};
  inst.pred = pred_;
  inst.pred_negated = pred_negated_;
}

void Builder::Branch(int target, Reg pred, bool negated) {
  isa::Inst& inst = Append(Opcode::kSbr);
  inst.target = target;
  inst.pred = pred;
  inst.pred_negated = negated;
}

Reg Builder::Eup(Opcode op, Operand v) {
  Reg t = Op(op, {AsReg(v)});
  return Op(Opcode::kVpopEup, {t});
}

Reg Builder::Xlane(Opcode op, Operand v) {
  Reg t = Op(op, {AsReg(v)});
  return Op(Opcode::kVpopXlane, {t});
}

Reg Builder::Permute(Opcode op, Operand v, Operand n) {
  Reg t = Op(op, {AsReg(v), n});
  return Op(Opcode::kVpopPermute, {t});
}

Reg Builder::AsReg(Operand v) { return v.is_imm() ? Vmov(v) : v.reg; }

Operand Builder::Sadd(Operand a, Operand b) {
  if (a.is_imm() && b.is_imm()) return Imm(int64_t{a.imm} + b.imm);
  if (a.is_imm() && a.imm == 0) return b;
  if (b.is_imm() && b.imm == 0) return a;
  return Op(Opcode::kSadd, {a, b});
}

Operand Builder::Ssub(Operand a, Operand b) {
  if (a.is_imm() && b.is_imm()) return Imm(int64_t{a.imm} - b.imm);
  if (b.is_imm() && b.imm == 0) return a;
  return Op(Opcode::kSsub, {a, b});
}

Operand Builder::Smul(Operand a, Operand b) {
  if (a.is_imm() && b.is_imm()) return Imm(int64_t{a.imm} * b.imm);
  if (a.is_imm()) std::swap(a, b);
  if (b.is_imm()) {
    if (b.imm == 0) return Imm(0);
    if (b.imm == 1) return a;
    if (b.imm > 0 && (b.imm & (b.imm - 1)) == 0) {
      return Op(Opcode::kSshll, {a, Imm(__builtin_ctz(b.imm))});
    }
  }
  return Op(Opcode::kSmul, {a, b});
}

Operand Builder::Smin(Operand a, Operand b) {
  if (a.is_imm() && b.is_imm()) return Imm(std::min(a.imm, b.imm));
  return Select(Op(Opcode::kScmpLt, {a, b}), a, b);
}

Operand Builder::Smax(Operand a, Operand b) {
  if (a.is_imm() && b.is_imm()) return Imm(std::max(a.imm, b.imm));
  return Select(Op(Opcode::kScmpGt, {a, b}), a, b);
}

Operand Builder::Sdiv(Operand a, Operand b) {
  if (a.is_imm() && b.is_imm()) return Imm(b.imm == 0 ? 0 : a.imm / b.imm);
  if (b.is_imm() && b.imm > 0 && (b.imm & (b.imm - 1)) == 0) {
    return b.imm == 1 ? a : Operand(Op(Opcode::kSshrl, {a, Imm(__builtin_ctz(b.imm))}));
  }
  return Op(Opcode::kSdiv, {a, b});
}

Operand Builder::Srem(Operand a, Operand b) {
  if (a.is_imm() && b.is_imm()) return Imm(b.imm == 0 ? 0 : a.imm % b.imm);
  if (b.is_imm() && b.imm > 0 && (b.imm & (b.imm - 1)) == 0) {
    return b.imm == 1 ? Imm(0) : Operand(Op(Opcode::kSand, {a, Imm(b.imm - 1)}));
  }
  return Op(Opcode::kSrem, {a, b});
}

Operand Builder::Select(Reg pred, Operand a, Operand b) {
  return Op(Opcode::kSselect, {pred, a, b});
}

Reg Builder::AsScalar(Operand a) { return a.is_imm() ? Op(Opcode::kSmov, {a}) : a.reg; }

}  // namespace tpuc::lower
