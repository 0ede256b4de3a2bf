// Equal expressions are computed once: same operation, operands, attributes and shape.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class Cse : public Pass {
 public:
  absl::string_view name() const override { return "cse"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
