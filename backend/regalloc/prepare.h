// Brings an LLO function into the form that scheduling and allocation want.
//
//   ends blocks at calls
//   leaves out arithmetic whose result nobody reads
//   gives each value that lives and dies in one block a register of its own, so that reuse of a
//   name does not order what is independent
#pragma once

#include <utility>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"

namespace tpuc::regalloc {

// Virtual scalars that must be in a given physical one: arguments.
using FixedScalars = std::vector<std::pair<int, int>>;  // virtual, physical

llo::Function Prepare(const llo::Function& function, const Chip& chip, FixedScalars* fixed);

}  // namespace tpuc::regalloc
