// Fusion: operations that share a kernel move into one computation (the plan is fusion_plan.h).
#pragma once

#include "passes/pass.h"

namespace tpuc {

class Fusion : public Pass {
 public:
  absl::string_view name() const override { return "fusion"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
