// Programs from scheduled HLO (from_hlo.h): walks the entry in schedule order. Each HLO value is a
// list of buffers, one a leaf; kernels and copies become steps; tuples and bitcasts only rename.
#include "backend/kernel/from_hlo.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/body_from_hlo.h"
#include "backend/kernel/row_block.h"
#include "backend/kernel/window_choice.h"
#include "backend/kernel/windows.h"
#include "src/ir/kernel_call.h"

namespace tpuc {
namespace {

using kernel::BodySource;
using kernel::Buffer;
using kernel::Program;
using kernel::Step;

constexpr int64_t kGranule = 512;  // buffers start and end at whole rows of VMEM
constexpr int kNoBuffer = -1;      // zero-sized or not an array

int64_t RoundUp(int64_t bytes) {
  return bytes > INT64_MAX - kGranule ? bytes : (bytes + kGranule - 1) / kGranule * kGranule;
}

void FlattenShape(const Shape& shape, std::vector<const Shape*>* leaves) {
  if (!shape.IsTuple()) {
    leaves->push_back(&shape);
    return;
  }
  for (const Shape& e : shape.elements) FlattenShape(e, leaves);
}

const Program* FileOf(const KernelFiles* files, const Instruction& call) {
  if (files == nullptr || !IsKernelCall(call)) return nullptr;
  const auto it = files->find(std::string(call.StringAttr(AttrId::kBackendConfig)));
  return it == files->end() ? nullptr : it->second.get();
}

// The ref that stands for a port can be a view of the whole array in VMEM.
bool MayBeView(const Program& file, const kernel::Port& port) {
  const kernel::Kernel& k = file.kernels[file.steps[0].kernel];
  size_t next = 0;
  for (const kernel::Ref& ref : k.refs) {
    if (ref.role == kernel::Ref::Role::kScratch) continue;
    if (next >= file.steps[0].operands.size()) return false;
    if (file.steps[0].operands[next++] != port.buffer) continue;
    if (ref.role == kernel::Ref::Role::kPrefetch || ref.space != kernel::Ref::Space::kWindow ||
        ref.element_index) {
      return false;
    }
    for (size_t d = 0; d < ref.block.size(); ++d) {
      if (ref.block[d] < 1 || ref.shape.dims[d] % ref.block[d] != 0) return false;
    }
    return true;
  }
  return false;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Module& module, const BufferAssignment& assignment, const Chip& chip,
                 DiagSink* diags, const WindowOptions& windows)
      : module_(module),
        assignment_(assignment),
        chip_(chip),
        diags_(diags),
        windows_(windows),
        program_(std::make_unique<Program>()),
        next_hbm_(RoundUp(assignment.hbm_bytes)),
        next_vmem_(RoundUp(assignment.vmem_bytes)) {}

  std::unique_ptr<Program> Build();

 private:
  void Fail(const Instruction& i, std::string message) {
    diags_->Add(DiagCode::kUnsupportedOp, module_.source, i.loc, std::move(message));
  }
  int NewBuffer(const Instruction& i, int64_t leaf, const Shape& shape, std::string name);
  void VisitParameter(const Instruction& i);
  void VisitConstant(const Instruction& i);
  void VisitCopyStart(const Instruction& i);
  void VisitCopyDone(const Instruction& i);
  void VisitTuples(const Instruction& i);
  void VisitKernel(const Instruction& i);
  void VisitKernelCall(const Instruction& i);
  void CutIntoBlocks(kernel::Kernel* k);
  void Visit(const Instruction& i);
  void MakeOutputs();
  int CopyKernel(const Instruction& i, int64_t leaf, const Shape& shape, int from);
  int ConstantBuffer(const Instruction& constant);
  void Use(int buffer) {
    if (buffer >= 0)
      program_->buffers[buffer].to = std::max(program_->buffers[buffer].to, position_);
  }
  // The name of what an operand's buffer holds, without what a copy added.
  std::string BaseName(const Instruction& i) const;

