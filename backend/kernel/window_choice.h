// The choice of windows: which dimension classes of a kernel are cut into blocks of what size, in
// which order of grid axes, and how deep each window is buffered.
//
//   f32 add of 8192 x 8192 (768 MiB of HBM traffic, 32 MiB of scoped VMEM):
//   blocks [256, 8192] take 3 windows of 8 MiB, twice: too much; [128, 8192]: 24 MiB, 64 steps,
//   860,000 cycles of DMA against 100,000 of work
//
// A plan's time is the larger of its work and its DMA, what of either nothing covers, and a cost
// for every step; the plan with the least time that fits is taken. One step over whole arrays is a
// plan too. All figures are estimates in cycles; the table says what was weighed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/kernel/blocking.h"

namespace tpuc::kernel {

struct WindowPlan {
  Blocking blocking;         // empty: one step
  std::vector<int> buffers;  // of each ref
  int64_t steps = 1;
  int64_t vmem_bytes = 0;    // windows, scratch and temporaries
  int64_t hbm_bytes = 0;     // moved in all
  double work = 0, dma = 0;  // cycles
  double time = 0;
};

struct WindowChoice {
  bool fits = false;  // else no plan does
  WindowPlan plan;
  std::string table;  // of the plans weighed, the chosen one first
};

// `budget`: bytes of VMEM for windows and temporaries.
WindowChoice ChooseWindows(const Kernel& kernel, const DimClasses& classes, const Chip& chip,
                           int64_t budget, bool want_table);

}  // namespace tpuc::kernel
