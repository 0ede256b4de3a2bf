// Multi-output fusion: a kernel and a kernel that reads its result over the same elements become
// one with several results.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class MultiOutputFusion : public Pass {
 public:
  absl::string_view name() const override { return "multi-output-fusion"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
