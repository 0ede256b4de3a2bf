// The dependence graph of a loop of one block over all its trips: an edge says that `to`,
// `distance` trips later, issues at least `latency` cycles after `from`.
//
//   %v1 = vadd.f32 %v1, %v0     itself -> itself, latency(valu), distance 1
//   %s1 = sadd.s32 %s1, 8       affine, stride 8
//
// Values of one trip are assumed to have registers of their own in the next (modulo variable
// expansion), so that only true dependences cross trips; a register whose first write in a trip is
// predicated keeps its name (`fixed`), with all its orders.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/schedule/graph.h"

namespace tpuc::schedule {

struct LoopEdge {
  int32_t from = 0, to = 0, latency = 0, distance = 0;
};

// How one register is used in a trip.
struct LoopRegister {
  isa::Reg reg;
  std::vector<int> writes;         // nodes
  std::vector<int> reads;          // of this trip's value
  std::vector<int> reads_of_last;  // of the value of the trip before
  bool live_out = false;
  bool fixed = false;
  // A scalar that grows by `stride` each trip; memory is addressed from it as well by a later
  // trip's value, with an offset that is so much smaller. Such reads are not among those above.
  bool affine = false;
  int64_t stride = 0;
  std::vector<int> bases, bases_of_last;
};

struct LoopGraph {
  const llo::Block* block = nullptr;
  int size = 0;
  std::vector<char> dead;  // by node: left out (it only fed the branch)
  std::vector<LoopEdge> edges;
  std::vector<int32_t> push;  // as in Graph
  std::vector<std::vector<int32_t>> pops;
  std::vector<std::vector<int32_t>> members;  // of transposes, by start
  std::vector<LoopRegister> registers;        // written in the loop
  bool latch = false;                         // as llo::Loop
  std::vector<int> latches;                   // by MXU: its first matmul (-1: none)
};

// False if the loop holds what cannot be pipelined: DMA, waits, traps, calls, or
// several kinds of cross-lane results that one queue could not keep in order. `trips`: -1 unknown.
bool BuildLoopGraph(const BlockContext& context, int block, int64_t trips, const Chip& chip,
                    LoopGraph* out);

}  // namespace tpuc::schedule
