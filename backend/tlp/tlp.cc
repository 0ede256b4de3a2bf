#include "backend/tlp/tlp.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "backend/tlp/flops.h"
#include "backend/tlp/place.h"
#include "src/diag/check.h"
#include "src/ir/elided.h"
#include "src/ir/tiling.h"

namespace tpuc {
namespace {

constexpr int64_t kRowBytes = 512;
constexpr int64_t kGranuleBytes = 32;
// Flags left for a kernel's own windows once the copies of the program have theirs.
constexpr int kKernelFlags = 64;

using isa::Opcode;
using isa::Operand;

bool InVmem(const kernel::Buffer& b) { return b.shape.layout && b.shape.layout->memory_space == 1; }

// A buffer's address as instructions take it: VMEM rows or HBM granules.
int64_t Address(const kernel::Buffer& b) {
  return InVmem(b) ? b.offset / kRowBytes : b.offset / kGranuleBytes;
}

isa::Constant MakeConstant(const kernel::Buffer& b, int number) {
  isa::Constant c;
  c.buffer = number;
  c.data = PackToDevice(*b.init, b.shape);
  size_t words = c.data.size() / 4;
  if (words == 0 || c.data.size() % 4 != 0) return c;
  std::vector<uint32_t> w(words);
  std::memcpy(w.data(), c.data.data(), c.data.size());
  bool splat = true, iota = true;
  for (size_t i = 1; i < words && (splat || iota); ++i) {
    splat = splat && w[i] == w[0];
    iota = iota && w[i] == w[0] + static_cast<uint32_t>(i);
  }
  if (splat || iota) {
    c.kind = splat ? isa::Constant::Kind::kSplat : isa::Constant::Kind::kIota;
    c.splat = w[0];
    c.data.clear();
  }
  return c;
}

class Emitter {
 public:
  Emitter(const kernel::Program& program, const Chip& chip, const EmitOptions& options,
          llo::Program* out, DiagSink* diags)
      : program_(program), chip_(chip), options_(options), out_(*out), diags_(diags) {}
  bool Run(KernelRegion* region);

 private:
  void AddConstants();
  bool Shell();
  bool LowerKernels(KernelRegion* region);
  void Steps();
  void CopyStart(const kernel::Step& step, int position);
  void CopyDone(const kernel::Step& step, int position);
  void Call(const kernel::Step& step);
  llo::Block& NewBlock(std::string label);
  void Push(llo::Block* block, Opcode op, std::vector<int64_t> sources, int source);
  int SourceRow(const kernel::Step& step);