  const Module& module_;
  const BufferAssignment& assignment_;
  const Chip& chip_;
  DiagSink* diags_;
  const WindowOptions& windows_;
  std::unique_ptr<Program> program_;
  int64_t next_hbm_, next_vmem_;  // for what the assignment does not place
  int64_t position_ = 0;
  int copies_ = 0;
  absl::flat_hash_map<const Instruction*, std::vector<int>> values_;
  absl::flat_hash_map<const Instruction*, int> copy_of_, constants_;
  absl::flat_hash_map<std::pair<const Instruction*, int64_t>, const AssignedBuffer*> assigned_;
  absl::flat_hash_set<std::string> buffer_names_, kernel_names_;
};

int ProgramBuilder::NewBuffer(const Instruction& i, int64_t leaf, const Shape& shape,
                              std::string name) {
  Buffer b;
  b.name = name;
  for (int n = 1; !buffer_names_.insert(b.name).second; ++n) b.name = absl::StrCat(name, ".", n);
  b.shape = kernel::WithDeviceLayout(shape);
  b.from = b.to = position_;
  b.bytes = RoundUp(DeviceBytes(b.shape));
  const auto it = assigned_.find({&i, leaf});
  if (it != assigned_.end()) {
    const AssignedBuffer& a = *it->second;
    b.shape.layout->memory_space = a.memory_space;
    b.offset = a.offset;
    b.from = a.from;
    b.to = a.to;
  } else {
    int64_t* next = b.shape.layout->memory_space == 1 ? &next_vmem_ : &next_hbm_;
    b.offset = *next;
    if (b.bytes > INT64_MAX / 2 - *next) {
      diags_->Add(DiagCode::kVmemBudget, module_.source, i.loc,
                  absl::StrCat("buffer of ", b.name, " is too large to address"));
    } else {
      *next += b.bytes;
    }
  }
  program_->buffers.push_back(std::move(b));
  return static_cast<int>(program_->buffers.size()) - 1;
}

void ProgramBuilder::VisitParameter(const Instruction& i) {
  std::vector<const Shape*> leaves;
  FlattenShape(i.shape, &leaves);
  std::vector<int> buffers;
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    kernel::Port port;
    port.name = leaves.size() == 1 && !i.shape.IsTuple() ? i.name : absl::StrCat(i.name, ".", leaf);
    port.shape = kernel::WithDeviceLayout(*leaves[leaf]);
    if (!leaves[leaf]->IsArray()) {
      Fail(i, absl::StrCat("parameter ", i.name, " of type ", ToString(*leaves[leaf])));
      buffers.push_back(kNoBuffer);
      continue;
    }
    if (leaves[leaf]->ElementCount() > 0) {
      port.buffer = NewBuffer(i, static_cast<int64_t>(leaf), *leaves[leaf], port.name);
    }
    buffers.push_back(port.buffer);
    if (port.buffer >= 0) {
      program_->buffers[port.buffer].input = static_cast<int>(program_->inputs.size());
    }
    program_->inputs.push_back(std::move(port));
  }
  values_[&i] = std::move(buffers);
}

int ProgramBuilder::ConstantBuffer(const Instruction& constant) {
  const auto it = constants_.find(&constant);
  if (it != constants_.end()) return it->second;
  const int buffer = NewBuffer(constant, 0, constant.shape, constant.name);
  program_->buffers[buffer].init = std::make_shared<Literal>(*constant.literal);
  constants_[&constant] = buffer;
  return buffer;
}

void ProgramBuilder::VisitConstant(const Instruction& i) {
  if (!i.shape.IsArray() || i.literal == nullptr) return Fail(i, "tuple constant in the entry");
  // A buffer only if something asks for it: scalars are copied into kernels.
  values_[&i] = {kNoBuffer};
  if (i.shape.ElementCount() > 0 && !i.shape.IsScalar()) values_[&i] = {ConstantBuffer(i)};
}

void ProgramBuilder::VisitCopyStart(const Instruction& i) {
  if (!i.shape.IsTuple() || i.shape.elements.size() < 2 || i.operands.size() != 1) {
    return Fail(i, "copy-start whose result is not (destination, source, context)");
  }
  const int source = values_[i.operands[0]][0];
  if (source < 0) {
    values_[&i] = {kNoBuffer, kNoBuffer, kNoBuffer};
    return;
  }
  const bool to_vmem = i.shape.elements[0].layout && i.shape.elements[0].layout->memory_space == 1;
  const int destination =
      NewBuffer(i, 0, i.shape.elements[0],
                absl::StrCat(BaseName(*i.operands[0]), to_vmem ? ".vmem" : ".hbm"));
  Use(source);
  values_[&i] = {destination, source, kNoBuffer};
  Step step;
  step.kind = Step::Kind::kCopyStart;
  step.operands = {source, destination};
  step.copy = copies_++;
  step.cross_program = i.Has(AttrId::kCrossProgramPrefetchIndex);
  step.name = i.name;
  step.op_name = std::string(i.op_name());
  copy_of_[&i] = step.copy;
  program_->steps.push_back(std::move(step));
}

