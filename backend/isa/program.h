// A compiled program as the machine runs it: bundles on physical registers, buffers, constants,
// kernels, the top-level program (TLP), inputs, outputs, source map, and the chip it was compiled for.
// Complete: running it needs nothing else (bundles.txt is its text, grammar/bundle/bundle.ebnf).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "backend/isa/isa.h"

namespace tpuc::isa {

// Issued together: all sources are read before any result is written. Idle bundles are not kept
// (the machine interlocks) except branch delay slots.
struct Bundle {
  absl::InlinedVector<Inst, 4> insts;
};

enum class Memory : uint8_t { kHbm, kVmem, kSmem, kSync };

struct LoopInfo {       // statistics of one innermost loop, as the compiler knows them
  int first_bundle = 0, last_bundle = 0;
  int64_t trips = -1;   // -1: run-time
  int mii = 0, ii = 0, stages = 1;  // cycles a trip: least possible, as scheduled; trips in flight
  std::string bound;    // what binds the interval: a unit, or the chain from trip to trip
};

struct Local {          // memory of a kernel's own, by the name that its text gives it
  std::string name;
  Memory memory = Memory::kVmem;
  int64_t offset = 0, size = 0;  // rows, words or flags
  bool semaphore = false;        // flags that the kernel's text names, and leaves at zero
};

struct GridInfo {       // the loop over grid points; no axes: none
  std::vector<std::string> axes;
  std::vector<int64_t> extents;  // last axis fastest; -1: known at run time only
  int first_bundle = -1;         // issued once a grid point
};

struct DotInfo {         // a matrix product of [m, k] and [k, n] on the MXUs
  int source = -1;       // row of the source map
  int64_t m = 1, k = 1, n = 1;
  int64_t k_padded = 1, n_padded = 1;  // multiples of an MXU's side: the rest are zeros
};

// What the compiler says of a kernel (--json); the interpreter adds what it counts.
struct KernelInfo {
  std::vector<std::string> op_names, ops;
  int64_t grid_steps = 1, schedule_cycles = 0;
  int64_t spills = 0, fills = 0, temp_loads = 0, temp_stores = 0, max_live_vregs = 0;
  int64_t vmem_bytes = 0, flops = 0;
  int64_t hbm_read_bytes = 0, hbm_written_bytes = 0;  // of one call
  std::vector<LoopInfo> loops;
  std::vector<DotInfo> dots;
  std::vector<Local> locals;
  GridInfo grid;
};

struct Function {
  std::string name;
  int args = 0;            // arrive in s0 .. s(args-1): VMEM rows, HBM granules
  std::vector<Bundle> bundles;
  KernelInfo info;
};

struct Buffer {
  std::string name;
  Memory memory = Memory::kHbm;
  int64_t offset = 0;      // bytes in its memory; multiple of 512 in HBM and VMEM
  int64_t bytes = 0;
  std::string shape;       // HLO text with layout; may be ""
  int64_t from = 0, to = 0;  // positions in the schedule, for the memory map
};

struct Port {              // an input or output of the program
  std::string name;
  std::string shape;       // logical shape with device layout, HLO text
  int buffer = -1;         // in HBM; -1: nothing to read or write (zero-sized)
  int alias = -1;          // output: input whose buffer it shares
};

struct Constant {          // written into a buffer before the run
  int buffer = -1;
  enum class Kind : uint8_t { kSplat, kIota, kData } kind = Kind::kData;
  uint32_t splat = 0;      // kSplat: 32-bit word repeated; kIota: first word, then +1 each word
  std::vector<uint8_t> data;  // device bytes
};

struct SourceEntry {       // where an instruction came from
  std::string hlo;         // instruction name
  std::string op_name;     // metadata
  std::string place;       // "file.py:12"
};

struct Copy {              // an asynchronous copy of the program, for reports
  std::string name;
  int64_t bytes = 0;
  bool cross_program = false;
  int64_t start = 0, done = 0;  // positions in the schedule
};

struct Program {
  std::string module;
  std::string chip_name;
  std::string chip_text;   // the chip file, whole
  std::string options;     // "-O2 --strips=auto": what was asked
  std::vector<Buffer> buffers;
  std::vector<Port> inputs, outputs;
  std::vector<Constant> constants;
  std::vector<Function> kernels;
  Function tlp;
  std::vector<Copy> copies;
  std::vector<SourceEntry> sources;
};

}  // namespace tpuc::isa
