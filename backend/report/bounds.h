// What bounds a run: how full each unit and the HBM were, where the rest of the cycles went, and
// what to change first. Text for people, of counts that the interpreter made.
#pragma once

#include <cstddef>
#include <string>

#include "backend/chip/chip.h"
#include "backend/report/stats.h"

namespace tpuc {

// Floating-point operations of all MXUs in one cycle.
double PeakFlopsPerCycle(const Chip& chip);

// A table, one line a kernel: time, FLOPs and their share of the peak, HBM bytes and their share of
// the bandwidth, FLOPs a byte, share of each unit's slots, and of the cycles that stalled by cause.
std::string BoundsText(const isa::Program& program, const RunStats& run, const Chip& chip);

// One line: the largest loss of the run and what usually mends it.
std::string AdviceText(const isa::Program& program, const RunStats& run, const Chip& chip);

}  // namespace tpuc
