// How much an instruction does: the measure of EvalOptions::work, so that a program that would run
// for hours ends with a diagnostic. Roughly one a result element, one a multiplication, more where
// a computation is called; no time, but within a small factor of a nanosecond each.
//
//   f32[8,16] dot of depth 32 -> 4096;   while -> what its condition and body do, each time they
//   run
#pragma once

#include <cstdint>

#include "src/ir/hlo.h"

namespace tpuc {

// Steps of one run of the instruction, without those of computations that it runs by the evaluator.
// Saturates. Dynamic dimensions count by their bounds.
int64_t WorkOf(const Instruction& instruction);

}  // namespace tpuc