void ProgramBuilder::VisitCopyDone(const Instruction& i) {
  const Instruction* start = i.operands.empty() ? nullptr : i.operands[0];
  const auto it = copy_of_.find(start);
  if (it == copy_of_.end()) {
    values_[&i] = {kNoBuffer};
    if (start == nullptr || start->op != Op::kCopyStart) Fail(i, "copy-done of no copy-start");
    return;
  }
  Step step;
  step.kind = Step::Kind::kCopyDone;
  step.operands = {values_[start][1], values_[start][0]};
  step.copy = it->second;
  step.cross_program = start->Has(AttrId::kCrossProgramPrefetchIndex);
  step.name = i.name;
  step.op_name = std::string(i.op_name());
  Use(step.operands[0]);
  Use(step.operands[1]);
  values_[&i] = {step.operands[1]};
  program_->steps.push_back(std::move(step));
}

void ProgramBuilder::VisitTuples(const Instruction& i) {
  std::vector<int> result;
  if (i.op == Op::kTuple) {
    for (const Instruction* o : i.operands) {
      const std::vector<int>& v = values_[o];
      result.insert(result.end(), v.begin(), v.end());
    }
  } else if (i.op == Op::kGetTupleElement) {
    const Shape& tuple = i.operands[0]->shape;
    const std::vector<int>& all = values_[i.operands[0]];
    const int64_t index = i.IntAttr(AttrId::kIndex);
    if (index < 0 || index >= static_cast<int64_t>(tuple.elements.size()) ||
        static_cast<int64_t>(all.size()) != tuple.LeafCount()) {
      return Fail(i, "get-tuple-element of something else");
    }
    int64_t first = 0;
    for (int64_t e = 0; e < index; ++e) first += tuple.elements[e].LeafCount();
    result.assign(all.begin() + first, all.begin() + first + i.shape.LeafCount());
  } else {  // bitcast, opt-barrier: the same bytes
    result = values_[i.operands[0]];
    if (i.op == Op::kBitcast && i.operands[0]->op == Op::kConstant && !result.empty() &&
        result[0] < 0 && i.shape.ElementCount() > 0) {
      result = {ConstantBuffer(*i.operands[0])};
    }
  }
  values_[&i] = std::move(result);
}

std::string ProgramBuilder::BaseName(const Instruction& i) const {
  const Instruction* at = &i;
  // Every step goes to an earlier instruction.
  while ((at->op == Op::kCopyDone || at->op == Op::kCopyStart || at->op == Op::kBitcast) &&
         !at->operands.empty()) {
    at = at->operands[0];
  }
  if (at->op == Op::kGetTupleElement && !at->operands.empty()) {
    return absl::StrCat(at->operands[0]->name, "_", at->IntAttr(AttrId::kIndex));
  }
  return at->name;
}

// Windows for a kernel over whole arrays.
void ProgramBuilder::CutIntoBlocks(kernel::Kernel* k) {
  const kernel::DimClasses classes = kernel::FindDimClasses(*k);
  const auto budget = windows_.budgets.find(k->name);
  kernel::WindowChoice choice = kernel::ChooseWindows(
      *k, classes, chip_,
      budget == windows_.budgets.end() ? chip_.scoped_vmem_bytes : budget->second,
      windows_.tables != nullptr);
  if (windows_.tables != nullptr) *windows_.tables += choice.table;
  if (choice.plan.blocking.empty()) {
    kernel::AddRowBlock(classes, k);
  } else {
    const size_t refs = k->refs.size();
    *k = kernel::ApplyBlocking(*k, classes, choice.plan.blocking);
    for (size_t r = 0; r < refs; ++r) k->refs[r].buffers = choice.plan.buffers[r];
  }
  kernel::CheckVmemBudget(*k, module_.source, chip_, diags_);
}

