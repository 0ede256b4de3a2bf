// HLO to kernels: a scheduled, fused, memory-assigned module becomes a kernel::Program. A fusion is
// a kernel whose body is its computation; any other operation on arrays is a kernel of one
// operation; copy-start and copy-done are steps; tuples and bitcasts are wiring and cost nothing.
//
//   f = f32[16]{0:T(128)S(1)} fusion(h), kind=kLoop, calls={ multiply, reduce }
//   becomes   kernel f { in h ..., out o ...; x = h[:]; o[:] = sum(x * x, axis=1); }
//
// It decides no placement: offsets come from the buffer assignment, shapes and memory spaces from
// the instructions.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backend/chip/chip.h"
#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"
#include "src/ir/buffers.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Kernel files that the module calls (kernel_call.h), by the calls' backend_config. Each holds one
// call of one kernel.
using KernelFiles = std::map<std::string, std::shared_ptr<const kernel::Program>>;

// Whether a call's operand, or leaf of its result, can lie in VMEM as a whole: its ref is a window
// (explicit copies and prefetched scalars come from HBM) whose blocks divide the array.
bool OperandInVmem(const KernelFiles& files, const Instruction& call, int64_t operand);
bool ResultInVmem(const KernelFiles& files, const Instruction& call, int64_t leaf);

struct WindowOptions {
  const KernelFiles* files = nullptr;
  std::string* tables = nullptr;  // gets the tables of window_choice.h
  // Bytes of VMEM that the windows and estimated temporaries of a kernel may take; the chip's
  // limit where a name is missing.
  std::map<std::string, int64_t> budgets;
};

// Null on error (operations that kernels have no form for: E1200; windows that do not fit: E1001).
std::unique_ptr<kernel::Program> KernelsFromHlo(const Module& module,
                                                const BufferAssignment& assignment,
                                                const Chip& chip, DiagSink* diags,
                                                const WindowOptions& windows = {});

}  // namespace tpuc
