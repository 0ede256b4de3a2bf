// Where each value of a scheduled module lives: the result of memory-space and buffer assignment,
// read by the kernel level. Keyed by instruction and, for tuples, by leaf number.
//
//   copy-start.1 leaf 0 (w2's copy): VMEM, offset 53248, 16384 bytes, schedule positions 7 to 14
//
// get-tuple-element, tuple, bitcast, copy-done, opt-barrier and the source inside copy-start's
// tuple have no buffer of their own: Find gives the buffer of the value they pass on.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/ir/hlo.h"

namespace tpuc {

struct AssignedBuffer {
  const Instruction* instruction = nullptr;  // defines the value (copy-start: the destination)
  int64_t leaf = 0;                          // of a tuple result, in order
  int64_t memory_space = 0;                  // 0 HBM, 1 VMEM
  int64_t offset = 0;                        // bytes from the start of that memory
  int64_t bytes = 0;                         // padded
  int64_t from = 0, to = 0;                  // schedule positions, inclusive
};

struct BufferAssignment {
  std::vector<AssignedBuffer> buffers;    // in schedule order; parameters and constants included
  int64_t hbm_bytes = 0, vmem_bytes = 0;  // peak extent of each memory
  // (instruction, leaf) -> buffer number, values without a buffer of their own included.
  absl::flat_hash_map<std::pair<const Instruction*, int64_t>, int> index;

  const AssignedBuffer* Find(const Instruction* instruction, int64_t leaf = 0) const {
    auto it = index.find({instruction, leaf});
    if (it != index.end()) return &buffers[it->second];
    for (const AssignedBuffer& b : buffers) {
      if (b.instruction == instruction && b.leaf == leaf) return &b;
    }
    return nullptr;
  }
};

}  // namespace tpuc
