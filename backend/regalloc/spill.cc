// Belady's rule on straight-line code, block by block; values that cross blocks and are chosen live
// in memory everywhere.
#include "backend/regalloc/spill.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"
#include "backend/regalloc/spill_code.h"

namespace tpuc::regalloc {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

constexpr int kNever = std::numeric_limits<int>::max();
constexpr int kAfterBlock = kNever - 1;

class Spiller {
 public:
  Spiller(llo::Function* f, RegClass cls, int capacity, SpillArea* area, SpillCounts* counts)
      : f_(*f), cls_(cls), capacity_(capacity), area_(*area), counts_(*counts) {}
  bool Run();
  void SpillAlways(const std::vector<int>& registers) {
    for (int r : registers) in_memory_.insert(r);
  }

 private:
  enum class Outcome : uint8_t { kOk, kTooMany };
  struct Item {
    Inst inst;
    int reg = -1;       // register (as it was named) that is written or filled
    bool fill = false;  // inst.dest is its new name, the rest is yet to be made
    Inst like;          // its predicate is the store's
  };
  // The only write of a register, where repeating it gives the same value again: anywhere (block
  // -1), or for reads up to instruction `until` of its block.
  struct Remake {
    Inst inst;
    int block = -1, until = 0;
  };
  struct Uses {
    std::vector<int> reads;  // instruction numbers, rising
    size_t next = 0;
  };

  void FindRemakeable();
  void FindReloadable();
  bool CanRemake(int reg, int at) const {
    auto it = remake_.find(reg);
    if (it == remake_.end()) return false;
    return it->second.block < 0 || (it->second.block == block_ && at <= it->second.until);
  }
  bool IsLocal(int reg) const { return !in_memory_.contains(reg); }
  Outcome SpillBlock(int b);
  int NextUse(int reg, int at);
  Outcome Evict(int at, const absl::btree_set<int>& keep);
  Outcome Load(int reg, int at, const absl::btree_set<int>& keep);
  Outcome ReadOperands(Inst* inst, int at);
  Outcome WriteResult(Inst* inst, int at);
  Outcome LoadTranspose(int at);
  int64_t HomeOf(int reg);
  void EmitBlock(int b);

  llo::Function& f_;
  RegClass cls_;
  int capacity_;
  SpillArea& area_;
  SpillCounts& counts_;
  llo::Liveness live_;
  absl::flat_hash_map<int, Remake> remake_;  // by register
  absl::btree_set<int> in_memory_;           // cross blocks in memory, not in a register
  absl::btree_set<int> homed_;               // stored after each write
  absl::flat_hash_map<int, int64_t> home_;
  std::deque<int64_t> free_homes_;       // longest unused first
  std::vector<std::vector<Item>> code_;  // by block
  bool again_ = false;                   // one more value crosses blocks in memory

