// Estimates of work (work.h), from shapes and attributes only.
#include "src/eval/work.h"

#include <algorithm>
#include <cmath>

namespace tpuc {
namespace {

constexpr double kInstruction = 16;  // finding operands, a place for the result

double Elements(const Shape& shape) {
  if (!shape.IsTuple()) return static_cast<double>(shape.ElementCount());
  double count = 0;
  for (const Shape& element : shape.elements) count += Elements(element);
  return count;
}

double OperandElements(const Instruction& in) {
  double count = 0;
  for (const Instruction* operand : in.operands) count += Elements(operand->shape);
  return count;
}

double WindowPlaces(const Instruction& in) {
  const AttrValue* window = in.Find(AttrId::kWindow);
  double places = 1;
  if (!window) return places;
  for (const WindowDim& w : std::get<Window>(*window).dims) {
    places *= static_cast<double>(std::max<int64_t>(1, w.size));
  }
  return places;
}

// Elements of the input with its padding and gaps.
double PaddedInput(const Instruction& in) {
  const AttrValue* window = in.Find(AttrId::kWindow);
  double elements = Elements(in.operands[0]->shape);
  if (!window) return elements;
  for (const WindowDim& w : std::get<Window>(*window).dims) {
    elements *= static_cast<double>(w.base_dilation) + std::abs(static_cast<double>(w.pad_low)) +
                std::abs(static_cast<double>(w.pad_high));
  }
  return elements;
}

double ContractedSize(const Instruction& in) {
  double depth = 1;
  const Shape& lhs = in.operands[0]->shape;
  for (int64_t d : in.IntsAttr(AttrId::kLhsContractingDims)) {
    depth *= static_cast<double>(lhs.dims[d]);
  }
  return depth;
}

// Instructions of the computation that runs for each element.
double BodySize(const Instruction& in) {
  double size = 0;
  for (const Computation* body : in.CalledComputations()) {
    size += static_cast<double>(body->instructions.size());
  }
  return size;
}

double Estimate(const Instruction& in) {
  const double result = Elements(in.shape), operands = OperandElements(in);
  switch (in.op) {
    case Op::kParameter:
    case Op::kConstant:
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kCall:
    case Op::kFusion:
    case Op::kWhile:
    case Op::kConditional:
    case Op::kAsyncStart:
    case Op::kAsyncUpdate:
    case Op::kAsyncDone:
    case Op::kOptBarrier:
      return 0;
    case Op::kDot:
    case Op::kRaggedDot:
    case Op::kScaledDot:
      return operands + result * (1 + ContractedSize(in));
    case Op::kConvolution: {
      const double outputs = std::max(1.0, result);
      return PaddedInput(in) + operands +
             outputs * WindowPlaces(in) * (1 + Elements(in.operands[1]->shape) / outputs) +
             result * Elements(in.operands[1]->shape);
    }
    case Op::kMap:
      return result * BodySize(in);
    case Op::kReduce:
    case Op::kScan:
      return result + operands * BodySize(in);
    case Op::kScatter:
      return result + 16 * operands * BodySize(in);
    case Op::kReduceWindow:
      return operands + WindowPlaces(in) * (200 + result * BodySize(in));
    case Op::kSelectAndScatter:
      return operands +
             WindowPlaces(in) * (200 + 4 * Elements(in.operands[1]->shape) * BodySize(in));
    case Op::kSort:
    case Op::kTopk:
      return (1 + operands) * 8 * std::log2(2 + operands) * (1 + BodySize(in));
    case Op::kFft:
      return 64 * (operands + result) * std::log2(2 + operands);
    case Op::kCholesky:
    case Op::kTriangularSolve: {
      const Shape& a = in.operands[0]->shape;
      return operands + 2 * result * static_cast<double>(a.dims.empty() ? 1 : a.dims.back());
    }
    case Op::kBatchNormTraining:
    case Op::kBatchNormInference:
    case Op::kBatchNormGrad:
      return 8 * operands;
    default:
      return result + operands;
  }
}

}  // namespace

int64_t WorkOf(const Instruction& instruction) {
  constexpr double kMost = 4e18;
  return static_cast<int64_t>(std::min(kMost, kInstruction + Estimate(instruction)));
}

}  // namespace tpuc
