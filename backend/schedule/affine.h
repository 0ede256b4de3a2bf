// Addresses as sums over the scalars that are live at a loop's start, and how far each of those
// moves a trip: where an access of a later trip may touch what an earlier one touched.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "backend/llo/llo.h"

namespace tpuc::schedule {

struct Affine {
  absl::btree_map<int, int64_t> terms;  // symbol -> factor; symbols >= 0 are scalar registers
  int64_t constant = 0;
  bool known = true;  // false: nothing is known
};

struct LoopAccess {
  int node = -1;
  bool store = false, smem = false;
  int buffer = -1;
  Affine base;                // with the offset
  std::vector<int64_t> rows;  // touched, from base
  bool step_known = false;
  int64_t step = 0;  // by which the base moves a trip
};

// The memory accesses of a loop body, in program order.
std::vector<LoopAccess> FindLoopAccesses(const llo::Block& block, int size);

// The least number of trips >= 1 after which `later` may touch a row that `earlier` touches; 0:
// never.
int ConflictDistance(const LoopAccess& earlier, const LoopAccess& later);

struct LoopConflict {
  int earlier = 0, later = 0, distance = 0;  // numbers of accesses
};

// All pairs with a conflict, at least one of them a store; of one access with itself too. False:
// too many to tell. Conflicts over more trips than there are may be left out.
bool FindConflicts(const std::vector<LoopAccess>& accesses, int64_t trips,
                   std::vector<LoopConflict>* conflicts);

}  // namespace tpuc::schedule
