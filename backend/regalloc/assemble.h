// From LLO to bundles: scheduling, register allocation, spilling, packing.
//
//   %v1 = vld [vmem:%s0]            0: { v0 = vld [vmem:s0] }
//   %v2 = vmul.f32 %v1, 2.0   ->    1: { v0 = vmul.f32 v0, 2.0 }
//   vst [vmem:%s1], %v2             2: { vst [vmem:s1], v0 }
//
// The loop is: schedule with unlimited registers in view of their number; allocate; if that fails,
// put values in memory where their next use is furthest, and schedule again in a narrower window.
// Program order is the last resort, and always fits. At opt_level 0: one operation a bundle,
// program order, every value through memory.
//
// A call (inlined_call) takes scalars as operands, which arrive in the kernel's s0 ..; scalars and
// predicates stay across it, vectors and masks do not.
#pragma once

#include <cstdint>

#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "backend/llo/llo.h"
#include "src/diag/diag.h"

namespace tpuc {

struct AssembleOptions {
  int opt_level = 2;
  int64_t spill_row = 0;   // first VMEM row (of 512 bytes) free for spilled vectors and masks
  int64_t spill_word = 0;  // first SMEM word free for spilled scalars and predicates
};

// The function must pass VerifyLlo. Fills `out` with bundles and KernelInfo (schedule_cycles,
// spills, fills, max_live_vregs, loops, added to what function.info holds). *spill_rows_used may be
// null. Reports kSpillSpace, kTooFewRegisters, kQueueDepth.
bool Assemble(const llo::Function& function, const Chip& chip, const AssembleOptions& options,
              isa::Function* out, int64_t* spill_rows_used, DiagSink* diags);

}  // namespace tpuc
