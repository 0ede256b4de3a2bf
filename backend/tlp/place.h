// Places buffers that have no offset yet, and checks that each memory holds what is in it.
#pragma once

#include <cstdint>

#include "backend/chip/chip.h"
#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"

namespace tpuc {

// Bytes in use from the start of each memory after placing.
struct Placement {
  int64_t hbm_bytes = 0, vmem_bytes = 0;
};
bool PlaceBuffers(kernel::Program* program, const Chip& chip, Placement* placement,
                  DiagSink* diags);

// The largest buffers of a memory, for an out-of-memory diagnostic.
std::string LargestBuffers(const kernel::Program& program, int64_t memory_space);

}  // namespace tpuc
