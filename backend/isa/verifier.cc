// The order of the checks, the form of single bundles, and the buffers (verifier.h). Dataflow over
// the blocks of a function is in verifier_flow.cc, queues in verifier_queues.cc.
#include "backend/isa/verifier.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tpuc::isa {
namespace {

constexpr int kMaxPerFunction = 10;  // errors; a wrong compiler makes thousands

bool IsDma(Opcode op) { return Info(op).interval == IntervalKey::kDma; }

int FileSize(const Chip& chip, RegClass cls) {
  switch (cls) {
    case RegClass::kVector:
      return chip.vector_registers;
    case RegClass::kMask:
      return chip.mask_registers;
    case RegClass::kScalar:
      return chip.scalar_registers;
    case RegClass::kPredicate:
      return chip.predicate_registers;
    default:
      return 0;
  }
}

RegClass ClassOf(char letter) {
  for (RegClass c : {RegClass::kVector, RegClass::kMask, RegClass::kScalar, RegClass::kPredicate}) {
    if (ClassLetter(c) == letter) return c;
  }
  return RegClass::kNone;
}

std::string RegName(const Reg& r) { return absl::StrCat(std::string(1, ClassLetter(r.cls)), r.id); }

class FormChecker {
 public:
  FormChecker(const Program& program, const Function& f, const Chip& chip, DiagSink* diags)
      : program_(program), f_(f), chip_(chip), diags_(diags) {}

  int Run() {
    if (f_.args < 0 || f_.args > chip_.scalar_registers) {
      Error(DiagCode::kBundleOperand,
            absl::StrCat(f_.args, " arguments, ", chip_.scalar_registers, " scalar registers"));
    }
    for (size_t i = 0; i < f_.bundles.size() && errors_ < kMaxPerFunction; ++i) {
      bundle_ = static_cast<int>(i);
      Bundle(f_.bundles[i]);
    }
    inst_ = nullptr;
    if (errors_ == 0) Branches();
    return errors_;
  }

 private:
  void Error(DiagCode code, const std::string& what) {
    ++errors_;
    diags_->Add(code, absl::StrCat(Describe({&f_, bundle_, inst_}), ": ", what));
  }

  void Bundle(const isa::Bundle& b) {
    std::map<std::string, std::pair<int, int>> used;  // slot or port: taken, allowed
    std::vector<int32_t> literals;
    auto take = [&](const std::string& what, int allowed) {
      auto& [taken, limit] = used[what];
      ++taken;
      limit = allowed;
    };
    for (const Inst& inst : b.insts) {
      inst_ = &inst;
      if (static_cast<int>(inst.op) >= kOpcodeCount) {
        Error(DiagCode::kBundleOperand, "no such instruction");
        continue;
      }
      Operands(inst);
      Slots(inst, take);
      Ports(inst, take);
      for (const Operand& o : inst.src) {
        if (o.is_imm()) literals.push_back(o.imm);
      }
      if (Info(inst.op).has_memory) {
        literals.push_back(inst.mem.offset + (inst.mem.base.is_imm() ? inst.mem.base.imm : 0));
      }
    }
    inst_ = nullptr;
    for (const auto& [what, count] : used) {
      if (count.first <= count.second) continue;
      Error(DiagCode::kBundleSlots,
            absl::StrCat(count.first, " of ", what, " in one bundle, at most ", count.second));
    }
    std::sort(literals.begin(), literals.end());
    literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
    if (static_cast<int>(literals.size()) > chip_.immediates) {
      Error(DiagCode::kBundleSlots,
            absl::StrCat(literals.size(), " different literals in one bundle, at most ",
                         chip_.immediates));
    }
  }

