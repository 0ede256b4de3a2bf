// Estimated kernel times (kernel_time.h): small kernels are bound by latency, large ones by
// throughput; the sum of both is within a factor of two of the published schedules
// (tpu-v6e-compiler.md (a): 438, 25, 342, 360, 358 cycles for mini attention).
#include "passes/kernel_time.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "passes/live_ranges.h"
#include "passes/op_cost.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

bool UsesEup(Op op, const Chip& chip) {
  return CyclesPerRegister(op, chip) >= 1.0 / std::max(1, chip.eup);
}

double LatencyOf(const Instruction& i, const Chip& chip) {
  switch (InfoOf(i.op).op_class) {
    case OpClass::kContract:
      return chip.latency(LatencyKey::kMatmul);
    case OpClass::kReduce: {
      const Ints& dims = i.IntsAttr(AttrId::kDimensions);
      bool minor =
          std::find(dims.begin(), dims.end(), i.operands[0]->shape.rank() - 1) != dims.end();
      return minor ? chip.latency(LatencyKey::kXlane) : 3 * chip.latency(LatencyKey::kValu);
    }
    case OpClass::kElementwise:
      return UsesEup(i.op, chip) ? chip.latency(LatencyKey::kEup) + chip.latency(LatencyKey::kPop)
                                 : chip.latency(LatencyKey::kValu);
    case OpClass::kMove:
      // A vector along the lanes repeated over them goes through the cross-lane unit.
      return i.op == Op::kBroadcast && !i.operands[0]->shape.dims.empty()
                 ? chip.latency(LatencyKey::kPermute)
                 : 0;
    default:
      return 0;
  }
}

}  // namespace

double KernelCycles(const Instruction& i, const Chip& chip) {
  if (!IsKernel(i)) return 0;
  double latency = LatencyOf(i, chip);
  if (i.op == Op::kFusion) {
    absl::flat_hash_map<const Instruction*, double> ready;
    for (const auto& inner : i.ComputationAttr(AttrId::kCalls)->instructions) {
      double start = 0;
      for (const Instruction* operand : inner->operands) start = std::max(start, ready[operand]);
      ready[inner.get()] = start + LatencyOf(*inner, chip);
      latency = std::max(latency, ready[inner.get()]);
    }
  }
  return ComputeCycles(i, chip) + latency + CallCycles(chip);
}

}  // namespace tpuc
