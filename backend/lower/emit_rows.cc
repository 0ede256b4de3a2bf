// Data movement through memory.
#include "backend/lower/lowering.h"

namespace tpuc::lower {

void Lowering::MoveRows(NodeId id) { Fail(id, "a rearrangement of rows and lanes"); }

}  // namespace tpuc::lower
