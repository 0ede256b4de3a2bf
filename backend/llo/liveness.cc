// Live registers at block borders, and the registers that some path has written by then.
#include "backend/llo/liveness.h"

#include "backend/llo/operands.h"

namespace tpuc::llo {

using isa::Inst;
using isa::Reg;
using isa::RegClass;

bool BitSet::Merge(const BitSet& o) {
  bool grew = false;
  for (size_t w = 0; w < words_.size(); ++w) {
    uint64_t merged = words_[w] | o.words_[w];
    grew |= merged != words_[w];
    words_[w] = merged;
  }
  return grew;
}
void BitSet::Intersect(const BitSet& o) {
  for (size_t w = 0; w < words_.size(); ++w) words_[w] &= o.words_[w];
}
void BitSet::Subtract(const BitSet& o) {
  for (size_t w = 0; w < words_.size(); ++w) words_[w] &= ~o.words_[w];
}
int BitSet::Count() const {
  int n = 0;
  for (uint64_t w : words_) n += __builtin_popcountll(w);
  return n;
}

Liveness ComputeLiveness(const Function& function, RegClass cls) {
  int n = function.blocks.size();
  int regs = function.registers[static_cast<int>(cls)];
  std::vector<BitSet> reads(n, BitSet(regs)), kills(n, BitSet(regs)), writes(n, BitSet(regs));
  for (int b = 0; b < n; ++b) {
    for (const Inst& inst : function.blocks[b].insts) {
      ForEachRead(inst, [&](Reg r) {
        if (r.cls == cls && !kills[b].Has(r.id)) reads[b].Add(r.id);
      });
      if (inst.dest.cls != cls) continue;
      writes[b].Add(inst.dest.id);
      if (!inst.pred.valid()) kills[b].Add(inst.dest.id);
    }
  }
  Liveness live;
  live.in.assign(n, BitSet(regs));
  live.out.assign(n, BitSet(regs));
  for (bool changed = true; changed;) {
    changed = false;
    for (int b = n - 1; b >= 0; --b) {
      for (int s : Successors(function, b)) {
        if (s < n) live.out[b].Merge(live.in[s]);
      }
      BitSet in = live.out[b];
      in.Subtract(kills[b]);
      in.Merge(reads[b]);
      changed |= live.in[b].Merge(in);
    }
  }
  std::vector<BitSet> written(n, BitSet(regs));  // on some path to the block's start
  if (cls == RegClass::kScalar && n > 0) {
    for (int a = 0; a < function.args; ++a) written[0].Add(a);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int b = 0; b < n; ++b) {
      BitSet out = written[b];
      out.Merge(writes[b]);
      for (int s : Successors(function, b)) {
        if (s < n) changed |= written[s].Merge(out);
      }
    }
  }
  for (int b = 0; b < n; ++b) {
    live.in[b].Intersect(written[b]);
    written[b].Merge(writes[b]);
    live.out[b].Intersect(written[b]);
  }
  return live;
}

}  // namespace tpuc::llo
