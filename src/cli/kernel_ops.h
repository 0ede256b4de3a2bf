// tpuc list kernel-ops: the operations of kernel files and what they cost on a chip.
//
// Each is compiled in a kernel of its own, on arrays of 128 registers that lie in VMEM; the cycles
// are those of its schedule, loads and stores included, over the registers of the operand.
#pragma once

#include <string>
#include <vector>

#include "backend/chip/chip.h"

namespace tpuc::cli {

// {operation, type, cycles a register, what binds its loop}, one row each.
std::vector<std::vector<std::string>> KernelOps(const Chip& chip);

}  // namespace tpuc::cli
