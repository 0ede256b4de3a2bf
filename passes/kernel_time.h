// How long a kernel of the entry is estimated to run: what copies hide behind.
#pragma once

#include "backend/chip/chip.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Cycles of one kernel with its operands in VMEM: its throughput (op_cost.h) plus the longest chain
// of latencies through its body, once. Other instructions take none.
double KernelCycles(const Instruction& i, const Chip& chip);

}  // namespace tpuc
