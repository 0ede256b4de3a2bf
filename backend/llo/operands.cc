// The classes of operations that backend/llo/operands.h names, read off isa.def where it says them.
#include "backend/llo/operands.h"

namespace tpuc::llo {

using isa::Info;
using isa::Opcode;
using isa::Slot;
using isa::Unit;

bool IsXposeStart(Opcode op) { return op == Opcode::kVxposeStart || op == Opcode::kVxposeStartEnd; }
bool IsXposeMember(Opcode op) { return op == Opcode::kVxposeCont || op == Opcode::kVxposeEnd; }
bool IsXposeEnd(Opcode op) { return op == Opcode::kVxposeEnd || op == Opcode::kVxposeStartEnd; }

bool IsMatmul(Opcode op) { return Info(op).unit == Unit::kMxu && IsPush(op); }
bool IsLatch(Opcode op) { return op == Opcode::kVmatmulLatch || op == Opcode::kVmatmulLatchMsk; }
Opcode Latching(Opcode matmul) {
  return matmul == Opcode::kVmatmulMsk || matmul == Opcode::kVmatmulLatchMsk
             ? Opcode::kVmatmulLatchMsk
             : Opcode::kVmatmulLatch;
}
bool IsMubr(Opcode op) { return op == Opcode::kVmatprepMubr || op == Opcode::kVmatprepMubrMsk; }
bool IsSubr(Opcode op) { return op == Opcode::kVmatprepSubr || op == Opcode::kVmatprepSubrMsk; }
bool IsWeightPush(Opcode op) {
  return Info(op).unit == Unit::kMxu && Info(op).slot == Slot::kVex && !IsMatmul(op) &&
         !IsMubr(op) && !IsSubr(op);
}

bool IsDma(Opcode op) {
  switch (op) {
    case Opcode::kDmaHbmToVmem:
    case Opcode::kDmaVmemToHbm:
    case Opcode::kDmaVmemToVmem:
    case Opcode::kDmaHbmToHbm:
    case Opcode::kDmaVmemToSmem:
    case Opcode::kDmaSmemToVmem:
    case Opcode::kDmaHbmToSmem:
    case Opcode::kDmaSmemToHbm:
      return true;
    default:
      return false;
  }
}

bool IsSync(Opcode op) {
  return IsDma(op) || Info(op).slot == Slot::kMisc || op == Opcode::kShalt || op == Opcode::kCall;
}

bool IsStore(Opcode op) { return Info(op).slot == Slot::kStore || op == Opcode::kSst; }
bool IsSmem(Opcode op) { return op == Opcode::kSld || op == Opcode::kSst; }

int ResultsOf(Opcode push, int mxu_tiles) {
  if (IsMatmul(push)) return mxu_tiles;
  if (IsXposeStart(push)) return 16;
  return 1;
}

Opcode PopFor(Opcode push) {
  if (IsMatmul(push)) return Opcode::kVpopMrf;
  if (IsXposeStart(push)) return Opcode::kVpopTrf;
  switch (Info(push).unit) {
    case Unit::kEup:
      return Opcode::kVpopEup;
    case Unit::kV2s:
      return Opcode::kSpop;
    default:
      break;
  }
  return Info(push).latency == LatencyKey::kXlane ? Opcode::kVpopXlane : Opcode::kVpopPermute;
}

absl::InlinedVector<int, 2> Successors(const Function& function, int block) {
  absl::InlinedVector<int, 2> out;
  const Block& b = function.blocks[block];
  bool falls = true;
  if (!b.insts.empty() && b.insts.back().op == Opcode::kSbr) {
    out.push_back(b.insts.back().target);
    falls = b.insts.back().pred.valid();
  }
  if (falls && (out.empty() || out[0] != block + 1)) out.push_back(block + 1);
  return out;
}

}  // namespace tpuc::llo
