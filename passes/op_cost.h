// What an operation costs on the vector units and what a value costs in bytes: the figures behind
// fusion and scheduling. Estimates of throughput, in cycles of the chip; latencies are the
// scheduler's.
#pragma once

#include "backend/chip/chip.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Vector registers that hold one copy of the array (tile padding included), at least 1; narrow
// types count as unpacked to 32 bits, as the units compute with them.
double VectorRegisters(const Shape& shape, const Chip& chip);

// Cycles to compute one vector register of results of an element-wise operation, iota or broadcast:
// its vector ALU operations over the ALUs plus its EUP operations over the EUPs.
double CyclesPerRegister(Op op, const Chip& chip);

// Cycles to pack or unpack one vector register of a type narrower than 32 bits.
double PackingCycles(Type type, const Chip& chip);

// Cycles to move `bytes` between HBM and VMEM at the chip's rate.
double HbmCycles(double bytes, const Chip& chip);

// Cycles of a kernel call that no work fills: the branch and its delay slots.
double CallCycles(const Chip& chip);

// Cycles the instruction computes (a fusion: its body), without memory traffic. dot counts MXU
// cycles, reduce and element-wise vector ALU cycles.
double ComputeCycles(const Instruction& i, const Chip& chip);

}  // namespace tpuc
