// Row blocking: gives a kernel over whole arrays a block parameter, where its body allows one.
//
//   in x: f32[512,64];  o[:] = exp(x[:]);
//   becomes  param b0 = 512; grid i: cdiv(512, b0);  in x: f32[512,64] block [b0, 64] at (i, 0);
//   ...
//
// The first dimension of the outputs that every operation takes block by block: rows of an
// elementwise chain, the rows of the left side of a dot, a batch dimension. The block is the whole
// dimension and the grid has one step, so that nothing changes until a user asks.
#pragma once

#include "backend/kernel/dim_classes.h"
#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

// False, and the kernel unchanged, where no dimension may be cut. The kernel must have no grid and
// no parameters, one region, and whole-array loads and stores.
bool AddRowBlock(const DimClasses& classes, Kernel* kernel);

}  // namespace tpuc::kernel
