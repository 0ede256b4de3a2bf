// Shape rules of tuples, calls and copies (shape_inference.h).
#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::shape_rules {

Shape WithoutLayout(Shape shape) {
  shape.layout.reset();
  for (Shape& element : shape.elements) element = WithoutLayout(std::move(element));
  return shape;
}

namespace {

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

}  // namespace tpuc::shape_rules
