// See row_block.h. Every output must have the dimension; no sum runs over it, no iota counts it
// (the one step would pay for its offset), and weights are not cut.
#include "backend/kernel/row_block.h"

#include <algorithm>
#include <vector>

#include "backend/kernel/blocking.h"

namespace tpuc::kernel {

bool AddRowBlock(const DimClasses& classes, Kernel* kernel) {
  const std::vector<int> outputs = kernel->Outputs();
  if (outputs.empty() || !kernel->grid.empty() || !kernel->params.empty()) return false;
  for (int cls : classes.of_ref[outputs[0]]) {
    const DimClass& c = classes.classes[cls];
    if (c.extent < 2 || c.whole || c.weights || c.counted || !c.reducers.empty()) continue;
    const bool all = std::all_of(outputs.begin(), outputs.end(), [&](int r) {
      const std::vector<int>& of = classes.of_ref[r];
      return std::find(of.begin(), of.end(), cls) != of.end();
    });
    if (!all) continue;
    *kernel = ApplyBlocking(*kernel, classes, {{cls, c.extent, false, false}});
    return true;
  }
  return false;
}

}  // namespace tpuc::kernel
