// The decisions of memory-space assignment, apart from the rewriting: which buffers lie in VMEM
// over which part of the schedule, and which copies bring them there or take them away. A copy in
// starts at most kCopyReach instructions before its first read.
#pragma once

#include <vector>

#include "passes/live_ranges.h"
#include "passes/pass.h"

namespace tpuc {

// One stretch of a buffer's life in VMEM.
struct VmemStay {
  int buffer = -1;           // LiveRanges number
  int64_t from = 0, to = 0;  // schedule positions, inclusive
  int64_t offset = 0;
  // The buffer is copied in from HBM: the copy starts right before position `from` and is waited
  // for right before `first_read`. Else the buffer is made here by its instruction.
  bool prefetch = false;
  bool cross_program = false;  // copied once, before the first kernel, and kept to the end
  int64_t first_read = 0;
  // Made in VMEM and read from HBM after `to`: copied out right behind its instruction.
  bool evict = false;
};

constexpr int64_t kCopyReach = 1024;

// Cycles from each position on: start[p] is the estimated time before instruction p runs.
std::vector<double> StartTimes(const Computation& entry, const Chip& chip);

// Bytes of VMEM that buffers of the program may take: all but one kernel's scoped part.
int64_t VmemForBuffers(const Chip& chip);
constexpr int64_t kVmemGranule = 4096;  // one f32 tile (tpu-v6e-compiler.md (a))

std::vector<VmemStay> PlanVmem(const Computation& entry, const LiveRanges& ranges,
                               const PassContext& context);

// The order in which buffers that lie in VMEM get their addresses: the cross-program copy, then
// buffers made there by falling use, then copies by their first read.
struct PlacedBuffer {
  int buffer = -1;
  int64_t offset = 0;
};
// Addresses for all buffers with memory space 1 of a module whose copies are already there. False
// (diagnostic E1001) where they do not fit.
bool PlaceVmem(const Module& module, const LiveRanges& ranges, const PassContext& context,
               std::vector<PlacedBuffer>* placed);

}  // namespace tpuc