  kernel::Program program_;
  const Chip& chip_;
  const EmitOptions& options_;
  llo::Program& out_;
  DiagSink* diags_;
  Placement placement_;
  int copy_flags_ = 0;               // flags that copies use; kernels' flags come after
  std::map<int, int> flag_of_copy_;  // copies under way
  std::vector<int> free_flags_;
  std::map<int, size_t> copy_row_;  // copy number -> row of shell.copies
};

int Emitter::SourceRow(const kernel::Step& step) {
  out_.shell.sources.push_back({step.name, step.op_name, ""});
  return static_cast<int>(out_.shell.sources.size()) - 1;
}

// Every step is a block of its own: nothing moves across a copy, a wait or a call.
llo::Block& Emitter::NewBlock(std::string label) {
  llo::Block& b = out_.tlp.blocks.emplace_back();
  b.label = std::move(label);
  return b;
}

void Emitter::Push(llo::Block* block, Opcode op, std::vector<int64_t> sources, int source) {
  isa::Inst inst;
  inst.op = op;
  for (int64_t s : sources) inst.src.push_back(Operand::Imm(static_cast<int32_t>(s)));
  inst.source = source;
  block->insts.push_back(std::move(inst));
}

// Constants of kernels and their scratch in HBM become buffers, and operands of the calls among the
// others.
void Emitter::AddConstants() {
  const int64_t last = static_cast<int64_t>(program_.steps.size());
  std::vector<std::vector<int>> buffers(program_.kernels.size());  // by kernel and operand; or -1
  for (size_t i = 0; i < program_.kernels.size(); ++i) {
    const kernel::Kernel& k = program_.kernels[i];
    std::vector<int>& constants = buffers[i];
    constants.assign(k.refs.size(), -1);
    for (size_t r = 0; r < k.refs.size(); ++r) {
      if (k.refs[r].IsOperand() || !k.refs[r].HasAddress()) continue;
      kernel::Buffer b;
      b.name = absl::StrCat(k.name, ".", k.refs[r].name);
      b.shape = k.refs[r].shape;
      b.init = k.refs[r].constant;
      b.to = last;
      constants[r] = static_cast<int>(program_.buffers.size());
      program_.buffers.push_back(std::move(b));
    }
  }
  for (kernel::Step& step : program_.steps) {
    if (step.kind != kernel::Step::Kind::kCall) continue;
    const kernel::Kernel& k = program_.kernels[step.kernel];
    size_t at = 0;
    for (size_t r = 0; r < k.refs.size(); ++r) {
      const int constant = buffers[step.kernel][r];
      if (constant >= 0) step.operands.insert(step.operands.begin() + at, constant);
      if (constant >= 0 || k.refs[r].IsOperand()) ++at;
    }
  }
}

bool Emitter::Shell() {
  isa::Program& shell = out_.shell;
  shell.module = program_.name;
  shell.chip_name = chip_.name;
  shell.chip_text = chip_.text;
  shell.options = options_.options;
  for (const kernel::Buffer& b : program_.buffers) {
    shell.buffers.push_back({b.name, InVmem(b) ? isa::Memory::kVmem : isa::Memory::kHbm, b.offset,
                             b.bytes, ToString(b.shape), b.from, b.to});
    if (b.init && b.init->elided()) {
      AddElided(nullptr, {}, b.name, diags_);
      return false;
    }
    if (b.init) {
      shell.constants.push_back(MakeConstant(b, static_cast<int>(shell.buffers.size()) - 1));
    }
  }
  auto port = [&](const kernel::Port& p) {
    // A port may read its buffer as another shape of the same bytes (a bitcast).
    bool own = p.shape.layout && !p.shape.layout->tiles.empty();
    own = p.buffer < 0 || (own && DeviceBytes(p.shape) <= program_.buffers[p.buffer].bytes);
    const Shape& shape = own ? p.shape : program_.buffers[p.buffer].shape;
    return isa::Port{p.name, ToString(shape), p.buffer, -1};
  };
  for (const kernel::Port& p : program_.inputs) shell.inputs.push_back(port(p));
  for (const kernel::Port& p : program_.outputs) {
    isa::Port o = port(p);
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (p.buffer >= 0 && program_.inputs[i].buffer == p.buffer) o.alias = static_cast<int>(i);
    }
    shell.outputs.push_back(std::move(o));
  }
  return true;
}

bool Emitter::LowerKernels(KernelRegion* region) {
  for (const kernel::Kernel& k : program_.kernels) {
    SetCurrentStage(absl::StrCat("lower kernel ", k.name));
    LowerOptions lo;
    lo.first_row = region->first_row;
    lo.row_limit = region->rows;
    lo.first_flag = copy_flags_;
    lo.strips = options_.strips;
    lo.opt_level = options_.opt_level;
    llo::Function f;
    if (!LowerKernel(k, chip_, lo, &f, &out_.shell.sources, diags_)) {
      const bool room =
          !diags_->diags().empty() && diags_->diags().back().code == DiagCode::kVmemBudget;
      if (room) region->too_large = static_cast<int>(&k - program_.kernels.data());
      return false;
    }
    f.name = k.name;
    f.grid_steps = k.GridSteps();
    f.info.op_names = k.op_names;
    f.info.ops = k.ops;
    f.info.grid_steps = k.GridSteps();
    f.info.flops = KernelFlops(k);
    f.info.vmem_bytes = (FirstFreeRow(f, region->first_row) - region->first_row) * kRowBytes;
    out_.kernels.push_back(std::move(f));
  }
  return true;
}

void Emitter::CopyStart(const kernel::Step& step, int position) {
  const kernel::Buffer& from = program_.buffers[step.operands[0]];
  const kernel::Buffer& to = program_.buffers[step.operands[1]];
  int64_t bytes = std::min(from.bytes, to.bytes);
  if (free_flags_.empty()) free_flags_.push_back(copy_flags_++);
  int flag = free_flags_.back();
  free_flags_.pop_back();
  flag_of_copy_[step.copy] = flag;
  Opcode op = InVmem(from) ? (InVmem(to) ? Opcode::kDmaVmemToVmem : Opcode::kDmaVmemToHbm)
                           : (InVmem(to) ? Opcode::kDmaHbmToVmem : Opcode::kDmaHbmToHbm);
  int source = SourceRow(step);
  llo::Block& b = NewBlock(step.name);
  Push(&b, Opcode::kVsyncpa, {flag, 0}, source);
  Push(&b, op, {Address(from), bytes / kGranuleBytes, Address(to), flag}, source);
  copy_row_[step.copy] = out_.shell.copies.size();
  out_.shell.copies.push_back({step.name, bytes, step.cross_program, position, position});
}

void Emitter::CopyDone(const kernel::Step& step, int position) {
  isa::Copy& copy = out_.shell.copies[copy_row_[step.copy]];
  copy.done = position;
  int flag = flag_of_copy_[step.copy];
  llo::Block& b = NewBlock(step.name);
  int source = SourceRow(step);
  Push(&b, Opcode::kDmaDoneWait, {flag, copy.bytes / kGranuleBytes}, source);
  Push(&b, Opcode::kVsyncadd, {flag, -copy.bytes / kGranuleBytes}, source);
  free_flags_.push_back(flag);
}

void Emitter::Call(const kernel::Step& step) {
  llo::Block& b = NewBlock(step.name);
  std::vector<int64_t> addresses;
  for (int operand : step.operands) addresses.push_back(Address(program_.buffers[operand]));
  Push(&b, Opcode::kCall, addresses, SourceRow(step));
  b.insts.back().target = step.kernel;
}

void Emitter::Steps() {
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const kernel::Step& step = program_.steps[i];
    switch (step.kind) {
      case kernel::Step::Kind::kCopyStart:
        CopyStart(step, static_cast<int>(i));
        break;
      case kernel::Step::Kind::kCopyDone:
        CopyDone(step, static_cast<int>(i));
        break;
      case kernel::Step::Kind::kCall:
        Call(step);
        break;
    }
  }
  if (out_.tlp.blocks.empty()) NewBlock("empty");
}

