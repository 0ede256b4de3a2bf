// Kernel lowering: one kernel (grid, windows, body over blocks) becomes one LLO function.
//
//   o[:] = x[:] + 1      ->   dma.hbm_to_vmem ..; vsyncpa/dma.done.wait ..
//                             %v0 = vld [vmem:..]; %v1 = vadd.f32 %v0, 1.0; vst [vmem:..] %v1
//                             dma.vmem_to_hbm ..; dma.done.wait ..
//
// Block values are grids of vector registers in a layout (layout.h), computed on demand register by
// register (lowering.h) inside loop nests over rows of registers (strips.cc). Windows, DMA and the
// grid loop are pipeline.cc. No schedule is made here: within a block, program order only keeps
// register pressure low.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "backend/kernel/kernel.h"
#include "backend/llo/llo.h"
#include "src/diag/diag.h"

namespace tpuc {

enum class Strips : uint8_t {
  kAuto,   // large blocks run as loops over strips of rows
  kWhole,  // every block is one value, as the real compiler has it, spills and all
};

struct LowerOptions {
  int64_t first_row = 0;  // first free VMEM row (512 bytes) for windows, scratch and temporaries
  int64_t row_limit = 1 << 16;  // rows that may be used from there
  int64_t first_word = 0;       // first free SMEM word
  int first_flag = 0;           // first free sync flag
  Strips strips = Strips::kAuto;
  int opt_level = 2;
};

// Operand i of the kernel's refs (declaration order, scratch left out, constants among them)
// arrives in virtual scalar i: the VMEM row of its buffer if Ref::InVmem(), else its HBM address in
// granules of 32 bytes. Appends the source rows it uses to `sources` and numbers Inst::source by
// them. The kernel must have passed VerifyKernels. False on error (E07xx, E1001, E1200).
bool LowerKernel(const kernel::Kernel& kernel, const Chip& chip, const LowerOptions& options,
                 llo::Function* function, std::vector<isa::SourceEntry>* sources, DiagSink* diags);

}  // namespace tpuc
