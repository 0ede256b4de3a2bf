// What an instruction reads and writes, and which queue its results go through: the questions that
// the LLO verifier, the scheduler and the register allocator all ask of isa.def.
//
//   (%p1) %v3 = vadd.f32 %v1, 1.0f     reads %v1, %p1 and (its old value) %v3; writes %v3
//   %t0 = vmatmul.. %v1                pushes two results on its MXU's queue
//
// Facts of the instruction set only; how long anything takes is in the chip file.
#pragma once

#include "backend/isa/isa.h"
#include "backend/llo/llo.h"

namespace tpuc::llo {

inline bool IsPush(isa::Opcode op) { return isa::Info(op).dest == isa::RegClass::kToken; }
inline bool IsPop(isa::Opcode op) {
  return isa::Info(op).slot == isa::Slot::kPop || op == isa::Opcode::kSpop;
}
bool IsXposeStart(isa::Opcode op);   // first (or only) push of a transpose
bool IsXposeMember(isa::Opcode op);  // further pushes: operand 0 is the token of the first
bool IsXposeEnd(isa::Opcode op);     // last (or only) push
bool IsMatmul(isa::Opcode op);
bool IsLatch(isa::Opcode op);  // matmul that first takes the staged weights
isa::Opcode Latching(isa::Opcode matmul);  // the same matmul with a latch
bool IsMubr(isa::Opcode op);
bool IsSubr(isa::Opcode op);
bool IsWeightPush(isa::Opcode op);
inline bool IsLhsSide(isa::Opcode op) { return IsMatmul(op) || IsMubr(op); }
inline bool IsWeightSide(isa::Opcode op) { return IsWeightPush(op) || IsSubr(op); }
bool IsDma(isa::Opcode op);
// Keeps program order among its kind: DMA starts, waits, flag writes, traps, traces, delays, calls.
bool IsSync(isa::Opcode op);
bool IsStore(isa::Opcode op);  // vst, vst.msk, sst
bool IsSmem(isa::Opcode op);   // sld, sst
// Results that one push (for a transpose: the group) puts on its queue (isa.def). A matmul gives as
// many as the chip's MXUs are tiles wide (Chip::mxu_tiles).
int ResultsOf(isa::Opcode push, int mxu_tiles);
// The pop that takes them.
isa::Opcode PopFor(isa::Opcode push);

// Calls f(Reg) for every register read, tokens included. A predicated write reads its own
// destination: where the predicate is false the old value stays.
template <typename F>
void ForEachRead(const isa::Inst& inst, F f) {
  for (const isa::Operand& operand : inst.src) {
    if (!operand.is_imm()) f(operand.reg);
  }
  if (isa::Info(inst.op).has_memory && !inst.mem.base.is_imm()) f(inst.mem.base.reg);
  if (inst.pred.valid()) {
    f(inst.pred);
    if (inst.dest.valid() && inst.dest.cls != isa::RegClass::kToken) f(inst.dest);
  }
}

// The blocks that control may reach from the end of `block`; blocks.size() stands for the exit.
absl::InlinedVector<int, 2> Successors(const Function& function, int block);

}  // namespace tpuc::llo
