// Static counts over bundles.
#include "backend/report/stats.h"

namespace tpuc {

int64_t InstructionCount(const isa::Function& function) {
  int64_t n = 0;
  for (const isa::Bundle& b : function.bundles) n += static_cast<int64_t>(b.insts.size());
  return n;
}

SlotCounts CountSlots(const isa::Function& function) {
  SlotCounts c;
  for (const isa::Bundle& b : function.bundles) {
    for (const isa::Inst& inst : b.insts) {
      const isa::OpInfo& info = isa::Info(inst.op);
      switch (info.slot) {
        case isa::Slot::kSalu:
          ++c.salu;
          break;
        case isa::Slot::kValu:
          ++c.valu;
          break;
        case isa::Slot::kEup:
          ++c.eup;
          break;
        case isa::Slot::kVex:
        case isa::Slot::kPop:
          if (info.unit == isa::Unit::kMxu) ++c.mxu;
          if (info.unit == isa::Unit::kXlu) ++c.xlu;
          if (info.unit == isa::Unit::kEup) ++c.eup;
          break;
        case isa::Slot::kLoad:
        case isa::Slot::kMisc:
          ++c.load;
          break;
        case isa::Slot::kStore:
        case isa::Slot::kMiscStore:
          ++c.store;
          break;
      }
    }
  }
  return c;
}

std::vector<int64_t> StaticCalls(const isa::Program& program) {
  std::vector<int64_t> calls(program.kernels.size(), 0);
  for (const isa::Bundle& b : program.tlp.bundles) {
    for (const isa::Inst& inst : b.insts) {
      bool call = inst.op == isa::Opcode::kCall && inst.target >= 0;
      if (call && inst.target < static_cast<int64_t>(calls.size())) ++calls[inst.target];
    }
  }
  return calls;
}

}  // namespace tpuc
