// Instructions and computations that no result needs are dropped.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class Dce : public Pass {
 public:
  absl::string_view name() const override { return "dce"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
