// The top-level program: kernel level -> LLO. Places what has no place yet, lowers each kernel, and
// writes the TLP, an LLO function that starts copies, waits for them and calls kernels in order.
//
//   copy_start w1   ->  vsyncpa 0, 0 ; dma.hbm_to_vmem 64, 512, 0, 0
//   copy_done w1    ->  dma.done.wait 0, 512 ; vsyncadd 0, -512
//   call k(x, h)    ->  inlined_call 192, 64 ->0
//
// VMEM: the program's own buffers first, then one region that each kernel in turn uses for its
// windows, scratch and spills.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/kernel/kernel.h"
#include "backend/llo/llo.h"
#include "backend/lower/lower.h"
#include "src/diag/diag.h"

namespace tpuc {

struct EmitOptions {
  int opt_level = 2;
  Strips strips = Strips::kAuto;
  int64_t vmem_limit = 0;  // bytes of scoped VMEM a kernel may use; 0: the chip's default
  std::string options;     // what was asked, recorded in the program
};

// What each kernel may use of the machine, beside its own code.
struct KernelRegion {
  int64_t first_row = 0, rows = 0;  // VMEM
  int too_large = -1;  // the kernel whose windows and temporaries did not fit, after such an error
};

// Buffers without an offset get one (HBM: one after the other; VMEM likewise after those that have
// one). Errors: kHbmFull, kVmemBudget with asked, available and the largest buffers; what lowering
// reports.
bool EmitProgram(const kernel::Program& program, const Chip& chip, const EmitOptions& options,
                 llo::Program* out, KernelRegion* region, DiagSink* diags);

// First VMEM row after everything the function owns: where its spill slots may start.
int64_t FirstFreeRow(const llo::Function& function, int64_t first_row);

// First SMEM word after everything it owns.
int64_t FirstFreeWord(const llo::Function& function);

}  // namespace tpuc