  template <class Take>
  void Slots(const Inst& inst, const Take& take) {
    switch (Info(inst.op).slot) {
      case Slot::kSalu:
        take("scalar slots", chip_.salu);
        if (inst.op == Opcode::kSld || inst.op == Opcode::kSst)
          take("SMEM accesses", chip_.smem_access);
        if (inst.op == Opcode::kSbr) take("branches", chip_.branch);
        if (IsDma(inst.op)) take("DMA starts", chip_.dma_start);
        return;
      case Slot::kEup:
        take("EUP starts", chip_.eup);
        take("VALU slots", chip_.valu);
        return;
      case Slot::kValu:
        take("VALU slots", chip_.valu);
        return;
      case Slot::kVex:
        take("vector-extended slots", chip_.vex);
        return;
      case Slot::kPop:
        take("pop slots", chip_.pop);
        return;
      case Slot::kMisc:
        take("misc operations", chip_.misc);
        [[fallthrough]];
      case Slot::kLoad:
        take("load positions", chip_.load);
        break;
      case Slot::kMiscStore:
        take("misc operations", chip_.misc);
        [[fallthrough]];
      case Slot::kStore:
        take("store positions", chip_.store);
        break;
    }
    take("loads, stores and misc operations", chip_.memory_total);
  }

  template <class Take>
  void Ports(const Inst& inst, const Take& take) {
    const OpInfo& info = Info(inst.op);
    bool pop = info.slot == Slot::kPop;
    if (info.unit == Unit::kEup && pop) take("EUP pops", 1);
    if (info.unit == Unit::kXlu) {
      take(absl::StrCat(pop ? "pops of xlu" : "operations of xlu", inst.unit), 1);
    }
    if (info.unit == Unit::kMxu) {
      bool lhs = inst.op >= Opcode::kVmatprepMubr && inst.op <= Opcode::kVmatmulLatchMsk;
      const char* side = pop   ? "pops of mxu"
                         : lhs ? "LHS-side commands of mxu"
                               : "weight-side commands of mxu";
      take(absl::StrCat(side, inst.unit), 1);
      // A latch ends a set of pushes; the next starts one bundle later.
      if (inst.op == Opcode::kVmatmulLatch || inst.op == Opcode::kVmatmulLatchMsk) {
        take(absl::StrCat("weight-side commands of mxu", inst.unit), 1);
      }
    }
  }

  void CheckReg(const Reg& r, RegClass cls, const char* what) {
    if (r.cls == cls && r.id >= 0 && r.id < FileSize(chip_, cls)) return;
    Error(DiagCode::kBundleOperand,
          absl::StrCat(what, " ", RegName(r), " is not one of the ", FileSize(chip_, cls), " ",
                       std::string(1, ClassLetter(cls)), " registers"));
  }

