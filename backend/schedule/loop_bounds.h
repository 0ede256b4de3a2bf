// Lower bounds of a loop's initiation interval that need no schedule: how often can a new trip
// start at best? (Chains from trip to trip: RecurrenceBound in modulo.h.)
//
//   16 vmul.f32, 4 VALU slots          4 cycles, "valu"
//   2 matmuls of mxu0, 8 cycles each   16 cycles, "mxu0 lhs"
#pragma once

#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"

namespace tpuc::schedule {

struct LoopBound {
  int cycles = 1;
  std::string name;  // the busiest slot, unit or port
};

// Of blocks [first, last]. `dead` (may be null): instructions of block `first` that do not count.
LoopBound FindResourceBound(const llo::Function& function, int first, int last,
                            const std::vector<char>* dead, const Chip& chip);
inline int ResourceBound(const llo::Function& function, int first, int last, const Chip& chip) {
  return FindResourceBound(function, first, last, nullptr, chip).cycles;
}

}  // namespace tpuc::schedule
