// Lower bounds of a loop's initiation interval: how often can a new trip start at best?
#pragma once

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"

namespace tpuc::schedule {

// Resource bound of blocks [first, last]: the busiest slot, unit or port, in cycles.
int ResourceBound(const llo::Function& function, int first, int last, const Chip& chip);

// The larger of the resource bound and, for a loop of one block, the longest chain from a value to
// its own next trip. At least delay_slots + 1: a branch and what follows it.
int MinimumInterval(const llo::Function& function, int first, int last, const Chip& chip);

}  // namespace tpuc::schedule
