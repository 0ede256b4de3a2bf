// Buffer assignment: an address for every buffer of the scheduled entry.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class BufferAssignmentPass : public Pass {
 public:
  absl::string_view name() const override { return "buffers"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
