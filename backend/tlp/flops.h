// Floating operations of a kernel, as reports count them.
#pragma once

#include <cstdint>

#include "backend/kernel/kernel.h"

namespace tpuc {

// Over all grid steps: two for each product of a contraction, one for each input element of a
// reduction, HLO_OP's flops for each element of an element-wise operation. Scalars do not count.
int64_t KernelFlops(const kernel::Kernel& kernel);

}  // namespace tpuc
