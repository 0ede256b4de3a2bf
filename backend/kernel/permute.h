// Parallel grid axes in another order, as a kernel of its own: index i of such an axis of n points
// becomes (i * c + d) % n, with c prime to n, in index maps and in the body. A kernel whose points
// do not depend on one another gives the same results (pallas-semantics PS-1.4).
//
//   grid i: 4 parallel; in x .. at (i, 0);   ->   in x .. at ((i * 3 + 2) % 4, 0);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

// Axes that --permute-parallel puts in another order: parallel, of more than one point, of a size
// known before the kernel runs.
std::vector<int> PermutableAxes(const Kernel& kernel);
// All of them, or axis `only` alone (>= 0). c and d are made from the seed.
void PermuteParallel(Kernel* kernel, uint64_t seed, int only = -1);

// The first grid point at which the output's window holds the element: "i=1, j=0"; "" where none
// does.
std::string PointOfElement(const Kernel& kernel, int ref, const std::vector<int64_t>& element);

}  // namespace tpuc::kernel
