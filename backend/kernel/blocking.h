// Blocking: a kernel over whole arrays becomes a grid over blocks of its dimension classes.
//
//   o[:] = dot(x[:], w[:]);       x: f32[4096,4096], w: f32[4096,4096]
//   cut M by 1024, N by 1024, K by 512:
//   param b0 = 1024, b1 = 1024, b2 = 512;
//   grid i: cdiv(4096, b0), j: cdiv(4096, b1), k: cdiv(4096, b2);
//   in x block [b0, b2] at (i, k); in w block [b2, b1] at (k, j); out o block [b0, b1] at (i, j);
//   when k == 0 { o[:] = 0; }
//   o[:] = o[:] + dot(x[:], w[:]);
//
// Sums over a cut dimension gather in the output's window or in scratch, what follows them runs in
// the last step, and elements past the edge are replaced by the sum's identity. A batch dimension
// cut to single elements disappears from the body ("squeeze"). It chooses nothing.
#pragma once

#include <vector>

#include "backend/kernel/dim_classes.h"
#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

struct CutAxis {
  int cls = 0;  // DimClasses number
  int64_t block = 1;
  bool squeeze = false;  // block is 1 and the dimension is dropped
  bool reduced = false;  // sums over it gather over the steps; such axes come last
};
using Blocking = std::vector<CutAxis>;  // outermost first; no two of one class

// Whether sums over these classes (and only whole ones over others) may gather over steps: their
// reducers all sum over exactly these, do not feed each other, and nothing after them has one of
// these dimensions.
bool MayGather(const Kernel& kernel, const DimClasses& classes, const std::vector<int>& reduced);

// `kernel` has no grid and no parameters. Outputs that lack an axis must come before it.
Kernel ApplyBlocking(const Kernel& kernel, const DimClasses& classes, const Blocking& blocking);

}  // namespace tpuc::kernel
