// Buffers of a scheduled computation and when they are alive: one buffer for every array that an
// instruction makes; values that only pass a buffer on (tuple, get-tuple-element, bitcast,
// copy-done, opt-barrier) share it.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/ir/hlo.h"

namespace tpuc {

struct LiveBuffer {
  const Instruction* instruction = nullptr;  // makes it (copy-start: the destination, leaf 0)
  int64_t leaf = 0;
  Shape shape;
  int64_t bytes = 0;           // in device memory, padded
  int64_t defined = 0;         // schedule position of `instruction`
  int64_t from = 0, to = 0;    // schedule positions, inclusive
  std::vector<int64_t> reads;  // positions of instructions that read it, each once
  bool parameter = false, constant = false, result = false;
};

struct LiveRanges {
  std::vector<LiveBuffer> buffers;  // in schedule order
  // (instruction, leaf) -> buffer; -1 for what has none (tokens, sync flags).
  absl::flat_hash_map<std::pair<const Instruction*, int64_t>, int> index;
  int64_t length = 0;  // instructions
  int Find(const Instruction* i, int64_t leaf = 0) const {
    auto it = index.find({i, leaf});
    return it == index.end() ? -1 : it->second;
  }
};
LiveRanges ComputeLiveRanges(const Computation& computation);

// Leaves of a shape in order.
std::vector<Shape*> LeavesOf(Shape* shape);
std::vector<const Shape*> LeavesOf(const Shape& shape);
// The instruction computes on arrays (is a kernel), rather than naming, reshaping or moving them.
bool IsKernel(const Instruction& i);

}  // namespace tpuc
