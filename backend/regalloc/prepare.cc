// Block splitting at calls, renaming of block-local values.
#include "backend/regalloc/prepare.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"

namespace tpuc::regalloc {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

bool BranchesToEntry(const llo::Function& f) {
  for (const llo::Block& b : f.blocks) {
    if (!b.insts.empty() && b.insts.back().op == Opcode::kSbr && b.insts.back().target == 0) {
      return true;
    }
  }
  return false;
}

// Calls become the last instruction of their block. An entry block that is also a loop's first gets
// an empty one before it, where arguments may be stored once.
void SplitBlocks(llo::Function* f) {
  std::vector<llo::Block> blocks;
  std::vector<int> first(f->blocks.size() + 1), last(f->blocks.size());
  if (BranchesToEntry(*f)) {
    blocks.push_back({});
    blocks.back().label = "entry";
  }
  for (size_t b = 0; b < f->blocks.size(); ++b) {
    llo::Block& block = f->blocks[b];
    first[b] = blocks.size();
    llo::Block part = block;
    part.insts.clear();
    for (Inst& inst : block.insts) {
      bool call = inst.op == Opcode::kCall;
      part.insts.push_back(std::move(inst));
      if (!call) continue;
      blocks.push_back(part);
      part.insts.clear();
    }
    bool ends_in_call = blocks.size() > static_cast<size_t>(first[b]) && part.insts.empty();
    if (!ends_in_call) blocks.push_back(part);
    last[b] = blocks.size() - 1;
  }
  for (llo::Block& block : blocks) {
    if (!block.insts.empty() && block.insts.back().op == Opcode::kSbr) {
      block.insts.back().target = first[block.insts.back().target];
    }
  }
  for (llo::Loop& loop : f->loops) {
    loop.first = first[loop.first];
    loop.last = last[loop.last];
  }
  f->blocks = std::move(blocks);
}

// Renames the value of each whole write that is dead, or written again, before the block's end.
void RenameLocalValues(llo::Function* f, RegClass cls) {
  llo::Liveness live = llo::ComputeLiveness(*f, cls);
  for (size_t b = 0; b < f->blocks.size(); ++b) {
    std::vector<Inst>& insts = f->blocks[b].insts;
    absl::flat_hash_map<int, int> last_write;  // instruction of the last whole write, by register
    for (size_t i = 0; i < insts.size(); ++i) {
      if (insts[i].dest.cls == cls && !insts[i].pred.valid()) last_write[insts[i].dest.id] = i;
    }
    absl::flat_hash_map<int, int> name;
    auto rename = [&](Reg* r) {
      if (r->cls != cls) return;
      auto it = name.find(r->id);
      if (it != name.end()) r->id = it->second;
    };
    for (size_t i = 0; i < insts.size(); ++i) {
      Inst& inst = insts[i];
      for (Operand& o : inst.src) rename(&o.reg);
      rename(&inst.mem.base.reg);
      rename(&inst.pred);
      if (inst.dest.cls != cls) continue;
      int id = inst.dest.id;
      if (inst.pred.valid()) {
        rename(&inst.dest);  // part of the value it changes
      } else if (last_write[id] == static_cast<int>(i) && live.out[b].Has(id)) {
        name.erase(id);
      } else {
        inst.dest = f->New(cls);
        name[id] = inst.dest.id;
      }
    }
  }
}

// Arithmetic whose result nobody reads. (A result popped must be popped, read or not.)
void RemoveDead(llo::Function* f) {
  using Key = std::pair<int, int>;  // class, register
  for (bool changed = true; changed;) {
    changed = false;
    absl::flat_hash_set<Key> read;
    for (const llo::Block& block : f->blocks) {
      for (Inst inst : block.insts) {
        if (inst.pred.valid()) inst.dest = Reg();
        llo::ForEachRead(inst, [&](Reg r) { read.insert({static_cast<int>(r.cls), r.id}); });
      }
    }
    auto dead = [&](const Inst& inst) {
      isa::Slot slot = isa::Info(inst.op).slot;
      bool pure = (slot == isa::Slot::kValu || slot == isa::Slot::kSalu) && inst.dest.valid() &&
                  inst.dest.cls != RegClass::kToken && !llo::IsPop(inst.op) &&
                  !isa::Info(inst.op).has_memory;
      return pure && !read.contains({static_cast<int>(inst.dest.cls), inst.dest.id});
    };
    for (llo::Block& block : f->blocks) {
      auto end = std::remove_if(block.insts.begin(), block.insts.end(), dead);
      changed |= end != block.insts.end();
      block.insts.erase(end, block.insts.end());
    }
  }
}

// A bundle holds few literals: what a call names beyond them comes from scalar registers.
void LoadCallOperands(int most_literals, llo::Function* f) {
  for (llo::Block& block : f->blocks) {
    if (block.insts.empty() || block.insts.back().op != Opcode::kCall) continue;
    Inst call = block.insts.back();
    block.insts.pop_back();
    absl::flat_hash_set<int32_t> literals;
    absl::flat_hash_map<int32_t, Reg> loaded;
    for (Operand& operand : call.src) {
      if (!operand.is_imm() || literals.contains(operand.imm)) continue;
      if (static_cast<int>(literals.size()) < most_literals) {
        literals.insert(operand.imm);
        continue;
      }
      auto [it, is_new] = loaded.emplace(operand.imm, Reg());
      if (is_new) {
        it->second = f->New(RegClass::kScalar);
        Inst move;
        move.op = Opcode::kSmov;
        move.dest = it->second;
        move.src = {operand};
        move.source = call.source;
        block.insts.push_back(std::move(move));
      }
      operand = Operand(it->second);
    }
    block.insts.push_back(std::move(call));
  }
}

}  // namespace

llo::Function Prepare(const llo::Function& function, const Chip& chip, FixedScalars* fixed) {
  llo::Function f = function;
  SplitBlocks(&f);
  if (chip.immediates > 0) LoadCallOperands(chip.immediates, &f);
  for (RegClass cls :
       {RegClass::kVector, RegClass::kMask, RegClass::kScalar, RegClass::kPredicate}) {
    RenameLocalValues(&f, cls);
  }
  RemoveDead(&f);
  for (int a = 0; a < f.args; ++a) fixed->push_back({a, a});
  return f;
}

}  // namespace tpuc::regalloc
