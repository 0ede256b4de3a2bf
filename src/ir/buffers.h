// Where each value of a scheduled module lives: the result of memory-space and buffer assignment,
// read by the kernel level. Keyed by instruction and, for tuples, by leaf number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  std::vector<AssignedBuffer> buffers;       // in schedule order; parameters and constants included
  int64_t hbm_bytes = 0, vmem_bytes = 0;     // peak extent of each memory
  const AssignedBuffer* Find(const Instruction* instruction, int64_t leaf = 0) const {
    for (const AssignedBuffer& b : buffers) {
      if (b.instruction == instruction && b.leaf == leaf) return &b;
    }
    return nullptr;
  }
};

}  // namespace tpuc
