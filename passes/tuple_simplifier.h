// get-tuple-element(tuple(a, b), 1) is b; tuple(gte(t, 0), gte(t, 1)) is t.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class TupleSimplifier : public Pass {
 public:
  absl::string_view name() const override { return "tuple-simplifier"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
