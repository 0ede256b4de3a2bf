// Operations whose result has no elements become empty constants.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class ZeroSized : public Pass {
 public:
  absl::string_view name() const override { return "zero-sized"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
