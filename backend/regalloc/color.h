// Registers for a scheduled function: live ranges over issue cycles, then a linear scan that gives
// each virtual register one physical register over all its ranges, the one longest out of use
// first.
//
// Sources are read before results are written, so a register read for the last time in a bundle may
// be written in the same one.
#pragma once

#include <array>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"
#include "backend/regalloc/prepare.h"
#include "backend/schedule/function_schedule.h"

namespace tpuc::regalloc {

struct Coloring {
  std::array<std::vector<int>, 4> physical;  // by ClassIndex and virtual register; -1: unused
  std::array<int, 4> max_live = {};
  std::array<bool, 4> failed = {};  // classes in which some register found no place
  bool ok() const { return !(failed[0] || failed[1] || failed[2] || failed[3]); }
};

Coloring Color(const llo::Function& function, const schedule::FunctionSchedule& schedule,
               const FixedScalars& fixed, const Chip& chip);

}  // namespace tpuc::regalloc