void ProgramBuilder::VisitKernel(const Instruction& i) {
  std::vector<const Shape*> leaves;
  FlattenShape(i.shape, &leaves);
  std::vector<int> results(leaves.size(), kNoBuffer);
  const bool empty = std::all_of(leaves.begin(), leaves.end(), [](const Shape* s) {
    return s->IsArray() && s->ElementCount() == 0;
  });
  if (empty) {
    values_[&i] = std::move(results);
    return;
  }
  std::vector<std::string> names;
  for (const Instruction* o : i.operands) names.push_back(BaseName(*o));
  BodySource body;
  if (!kernel::BodyFromHlo(module_, i, names, &body, diags_)) {
    values_[&i] = std::move(results);
    return;
  }
  CutIntoBlocks(&body.kernel);
  Step step;
  step.kernel = static_cast<int>(program_->kernels.size());
  step.name = i.name;
  step.op_name = std::string(i.op_name());
  for (const BodySource::Operand& input : body.inputs) {
    int buffer = kNoBuffer;
    if (input.constant != nullptr) {
      buffer = ConstantBuffer(*input.constant);
    } else {
      const std::vector<int>& v = values_[i.operands[input.operand]];
      buffer = v.empty() ? kNoBuffer : v[0];
    }
    if (buffer < 0) Fail(i, absl::StrCat("operand of ", i.name, " without a buffer"));
    Use(buffer);
    step.operands.push_back(buffer);
  }
  for (int64_t leaf : body.outputs) {
    std::string name = leaves.size() == 1 ? i.name : absl::StrCat(i.name, "_", leaf);
    results[leaf] = NewBuffer(i, leaf, *leaves[leaf], std::move(name));
    step.operands.push_back(results[leaf]);
  }
  program_->kernels.push_back(std::move(body.kernel));
  program_->steps.push_back(std::move(step));
  values_[&i] = std::move(results);
}

// The file's kernel with the layouts and memory spaces that its operands have here.
void ProgramBuilder::VisitKernelCall(const Instruction& i) {
  const Program* file = FileOf(windows_.files, i);
  if (file == nullptr) return Fail(i, absl::StrCat("the kernel file of ", i.name, " was not read"));
  kernel::Kernel k = file->kernels[file->steps[0].kernel];
  k.name = i.name;
  k.loc = {};  // places in another file than the module's
  for (kernel::Node& n : k.nodes) n.loc = {};
  Step step;
  step.kernel = static_cast<int>(program_->kernels.size());
  step.name = i.name;
  step.op_name = std::string(i.op_name());
  std::vector<const Shape*> leaves;
  FlattenShape(i.shape, &leaves);
  std::vector<int> results(leaves.size(), kNoBuffer);
  size_t next = 0;
  for (kernel::Ref& ref : k.refs) {
    ref.loc = {};
    if (ref.role == kernel::Ref::Role::kScratch || next >= file->steps[0].operands.size()) continue;
    const Buffer& port = file->buffers[file->steps[0].operands[next++]];
    int buffer = kNoBuffer;
    if (port.input >= 0) {
      const std::vector<int>& v = values_[i.operands[port.input]];
      buffer = v.empty() ? kNoBuffer : v[0];
    } else if (port.output >= 0) {
      std::string name =
          leaves.size() == 1 ? i.name : absl::StrCat(i.name, "_", port.output);
      buffer = results[port.output] =
          NewBuffer(i, port.output, *leaves[port.output], std::move(name));
    } else {
      buffer = NewBuffer(i, -1, port.shape, absl::StrCat(i.name, ".", port.name));
      program_->buffers[buffer].init = port.init;
    }
    if (buffer < 0) return Fail(i, absl::StrCat("operand ", ref.name, " without a buffer"));
    Use(buffer);
    ref.shape.layout = program_->buffers[buffer].shape.layout;
    step.operands.push_back(buffer);
  }
  k.op_names = {step.op_name};
  program_->kernels.push_back(std::move(k));
  program_->steps.push_back(std::move(step));
  values_[&i] = std::move(results);
}

void ProgramBuilder::Visit(const Instruction& i) {
  if (IsKernelCall(i)) return VisitKernelCall(i);
  switch (i.op) {
    case Op::kConstant:
      return VisitConstant(i);
    case Op::kCopyStart:
      return VisitCopyStart(i);
    case Op::kCopyDone:
      return VisitCopyDone(i);
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kBitcast:
    case Op::kOptBarrier:
      return VisitTuples(i);
    case Op::kAfterAll:
      values_[&i] = {kNoBuffer};
      return;
    default:
      return VisitKernel(i);
  }
}

