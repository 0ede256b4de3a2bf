// Verifier of windows: block shapes, index maps, visits of output blocks.
#pragma once

#include <memory>

#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"

namespace tpuc::kernel {

bool VerifyWindows(const Kernel& kernel, std::shared_ptr<const Source> source, DiagSink* diags);

}  // namespace tpuc::kernel
