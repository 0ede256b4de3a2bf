// Homes for all values, loads before and stores after each operation.
#include "backend/regalloc/memory_form.h"

#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"
#include "backend/regalloc/emit.h"
#include "backend/regalloc/spill_code.h"
#include "backend/schedule/function_schedule.h"

namespace tpuc::regalloc {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;
using schedule::ClassIndex;

class Emitter {
 public:
  Emitter(const llo::Function& f, const Chip& chip, SpillArea* area, SpillCounts* counts,
          isa::Function* out)
      : f_(f), chip_(chip), area_(*area), counts_(*counts), out_(*out) {}
  bool Run(std::vector<int>* block_start);

 private:
  int64_t NewPlace(RegClass cls);
  int64_t Home(Reg r);
  void FindLastUses();
  void ReleaseAfter(int block, int index);
  Reg Take(RegClass cls);
  void Push(Inst inst) {
    out_.bundles.emplace_back();
    out_.bundles.back().insts.push_back(std::move(inst));
  }
  void PushAll(const std::vector<Inst>& insts);
  Reg LoadInto(Reg r);
  void StoreFrom(Reg physical, Reg r, const Inst& like);
  void One(Inst inst);
  void Branch(Inst inst);
  void PopNow(const Inst& push);

  const llo::Function& f_;
  const Chip& chip_;
  SpillArea& area_;
  SpillCounts& counts_;
  isa::Function& out_;
  bool ok_ = true;
  std::array<int, 4> taken_ = {};   // physical registers in use by the operation at work
  using Key = std::pair<int, int>;  // class, register
  absl::flat_hash_map<Key, int64_t> homes_;
  absl::flat_hash_map<Key, std::pair<int, int>> last_use_;  // block, instruction
  std::array<std::vector<int64_t>, 4> free_;                // places, by ClassIndex
  absl::flat_hash_map<Key, Reg> loaded_;
  // Of a token: the places of its results, those read so far, pushes of an open transpose.
  struct Results {
    std::vector<int64_t> homes;
    size_t taken = 0;
    Inst push;
  };
  absl::flat_hash_map<int, Results> results_;
};

int64_t Emitter::NewPlace(RegClass cls) {
  std::vector<int64_t>& free = free_[ClassIndex(cls)];
  if (free.empty()) return NewHome(cls, &area_);
  int64_t home = free.back();
  free.pop_back();
  return home;
}

int64_t Emitter::Home(Reg r) {
  auto [it, is_new] = homes_.emplace(Key(static_cast<int>(r.cls), r.id), 0);
  if (is_new) it->second = NewPlace(r.cls);
  return it->second;
}

// Where values that do not leave their block are named last: their places are free after that.
void Emitter::FindLastUses() {
  for (RegClass cls : schedule::kClasses) {
    llo::Liveness live = llo::ComputeLiveness(f_, cls);
    llo::BitSet crosses(f_.registers[static_cast<int>(cls)]);
    for (size_t b = 0; b < f_.blocks.size(); ++b) {
      crosses.Merge(live.in[b]);
      crosses.Merge(live.out[b]);
    }
    for (size_t b = 0; b < f_.blocks.size(); ++b) {
      const std::vector<Inst>& insts = f_.blocks[b].insts;
      for (int i = 0; i < static_cast<int>(insts.size()); ++i) {
        auto note = [&](Reg r) {
          if (r.cls == cls && !crosses.Has(r.id)) {
            last_use_[Key(static_cast<int>(cls), r.id)] = {static_cast<int>(b), i};
          }
        };
        llo::ForEachRead(insts[i], note);
        if (insts[i].dest.valid()) note(insts[i].dest);
      }
    }
  }
}

void Emitter::ReleaseAfter(int block, int index) {
  const Inst& inst = f_.blocks[block].insts[index];
  auto release = [&](Reg r) {
    Key key(static_cast<int>(r.cls), r.id);
    auto last = last_use_.find(key);
    auto home = homes_.find(key);
    if (last == last_use_.end() || home == homes_.end()) return;
    if (last->second != std::make_pair(block, index)) return;
    free_[ClassIndex(r.cls)].push_back(home->second);
    homes_.erase(home);
  };
  llo::ForEachRead(inst, release);
  if (inst.dest.valid()) release(inst.dest);
}

Reg Emitter::Take(RegClass cls) {
  int n = taken_[ClassIndex(cls)]++;
  if (n >= schedule::RegistersOf(chip_)[ClassIndex(cls)]) ok_ = false;
  return {cls, n};
}

// Spill code makes helper registers by llo::Function::New; here they are physical ones.
void Emitter::PushAll(const std::vector<Inst>& insts) {
  for (Inst inst : insts) {
    inst.mem.buffer = -1;
    Push(std::move(inst));
  }
}

Reg Emitter::LoadInto(Reg r) {
  auto [it, is_new] = loaded_.emplace(Key(static_cast<int>(r.cls), r.id), Reg());
  if (!is_new) return it->second;
  Reg physical = it->second = Take(r.cls);
  llo::Function names;
  for (int c = 0; c < 4; ++c) names.registers[c + 1] = taken_[c];
  std::vector<Inst> code;
  AppendLoad(physical, Home(r), area_, &names, &code);
  PushAll(code);
  ++counts_.fills;
  return physical;
}

void Emitter::StoreFrom(Reg physical, Reg r, const Inst& like) {
  llo::Function names;
  for (int c = 0; c < 4; ++c) names.registers[c + 1] = taken_[c];
  std::vector<Inst> code;
  AppendStore(physical, Home(r), like, area_, &names, &code);
  PushAll(code);
  ++counts_.spills;
}

// All results of a push whose last part has just issued, each to a place of its own.
void Emitter::PopNow(const Inst& push) {
  int token = llo::IsXposeMember(push.op) ? push.src[0].reg.id : push.dest.id;
  Results& results = results_[token];
  Opcode op = llo::PopFor(results.push.op);
  RegClass cls = isa::Info(op).dest;
  results.homes.clear();
  results.taken = 0;
  for (int k = 0; k < llo::ResultsOf(results.push.op, chip_.mxu_tiles()); ++k) {
    Inst pop;
    pop.op = op;
    pop.unit = results.push.unit;
    pop.dest = {cls, 0};
    pop.pred = push.pred;
    pop.pred_negated = push.pred_negated;
    pop.source = push.source;
    Push(pop);
    results.homes.push_back(NewPlace(cls));
    std::vector<Inst> code;
    llo::Function names;
    AppendStore(pop.dest, results.homes.back(), pop, area_, &names, &code);
    PushAll(code);
  }
}

void Emitter::Branch(Inst inst) {
  if (inst.pred.valid()) inst.pred = LoadInto(inst.pred);
  Push(inst);
  for (int i = 0; i < chip_.delay_slots; ++i) out_.bundles.emplace_back();
}

void Emitter::One(Inst inst) {
  taken_ = {};
  loaded_.clear();
  if (inst.op == Opcode::kSbr) return Branch(std::move(inst));
  Inst original = inst;
  const isa::OpInfo& info = isa::Info(inst.op);
  bool xlu_push = info.unit == isa::Unit::kXlu && !llo::IsPop(inst.op);
  if (xlu_push && inst.unit < 0) inst.unit = 0;
  if (inst.pred.valid()) inst.pred = LoadInto(inst.pred);
  absl::InlinedVector<Operand, 3> sources;
  for (const Operand& o : inst.src) {
    if (o.is_imm())
      sources.push_back(o);
    else if (o.reg.cls != RegClass::kToken)
      sources.push_back(Operand(LoadInto(o.reg)));
  }
  inst.src = sources;
  if (info.has_memory && !inst.mem.base.is_imm()) inst.mem.base = LoadInto(inst.mem.base.reg);
  inst.mem.buffer = -1;
  if (llo::IsPop(inst.op)) {
    // The result waits in memory since its push.
    Results& results = results_[original.src[0].reg.id];
    Reg value = Take(inst.dest.cls);
    std::vector<Inst> code;
    llo::Function names;
    int64_t place = results.homes[results.taken++];
    AppendLoad(value, place, area_, &names, &code);
    for (Inst& load : code) {
      load.pred = inst.pred;
      load.pred_negated = inst.pred_negated;
    }
    PushAll(code);
    StoreFrom(value, original.dest, inst);
    free_[ClassIndex(value.cls)].push_back(place);
    return;
  }
  bool push = llo::IsPush(inst.op);
  if (push) results_[original.dest.id] = {{}, 0, inst};
  if (llo::IsXposeMember(inst.op)) inst.unit = results_[original.src[0].reg.id].push.unit;
  if (push) {
    inst.dest = Reg();
  } else if (inst.dest.valid()) {
    inst.dest = Take(inst.dest.cls);
  }
  Push(inst);
  bool open = llo::IsXposeStart(inst.op) && !llo::IsXposeEnd(inst.op);
  if ((push && !open) || inst.op == Opcode::kVxposeEnd) {
    Inst last = original;
    last.pred = inst.pred;
    PopNow(last);
  } else if (inst.dest.valid()) {
    StoreFrom(inst.dest, original.dest, inst);
  }
}

bool Emitter::Run(std::vector<int>* block_start) {
  block_start->clear();
  FindLastUses();
  for (size_t b = 0; b < f_.blocks.size(); ++b) {
    block_start->push_back(out_.bundles.size());
    for (int a = 0; a < f_.args && b == 0; ++a) {
      taken_ = {};
      StoreFrom(isa::S(a), isa::S(a), Inst{});
    }
    results_.clear();
    for (int i = 0; i < static_cast<int>(f_.blocks[b].insts.size()); ++i) {
      One(f_.blocks[b].insts[i]);
      ReleaseAfter(b, i);
    }
  }
  block_start->push_back(out_.bundles.size());
  ResolveBranches(*block_start, &out_);
  return ok_;
}

}  // namespace

bool EmitMemoryForm(const llo::Function& function, const Chip& chip, SpillArea* area,
                    SpillCounts* counts, isa::Function* out, std::vector<int>* block_start) {
  return Emitter(function, chip, area, counts, out).Run(block_start);
}

}  // namespace tpuc::regalloc
