// Rematerialisation: computes a value again where it is next read, rather than keep it.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class Rematerialisation : public Pass {
 public:
  absl::string_view name() const override { return "rematerialisation"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
