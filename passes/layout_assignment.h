// Layout assignment: every array gets an order of its dimensions and tiles.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class LayoutAssignment : public Pass {
 public:
  absl::string_view name() const override { return "layout"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
