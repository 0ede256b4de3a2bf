// Blocks of a function of bundles, and definitions before uses over all paths (verifier.h).
//
// A register is defined at a bundle if every path from the entry writes it before. A predicated
// write counts as a write: its readers carry the same or the opposite predicate. A predicated read
// needs only some path that writes: with the predicate off nothing is read.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/isa/verifier.h"

namespace tpuc::isa {
namespace {

constexpr int kMaxErrors = 10;

using Bits = std::vector<uint64_t>;

class Registers {  // numbers all physical registers of a chip
 public:
  explicit Registers(const Chip& chip) {
    first_[static_cast<int>(RegClass::kVector)] = 0;
    first_[static_cast<int>(RegClass::kMask)] = chip.vector_registers;
    first_[static_cast<int>(RegClass::kScalar)] = chip.vector_registers + chip.mask_registers;
    first_[static_cast<int>(RegClass::kPredicate)] =
        chip.vector_registers + chip.mask_registers + chip.scalar_registers;
    count_ = first_[static_cast<int>(RegClass::kPredicate)] + chip.predicate_registers;
  }
  int count() const { return count_; }
  int vectors_and_masks() const { return first_[static_cast<int>(RegClass::kScalar)]; }
  int Of(const Reg& r) const { return first_[static_cast<int>(r.cls)] + r.id; }

 private:
  int first_[6] = {};
  int count_ = 0;
};

bool Test(const Bits& bits, int i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }
void Set(Bits* bits, int i) { (*bits)[i / 64] |= uint64_t{1} << (i % 64); }
void Clear(Bits* bits, int i) { (*bits)[i / 64] &= ~(uint64_t{1} << (i % 64)); }

class Definitions {
 public:
  Definitions(const Program& program, const Function& f, const Chip& chip, DiagSink* diags)
      : program_(program),
        f_(f),
        chip_(chip),
        diags_(diags),
        registers_(chip),
        blocks_(BlocksOf(f, chip)) {}

  int Run() {
    if (blocks_.empty()) return 0;
    Bits none((registers_.count() + 63) / 64, 0), all(none.size(), ~uint64_t{0});
    must_.assign(blocks_.size(), all);
    may_.assign(blocks_.size(), none);
    Bits entry = none;
    for (int i = 0; i < f_.args; ++i) Set(&entry, registers_.Of(S(i)));
    must_[0] = may_[0] = entry;
    std::vector<bool> reached(blocks_.size(), false);
    reached[0] = true;
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t b = 0; b < blocks_.size(); ++b) {
        if (!reached[b]) continue;
        Bits must = must_[b], may = may_[b];
        Through(blocks_[b], &must, &may, false);
        for (int next : blocks_[b].next) {
          changed |= !reached[next];
          reached[next] = true;
          for (size_t i = 0; i < must.size(); ++i) {
            uint64_t meet = must_[next][i] & must[i], join = may_[next][i] | may[i];
            changed |= meet != must_[next][i] || join != may_[next][i];
            must_[next][i] = meet;
            may_[next][i] = join;
          }
        }
      }
    }
    for (size_t b = 0; b < blocks_.size() && errors_ < kMaxErrors; ++b) {
      if (!reached[b]) continue;
      Bits must = must_[b], may = may_[b];
      Through(blocks_[b], &must, &may, true);
    }
    return errors_;
  }

 private:
  void Through(const BundleBlock& block, Bits* must, Bits* may, bool report) {
    for (int i = block.first; i <= block.last; ++i) {
      const Bundle& bundle = f_.bundles[i];
      if (report) {
        for (const Inst& inst : bundle.insts) CheckReads(i, inst, *must, *may);
      }
      for (const Inst& inst : bundle.insts) {
        if (inst.op == Opcode::kCall) {  // a kernel uses the vector registers as it likes
          for (int r = 0; r < registers_.vectors_and_masks(); ++r) {
            Clear(must, r);
            Clear(may, r);
          }
        }
        RegClass dest = Info(inst.op).dest;
        if (dest == RegClass::kNone || dest == RegClass::kToken) continue;
        Set(must, registers_.Of(inst.dest));
        Set(may, registers_.Of(inst.dest));
      }
      if (report) CheckWrites(i, bundle);
    }
  }

