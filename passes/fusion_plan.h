// What to fuse with what: which values are stored, which are computed inside the kernels that use
// them, and how often. Decided by cost, built by fusion.cc.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "passes/pass.h"

namespace tpuc {

struct FusedKernel {
  Instruction* root = nullptr;
  std::vector<Instruction*> members;  // in order; root last, scalar constants included
  bool has_copies = false;            // a member is computed in another kernel too
};

// Kernels of the entry computation in order of their roots. Every instruction that is not a member
// of any (parameters, tuples, bitcasts, unknown operations ...) stays as it is.
std::vector<FusedKernel> PlanFusion(const Module& module, const PassContext& context);

}  // namespace tpuc
