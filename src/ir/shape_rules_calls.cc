// Shape rules of tuples, calls, copies and of opcodes whose shape is only completed, not verified
// (shape_inference.h).
#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::shape_rules {
namespace {

Shape WithoutLayout(Shape shape) {
  shape.layout.reset();
  for (Shape& element : shape.elements) element = WithoutLayout(std::move(element));
  return shape;
}

bool Call(const Instruction& instruction, AttrId id, Shape* result, std::string* error) {
  const Computation& body = *instruction.ComputationAttr(id);
  std::vector<Instruction*> parameters = body.Parameters();
  if (parameters.size() != instruction.operands.size()) {
    *error = absl::StrCat(OpName(instruction.op), " passes ", instruction.operands.size(),
                          " operands; '", body.name, "' has ", parameters.size(), " parameters");
    return false;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (Compatible(parameters[i]->shape, instruction.operands[i]->shape)) continue;
    *error = absl::StrCat(OperandText(instruction, static_cast<int64_t>(i)), " must be ",
                          ToString(parameters[i]->shape, false), ", parameter ", i, " of '",
                          body.name, "'");
    return false;
  }
  *result = WithoutLayout(body.root->shape);
  return true;
}

bool GetTupleElement(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& tuple = instruction.operands[0]->shape;
  int64_t index = instruction.IntAttr(AttrId::kIndex);
  if (!tuple.IsTuple()) {
    *error = absl::StrCat(OperandText(instruction, 0), " must be a tuple");
    return false;
  }
  if (index < 0 || index >= static_cast<int64_t>(tuple.elements.size())) {
    *error = absl::StrCat(OperandText(instruction, 0), " has no element ", index);
    return false;
  }
  *result = WithoutLayout(tuple.elements[index]);
  return true;
}

// (destination, source, u32[] context); the cross-program index may add to it.
bool CopyStart(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& operand = instruction.operands[0]->shape;
  const Shape& shape = instruction.shape;
  *result = shape;
  if (shape.IsTuple() && shape.elements.size() == 3 && Compatible(shape.elements[0], operand) &&
      Compatible(shape.elements[1], operand) &&
      (shape.elements[2].type == Type::kU32 || !shape.elements[2].IsArray())) {
    return true;
  }
  std::string text = ToString(operand, false);
  *error = absl::StrCat("copy-start of ", text, " makes (", text, ", ", text, ", u32[]), not ",
                        ToString(shape, false));
  return false;
}

bool CopyDone(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& operand = instruction.operands[0]->shape;
  if (!operand.IsTuple() || operand.elements.empty()) {
    *error = absl::StrCat(OperandText(instruction, 0), " must be the tuple of a copy-start");
    return false;
  }
  *result = WithoutLayout(operand.elements[0]);
  return true;
}

}  // namespace

bool Calls(const Instruction& instruction, Shape* result, std::string* error) {
  switch (instruction.op) {
    case Op::kTuple:
      *result = Shape::Tuple({});
      for (const Instruction* operand : instruction.operands) {
        result->elements.push_back(WithoutLayout(operand->shape));
      }
      return true;
    case Op::kGetTupleElement:
      return GetTupleElement(instruction, result, error);
    case Op::kCall:
      return Call(instruction, AttrId::kToApply, result, error);
    case Op::kFusion:
      return Call(instruction, AttrId::kCalls, result, error);
    case Op::kCopyStart:
      return CopyStart(instruction, result, error);
    case Op::kCopyDone:
      return CopyDone(instruction, result, error);
    case Op::kWhile:
    case Op::kOptBarrier:
      *result = WithoutLayout(instruction.operands[0]->shape);
      return true;
    case Op::kConditional:
      *result = WithoutLayout(instruction.CalledComputations()[0]->root->shape);
      return true;
    case Op::kConstant:
      *result = instruction.shape;
      if (!instruction.literal || Compatible(instruction.literal->shape(), instruction.shape)) {
        return true;
      }
      *error =
          absl::StrCat("the constant's value is ", ToString(instruction.literal->shape(), false),
                       ", not ", ToString(instruction.shape, false));
      return false;
    default:
      *result = instruction.shape;
      return true;
  }
}

