// Takes the first trip out of a loop whose first trip latches weights (llo::Loop::latch), where the
// loop is not pipelined: a block of its own before it, with the latch.
//
//   for 8: matmul; pop; ..     ->     matmul.vlgmr; pop; ..; for 7: matmul; pop; ..
#pragma once

#include "backend/llo/llo.h"

namespace tpuc::regalloc {

// The loop latches no more. Other loops keep their numbers.
void PeelLatch(llo::Function* function, int loop);

}  // namespace tpuc::regalloc
