// LLO: the machine's own operations on virtual registers, in basic blocks with loops.
//
// Virtual registers are numbered per class from 0. They need not be SSA: a loop's counter is one
// register written in the body. FIFO pushes (EUP, XLU, MXU, V2S) define a token; each pop names the
// token of its push, and a matmul's two pops (a transpose's sixteen) take its results in order.
// Within a block instructions are in program order; a scheduler may reorder what does not depend.
// Queues are empty at block ends.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/isa/isa.h"
#include "backend/isa/program.h"

namespace tpuc::llo {

struct Block {
  std::string label;
  std::vector<isa::Inst> insts;  // an sbr.rel only as the last; falls through to the next block
  // Issued once per grid step (pipelined kernels), once per trip of enclosing loops.
  int64_t trips = 1;             // how often it runs in one grid step, -1 unknown
  bool in_grid_loop = false;     // part of the body that runs once a grid step
};

// A loop is blocks [first, last]; `last` ends with the branch back to `first`.
struct Loop {
  int first = 0, last = 0;
  int64_t trips = -1;
  bool is_grid = false;          // the loop over grid steps
  // Of one block: in the first trip the first matmul of each MXU takes the staged weights. (Its
  // queues may not be empty between trips once it is pipelined, so the trip is not apart.)
  bool latch = false;
};

// VMEM rows, SMEM words or sync flags that the function owns while it runs, at absolute places: the
// program's own buffers end before them (Lowering gets the first free row, word and flag).
struct Allocation {
  std::string name;
  isa::Memory memory = isa::Memory::kVmem;
  int64_t size = 0;              // rows of 512 bytes, words, or flags
  int64_t offset = 0;            // first row, word or flag
};

struct Function {
  std::string name;
  int args = 0;                  // virtual scalars 0 .. args-1 hold them on entry
  // MemRef.buffer numbers operands (0 .. args-1) and then allocations (args + i).
  std::vector<Block> blocks;
  std::vector<Loop> loops;
  std::vector<Allocation> allocations;
  std::array<int, 6> registers{};  // next free number by RegClass
  isa::KernelInfo info;
  int64_t grid_steps = 1;

  isa::Reg New(isa::RegClass cls) { return {cls, registers[static_cast<int>(cls)]++}; }
};

// Everything before scheduling: the functions, and the rest as in the final program.
struct Program {
  std::vector<Function> kernels;
  Function tlp;
  isa::Program shell;  // buffers, ports, constants, copies, sources; no bundles yet
};

}  // namespace tpuc::llo
