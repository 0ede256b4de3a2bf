// Programs on literals (block_eval.h): each buffer is a literal of its shape; a kernel that sees a
// buffer as another shape gets the same device bytes.
#include "backend/kernel/block_eval.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/kernel_run.h"
#include "backend/kernel/scalar.h"
#include "src/eval/operation.h"
#include "src/ir/tiling.h"

namespace tpuc {
namespace {

using kernel::Buffer;
using kernel::Kernel;
using kernel::Program;
using kernel::Ref;
using kernel::Step;

class ProgramRun {
 public:
  ProgramRun(const Program& p, const EvalOptions& options, bool follow_undefined, DiagSink* diags)
      : p_(p),
        options_(options),
        follow_undefined_(follow_undefined),
        diags_(diags),
        memory_(p.buffers.size()),
        uses_(p.buffers.size(), 0) {}

  std::optional<std::vector<Literal>> Run(std::vector<Literal> inputs);

 private:
  bool Fail(DiagCode code, std::string message, Loc loc = {}) {
    diags_->Add(code, loc.line > 0 ? p_.source : nullptr, loc, std::move(message));
    return false;
  }
  bool TakeInputs(std::vector<Literal> inputs);
  bool FitsMemory();
  // A literal of the buffer's bytes in another shape.
  bool SeenAs(const Literal& literal, const Shape& from, const Shape& to, Literal* result);
  bool Read(int buffer, const Shape& shape, Literal* result);
  bool Call(const Step& step);
  bool Copy(const Step& step);
  void Release(int buffer) {
    if (--uses_[buffer] == 0) memory_[buffer] = Literal();
  }

