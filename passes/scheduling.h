// Scheduling: the order of the entry's instructions, smallest peak memory first.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class Scheduling : public Pass {
 public:
  absl::string_view name() const override { return "schedule"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
