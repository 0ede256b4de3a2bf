// Operations on constants become constants, up to a bounded size.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class ConstantFolding : public Pass {
 public:
  absl::string_view name() const override { return "constant-folding"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