  void Operands(const Inst& inst) {
    const OpInfo& info = Info(inst.op);
    if (inst.pred.valid()) CheckReg(inst.pred, RegClass::kPredicate, "predicate");
    bool has_dest = info.dest != RegClass::kNone && info.dest != RegClass::kToken;
    if (has_dest) CheckReg(inst.dest, info.dest, "destination");
    if (info.has_memory) Memory(inst);
    if (info.unit == Unit::kXlu || info.unit == Unit::kMxu) {
      int units = info.unit == Unit::kXlu ? chip_.xlus : chip_.mxus;
      if (inst.unit < 0 || inst.unit >= units) {
        Error(DiagCode::kBundleOperand, absl::StrCat("unit ", inst.unit, " of ", units));
      }
      if (NeedsWideMxu(inst.op) && chip_.mxu_tiles() < 2) {
        Error(DiagCode::kBundleOperand,
              absl::StrCat("works on a second half; MXUs of ", chip_.mxu_size, " have one"));
      }
    }
    if (inst.op == Opcode::kCall) return Call(inst);
    std::string letters;
    for (char c : info.sources) {
      if (c != 't') letters += c;
    }
    std::vector<Operand> given;
    for (const Operand& o : inst.src) {
      if (o.is_imm() || o.reg.cls != RegClass::kToken) given.push_back(o);
    }
    bool short_dma = IsDma(inst.op) && given.size() == 4;
    if (given.size() != letters.size() && !short_dma) {
      Error(DiagCode::kBundleOperand,
            absl::StrCat(given.size(), " sources, ", letters.size(), " needed"));
      return;
    }
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].is_imm()) CheckReg(given[i].reg, ClassOf(letters[i]), "source");
    }
    Flags(inst);
  }

  void Memory(const Inst& inst) {
    const Operand& base = inst.mem.base;
    if (!base.is_imm()) return CheckReg(base.reg, RegClass::kScalar, "base");
    bool smem = inst.op == Opcode::kSld || inst.op == Opcode::kSst;
    int64_t limit = smem ? chip_.smem_bytes / 4 : chip_.vmem_bytes / (4 * chip_.lanes);
    int64_t at = int64_t{base.imm} + inst.mem.offset;
    for (int i = 0; i < (smem ? 1 : chip_.sublanes); ++i) {
      if (!smem && (inst.mem.sublane_mask >> i & 1) == 0) continue;
      int64_t row = at + (smem ? 0 : int64_t{i} * inst.mem.sublane_stride);
      if (row >= 0 && row < limit) continue;
      Error(DiagCode::kBundleAddress,
            absl::StrCat(smem ? "SMEM word " : "VMEM row ", row, "; there are ", limit));
      return;
    }
  }

  void Flags(const Inst& inst) {
    bool sync = inst.op == Opcode::kDmaDoneWait || inst.op == Opcode::kVsyncadd ||
                inst.op == Opcode::kVsyncpa;
    if (!sync && !IsDma(inst.op)) return;
    const Operand& flag = inst.src[sync ? 0 : 3];
    if (!flag.is_imm() || (flag.imm >= 0 && flag.imm < chip_.sync_flags)) return;
    Error(DiagCode::kBundleAddress,
          absl::StrCat("sync flag ", flag.imm, "; there are ", chip_.sync_flags));
  }

  void Call(const Inst& inst) {
    if (&f_ != &program_.tlp) {
      return Error(DiagCode::kBundleBranch, "a call outside the top-level program");
    }
    if (inst.target < 0 || inst.target >= static_cast<int>(program_.kernels.size())) {
      return Error(DiagCode::kBundleBranch,
                   absl::StrCat("kernel ", inst.target, " of ", program_.kernels.size()));
    }
    int wanted = program_.kernels[inst.target].args;
    if (!inst.src.empty() && static_cast<int>(inst.src.size()) != wanted) {
      Error(DiagCode::kBundleOperand,
            absl::StrCat(inst.src.size(), " arguments, ", wanted, " needed"));
    }
    for (const Operand& o : inst.src) {
      if (!o.is_imm()) CheckReg(o.reg, RegClass::kScalar, "argument");
    }
  }

  // Targets, and what may not stand in delay slots.
  void Branches() {
    const int count = static_cast<int>(f_.bundles.size());
    std::vector<int> slot_of(count + 1, -1);  // the branch in whose delay slots a bundle lies
    for (int i = 0; i < count; ++i) {
      for (const Inst& inst : f_.bundles[i].insts) {
        bundle_ = i;
        inst_ = &inst;
        bool branch = inst.op == Opcode::kSbr;
        if ((branch || inst.op == Opcode::kCall) && slot_of[i] >= 0) {
          Error(DiagCode::kBundleBranch,
                absl::StrCat("stands in a delay slot of bundle ", slot_of[i]));
        }
        if (!branch) continue;
        if (inst.target < 0 || inst.target > count) {
          Error(DiagCode::kBundleBranch,
                absl::StrCat("target ", inst.target, " of ", count, " bundles"));
        }
        if (i + chip_.delay_slots >= count) {
          Error(DiagCode::kBundleBranch,
                "fewer delay slots than the chip's before the function's end");
        }
        for (int d = 1; d <= chip_.delay_slots && i + d < count; ++d) slot_of[i + d] = i;
      }
    }
    for (int i = 0; i < count; ++i) {
      for (const Inst& inst : f_.bundles[i].insts) {
        if (inst.op != Opcode::kSbr || inst.target < 0 || inst.target >= count) continue;
        bundle_ = i;
        inst_ = &inst;
        if (slot_of[inst.target] >= 0) {
          Error(DiagCode::kBundleBranch,
                absl::StrCat("target ", inst.target, " is a delay slot of bundle ",
                             slot_of[inst.target]));
        }
      }
    }
  }

  const Program& program_;
  const Function& f_;
  const Chip& chip_;
  DiagSink* diags_;
  int bundle_ = -1;
  const Inst* inst_ = nullptr;
  int errors_ = 0;
};

