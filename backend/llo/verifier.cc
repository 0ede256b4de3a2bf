// The LLO verifier. One walk an instruction (form), one a block (queues), one data flow
// (definitions).
#include "backend/llo/verifier.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"

namespace tpuc {
namespace {

using isa::Info;
using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::OpInfo;
using isa::Reg;
using isa::RegClass;
using llo::BitSet;
using llo::Block;
using llo::Function;

constexpr RegClass kClasses[] = {RegClass::kVector, RegClass::kMask, RegClass::kScalar,
                                 RegClass::kPredicate};

class Verifier {
 public:
  Verifier(const Function& function, DiagSink* diags, int mxu_tiles)
      : f_(function), diags_(diags), mxu_tiles_(mxu_tiles) {}
  bool Run();

 private:
  void Report(DiagCode code, const std::string& message) {
    ok_ = false;
    diags_->Add(
        code,
        absl::StrCat("in ", f_.name, ", block ", block_, " (",
                     block_ < static_cast<int>(f_.blocks.size()) ? f_.blocks[block_].label : "",
                     "), instruction ", inst_, ": ", message));
  }
  void Malformed(const Inst& inst, const std::string& message) {
    Report(DiagCode::kLloMalformed,
           absl::StrCat(std::string(Info(inst.op).mnemonic), " ", message));
  }
  bool CheckReg(const Inst& inst, Reg r, RegClass want);
  void CheckOperands(const Inst& inst);
  void CheckForm(const Inst& inst, bool last);
  void CheckQueues(const Block& block);
  void CheckLoops();
  void CheckDefinitions(RegClass cls);

