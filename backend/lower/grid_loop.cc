// Grids of more than one step.
#include "backend/lower/lowering.h"

namespace tpuc::lower {

void Lowering::EmitGridLoop() { Fail(-1, "a grid of more than one step"); }

}  // namespace tpuc::lower