  // Of the block at work.
  int block_ = 0;
  absl::flat_hash_map<int, Uses> uses_;
  absl::btree_map<int, int> held_;    // register -> the name it has now
  std::deque<int> dead_;              // where values that nobody reads were just written
  absl::flat_hash_set<int> defined_;  // written so far, or before the block
  absl::btree_set<int> pinned_;       // of the open transpose: all are there when it starts
};

// Made from nothing that changes, without side effects.
bool MayRemake(const Inst& def) {
  switch (def.op) {
    case Opcode::kVmov:
    case Opcode::kSmov:
    case Opcode::kVstv:
    case Opcode::kVcmask:
      return def.src[0].is_imm();
    case Opcode::kVlaneseq:
      return true;
    default:
      return false;
  }
}

void Spiller::FindRemakeable() {
  absl::flat_hash_map<int, int> writes;
  if (cls_ == RegClass::kScalar) {
    for (int a = 0; a < f_.args; ++a) ++writes[a];
  }
  for (const llo::Block& block : f_.blocks) {
    for (const Inst& inst : block.insts) {
      if (inst.dest.cls != cls_) continue;
      if (++writes[inst.dest.id] > 1) {
        remake_.erase(inst.dest.id);
      } else if (!inst.pred.valid() && MayRemake(inst)) {
        remake_[inst.dest.id] = {inst};
      }
    }
  }
}

// Loads of memory that the rest of the block, up to some point, does not change.
void Spiller::FindReloadable() {
  if (cls_ != RegClass::kVector) return;
  absl::flat_hash_map<int, int> scalar_writes, writes;
  for (int a = 0; a < f_.args; ++a) ++scalar_writes[a];
  for (const llo::Block& block : f_.blocks) {
    for (const Inst& inst : block.insts) {
      if (inst.dest.cls == RegClass::kScalar) ++scalar_writes[inst.dest.id];
      if (inst.dest.cls == cls_) ++writes[inst.dest.id];
    }
  }
  for (int b = 0; b < static_cast<int>(f_.blocks.size()); ++b) {
    const std::vector<Inst>& insts = f_.blocks[b].insts;
    int end = insts.size();
    int disturbed = end;                   // first DMA or wait from here on
    int unknown = end;                     // first store to who knows where
    absl::flat_hash_map<int, int> stored;  // first store by buffer
    for (int i = end - 1; i >= 0; --i) {
      const Inst& inst = insts[i];
      if (llo::IsDma(inst.op) || inst.op == Opcode::kDmaDoneWait) disturbed = i;
      if (llo::IsStore(inst.op) && !llo::IsSmem(inst.op)) {
        if (inst.mem.buffer < 0) unknown = i;
        stored[inst.mem.buffer] = i;
      }
      if (inst.op != Opcode::kVld || inst.pred.valid() || inst.mem.buffer < 0) continue;
      int reg = inst.dest.id;
      const Operand& base = inst.mem.base;
      if (writes[reg] != 1 || live_.in[b].Has(reg) || live_.out[b].Has(reg)) continue;
      if (!base.is_imm() && scalar_writes[base.reg.id] != 1) continue;
      auto it = stored.find(inst.mem.buffer);
      int until = std::min({disturbed, unknown, it == stored.end() ? end : it->second});
      remake_[reg] = {inst, b, until};
    }
  }
}

int Spiller::NextUse(int reg, int at) {
  auto it = uses_.find(reg);
  if (it != uses_.end()) {
    Uses& u = it->second;
    while (u.next < u.reads.size() && u.reads[u.next] < at) ++u.next;
    if (u.next < u.reads.size()) return u.reads[u.next];
  }
  return live_.out[block_].Has(reg) && IsLocal(reg) ? kAfterBlock : kNever;
}

// Gives up one register of those not in `keep`, before instruction `at`.
Spiller::Outcome Spiller::Evict(int at, const absl::btree_set<int>& keep) {
  int victim = -1;
  double worst = -1;
  for (const auto& [reg, name] : held_) {
    if (keep.contains(reg) || pinned_.contains(reg)) continue;
    int next = NextUse(reg, at);
    double distance = next == kNever ? 1e12 : next == kAfterBlock ? 1e9 : next - at;
    // What is in memory already, or can be made again, costs no store.
    if (homed_.contains(reg) || CanRemake(reg, next)) distance *= 1.5;
    if (distance > worst) {
      worst = distance;
      victim = reg;
    }
  }
  if (victim < 0) return Outcome::kTooMany;
  if (NextUse(victim, at) != kNever) {
    bool crosses = live_.in[block_].Has(victim) || live_.out[block_].Has(victim);
    if (crosses && IsLocal(victim)) {
      in_memory_.insert(victim);
      again_ = true;  // the blocks before this one do not know yet
    }
    if (!CanRemake(victim, NextUse(victim, at))) homed_.insert(victim);
  }
  held_.erase(victim);
  return Outcome::kOk;
}

Spiller::Outcome Spiller::Load(int reg, int at, const absl::btree_set<int>& keep) {
  while (static_cast<int>(held_.size()) >= capacity_) {
    if (Outcome o = Evict(at, keep); o != Outcome::kOk) return o;
  }
  Item item;
  if (CanRemake(reg, at)) {
    item.inst = remake_.at(reg).inst;
  } else {
    item.reg = reg;
    item.fill = true;
    homed_.insert(reg);
  }
  item.inst.dest = f_.New(cls_);
  held_[reg] = item.inst.dest.id;
  code_[block_].push_back(std::move(item));
  return Outcome::kOk;
}

Spiller::Outcome Spiller::ReadOperands(Inst* inst, int at) {
  absl::btree_set<int> keep;
  Inst plain = *inst;
  if (inst->pred.valid()) plain.dest = Reg();
  llo::ForEachRead(plain, [&](Reg r) {
    if (r.cls == cls_) keep.insert(r.id);
  });
  // A predicated write of a value held in a register changes that register.
  if (inst->pred.valid() && inst->dest.cls == cls_ && held_.contains(inst->dest.id)) {
    keep.insert(inst->dest.id);
  }
  for (int reg : keep) {
    if (held_.contains(reg)) continue;
    if (Outcome o = Load(reg, at, keep); o != Outcome::kOk) return o;
  }
  auto rename = [&](Reg* r) {
    if (r->cls == cls_) r->id = held_.at(r->id);
  };
  for (Operand& o : inst->src) rename(&o.reg);
  if (isa::Info(inst->op).has_memory) rename(&inst->mem.base.reg);
  rename(&inst->pred);
  for (int reg : keep) {
    if (NextUse(reg, at + 1) == kNever) held_.erase(reg);
  }
  return Outcome::kOk;
}

Spiller::Outcome Spiller::WriteResult(Inst* inst, int at) {
  int reg = inst->dest.id;
  auto it = held_.find(reg);
  if (inst->pred.valid() && it != held_.end()) {
    inst->dest.id = it->second;
    return Outcome::kOk;
  }
  constexpr int kPopsNear = 4;  // instructions that may share a bundle with this one
  while (!dead_.empty() && dead_.front() + kPopsNear < at) dead_.pop_front();
  while (it == held_.end() && static_cast<int>(held_.size() + dead_.size()) >= capacity_) {
    if (static_cast<int>(held_.size()) < capacity_ / 2) break;
    if (Outcome o = Evict(at + 1, {}); o != Outcome::kOk) return o;
  }
  if (inst->pred.valid() && (homed_.contains(reg) || !IsLocal(reg))) {
    // Joins the rest of its value in memory. The new name has no old value to keep, so it is
    // written always, or, where that could fault, cleared before.
    inst->dest = f_.New(cls_);
    if (isa::Info(inst->op).has_memory) {
      Item clear;
      clear.inst.op = cls_ == RegClass::kVector ? Opcode::kVmov : Opcode::kSmov;
      clear.inst.dest = inst->dest;
      clear.inst.src = {Operand::Imm(0)};
      code_[block_].push_back(std::move(clear));
    } else if (!llo::IsPop(inst->op)) {
      inst->pred = Reg();
    }
  } else if (NextUse(reg, at + 1) != kNever) {
    held_[reg] = reg;
  } else {
    // Popped for nobody, but into a register; a bundle may hold several such pops.
    dead_.push_back(at);
  }
  return Outcome::kOk;
}

Spiller::Outcome Spiller::SpillBlock(int b) {
  block_ = b;
  uses_.clear();
  held_.clear();
  pinned_.clear();
  dead_.clear();
  const std::vector<Inst>& insts = f_.blocks[b].insts;
  for (int i = 0; i < static_cast<int>(insts.size()); ++i) {
    llo::ForEachRead(insts[i], [&](Reg r) {
      if (r.cls == cls_) uses_[r.id].reads.push_back(i);
    });
  }
  defined_.clear();
  live_.in[b].ForEach([&](int reg) {
    defined_.insert(reg);
    if (IsLocal(reg)) held_[reg] = reg;
  });
  while (static_cast<int>(held_.size()) > capacity_) {
    if (Outcome o = Evict(0, {}); o != Outcome::kOk) return o;
  }
  for (int i = 0; i < static_cast<int>(insts.size()); ++i) {
    Inst inst = insts[i];
    if (llo::IsXposeStart(inst.op)) {
      if (Outcome o = LoadTranspose(i); o != Outcome::kOk) return o;
    }
    if (llo::IsXposeEnd(inst.op)) pinned_.clear();
    if (Outcome o = ReadOperands(&inst, i); o != Outcome::kOk) return o;
    Item item;
    if (inst.dest.cls == cls_) {
      item.reg = inst.dest.id;
      defined_.insert(item.reg);
      item.like = inst;
      if (Outcome o = WriteResult(&inst, i); o != Outcome::kOk) return o;
    }
    item.inst = std::move(inst);
    code_[b].push_back(std::move(item));
  }
  return Outcome::kOk;
}

// A transpose takes its unit from start to end, so what it reads must be at hand before.
Spiller::Outcome Spiller::LoadTranspose(int at) {
  const std::vector<Inst>& insts = f_.blocks[block_].insts;
  int token = insts[at].dest.id;
  absl::btree_set<int> operands;
  for (int i = at; i < static_cast<int>(insts.size()); ++i) {
    const Inst& inst = insts[i];
    bool member = i == at || (llo::IsXposeMember(inst.op) && inst.src[0].reg.id == token);
    if (!member) continue;
    for (const Operand& o : inst.src) {
      if (o.reg.cls == cls_) operands.insert(o.reg.id);
    }
    if (llo::IsXposeEnd(inst.op)) break;
  }
  // What comes in between needs some too.
  constexpr int kBetween = 3;
  if (static_cast<int>(operands.size()) + kBetween > capacity_) return Outcome::kOk;
  for (int reg : operands) {
    if (held_.contains(reg) || !defined_.contains(reg)) continue;
    if (Outcome o = Load(reg, at, operands); o != Outcome::kOk) return o;
  }
  pinned_ = std::move(operands);
  return Outcome::kOk;
}

int64_t Spiller::HomeOf(int reg) {
  constexpr size_t kResting = 16;  // free places kept, so that reuse does not order what is near
  auto it = home_.find(reg);
  if (it != home_.end()) return it->second;
  int64_t home;
  if (IsLocal(reg) && free_homes_.size() > kResting) {
    home = free_homes_.front();
    free_homes_.pop_front();
  } else {
    home = NewHome(cls_, &area_);
  }
  home_[reg] = home;
  return home;
}

void Spiller::EmitBlock(int b) {
  std::vector<Inst> out;
  if (b == 0 && cls_ == RegClass::kScalar) {
    for (int a = 0; a < f_.args; ++a) {
      if (!homed_.contains(a)) continue;
      AppendStore(isa::S(a), HomeOf(a), Inst{}, area_, &f_, &out);
      ++counts_.spills;
    }
  }
  absl::flat_hash_map<int, size_t> last_fill;
  for (size_t i = 0; i < code_[b].size(); ++i) {
    if (code_[b][i].fill) last_fill[code_[b][i].reg] = i;
  }
  for (size_t i = 0; i < code_[b].size(); ++i) {
    Item& item = code_[b][i];
    auto last = last_fill.find(item.reg);
    if (item.fill) {
      AppendLoad(item.inst.dest, HomeOf(item.reg), area_, &f_, &out);
      ++counts_.fills;
      if (IsLocal(item.reg) && last->second == i) free_homes_.push_back(HomeOf(item.reg));
      continue;
    }
    Inst inst = std::move(item.inst);
    out.push_back(inst);
    if (item.reg < 0 || !homed_.contains(item.reg)) continue;
    bool needed = !IsLocal(item.reg) || (last != last_fill.end() && last->second > i);
    if (!needed) continue;
    AppendStore(inst.dest, HomeOf(item.reg), item.like, area_, &f_, &out);
    ++counts_.spills;
  }
  f_.blocks[b].insts = std::move(out);
}

bool Spiller::Run() {
  live_ = llo::ComputeLiveness(f_, cls_);
  FindRemakeable();
  FindReloadable();
  int n = f_.blocks.size();
  do {
    again_ = false;
    code_.assign(n, {});
    homed_.clear();
    for (int reg : in_memory_) {
      auto it = remake_.find(reg);
      if (it == remake_.end() || it->second.block >= 0) homed_.insert(reg);
    }
    for (int b = 0; b < n; ++b) {
      if (SpillBlock(b) == Outcome::kTooMany) return false;
    }
  } while (again_);
  for (int b = 0; b < n; ++b) EmitBlock(b);
  return true;
}

}  // namespace

SpillArea MakeSpillArea(llo::Function* function, int64_t first_row, int64_t first_word) {
  SpillArea area;
  area.first_row = first_row;
  area.first_word = first_word;
  area.vmem_buffer = function->args + static_cast<int>(function->allocations.size());
  area.smem_buffer = area.vmem_buffer + 1;
  function->allocations.push_back({"spill", isa::Memory::kVmem, 0, first_row});
  function->allocations.push_back({"spill_words", isa::Memory::kSmem, 0, first_word});
  return area;
}

bool SpillToFit(llo::Function* function, RegClass cls, int capacity, SpillArea* area,
                SpillCounts* counts) {
  return Spiller(function, cls, capacity, area, counts).Run();
}

void SpillRegisters(llo::Function* function, RegClass cls, const std::vector<int>& registers,
                    SpillArea* area, SpillCounts* counts) {
  Spiller spiller(function, cls, kNever, area, counts);
  spiller.SpillAlways(registers);
  spiller.Run();
}

}  // namespace tpuc::regalloc