bool Emitter::Run(KernelRegion* region) {
  AddConstants();
  if (!PlaceBuffers(&program_, chip_, &placement_, diags_)) return false;
  if (!Shell()) return false;
  out_.tlp.name = "tlp";
  Steps();
  if (copy_flags_ + kKernelFlags > chip_.sync_flags) {
    diags_->Add(
        DiagCode::kOutOfSyncFlags,
        absl::StrCat(copy_flags_, " copies are under way at once; the chip has ", chip_.sync_flags,
                     " sync flags, of which kernels need ", kKernelFlags));
    return false;
  }
  region->first_row = (placement_.vmem_bytes + kRowBytes - 1) / kRowBytes;
  int64_t limit = options_.vmem_limit > 0 ? options_.vmem_limit : chip_.scoped_vmem_bytes;
  region->rows = std::min(limit / kRowBytes, chip_.vmem_bytes / kRowBytes - region->first_row);
  return LowerKernels(region);
}

}  // namespace

int64_t FirstFreeWord(const llo::Function& function) {
  int64_t end = 0;
  for (const llo::Allocation& a : function.allocations) {
    if (a.memory == isa::Memory::kSmem) end = std::max(end, a.offset + (a.size + 7) / 8 * 8);
  }
  return end;
}

int64_t FirstFreeRow(const llo::Function& function, int64_t first_row) {
  int64_t end = first_row;
  for (const llo::Allocation& a : function.allocations) {
    if (a.memory == isa::Memory::kVmem) end = std::max(end, a.offset + a.size);
  }
  return end;
}

bool EmitProgram(const kernel::Program& program, const Chip& chip, const EmitOptions& options,
                 llo::Program* out, KernelRegion* region, DiagSink* diags) {
  return Emitter(program, chip, options, out, diags).Run(region);
}

}  // namespace tpuc
