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
#include "backend/lower/dot.h"
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

// When an item of a product's nest runs (nest_flow.cc).
enum class FlowPhase : uint8_t {
  kRows,  // with the left rows, before their matmul: reductions of them
  kWide,  // tile by tile of the result, in the pass that makes it
  kLate,  // once a row, when its last results have come
  kNot,   // not in this nest
};

// A product whose left rows flow strip by strip through the MXUs, in passes over its weights.
struct DotFlow {
  kernel::NodeId dot = -1;
  DotPlan p;
  bool over_k = false;  // passes over K, whose results are added up; else over N
  int64_t passes = 1;
  int sets_k = 1, sets_n = 1;  // weights as large as an MXU, of one pass
  int copies = 1;              // of the sets, which take rows in turn
  bool pairs = false;          // one tile of weights in both halves of an MXU: two strips at once
  bool diagonal = false;       // K fills half an MXU: two tiles of N at once, block-diagonally
  int64_t n_first = 0, n_end = 0;  // columns of one of several products by columns; 0: all
  bool adds = false;               // to what is in memory, from the first pass on
  int64_t body = 0;                // strips in a trip
  std::vector<NestItem> rows, others;
  std::vector<FlowPhase> phases;  // of others
  std::vector<char> carried;      // by node: made in the nest
};

// What of K and N one unit holds in a pass: first element, and how many.
struct FlowWeights {
  int64_t k0 = 0, n0 = 0, k_left = 0, n_left = 0;
};

// What one evaluation of a node asks of an operand.
struct Request {
  kernel::NodeId node = -1;
  VLayout layout;
};

}  // namespace tpuc::lower
