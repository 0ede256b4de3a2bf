// The bundle interpreter: runs an isa::Program and gives values and cycles from one run.
//
//   RunResult r = Run(program, chip, {PortData{x_bytes}, PortData{w_bytes}}, {});
//   r.cycles, r.outputs[0], r.kernels[0].stall_dma
//
// It shares the instruction table, the chip description and the program structs with the compiler,
// and nothing else. It must not know how a bundle came to be.
//
// TIME. One in-order stage. A bundle issues at the first cycle that is at least one after the
// previous bundle and at which all of these hold (I = issue of the earlier instruction; latencies
// and intervals are the chip file's):
//   1. registers: every source, predicate and base register is ready: I + latency of its writer.
//      Two writers in flight: the later of the two times. A kernel's arguments are ready one cycle
//      after its first bundle could issue (schedule-targets.md A2).
//   2. XLU x: operations >= I + xlu; transpose starts >= I(start) + xpose_group; pops >= I +
//   xlu_pop.
//   3. MXU m, weight side: push >= I(push) + that push's interval; push >= I(subr) + matprep;
//      subr >= I(push) + 1, I(subr) + 1; push, subr >= I(latching matmul) + 1.
//   4. MXU m, LHS side: matmul >= I(matmul) + matmul_f32; matmul >= I(mubr) + matprep;
//      mubr >= I(matmul) + 1, I(mubr) + 1; latching matmul >= I(push) + that push's latency
//      (matpush, matpush_xpose).
//   5. MRF pops of one MXU >= I + mrf_pop. DMA starts >= I + dma.
//   6. queues: a pop needs the head of its queue: EUP I + eup; XLU I + xlane or permute; V2S I +
//   v2s;
//      MRF I + matmul, and + mrf_pop for the second half; transpose of n pushes: last push + xpose
//      - n * xlu, then xlu_pop apart. One queue for the EUP, one for V2S, one per XLU for all its
//      kinds, one per MXU; all in push order. A transpose's 16 results enter at its last push.
//   7. rows: a vld of a row >= I(vst of that row) + vst.
//   8. dma.done.wait: the flag holds at least the granules asked for.
//   9. vdelay n: the next bundle n cycles later than otherwise.
// Rules 1-5 do not look at predicates: an instruction whose predicate is off keeps its place in the
// schedule (waits for its operands and unit, marks its result), but touches no queue, memory or
// flag. Rules 6-8 count only for instructions whose predicate is on. A taken branch transfers after
// delay_slots further bundles, at no other cost. A call's kernel starts in the next cycle, or when
// rule 7 holds for every row stored before it (the TLP's stall: a kernel's own time does not depend
// on what ran before); the TLP goes on in the cycle after the kernel's last bundle.
//
// Two clocks run beside each other: `wall`, which is the time, and `ideal`, in which rule 8 never
// waits. A stall of the ideal clock is counted to the rule satisfied last (operand: 1, 7; unit:
// 2-5, 9; queue: 6; the first named wins a tie); wall - ideal is the DMA stall. So for every kernel
// cycles = bundles + stall_operand + stall_unit + stall_queue + stall_dma, and
// cycles - stall_dma is what a scheduler that follows rules 1-7 predicts.
//
// DMA. At most dma_in_flight transfers are under way, later ones wait in order. A transfer takes
// dma_fixed_cycles; then its bytes flow: transfers that touch HBM share hbm_bytes_per_cycle
// equally, each at most vmem_dma_bytes_per_cycle (HBM to HBM counts its bytes twice); VMEM to VMEM
// flows at vmem_dma_bytes_per_cycle, unshared; then dma_segment_cycles for each step after the
// first. It completes in the next whole cycle: the source is read, the destination written, the
// flag grows. In between, writing its source or touching its destination is a fault
// (RunOptions::strict).
//
// VALUES. Elementwise f32 is IEEE single without fusing, subnormal operands and results are zero
// with their sign, every NaN result is 0x7FC00000. The MXU rounds operands to bf16 (nearest even)
// and accumulates products in f32 by fused multiply-add in ascending k; weights never pushed count
// as absent, not as zeros. Cross-lane sums add halves: lane i + lane i + 64, then 32, .., 1. Bytes
// are the same for every SIMD target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "src/diag/diag.h"

