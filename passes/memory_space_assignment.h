// Memory-space assignment: which buffers live in VMEM, when, and what is copied there ahead of use.
#pragma once

#include "passes/pass.h"

namespace tpuc {

class MemorySpaceAssignment : public Pass {
 public:
  absl::string_view name() const override { return "memory"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
