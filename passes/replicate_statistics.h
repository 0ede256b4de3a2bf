// Row statistics kept over all lanes: f32[16] between kernels becomes f32[16,128].
#pragma once

#include "passes/pass.h"

namespace tpuc {

class ReplicateStatistics : public Pass {
 public:
  absl::string_view name() const override { return "replicate-statistics"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
