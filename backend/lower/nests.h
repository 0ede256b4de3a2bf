// The plan of a large region: what is kept in VMEM temporaries, and which results are computed
// together in one loop nest.
//
//   m = max(x, lanes); e = exp(x - m); o[:] = e / sum(e, lanes)
//   nest 1: m;  nest 2: e (kept: two users, dear) and sum;  nest 3: o
//
// Items are in an order in which each only needs what earlier ones keep.
#pragma once

#include <vector>

#include "backend/kernel/kernel.h"
#include "backend/lower/layout.h"

namespace tpuc::lower {

struct NestItem {
  enum class Kind : uint8_t {
    kValue,    // the node, in its own layout, to a temporary
    kCopy,     // the node in another layout, to a second temporary
    kStore,    // a store of the body
    kControl,  // a conditional or a loop of the body
  };
  Kind kind = Kind::kStore;
  kernel::NodeId node = -1;
  VLayout layout;  // of the value as stored
  bool done = false;
};

// What one evaluation of a node asks of an operand.
struct Request {
  kernel::NodeId node = -1;
  VLayout layout;
};

}  // namespace tpuc::lower
