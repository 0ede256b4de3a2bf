// Proof of a buffer assignment: no two buffers that are alive at the same time share a byte, all
// lie within their memories, aligned. Shares no code with the passes that made it.
#pragma once

#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "src/ir/buffers.h"

namespace tpuc {

// What is wrong, one sentence each; empty if all holds.
std::vector<std::string> CheckBuffers(const Module& module, const BufferAssignment& assignment,
                                      const Chip& chip);

}  // namespace tpuc
