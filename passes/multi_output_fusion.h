// Multi-output fusion: a kernel and a kernel that reads its result over the same elements become
// one with several results. Two bounds keep its time in proportion to the program:
//   reach: a reader stands at most kMergeReach instructions behind, and no instruction is moved
//          further
//   size:  a merged kernel holds at most kMergedOperations instructions
#pragma once

#include "passes/pass.h"

namespace tpuc {

constexpr int64_t kMergeReach = 256;
constexpr size_t kMergedOperations = 512;

class MultiOutputFusion : public Pass {
 public:
  absl::string_view name() const override { return "multi-output-fusion"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
