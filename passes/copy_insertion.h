// Copies for results that are parameters, constants, or another result.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class CopyInsertion : public Pass {
 public:
  absl::string_view name() const override { return "copy-insertion"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