bool Others(const Instruction& instruction, Shape* result, std::string* error) {
  auto operand = [&](size_t i) { return WithoutLayout(instruction.operands[i]->shape); };
  auto needs_array = [&](int64_t rank) {
    const Shape& shape = instruction.operands[0]->shape;
    if (shape.IsArray() && shape.rank() >= rank) return true;
    *error = absl::StrCat(OperandText(instruction, 0), " of ", OpName(instruction.op),
                          " must be an array of rank ", rank, " or more");
    return false;
  };
  switch (instruction.op) {
    case Op::kCholesky:
    case Op::kDomain:
    case Op::kAddDependency:
    case Op::kSetDimensionSize:
    case Op::kSelectAndScatter:
    case Op::kBatchNormInference:
      *result = operand(0);
      if (instruction.op == Op::kSetDimensionSize) {
        const Ints& dimensions = instruction.IntsAttr(AttrId::kDimensions);
        if (!needs_array(1) || !CheckDimensions(dimensions, result->rank(),
                                                "dimensions of set-dimension-size", error)) {
          return false;
        }
        result->dim_kinds.resize(result->dims.size(), DimKind::kStatic);
        result->dim_kinds[dimensions[0]] = DimKind::kBounded;
      }
      return true;
    case Op::kTriangularSolve:
      *result = operand(1);
      return true;
    case Op::kScatter: {
      size_t n = instruction.operands.size() / 2;
      *result = n == 1 ? operand(0) : Shape::Tuple({});
      for (size_t i = 0; n > 1 && i < n; ++i) result->elements.push_back(operand(i));
      return true;
    }
    case Op::kBatchNormTraining:
    case Op::kBatchNormGrad: {
      int64_t feature = instruction.IntAttr(AttrId::kFeatureIndex);
      if (!needs_array(1) || !CheckDimensions({feature}, instruction.operands[0]->shape.rank(),
                                              "feature_index", error)) {
        return false;
      }
      Shape vector = Shape::Array(operand(0).type, {operand(0).dims[feature]});
      *result = Shape::Tuple({operand(0), vector, vector});
      return true;
    }
    case Op::kTopk: {
      if (!needs_array(1)) return false;
      Shape values = operand(0);
      values.dims.back() = instruction.IntAttr(AttrId::kK);
      Shape indices = values;
      indices.type = Type::kS32;
      *result = Shape::Tuple({values, indices});
      return true;
    }
    case Op::kFft: {
      const Ints& lengths = instruction.IntsAttr(AttrId::kFftLength);
      absl::string_view type = instruction.StringAttr(AttrId::kFftType);
      if (lengths.empty() || !needs_array(static_cast<int64_t>(lengths.size()))) {
        if (lengths.empty()) *error = "fft_length is empty";
        return false;
      }
      *result = operand(0);
      if (type == "RFFT") {
        result->type = result->type == Type::kF64 ? Type::kC128 : Type::kC64;
        result->dims.back() = lengths.back() / 2 + 1;
      } else if (type == "IRFFT") {
        result->type = result->type == Type::kC128 ? Type::kF64 : Type::kF32;
        result->dims.back() = lengths.back();
      }
      return true;
    }
    case Op::kGetDimensionSize:
      *result = Shape::Array(Type::kS32, {});
      return true;
    case Op::kPartitionId:
    case Op::kReplicaId:
      *result = Shape::Array(Type::kU32, {});
      return true;
    case Op::kAfterAll:
      *result = Shape::Array(Type::kToken, {});
      return true;
    default:
      if (InfoOf(instruction.op).shape == ShapeRule::kWritten) {
        *result = instruction.shape;
        return true;
      }
      *error = absl::StrCat("tpuc has no rule for the shape of ", OpName(instruction.op));
      return false;
  }
}

}  // namespace tpuc::shape_rules
