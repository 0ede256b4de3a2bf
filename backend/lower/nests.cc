// Large regions: loop nests over the registers of what they store.
#include "backend/lower/lowering.h"

namespace tpuc::lower {

void Lowering::LowerNests(const kernel::Region& region) { LowerWhole(region); }
void Lowering::Materialize(NodeId id) { Fail(id, "a temporary"); }

}  // namespace tpuc::lower
