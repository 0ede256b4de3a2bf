#include "backend/tlp/flops.h"

#include "src/ir/op_table.h"

namespace tpuc {

int64_t KernelFlops(const kernel::Kernel& kernel) {
  int64_t step = 0;
  for (const kernel::Node& n : kernel.nodes) {
    if (n.kind != kernel::Node::Kind::kHlo) continue;
    if (n.op == Op::kDot) {
      const Shape& lhs = kernel.nodes[n.operands[0]].shape;
      int64_t depth = 1;
      for (int64_t d : n.IntsAttr(AttrId::kLhsContractingDims)) depth *= lhs.dims[d];
      step += 2 * depth * n.shape.ElementCount();
    } else if (n.op == Op::kReduce) {
      step += kernel.nodes[n.operands[0]].shape.ElementCount();
    } else if (n.shape.rank() > 0) {
      step += InfoOf(n.op).flops * n.shape.ElementCount();
    }
  }
  return step * kernel.GridSteps();
}

}  // namespace tpuc
