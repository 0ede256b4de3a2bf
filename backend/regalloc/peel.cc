// See peel.h. The block keeps the loop's registers: the counter counts on from the first trip.
#include "backend/regalloc/peel.h"

#include <set>

#include "absl/container/flat_hash_map.h"
#include "backend/llo/operands.h"

namespace tpuc::regalloc {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

void PeelLatch(llo::Function* function, int loop) {
  llo::Function& f = *function;
  const int at = f.loops[loop].first;
  const int64_t trips = f.loops[loop].trips;
  llo::Block first = f.blocks[at];
  first.insts.pop_back();  // the branch
  first.label += ".first";
  if (first.trips > 0) {
    first.trips /= trips;
    f.blocks[at].trips = first.trips * (trips - 1);
  }
  absl::flat_hash_map<int, Reg> tokens;
  std::set<int> latched;
  for (Inst& inst : first.insts) {
    for (Operand& o : inst.src) {
      if (o.reg.cls == RegClass::kToken) o.reg = tokens.at(o.reg.id);
    }
    if (inst.dest.cls == RegClass::kToken) {
      const int id = inst.dest.id;
      inst.dest = f.New(RegClass::kToken);
      tokens[id] = inst.dest;
    }
    if (llo::IsMatmul(inst.op) && latched.insert(inst.unit).second) {
      inst.op = llo::Latching(inst.op);
    }
  }
  for (llo::Block& b : f.blocks) {
    if (b.insts.empty() || b.insts.back().op != Opcode::kSbr) continue;
    int& target = b.insts.back().target;
    if (target >= at) ++target;
  }
  for (llo::Loop& l : f.loops) {
    if (l.first >= at) ++l.first;
    if (l.last >= at) ++l.last;
  }
  f.blocks.insert(f.blocks.begin() + at, std::move(first));
  f.loops[loop].latch = false;
  f.loops[loop].trips = trips - 1;
}

}  // namespace tpuc::regalloc
