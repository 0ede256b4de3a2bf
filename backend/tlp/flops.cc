#include "backend/tlp/flops.h"

#include <algorithm>

#include "src/ir/op_table.h"
#include "src/num/saturate.h"

namespace tpuc {

namespace {

int64_t NodeFlops(const kernel::Kernel& kernel, const kernel::Node& n) {
  if (n.kind != kernel::Node::Kind::kHlo) return 0;
  if (n.op == Op::kDot) {
    const Shape& lhs = kernel.nodes[n.operands[0]].shape;
    int64_t depth = 1;
    for (int64_t d : n.IntsAttr(AttrId::kLhsContractingDims)) depth *= lhs.dims[d];
    return 2 * depth * n.shape.ElementCount();
  }
  if (n.op == Op::kReduce) return kernel.nodes[n.operands[0]].shape.ElementCount();
  return n.shape.rank() > 0 ? InfoOf(n.op).flops * n.shape.ElementCount() : 0;
}

// Loops of known bounds and pipelines count each trip (at most as many as they may have), both
// branches of a when count.
int64_t RegionFlops(const kernel::Kernel& kernel, const kernel::Region& region) {
  int64_t total = 0;
  for (kernel::NodeId id : region.nodes) {
    const kernel::Node& n = kernel.nodes[id];
    total += NodeFlops(kernel, n);
    int64_t trips = 1;
    if (n.kind == kernel::Node::Kind::kFor && n.operands.empty()) {
      trips = std::max<int64_t>(0, n.upper - n.lower);
    }
    if (n.kind == kernel::Node::Kind::kPipeline) trips = kernel.pipelines[n.pipeline].GridSteps();
    for (const kernel::Region& r : n.regions)
      total = SaturatingAdd(total, SaturatingMul(trips, RegionFlops(kernel, r)));
  }
  return total;
}

}  // namespace

int64_t KernelFlops(const kernel::Kernel& kernel) {
  return SaturatingAdd(RegionFlops(kernel, kernel.setup),
                       SaturatingMul(RegionFlops(kernel, kernel.body), kernel.GridSteps()));
}

}  // namespace tpuc
