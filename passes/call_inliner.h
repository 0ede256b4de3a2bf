// The body of each `call` takes the call's place, innermost calls first.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class CallInliner : public Pass {
 public:
  absl::string_view name() const override { return "call-inliner"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
