// Element-wise work on dimensions of size 1 moves to arrays without them.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class DegenerateDims : public Pass {
 public:
  absl::string_view name() const override { return "degenerate-dims"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