  void CheckReads(int bundle, const Inst& inst, const Bits& must, const Bits& may) {
    auto check = [&](const Reg& r, const Bits& defined) {
      if (!r.valid() || r.cls == RegClass::kToken || Test(defined, registers_.Of(r))) return;
      Error(bundle, inst,
            absl::StrCat("reads ", std::string(1, ClassLetter(r.cls)), r.id,
                         ", which is not written on every path to it"));
    };
    check(inst.pred, must);
    const Bits& needed = inst.pred.valid() ? may : must;
    for (const Operand& o : inst.src) check(o.reg, needed);
    if (inst.op == Opcode::kCall && inst.src.empty()) {  // arguments are in s0 ..
      for (int i = 0; i < program_.kernels[inst.target].args; ++i) check(S(i), needed);
    }
    if (Info(inst.op).has_memory) check(inst.mem.base.reg, needed);
  }

  // Two writes of one register in a bundle need opposite predicates.
  void CheckWrites(int bundle, const Bundle& b) {
    for (size_t i = 0; i < b.insts.size(); ++i) {
      for (size_t j = i + 1; j < b.insts.size(); ++j) {
        const Inst &x = b.insts[i], &y = b.insts[j];
        if (!x.dest.valid() || x.dest.cls == RegClass::kToken || !(x.dest == y.dest)) continue;
        bool opposite = x.pred.valid() && x.pred == y.pred && x.pred_negated != y.pred_negated;
        if (!opposite) Error(bundle, y, "a second write of the register in one bundle");
      }
    }
  }

  void Error(int bundle, const Inst& inst, const std::string& what) {
    if (++errors_ > kMaxErrors) return;
    diags_->Add(DiagCode::kBundleUndefined,
                absl::StrCat(Describe({&f_, bundle, &inst}), ": ", what));
  }

  const Program& program_;
  const Function& f_;
  const Chip& chip_;
  DiagSink* diags_;
  Registers registers_;
  std::vector<BundleBlock> blocks_;
  std::vector<Bits> must_, may_;
  int errors_ = 0;
};

const Inst* BranchOf(const Bundle& b) {
  for (const Inst& inst : b.insts) {
    if (inst.op == Opcode::kSbr) return &inst;
  }
  return nullptr;
}

}  // namespace

std::vector<BundleBlock> BlocksOf(const Function& f, const Chip& chip) {
  const int count = static_cast<int>(f.bundles.size());
  std::vector<bool> starts(count + 1, false);
  std::vector<const Inst*> leaves(count, nullptr);  // by last delay slot
  if (count > 0) starts[0] = true;
  for (int i = 0; i < count; ++i) {
    const Inst* branch = BranchOf(f.bundles[i]);
    if (branch == nullptr) continue;
    int last = i + chip.delay_slots;
    leaves[last] = branch;
    starts[last + 1] = true;
    starts[branch->target] = true;
  }
  std::vector<BundleBlock> blocks;
  std::vector<int> block_at(count + 1, -1);
  for (int i = 0; i < count; ++i) {
    if (starts[i]) {
      block_at[i] = static_cast<int>(blocks.size());
      blocks.push_back({i, i, {}, false});
    }
    blocks.back().last = i;
  }
  for (BundleBlock& b : blocks) {
    const Inst* branch = leaves[b.last];
    auto go = [&](int bundle) {
      if (bundle == count) {
        b.ends = true;
      } else {
        b.next.push_back(block_at[bundle]);
      }
    };
    if (branch != nullptr) go(branch->target);
    if (branch == nullptr || branch->pred.valid()) go(b.last + 1);
  }
  return blocks;
}

int VerifyDefinitions(const Program& program, const Function& f, const Chip& chip,
                      DiagSink* diags) {
  return Definitions(program, f, chip, diags).Run();
}

}  // namespace tpuc::isa
