// Grid points as diagnostics name them, and the blocks that they may visit.
//
//   FirstPoint(k) is "i=0, j=0" where the grid is i, j, and "" where there is none.
#pragma once

#include <cstdint>
#include <string>

#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

std::string FirstPoint(const Kernel& kernel);
// A note for what is wrong at every grid point; nothing where there is no grid.
void NoteFirstPoint(const Kernel& kernel, Diag* diag);
// Blocks of the array of a ref that has them, the last ones perhaps in part; saturates.
int64_t BlocksOf(const Ref& ref);

}  // namespace tpuc::kernel