int64_t MemoryBytes(const Chip& chip, Memory memory) {
  switch (memory) {
    case Memory::kHbm:
      return chip.hbm_bytes;
    case Memory::kVmem:
      return chip.vmem_bytes;
    case Memory::kSmem:
      return chip.smem_bytes;
    case Memory::kSync:
      return int64_t{chip.sync_flags} * 4;
  }
  return 0;
}

// Live at the same time; 0, 0 says nothing of time. One that ends where another begins may hand its
// place over.
bool Meet(const Buffer& a, const Buffer& b) {
  if ((a.from == 0 && a.to == 0) || (b.from == 0 && b.to == 0)) return false;
  return a.from < b.to && b.from < a.to;
}

}  // namespace

std::string Describe(const BundlePlace& place) {
  std::string text = place.function->name;
  if (place.bundle >= 0) absl::StrAppend(&text, ", bundle ", place.bundle);
  if (place.inst == nullptr || static_cast<int>(place.inst->op) >= kOpcodeCount) return text;
  absl::StrAppend(&text, ", ", Info(place.inst->op).mnemonic);
  if (place.inst->dest.valid()) absl::StrAppend(&text, " ", RegName(place.inst->dest));
  return text;
}

int VerifyForm(const Program& program, const Function& f, const Chip& chip, DiagSink* diags) {
  return FormChecker(program, f, chip, diags).Run();
}

int VerifyBuffers(const Program& program, const Chip& chip, DiagSink* diags) {
  int errors = 0;
  auto error = [&](std::string message) {
    ++errors;
    diags->Add(DiagCode::kBundleBuffer, std::move(message));
  };
  std::map<Memory, std::vector<const Buffer*>> by_memory;
  for (const Buffer& b : program.buffers) {
    int64_t limit = MemoryBytes(chip, b.memory);
    if (b.offset < 0 || b.bytes < 0 || b.offset > limit || b.bytes > limit - b.offset) {
      error(absl::StrCat("buffer ", b.name, " [", b.offset, ", +", b.bytes,
                         ") lies outside its memory of ", limit, " bytes"));
    } else if (b.bytes > 0) {
      by_memory[b.memory].push_back(&b);
    }
  }
  for (auto& [memory, buffers] : by_memory) {
    std::stable_sort(buffers.begin(), buffers.end(),
                     [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; });
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& a = *buffers[i];
      for (size_t j = i + 1; j < buffers.size() && buffers[j]->offset < a.offset + a.bytes; ++j) {
        const Buffer& b = *buffers[j];
        if (!Meet(a, b)) continue;
        error(absl::StrCat("buffers ", a.name, " [", a.offset, ", +", a.bytes, ") and ", b.name,
                           " [", b.offset, ", +", b.bytes, ") overlap while both live"));
        if (errors >= kMaxPerFunction) return errors;
      }
    }
  }
  auto in_range = [&](int buffer, const std::string& what) {
    if (buffer < static_cast<int>(program.buffers.size())) return;
    error(absl::StrCat(what, " names buffer ", buffer, " of ", program.buffers.size()));
  };
  for (const Port& p : program.inputs) in_range(p.buffer, "input " + p.name);
  for (const Port& p : program.outputs) in_range(p.buffer, "output " + p.name);
  for (const Constant& c : program.constants) in_range(c.buffer, "a constant");
  return errors;
}

bool VerifyBundles(const Program& program, const Chip& chip, DiagSink* diags) {
  int errors = VerifyBuffers(program, chip, diags);
  std::vector<const Function*> functions;
  for (const Function& f : program.kernels) functions.push_back(&f);
  functions.push_back(&program.tlp);
  for (const Function* f : functions) {
    int form = VerifyForm(program, *f, chip, diags);
    errors += form;
    if (form > 0) continue;  // the rest needs a sound form
    errors += VerifyDefinitions(program, *f, chip, diags);
    errors += VerifyQueues(*f, chip, diags);
  }
  return errors == 0;
}

}  // namespace tpuc::isa