  const Function& f_;
  DiagSink* diags_;
  const int mxu_tiles_;
  bool ok_ = true;
  int block_ = 0, inst_ = 0;
};

RegClass ClassOf(char letter) {
  switch (letter) {
    case 'v':
      return RegClass::kVector;
    case 'm':
      return RegClass::kMask;
    case 's':
      return RegClass::kScalar;
    case 'p':
      return RegClass::kPredicate;
    case 't':
      return RegClass::kToken;
    default:
      return RegClass::kNone;
  }
}

bool Verifier::CheckReg(const Inst& inst, Reg r, RegClass want) {
  if (r.cls != want) {
    Malformed(inst,
              absl::StrCat("has a register of class ", std::string(1, isa::ClassLetter(r.cls)),
                           " where ", std::string(1, isa::ClassLetter(want)), " belongs"));
    return false;
  }
  if (r.cls != RegClass::kNone && (r.id < 0 || r.id >= f_.registers[static_cast<int>(r.cls)])) {
    Malformed(inst,
              absl::StrCat("names register ", r.id, " of ", f_.registers[static_cast<int>(r.cls)]));
    return false;
  }
  return true;
}

void Verifier::CheckOperands(const Inst& inst) {
  const OpInfo& info = Info(inst.op);
  if (inst.op == Opcode::kCall) {
    for (const Operand& o : inst.src) {
      if (!o.is_imm()) CheckReg(inst, o.reg, RegClass::kScalar);
    }
    return;
  }
  size_t want = info.sources.size(), have = inst.src.size();
  bool short_dma = info.sources == "sssssss" && have == 4;
  if (have != want && !short_dma) {
    Malformed(inst, absl::StrCat("has ", have, " sources, takes ", want));
    return;
  }
  for (size_t i = 0; i < have; ++i) {
    RegClass cls = ClassOf(info.sources[i]);
    if (!inst.src[i].is_imm()) {
      CheckReg(inst, inst.src[i].reg, cls);
    } else if (cls != RegClass::kVector && cls != RegClass::kScalar) {
      Malformed(inst, absl::StrCat("has an immediate as source ", i));
    }
  }
}

void Verifier::CheckForm(const Inst& inst, bool last) {
  const OpInfo& info = Info(inst.op);
  if (inst.dest.valid() || info.dest != RegClass::kNone) CheckReg(inst, inst.dest, info.dest);
  if (inst.pred.valid()) CheckReg(inst, inst.pred, RegClass::kPredicate);
  CheckOperands(inst);
  if (info.has_memory) {
    if (!inst.mem.base.is_imm()) CheckReg(inst, inst.mem.base.reg, RegClass::kScalar);
    int64_t buffers = f_.args + static_cast<int64_t>(f_.allocations.size());
    if (inst.mem.buffer < -1 || inst.mem.buffer >= buffers) {
      Malformed(inst, absl::StrCat("names buffer ", inst.mem.buffer, " of ", buffers));
    }
    if (!llo::IsSmem(inst.op) && inst.mem.sublane_mask == 0) Malformed(inst, "touches no sublane");
  }
  bool is_mxu = info.unit == isa::Unit::kMxu && info.slot == isa::Slot::kVex;
  if (is_mxu && inst.unit < 0) Malformed(inst, "does not say which MXU");
  if (inst.op == Opcode::kSbr) {
    if (!last) Malformed(inst, "is not the last instruction of its block");
    if (inst.target < 0 || inst.target >= static_cast<int>(f_.blocks.size())) {
      Malformed(inst, absl::StrCat("goes to block ", inst.target, " of ", f_.blocks.size()));
    }
  }
}

// Each push's results are popped in the same block, by the right kind of pop, on the same unit.
void Verifier::CheckQueues(const Block& block) {
  struct Entry {
    int at = 0, left = 0;
    bool open = false;  // a transpose whose last push has not come
    Opcode push{};
    int unit = -1;
  };
  std::vector<Entry> entries;
  absl::flat_hash_map<int, int> by_token;
  for (inst_ = 0; inst_ < static_cast<int>(block.insts.size()); ++inst_) {
    const Inst& inst = block.insts[inst_];
    if (llo::IsPush(inst.op)) {
      if (!by_token.emplace(inst.dest.id, static_cast<int>(entries.size())).second) {
        Report(DiagCode::kLloQueue, absl::StrCat("token ", inst.dest.id, " is pushed twice"));
        continue;
      }
      bool open = llo::IsXposeStart(inst.op) && !llo::IsXposeEnd(inst.op);
      entries.push_back({inst_, llo::ResultsOf(inst.op, mxu_tiles_), open, inst.op, inst.unit});
      continue;
    }
    if (!llo::IsPop(inst.op) && !llo::IsXposeMember(inst.op)) continue;
    if (inst.src.empty() || inst.src[0].is_imm()) continue;  // reported as malformed
    auto it = by_token.find(inst.src[0].reg.id);
    if (it == by_token.end()) {
      Report(DiagCode::kLloQueue,
             absl::StrCat("token ", inst.src[0].reg.id, " is not pushed before in this block"));
      continue;
    }
    Entry& e = entries[it->second];
    if (inst.unit >= 0 && inst.unit != e.unit) {
      Report(DiagCode::kLloQueue, absl::StrCat("token ", it->first, " was pushed on unit ", e.unit,
                                               ", not ", inst.unit));
    }
    if (llo::IsXposeMember(inst.op)) {
      if (!e.open) Report(DiagCode::kLloQueue, "the transpose has already ended");
      if (llo::IsXposeEnd(inst.op)) e.open = false;
      continue;
    }
    if (e.open || inst.op != llo::PopFor(e.push)) {
      Report(DiagCode::kLloQueue,
             absl::StrCat(std::string(Info(inst.op).mnemonic), " cannot take a result of ",
                          std::string(Info(e.push).mnemonic), e.open ? " that has not ended" : ""));
    } else if (--e.left < 0) {
      Report(DiagCode::kLloQueue, absl::StrCat("token ", it->first, " has no results left"));
    }
  }
  for (const Entry& e : entries) {
    inst_ = e.at;
    if (e.open) Report(DiagCode::kLloQueue, "the transpose has no end");
    if (e.left > 0) {
      Report(DiagCode::kLloQueue, absl::StrCat(std::string(Info(e.push).mnemonic), " leaves ",
                                               e.left, " results in its queue at the block's end"));
    }
  }
}

void Verifier::CheckLoops() {
  int n = f_.blocks.size();
  for (const llo::Loop& loop : f_.loops) {
    block_ = loop.last;
    inst_ = 0;
    if (loop.first < 0 || loop.last < loop.first || loop.last >= n) {
      Report(DiagCode::kLloMalformed,
             absl::StrCat("loop of blocks ", loop.first, " to ", loop.last, " of ", n));
      continue;
    }
    const Block& last = f_.blocks[loop.last];
    if (last.insts.empty() || last.insts.back().op != Opcode::kSbr ||
        last.insts.back().target != loop.first) {
      Report(DiagCode::kLloMalformed, "the loop's last block does not branch back to its first");
    }
    if (loop.latch && loop.first != loop.last) {
      Report(DiagCode::kLloMalformed, "a loop that latches weights has more than one block");
    }
  }
}

// Forward data flow: the registers written on every path to a block.
void Verifier::CheckDefinitions(RegClass cls) {
  int n = f_.blocks.size();
  int regs = f_.registers[static_cast<int>(cls)];
  BitSet all(regs);
  for (int r = 0; r < regs; ++r) all.Add(r);
  std::vector<BitSet> in(n, all), writes(n, BitSet(regs));
  in[0] = BitSet(regs);
  if (cls == RegClass::kScalar) {
    for (int a = 0; a < f_.args; ++a) in[0].Add(a);
  }
  for (int b = 0; b < n; ++b) {
    for (const Inst& inst : f_.blocks[b].insts) {
      if (inst.dest.cls == cls) writes[b].Add(inst.dest.id);
    }
  }
  BitSet entry = in[0];
  for (bool changed = true; changed;) {
    changed = false;
    for (int b = 0; b < n; ++b) {
      BitSet out = in[b];
      out.Merge(writes[b]);
      for (int s : llo::Successors(f_, b)) {
        if (s >= n) continue;
        BitSet merged = in[s];
        merged.Intersect(out);
        if (s == 0) merged.Intersect(entry);
        changed |= !(merged == in[s]);
        in[s] = merged;
      }
    }
  }
  for (block_ = 0; block_ < n; ++block_) {
    BitSet defined = in[block_];
    const Block& block = f_.blocks[block_];
    for (inst_ = 0; inst_ < static_cast<int>(block.insts.size()); ++inst_) {
      const Inst& inst = block.insts[inst_];
      Inst plain = inst;  // a predicated write may be the first
      if (inst.pred.valid()) plain.dest = Reg();
      llo::ForEachRead(plain, [&](Reg r) {
        if (r.cls != cls || defined.Has(r.id)) return;
        Report(DiagCode::kLloUndefined,
               absl::StrCat(std::string(Info(inst.op).mnemonic), " reads register ",
                            std::string(1, isa::ClassLetter(cls)), r.id,
                            ", which some path has not written"));
        defined.Add(r.id);
      });
      if (inst.dest.cls == cls) defined.Add(inst.dest.id);
    }
  }
}

bool Verifier::Run() {
  if (f_.args > f_.registers[static_cast<int>(RegClass::kScalar)]) {
    Report(DiagCode::kLloMalformed, absl::StrCat(f_.args, " arguments in fewer scalars"));
  }
  for (block_ = 0; block_ < static_cast<int>(f_.blocks.size()); ++block_) {
    const Block& block = f_.blocks[block_];
    int size = block.insts.size();
    for (inst_ = 0; inst_ < size; ++inst_) CheckForm(block.insts[inst_], inst_ == size - 1);
  }
  CheckLoops();
  if (!ok_) return false;  // what follows takes the form for granted
  for (block_ = 0; block_ < static_cast<int>(f_.blocks.size()); ++block_) {
    CheckQueues(f_.blocks[block_]);
  }
  if (f_.blocks.empty()) return ok_;
  for (RegClass cls : kClasses) CheckDefinitions(cls);
  return ok_;
}

}  // namespace

bool VerifyLlo(const Function& function, DiagSink* diags, int mxu_tiles) {
  return Verifier(function, diags, mxu_tiles).Run();
}

}  // namespace tpuc
