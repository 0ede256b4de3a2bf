// The dependence graph of one block: nodes are its instructions (by index), edges say "at least
// this many cycles after". Built from registers, tokens, memory, sync order and the MXU's
// sequencing; queue order and unit intervals are left to the scheduler, which knows the units.
//
//   0: %v0 = vld [vmem:%s0]      0 -> 1 latency(vld)
//   1: %v1 = vadd.f32 %v0, %v0   height(0) = latency(vld) + height(1)
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "backend/chip/chip.h"
#include "backend/llo/liveness.h"
#include "backend/llo/llo.h"
#include "backend/schedule/memory_order.h"

namespace tpuc::schedule {

struct Edge {
  int32_t to = 0, latency = 0;
};

// One value that a register of a class holds: from its write to its last read.
struct Value {
  isa::RegClass cls = isa::RegClass::kNone;
  int32_t reg = -1;   // virtual register
  int32_t def = -1;   // node; -1: live at the block's start
  int32_t reads = 0;  // distinct nodes that read it
  bool live_out = false;
};

struct Graph {
  const llo::Block* block = nullptr;
  int size = 0;                // nodes: all instructions but a closing sbr.rel or call
  std::vector<int32_t> first;  // edges of node n: edges[first[n] .. first[n+1])
  std::vector<Edge> edges;
  std::vector<int32_t> preds;              // incoming edges
  std::vector<int32_t> earliest;           // from values that arrive late
  std::vector<int32_t> height;             // longest latency path to the block's end
  std::vector<int32_t> by_height;          // nodes, the highest first
  std::vector<int32_t> push;               // pops and transpose members: node of the push; else -1
  std::vector<std::vector<int32_t>> pops;  // by node; of pushes only
  std::vector<Value> values;
  std::vector<absl::InlinedVector<int32_t, 3>> reads;  // values read, by node
  std::array<int, 4> through = {};  // live registers the block does not touch, by ClassIndex
  std::vector<int32_t> writes;      // value written, by node; -1: none
  int terminator = -1;              // instruction index of the closing sbr.rel or call
  int terminator_ready = 0;         // its earliest cycle, and the nodes (with latency) it reads
  std::vector<std::pair<int32_t, int32_t>> terminator_after;
  bool cyclic = false;  // pops cannot leave in push order: no schedule

  absl::Span<const Edge> Out(int node) const {
    return absl::MakeConstSpan(edges).subspan(first[node], first[node + 1] - first[node]);
  }
  const isa::Inst& inst(int node) const { return block->insts[node]; }
};

// Values that are not ready when a block starts.
struct Arrival {
  isa::Reg reg;
  int cycle = 0;
};

struct BlockContext {
  const llo::Function* function = nullptr;
  const DmaTargets* targets = nullptr;
  const llo::Liveness* live[4] = {};  // vector, mask, scalar, predicate
  std::vector<Arrival> arrivals;
};
constexpr isa::RegClass kClasses[4] = {isa::RegClass::kVector, isa::RegClass::kMask,
                                       isa::RegClass::kScalar, isa::RegClass::kPredicate};
inline int ClassIndex(isa::RegClass cls) { return static_cast<int>(cls) - 1; }

Graph BuildGraph(const BlockContext& context, int block, const Chip& chip);

}  // namespace tpuc::schedule