// A kernel that copies `from` into a new HBM buffer: results that are parameters or constants, or
// that leave the program twice.
int ProgramBuilder::CopyKernel(const Instruction& i, int64_t leaf, const Shape& shape, int from) {
  const Buffer source = program_->buffers[from];
  Computation scratch;
  Instruction* operand = scratch.Add(source.name, Op::kParameter, source.shape, {});
  Shape result = shape;
  result.layout->memory_space = 0;
  const std::string name = absl::StrCat("copy_of_", source.name);
  Instruction* copy = scratch.Add(name, Op::kCopy, result, {operand});
  BodySource body;
  if (!kernel::BodyFromHlo(module_, *copy, {source.name}, &body, diags_)) return from;
  for (int n = 1; !kernel_names_.insert(body.kernel.name).second; ++n) {
    body.kernel.name = absl::StrCat(name, ".", n);
  }
  CutIntoBlocks(&body.kernel);
  Use(from);
  Step step;
  step.kernel = static_cast<int>(program_->kernels.size());
  step.name = body.kernel.name;
  step.operands = {from, NewBuffer(i, leaf, result, body.kernel.name)};
  const int buffer = step.operands[1];
  program_->kernels.push_back(std::move(body.kernel));
  program_->steps.push_back(std::move(step));
  return buffer;
}

void ProgramBuilder::MakeOutputs() {
  const Instruction& root = *module_.entry->root;
  std::vector<const Shape*> leaves;
  FlattenShape(root.shape, &leaves);
  std::vector<int> values = values_[&root];
  values.resize(leaves.size(), kNoBuffer);
  if (root.op == Op::kConstant && root.shape.IsScalar()) values = {ConstantBuffer(root)};
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    kernel::Port port;
    port.name = absl::StrCat("out", leaf);
    port.shape = kernel::WithDeviceLayout(*leaves[leaf]);
    int buffer = values[leaf];
    if (root.op == Op::kTuple && leaf < root.operands.size() && buffer < 0 &&
        root.operands[leaf]->op == Op::kConstant && leaves[leaf]->IsScalar()) {
      buffer = ConstantBuffer(*root.operands[leaf]);
    }
    if (buffer >= 0) {
      const Buffer& b = program_->buffers[buffer];
      if (b.input >= 0 || b.output >= 0 || b.init != nullptr || b.shape.layout->memory_space != 0) {
        buffer = CopyKernel(root, static_cast<int64_t>(leaf), b.shape, buffer);
      }
      program_->buffers[buffer].output = static_cast<int>(leaf);
      Use(buffer);
    }
    port.buffer = buffer;
    program_->outputs.push_back(std::move(port));
  }
}

std::unique_ptr<Program> ProgramBuilder::Build() {
  program_->name = module_.name;
  program_->source = module_.source;
  if (module_.entry == nullptr || module_.entry->root == nullptr) {
    diags_->Add(DiagCode::kUnsupportedOp, module_.source, {}, "module without an entry");
    return nullptr;
  }
  for (const AssignedBuffer& b : assignment_.buffers) assigned_[{b.instruction, b.leaf}] = &b;
  for (const auto& i : module_.entry->instructions) kernel_names_.insert(i->name);
  const int before = diags_->errors();
  // Ports are parameters by number, in whatever order the schedule has them.
  for (const Instruction* p : module_.entry->Parameters()) {
    if (p != nullptr) VisitParameter(*p);
  }
  for (const auto& i : module_.entry->instructions) {
    if (i->op != Op::kParameter) Visit(*i);
    ++position_;
  }
  if (diags_->errors() == before) MakeOutputs();
  if (diags_->errors() > before) return nullptr;
  return std::move(program_);
}

}  // namespace

bool OperandInVmem(const KernelFiles& files, const Instruction& call, int64_t operand) {
  const Program* file = FileOf(&files, call);
  return file != nullptr && operand < static_cast<int64_t>(file->inputs.size()) &&
         MayBeView(*file, file->inputs[operand]);
}

bool ResultInVmem(const KernelFiles& files, const Instruction& call, int64_t leaf) {
  const Program* file = FileOf(&files, call);
  return file != nullptr && leaf < static_cast<int64_t>(file->outputs.size()) &&
         MayBeView(*file, file->outputs[leaf]);
}

std::unique_ptr<Program> KernelsFromHlo(const Module& module, const BufferAssignment& assignment,
                                        const Chip& chip, DiagSink* diags,
                                        const WindowOptions& windows) {
  return ProgramBuilder(module, assignment, chip, diags, windows).Build();
}

}  // namespace tpuc
