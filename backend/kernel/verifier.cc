// VerifyKernels (verifier.h): kernels one by one, then the program: operands of calls, pairs of
// copies, places of buffers.
#include "backend/kernel/verifier.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/verify_body.h"
#include "backend/kernel/verify_windows.h"
#include "backend/kernel/windows.h"

namespace tpuc {
namespace {

using kernel::Buffer;
using kernel::Kernel;
using kernel::Program;
using kernel::Ref;
using kernel::Step;

class ProgramVerifier {
 public:
  ProgramVerifier(const Program& p, const Chip& chip, DiagSink* diags)
      : p_(p), chip_(chip), diags_(diags) {}
  bool Run();

 private:
  void Error(std::string message) {
    ok_ = false;
    diags_->Add(DiagCode::kKernelProgram,
                absl::StrCat("program ", p_.name, ": ", std::move(message)));
  }
  bool BufferExists(int b) const { return b >= 0 && b < static_cast<int>(p_.buffers.size()); }
  void VerifyCall(const Step& step);
  void VerifyCopies();
  void VerifyPorts(const std::vector<kernel::Port>& ports, const char* what);
  void VerifyPlaces(int64_t space, int64_t capacity, const char* memory);
  bool MayShare(size_t a, size_t b) const;

  const Program& p_;
  const Chip& chip_;
  DiagSink* diags_;
  bool ok_ = true;
};

int64_t SpaceOf(const Shape& s) { return s.layout ? s.layout->memory_space : 0; }

// The buffer's bytes can be read as the ref's shape: the same array, or another of the same size.
bool SameBytes(const Shape& a, const Shape& b) {
  return SpaceOf(a) == SpaceOf(b) &&
         ((a.type == b.type && a.dims == b.dims && a.layout == b.layout) ||
          DeviceBytes(a) == DeviceBytes(b));
}

// A bitcast to a shape with less padding at its end, for reading.
bool ReadsBytes(const Shape& buffer, const Shape& ref) {
  return SpaceOf(buffer) == SpaceOf(ref) && buffer.type == ref.type &&
         buffer.ElementCount() == ref.ElementCount() && DeviceBytes(ref) < DeviceBytes(buffer);
}

void ProgramVerifier::VerifyCall(const Step& step) {
  if (step.kernel < 0 || step.kernel >= static_cast<int>(p_.kernels.size())) {
    return Error(absl::StrCat("call ", step.name, " of no kernel"));
  }
  const Kernel& k = p_.kernels[step.kernel];
  size_t operand = 0;
  for (const Ref& ref : k.refs) {
    if (!ref.IsOperand()) continue;
    if (operand >= step.operands.size() || !BufferExists(step.operands[operand])) {
      return Error(absl::StrCat("call ", step.name, ": no buffer for ", ref.name));
    }
    const Buffer& b = p_.buffers[step.operands[operand++]];
    if (SameBytes(b.shape, ref.shape)) continue;
    if (ref.role == Ref::Role::kIn && ReadsBytes(b.shape, ref.shape)) continue;
    Error(absl::StrCat("call ", step.name, ": ", ref.name, " is ", ToString(ref.shape), ", buffer ",
                       b.name, " is ", ToString(b.shape)));
  }
  if (operand != step.operands.size()) {
    Error(absl::StrCat("call ", step.name, " with ", step.operands.size(), " buffers; ", k.name,
                       " has ", operand, " operands"));
  }
}

void ProgramVerifier::VerifyCopies() {
  absl::flat_hash_map<int, const Step*> open;
  std::vector<int> order;
  for (const Step& step : p_.steps) {
    if (step.kind == Step::Kind::kCall) continue;
    if (step.operands.size() != 2 || !BufferExists(step.operands[0]) ||
        !BufferExists(step.operands[1])) {
      Error(absl::StrCat("copy ", step.name, " without source and destination"));
      continue;
    }
    if (step.kind == Step::Kind::kCopyDone) {
      if (open.erase(step.copy) == 0) {
        Error(absl::StrCat("copy-done ", step.name, " of a copy that is not under way"));
      }
      continue;
    }
    if (!open.insert({step.copy, &step}).second) {
      Error(absl::StrCat("copy ", step.name, " is started twice"));
    }
    order.push_back(step.copy);
    const Buffer& source = p_.buffers[step.operands[0]];
    const Buffer& destination = p_.buffers[step.operands[1]];
    if (DeviceBytes(source.shape) != DeviceBytes(destination.shape)) {
      Error(absl::StrCat("copy ", step.name, " of ", ToString(source.shape), " to ",
                         ToString(destination.shape)));
    }
  }
  for (int copy : order) {
    const auto it = open.find(copy);
    if (it != open.end()) Error(absl::StrCat("copy ", it->second->name, " is never waited for"));
  }
}

void ProgramVerifier::VerifyPorts(const std::vector<kernel::Port>& ports, const char* what) {
  for (const kernel::Port& port : ports) {
    if (port.buffer < 0) {
      if (port.shape.ElementCount() > 0)
        Error(absl::StrCat(what, " ", port.name, " has no buffer"));
      continue;
    }
    if (!BufferExists(port.buffer)) {
      Error(absl::StrCat(what, " ", port.name, " has no buffer"));
    } else if (SpaceOf(p_.buffers[port.buffer].shape) != 0) {
      Error(absl::StrCat(what, " ", port.name, " is not in HBM"));
    }
  }
}

// In-place calls: an output may lie on an input that the kernel reads for the last time.
bool ProgramVerifier::MayShare(size_t a, size_t b) const {
  for (const Step& step : p_.steps) {
    if (step.kind != Step::Kind::kCall || step.kernel < 0) continue;
    const Kernel& k = p_.kernels[step.kernel];
    std::vector<int> operand_of(k.refs.size(), -1);
    size_t operand = 0;
    for (size_t r = 0; r < k.refs.size(); ++r) {
      if (k.refs[r].IsOperand() && operand < step.operands.size()) {
        operand_of[r] = step.operands[operand++];
      }
    }
    for (size_t r = 0; r < k.refs.size(); ++r) {
      if (k.refs[r].alias < 0) continue;
      const int out = operand_of[r], in = operand_of[k.refs[r].alias];
      if ((out == static_cast<int>(a) && in == static_cast<int>(b)) ||
          (out == static_cast<int>(b) && in == static_cast<int>(a))) {
        return true;
      }
    }
  }
  return false;
}

void ProgramVerifier::VerifyPlaces(int64_t space, int64_t capacity, const char* memory) {
  std::vector<size_t> order;
  for (size_t b = 0; b < p_.buffers.size(); ++b) {
    const Buffer& buffer = p_.buffers[b];
    if (SpaceOf(buffer.shape) != space || buffer.offset < 0) continue;
    if (buffer.bytes > capacity || buffer.offset > capacity - buffer.bytes) {
      Error(absl::StrCat("buffer ", buffer.name, " ends at ", buffer.offset, " + ", buffer.bytes,
                         " of ", capacity, " bytes of ", memory));
      continue;
    }
    order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return p_.buffers[a].offset < p_.buffers[b].offset; });
  std::vector<size_t> active;  // buffers that reach beyond the current offset
  for (size_t b : order) {
    const Buffer& y = p_.buffers[b];
    active.erase(std::remove_if(active.begin(), active.end(),
                                [&](size_t a) {
                                  return p_.buffers[a].offset + p_.buffers[a].bytes <= y.offset;
                                }),
                 active.end());
    for (size_t a : active) {
      const Buffer& x = p_.buffers[a];
      if (x.from > y.to || y.from > x.to || MayShare(a, b)) continue;
      Error(absl::StrCat("buffers ", x.name, " and ", y.name, " overlap in ", memory, " at ",
                         y.offset, " while both live (", x.from, "..", x.to, ", ", y.from, "..",
                         y.to, ")"));
    }
    active.push_back(b);
  }
}

bool ProgramVerifier::Run() {
  for (const Kernel& k : p_.kernels) {
    const bool windows = kernel::VerifyWindows(k, p_.source, diags_);
    const bool body = kernel::VerifyBody(k, p_.source, diags_);
    ok_ &= windows && body;
    if (windows) ok_ &= kernel::CheckVmemBudget(k, p_.source, chip_, diags_);
    ok_ &= kernel::CheckSmemBudget(k, p_.source, chip_, diags_);
  }
  for (const Step& step : p_.steps) {
    if (step.kind == Step::Kind::kCall) VerifyCall(step);
  }
  VerifyCopies();
  VerifyPorts(p_.inputs, "input");
  VerifyPorts(p_.outputs, "output");
  VerifyPlaces(0, chip_.hbm_bytes, "HBM");
  VerifyPlaces(1, chip_.vmem_bytes, "VMEM");
  return ok_;
}

}  // namespace

bool VerifyKernels(const kernel::Program& program, const Chip& chip, DiagSink* diags) {
  return ProgramVerifier(program, chip, diags).Run();
}

}  // namespace tpuc
