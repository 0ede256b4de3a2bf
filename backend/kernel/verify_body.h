// Verifier of kernel bodies: structure, shapes and types of nodes, slices of loads and stores.
#pragma once

#include <memory>

#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"

namespace tpuc::kernel {

bool VerifyBody(const Kernel& kernel, std::shared_ptr<const Source> source, DiagSink* diags);

}  // namespace tpuc::kernel
