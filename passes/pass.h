// A pass: one step from HLO to HLO. It reads and rewrites the module in place, says whether it
// changed anything, and reports errors into the context. Every pass keeps the values of the module
// and finds nothing left to do when it is run a second time.
//
// What a pass weighed (candidates taken and refused, with their costs) goes into `remarks`, which
// `--print-after=PASS` shows.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backend/chip/chip.h"
#include "src/diag/diag.h"
#include "src/ir/buffers.h"
#include "src/ir/hlo.h"

namespace tpuc {

struct PassContext {
  const Chip* chip = nullptr;
  DiagSink* diags = nullptr;
  std::string* remarks = nullptr;  // null: nobody asks
  // Filled by memory-space-assignment (VMEM) and buffer-assignment (all).
  BufferAssignment* buffers = nullptr;
  bool replicate_statistics = false;  // --replicate-statistics
  // Whether a call of a kernel file (kernel_call.h) can have its operand, or leaf of its result, in
  // VMEM as a whole. Unset: none can.
  std::function<bool(const Instruction& call, int64_t operand)> operand_in_vmem;
  std::function<bool(const Instruction& call, int64_t leaf)> result_in_vmem;
  // Constants of more elements than this are not folded.
  int64_t max_folded_elements = 64 * 1024;

  // Counts elementary steps of searches, for tests of how work grows; null: nobody asks.
  int64_t* steps = nullptr;
  void CountSteps(int64_t n) const {
    if (steps) *steps += n;
  }

  template <typename... Args>
  void Remark(const Args&... args) const {
    if (remarks) absl::StrAppend(remarks, args..., "\n");
  }
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual absl::string_view name() const = 0;
  // Returns whether the module changed. Errors go to context->diags; the module may then be
  // half rewritten and is of no further use.
  virtual bool Run(Module* module, PassContext* context) = 0;
};

}  // namespace tpuc