  const Program& p_;
  const EvalOptions& options_;
  bool follow_undefined_;
  DiagSink* diags_;
  std::vector<Literal> memory_;
  std::vector<int> uses_;  // steps and ports still to come
};

Shape Plain(const Shape& s) { return Shape::Array(s.type, s.dims); }

bool ProgramRun::SeenAs(const Literal& literal, const Shape& from, const Shape& to,
                        Literal* result) {
  if (from.type == to.type && from.dims == to.dims) {
    *result = literal;
    return true;
  }
  const std::vector<uint8_t> bytes = PackToDevice(literal, from);
  if (static_cast<int64_t>(bytes.size()) < DeviceBytes(to)) {
    return Fail(DiagCode::kKernelRun,
                absl::StrCat("a buffer of shape ", ToString(from), " is read as ", ToString(to)));
  }
  *result = UnpackFromDevice(bytes, to);
  result->Reinterpret(Plain(to));
  return true;
}

bool ProgramRun::Read(int buffer, const Shape& shape, Literal* result) {
  const Buffer& b = p_.buffers[buffer];
  if (memory_[buffer].byte_size() == 0 && b.shape.ElementCount() > 0) {
    return Fail(DiagCode::kKernelRun,
                absl::StrCat("buffer ", b.name, " is read before it is written"));
  }
  return SeenAs(memory_[buffer], b.shape, shape, result);
}

bool ProgramRun::TakeInputs(std::vector<Literal> inputs) {
  if (inputs.size() != p_.inputs.size()) {
    return Fail(DiagCode::kKernelInputs, absl::StrCat(inputs.size(), " arrays given, ", p_.name,
                                                      " takes ", p_.inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const kernel::Port& port = p_.inputs[i];
    const Shape& given = inputs[i].shape();
    if (given.type != port.shape.type || given.dims != port.shape.dims || inputs[i].elided()) {
      return Fail(DiagCode::kKernelInputs,
                  absl::StrCat("input ", i, " (", port.name, ") is ", ToString(given, false),
                               ", expected ", ToString(port.shape, false)));
    }
    if (port.buffer < 0) continue;
    if (!SeenAs(inputs[i], port.shape, p_.buffers[port.buffer].shape, &memory_[port.buffer])) {
      return false;
    }
  }
  return true;
}

bool ProgramRun::FitsMemory() {
  const int64_t limit = options_.memory_limit > 0 ? options_.memory_limit : DefaultMemoryLimit();
  int64_t total = 0;
  const auto add = [&](const Shape& s) {
    if (__builtin_add_overflow(total, s.LiteralBytes(), &total)) total = INT64_MAX;
  };
  for (const Buffer& b : p_.buffers) add(b.shape);
  for (const kernel::Port& port : p_.outputs) add(port.shape);
  int64_t largest = 0;
  const int64_t buffers = total;
  for (const Kernel& k : p_.kernels) {
    total = 0;
    for (const Ref& r : k.refs) {
      add(r.BlockShape());
      add(r.shape);
    }
    for (const kernel::Node& n : k.nodes) {
      if (n.shape.IsArray()) add(n.shape);
    }
    largest = std::max(largest, total);
  }
  if (buffers <= limit && largest <= limit - buffers) return true;
  return Fail(DiagCode::kKernelRun,
              absl::StrCat("running ", p_.name, " needs about ", buffers, " bytes for buffers and ",
                           largest, " for a kernel's values; the limit is ", limit));
}

bool ProgramRun::Copy(const Step& step) {
  const int source = step.operands[0], destination = step.operands[1];
  if (step.kind == Step::Kind::kCopyDone) {
    Release(source);
    Release(destination);
    return true;
  }
  Literal value;
  if (!Read(source, p_.buffers[destination].shape, &value)) return false;
  memory_[destination] = std::move(value);
  Release(source);
  Release(destination);
  return true;
}

bool ProgramRun::Call(const Step& step) {
  const Kernel& k = p_.kernels[step.kernel];
  std::vector<Literal> held(k.refs.size());
  std::vector<Literal*> arrays(k.refs.size(), nullptr);
  size_t operand = 0;
  for (size_t r = 0; r < k.refs.size(); ++r) {
    const Ref& ref = k.refs[r];
    if (ref.constant != nullptr) arrays[r] = ref.constant.get();  // inputs are read only
    if (!ref.IsOperand()) continue;
    const int buffer = step.operands[operand++];
    arrays[r] = &held[r];
    if (ref.role == Ref::Role::kOut) {
      held[r] = Literal(Plain(ref.shape));
    } else if (memory_[buffer].shape().type == ref.shape.type &&
               memory_[buffer].shape().dims == ref.shape.dims && memory_[buffer].byte_size() > 0) {
      arrays[r] = &memory_[buffer];  // inputs are read only
    } else if (!Read(buffer, ref.shape, &held[r])) {
      return false;
    }
  }
  std::string error;
  DiagCode code = DiagCode::kKernelRun;
  Loc loc;
  if (!kernel::RunKernel(k, arrays, options_, follow_undefined_, &code, &loc, &error)) {
    return Fail(code, std::move(error), loc);
  }
  operand = 0;
  for (size_t r = 0; r < k.refs.size(); ++r) {
    const Ref& ref = k.refs[r];
    if (!ref.IsOperand()) continue;
    const int buffer = step.operands[operand++];
    if (ref.role != Ref::Role::kOut) continue;
    const Shape& there = p_.buffers[buffer].shape;
    if (ref.shape.dims == there.dims && ref.shape.type == there.type) {
      memory_[buffer] = std::move(held[r]);
    } else if (!SeenAs(held[r], ref.shape, there, &memory_[buffer])) {
      return false;
    }
  }
  for (int buffer : step.operands) Release(buffer);
  return true;
}

std::optional<std::vector<Literal>> ProgramRun::Run(std::vector<Literal> inputs) {
  if (!FitsMemory() || !TakeInputs(std::move(inputs))) return std::nullopt;
  for (size_t b = 0; b < p_.buffers.size(); ++b) {
    if (p_.buffers[b].init == nullptr) continue;
    if (p_.buffers[b].init->elided()) {
      Fail(DiagCode::kKernelRun,
           absl::StrCat("constant ", p_.buffers[b].name, " has no data ({...})"));
      return std::nullopt;
    }
    memory_[b] = *p_.buffers[b].init;
    memory_[b].Reinterpret(Plain(p_.buffers[b].shape));
  }
  for (const Step& step : p_.steps) {
    for (int b : step.operands) ++uses_[b];
  }
  for (const kernel::Port& port : p_.outputs) {
    if (port.buffer >= 0) ++uses_[port.buffer];
  }
  for (const Step& step : p_.steps) {
    const bool ok = step.kind == Step::Kind::kCall ? Call(step) : Copy(step);
    if (!ok) return std::nullopt;
  }
  std::vector<Literal> results;
  for (const kernel::Port& port : p_.outputs) {
    results.emplace_back(Plain(port.shape));
    if (port.buffer >= 0 && !Read(port.buffer, port.shape, &results.back())) return std::nullopt;
  }
  return results;
}

}  // namespace

std::optional<std::vector<Literal>> EvaluateKernels(const kernel::Program& program,
                                                    std::vector<Literal> inputs,
                                                    const EvalOptions& options, DiagSink* diags,
                                                    bool follow_undefined) {
  return ProgramRun(program, options, follow_undefined, diags).Run(std::move(inputs));
}

}  // namespace tpuc
