// Printer of kernel programs: the canonical .tk text, which parses back to the same program. Where
// a value came from (HLO instruction, source line) is printed as a comment.
#pragma once

#include <string>

#include "backend/kernel/kernel.h"

namespace tpuc {

std::string PrintKernels(const kernel::Program& program);
std::string PrintKernel(const kernel::Kernel& kernel);

}  // namespace tpuc
