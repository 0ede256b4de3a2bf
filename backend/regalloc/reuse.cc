// One walk a block; values are numbered by register and how often it has been written.
#include "backend/regalloc/reuse.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"

namespace tpuc::regalloc {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

using RegKey = std::pair<int, int>;                // class, register
using OperandKey = std::tuple<int, int, int64_t>;  // class (-1: literal), register, version or bits
using ValueKey = std::tuple<int, int, std::vector<OperandKey>>;  // operation, unit, operands

constexpr int kNear = 256;  // instructions between the two

class Reuser {
 public:
  explicit Reuser(llo::Function* f) : f_(*f) {}
  void Run();

 private:
  struct Earlier {
    Reg reg;
    int at = 0;
  };
  static RegKey KeyOf(Reg r) { return {static_cast<int>(r.cls), r.id}; }
  bool OfBlockOnly(Reg r, int block) const {
    const llo::Liveness& live = live_[static_cast<int>(r.cls) - 1];
    return !live.in[block].Has(r.id) && !live.out[block].Has(r.id);
  }
  bool WrittenOnce(Reg r) const {
    auto it = writes_.find(KeyOf(r));
    return it != writes_.end() && it->second == 1;
  }
  bool MakeKey(const Inst& inst, ValueKey* key) const;
  void FindTwinPushes(int block);
  void Rename(Inst* inst) const;
  void Walk(int block);

  llo::Function& f_;
  std::vector<llo::Liveness> live_;
  absl::flat_hash_map<RegKey, int> writes_;
  // Of the block at work.
  absl::flat_hash_map<RegKey, int64_t> version_;
  absl::flat_hash_map<RegKey, Reg> renamed_;
  absl::flat_hash_map<ValueKey, Earlier> known_;
  absl::flat_hash_map<int, int> pop_of_;  // by token: the only pop of a push of one result
};

// Operation and operands as they are now; false: it has none but literals, or more than a value.
bool Reuser::MakeKey(const Inst& inst, ValueKey* key) const {
  const isa::OpInfo& info = isa::Info(inst.op);
  if (inst.pred.valid() || info.has_memory || !inst.dest.valid()) return false;
  if (llo::IsPop(inst.op) || llo::IsSync(inst.op) || llo::IsXposeStart(inst.op)) return false;
  std::vector<OperandKey> operands;
  bool registers = false;
  for (const Operand& o : inst.src) {
    if (o.is_imm()) {
      operands.push_back({-1, 0, o.imm});
      continue;
    }
    registers = true;
    auto it = version_.find(KeyOf(o.reg));
    operands.push_back(
        {static_cast<int>(o.reg.cls), o.reg.id, it == version_.end() ? int64_t{0} : it->second});
  }
  *key = {static_cast<int>(inst.op), inst.unit, std::move(operands)};
  return registers;
}

void Reuser::Rename(Inst* inst) const {
  auto rename = [&](Reg* r) {
    auto it = renamed_.find(KeyOf(*r));
    if (it != renamed_.end()) *r = it->second;
  };
  for (Operand& o : inst->src) {
    if (!o.is_imm()) rename(&o.reg);
  }
  if (isa::Info(inst->op).has_memory && !inst->mem.base.is_imm()) rename(&inst->mem.base.reg);
  if (inst->pred.valid()) rename(&inst->pred);
}

void Reuser::FindTwinPushes(int block) {
  absl::flat_hash_map<int, bool> single;  // and made of its operands alone: a matmul has weights
  for (const Inst& inst : f_.blocks[block].insts) {
    if (llo::IsPush(inst.op)) {
      single[inst.dest.id] = !llo::IsMatmul(inst.op) && !llo::IsXposeStart(inst.op);
    }
  }
  const std::vector<Inst>& insts = f_.blocks[block].insts;
  for (int i = 0; i < static_cast<int>(insts.size()); ++i) {
    if (!llo::IsPop(insts[i].op)) continue;
    int token = insts[i].src[0].reg.id;
    if (single[token] && !insts[i].pred.valid()) pop_of_[token] = i;
  }
}

void Reuser::Walk(int block) {
  version_.clear();
  renamed_.clear();
  known_.clear();
  pop_of_.clear();
  FindTwinPushes(block);
  std::vector<Inst>& insts = f_.blocks[block].insts;
  std::vector<char> gone(insts.size(), 0);
  for (int i = 0; i < static_cast<int>(insts.size()); ++i) {
    Inst& inst = insts[i];
    if (gone[i]) continue;
    Rename(&inst);
    ValueKey key;
    bool push = llo::IsPush(inst.op);
    bool value =
        MakeKey(inst, &key) && (push ? pop_of_.contains(inst.dest.id) : WrittenOnce(inst.dest));
    if (value) {
      auto [it, is_new] = known_.emplace(key, Earlier{inst.dest, i});
      Earlier& earlier = it->second;
      if (!is_new && i - earlier.at <= kNear) {
        // Of a push: its pop goes with it, and the earlier pop's result takes its place.
        int pop = push ? pop_of_.at(inst.dest.id) : i;
        int first = push ? pop_of_.at(earlier.reg.id) : earlier.at;
        Reg mine = insts[pop].dest, theirs = push ? insts[first].dest : earlier.reg;
        bool possible = first < pop && OfBlockOnly(mine, block) && WrittenOnce(mine) &&
                        WrittenOnce(theirs) && !renamed_.contains(KeyOf(theirs));
        if (possible) {
          gone[i] = gone[pop] = 1;
          renamed_[KeyOf(mine)] = theirs;
          continue;
        }
      }
      if (!is_new) earlier = {inst.dest, i};
    }
    if (inst.dest.valid() && inst.dest.cls != RegClass::kToken) ++version_[KeyOf(inst.dest)];
  }
  size_t kept = 0;
  for (size_t i = 0; i < insts.size(); ++i) {
    if (gone[i]) continue;
    if (kept != i) insts[kept] = std::move(insts[i]);
    ++kept;
  }
  insts.resize(kept);
}

void Reuser::Run() {
  for (RegClass cls :
       {RegClass::kVector, RegClass::kMask, RegClass::kScalar, RegClass::kPredicate}) {
    live_.push_back(llo::ComputeLiveness(f_, cls));
  }
  for (int a = 0; a < f_.args; ++a) ++writes_[KeyOf(isa::S(a))];
  for (const llo::Block& block : f_.blocks) {
    for (const Inst& inst : block.insts) {
      if (inst.dest.valid()) ++writes_[KeyOf(inst.dest)];
    }
  }
  for (int b = 0; b < static_cast<int>(f_.blocks.size()); ++b) Walk(b);
}

}  // namespace

void ReuseResults(llo::Function* function) { Reuser(function).Run(); }

}  // namespace tpuc::regalloc