namespace tpuc::interp {

struct RunOptions {
  bool timing_only = false;  // no vector arithmetic; cycles and faults of control and memory as in
                             // a run with values (a program that steers by vectors runs with them)
  int64_t max_cycles = 0;    // 0: no limit
  std::string simd;          // "", "avx512", "avx2" or "scalar"; "" is the widest of the host
  bool warm = false;         // copies marked cross_program are done when they start, at no cost
  bool strict = true;        // check reads of memory never written and races with DMA
  bool spans = false;        // fill RunResult::kernel_spans and dma_spans
  bool trace = false;        // and unit_spans and op_spans
};

// One input in device bytes: tiled as its port's layout says, padding included. May be shorter than
// the port's buffer (the rest is zero), never longer.
struct PortData {
  std::vector<uint8_t> bytes;
};

struct Fault {
  DiagCode code{};
  std::string message;
  int64_t cycle = 0;
  int bundle = -1;
  std::string kernel, op_name, hlo, place;
  std::string point;  // of the grid: "i=1, j=0"; empty: outside its loop, or not known
};

// Adds the fault with its place in program and source as notes.
void AddFault(const Fault& fault, DiagSink* diags);

struct SlotCounts {
  // Cycles: mxu 4 per f32 matmul (its interval) over all MXUs, xlu likewise; the others count
  // instructions issued, valu with EUP starts.
  int64_t mxu = 0, xlu = 0, valu = 0, eup = 0, load = 0, store = 0, salu = 0;
};

// What instructions of one row of the source map took.
struct OperationRun {
  int source = -1;  // -1: of none
  int64_t instructions = 0;
  SlotCounts slots;
};

struct KernelRun {
  int64_t calls = 0, cycles = 0, bundles = 0, instructions = 0;
  int64_t stall_operand = 0, stall_unit = 0, stall_dma = 0, stall_queue = 0;
  SlotCounts slots;
  std::vector<OperationRun> operations;               // by source row
  int64_t hbm_read_bytes = 0, hbm_written_bytes = 0;  // of the transfers it started
};

struct CopyRun {                  // row i: isa::Program::copies[i]
  int64_t start = -1, done = -1;  // cycles: first start, last completion; -1: never
  int64_t wait_stall = 0;         // cycles that a dma.done.wait stood for it
};

struct KernelSpan {
  int kernel = 0;
  int64_t start = 0, end = 0;  // cycles [start, end)
};
struct DmaSpan {
  int64_t start = 0, done = 0, bytes = 0;
  int kernel = -1;  // that started it, -1: the TLP
  int source = -1;  // row of the program's source map
  isa::Opcode op{};
};

// A unit at work; short pauses between are bridged. `lane`: TraceLanes of the chip.
struct UnitSpan {
  int lane = 0;
  int64_t start = 0, end = 0;  // cycles [start, end)
  int64_t busy = 0;            // cycles of them in which it worked
};
// An operation of the source within one kernel call: from its first bundle to its last.
struct OpSpan {
  int call = 0;    // of RunResult::kernel_spans
  int source = 0;  // row of the program's source map
  int64_t start = 0, end = 0, bundles = 0;
};

struct RunResult {
  bool ok = false;
  Fault fault;  // if not ok
  int64_t cycles = 0;
  std::vector<KernelRun> kernels;  // by kernel index
  KernelRun tlp;                   // without the kernels' cycles
  int64_t hbm_bytes = 0;           // read and written
  std::vector<CopyRun> copies;
  std::vector<std::vector<uint8_t>> outputs;  // device bytes of each output port's buffer
  std::vector<KernelSpan> kernel_spans;
  std::vector<DmaSpan> dma_spans;
  std::vector<UnitSpan> unit_spans;  // by lane, then time
  std::vector<OpSpan> op_spans;
};

// Names of the units that a trace shows, in the order of UnitSpan::lane.
std::vector<std::string> TraceLanes(const Chip& chip);

RunResult Run(const isa::Program& program, const Chip& chip, const std::vector<PortData>& inputs,
              const RunOptions& options);

// The names RunOptions::simd may have on this host, widest first.
std::vector<std::string> SimdTargets();

// Whether an instruction has a body here, for the test that every row of isa.def has.
bool HasBody(isa::Opcode op);

}  // namespace tpuc::interp
