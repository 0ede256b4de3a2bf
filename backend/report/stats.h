// What a compile and a run of it say about a program: the JSON object tpuc.stats/1 (design.md
// section 8) and a table for people. Plain structs in, text out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/isa/program.h"

namespace tpuc {

struct Chip;

// Cycles in which nothing issued, by what was waited for.
struct Stalls {
  int64_t operand = 0, unit = 0, dma = 0, queue = 0;
  int64_t total() const { return operand + unit + dma + queue; }
};

// Instructions by the slot of a bundle that they took, as --json names them.
struct SlotCounts {
  int64_t mxu = 0, xlu = 0, valu = 0, eup = 0, load = 0, store = 0, salu = 0;
};

// What the instructions of one row of the program's source map took.
struct OperationRun {
  int source = -1;  // -1: of none
  int64_t instructions = 0;
  SlotCounts slots;
};

struct KernelRun {  // of one kernel, over all its calls
  int64_t calls = 0, cycles = 0, bundles = 0, instructions = 0;
  Stalls stalls;
  SlotCounts slots;
  std::vector<OperationRun> operations;  // by source row; may be empty
  int64_t hbm_read_bytes = 0, hbm_written_bytes = 0;
};

struct CopyRun {  // of one Program::copies row, in cycles of the run; -1: never
  int64_t start = -1, done = -1;
  int64_t wait_stall = 0;  // cycles that the program stood waiting for it
};

struct KernelSpan {  // one call of a kernel, cycles [start, end)
  int kernel = 0;
  int64_t start = 0, end = 0;
};

struct RunStats {
  int64_t cycles = 0;
  double time_us = 0;
  int64_t hbm_bytes = 0;           // kernels and copies together
  std::vector<KernelRun> kernels;  // as Program::kernels
  KernelRun tlp;
  std::vector<CopyRun> copies;    // as Program::copies; may be empty
  std::vector<KernelSpan> spans;  // in order of time; may be empty
};

struct CheckResult {
  bool ok = false;
  double max_abs = 0, max_rel = 0, rms = 0;
};

// Static counts of one function.
int64_t InstructionCount(const isa::Function& function);
SlotCounts CountSlots(const isa::Function& function);
// The largest share of the run's cycles: a kind of stall, or issue ("unit results 43%"; "-" where
// it did not run).
std::string BoundBy(const KernelRun& run);
// How often each kernel's call stands in the top-level program.
std::vector<int64_t> StaticCalls(const isa::Program& program);

// `run` and `check` may be null. With a run, instructions, slots, calls and HBM bytes are those
// that the run counted; without, those of the program text.
std::string StatsJson(const isa::Program& program, const RunStats* run, const CheckResult* check);
// Kernels with their operations, cycles and what bounds them, the VMEM map, copies and what they
// overlap, the check; of a run on `chip` (may be null) also BoundsText and AdviceText. All but the
// bounds within `width` columns.
std::string StatsText(const isa::Program& program, const RunStats* run, const CheckResult* check,
                      const Chip* chip = nullptr, int width = 100);

}  // namespace tpuc
