// The cost table of operations (op_cost.h). Operation counts are those of the lowerings described
// in tpu-v6e-compiler.md (a) "How the ops were lowered" and of our own forms in src/num for the
// rest.
#include "passes/op_cost.h"

#include <algorithm>
#include <cmath>

#include "src/ir/op_table.h"

namespace tpuc {
namespace {

struct VectorOps {
  double valu = 1, eup = 0;
};

VectorOps CountOf(Op op) {
  switch (op) {
    case Op::kBroadcast:
    case Op::kBitcast:
    case Op::kBitcastConvert:
    case Op::kReshape:
    case Op::kConstant:
      return {0, 0};
    case Op::kExponential:
      return {1, 1};  // x*log2(e), 2^x
    case Op::kLog:
      return {1, 1};
    case Op::kDivide:
      return {1, 1};  // 1/b, *a
    case Op::kRsqrt:
      return {0, 1};
    case Op::kTanh:
      return {0, 1};
    case Op::kSqrt:
      return {6, 1};  // x*rsqrt(x), two compares and selects for 0 and inf
    case Op::kLogistic:
      return {3, 2};
    case Op::kExponentialMinusOne:
    case Op::kLogPlusOne:
      return {12, 1};
    case Op::kPower:
      return {20, 2};
    case Op::kErf:
    case Op::kCbrt:
      return {20, 2};
    case Op::kSine:
    case Op::kCosine:
      return {25, 0};
    case Op::kTan:
    case Op::kAtan2:
    case Op::kAcos:
    case Op::kAsin:
    case Op::kAcosh:
    case Op::kAsinh:
    case Op::kAtanh:
    case Op::kSinh:
    case Op::kCosh:
      return {30, 2};
    case Op::kRemainder:
      return {8, 1};
    default:
      return {static_cast<double>(std::max(1, InfoOf(op).flops)), 0};
  }
}

double DotCycles(const Instruction& dot, const Chip& chip) {
  double flops_per_element = 2;
  const Shape& lhs = dot.operands[0]->shape;
  for (int64_t d : dot.IntsAttr(AttrId::kLhsContractingDims)) {
    flops_per_element *= static_cast<double>(lhs.dims[d]);
  }
  // Two operations a cell for each row; eight rows of f32 or sixteen of bf16 start together, at the
  // same rate of rows.
  const double rows = 8.0 / std::max(1, chip.interval(IntervalKey::kMatmulF32));
  const double peak = 2.0 * chip.mxus * chip.mxu_size * chip.mxu_size * std::max(0.5, rows);
  // A quarter more for weights, and for results that no row follows: 5,400 cycles for 1024^3.
  return 1.25 * flops_per_element * static_cast<double>(dot.shape.ElementCount()) /
         std::max(1.0, peak);
}

}  // namespace

double VectorRegisters(const Shape& shape, const Chip& chip) {
  if (!shape.IsArray()) return 0;
  double bytes_of_register = 4.0 * std::max(1, chip.sublanes) * std::max(1, chip.lanes);
  double widening = 32.0 / std::clamp(BitsOf(shape.type), 8, 32);
  return std::max(1.0, static_cast<double>(DeviceBytes(shape)) * widening / bytes_of_register);
}

double CyclesPerRegister(Op op, const Chip& chip) {
  VectorOps count = CountOf(op);
  return count.valu / std::max(1, chip.valu) + count.eup / std::max(1, chip.eup);
}

double PackingCycles(Type type, const Chip& chip) {
  const int bits = std::max(8, BitsOf(type));
  return (bits >= 32 ? 0.0 : bits == 16 ? 1.0 : 2.0) / std::max(1, chip.valu);
}

double HbmCycles(double bytes, const Chip& chip) {
  return bytes / std::max(1.0, chip.hbm_bytes_per_cycle);
}

double CallCycles(const Chip& chip) { return chip.delay_slots; }

double ComputeCycles(const Instruction& i, const Chip& chip) {
  switch (InfoOf(i.op).op_class) {
    case OpClass::kContract:
      return i.op == Op::kDot ? DotCycles(i, chip) : 0;
    case OpClass::kReduce:
      return VectorRegisters(i.operands[0]->shape, chip) * CyclesPerRegister(Op::kAdd, chip);
    case OpClass::kElementwise:
      return VectorRegisters(i.shape, chip) * CyclesPerRegister(i.op, chip);
    case OpClass::kMove:
      return i.op == Op::kBitcast ? 0 : VectorRegisters(i.shape, chip) / std::max(1, chip.store);
    default:
      break;
  }
  if (i.op == Op::kIota) return VectorRegisters(i.shape, chip) * CyclesPerRegister(i.op, chip);
  if (i.op != Op::kFusion) return 0;
  double sum = 0;
  for (const auto& inner : i.ComputationAttr(AttrId::kCalls)->instructions) {
    bool free = inner->op == Op::kBroadcast || inner->op == Op::kReshape;
    if (!free) sum += ComputeCycles(*inner, chip);
  }
  return sum;
}

}  // namespace tpuc
