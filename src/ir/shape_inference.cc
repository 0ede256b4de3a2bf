// Dispatch, and the rules of element-wise operations (shape_inference.h).
#include "src/ir/shape_inference.h"

#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"

namespace tpuc {

std::string OperandText(const Instruction& instruction, int64_t operand) {
  const Instruction& o = *instruction.operands[operand];
  return absl::StrCat("operand ", operand, " '", o.name, "' (", ToString(o.shape, false), ")");
}

namespace shape_rules {
namespace {

bool IsComplex(Type type) { return ClassOf(type) == TypeClass::kComplex; }

Type RealPart(Type type) {
  return type == Type::kC64 ? Type::kF32 : type == Type::kC128 ? Type::kF64 : type;
}

// Which element types an opcode takes.
enum class Takes { kAny, kNumber, kInteger, kLogical, kFloat, kFloatOrComplex, kComplex };

bool Fits(Takes takes, Type type) {
  bool pred = type == Type::kPred;
  switch (takes) {
    case Takes::kAny:
      return true;
    case Takes::kNumber:
      return !pred;
    case Takes::kInteger:
      return IsInteger(type);
    case Takes::kLogical:
      return pred || IsInteger(type);
    case Takes::kFloat:
      return IsFloat(type);
    case Takes::kFloatOrComplex:
      return IsFloat(type) || IsComplex(type);
    case Takes::kComplex:
      return IsFloat(type) || IsComplex(type);
  }
  return true;
}

absl::string_view TextOf(Takes takes) {
  switch (takes) {
    case Takes::kAny:
      return "any type";
    case Takes::kNumber:
      return "numbers, not pred";
    case Takes::kInteger:
      return "integers";
    case Takes::kLogical:
      return "pred or integers";
    case Takes::kFloat:
      return "floating-point numbers";
    default:
      return "floating-point or complex numbers";
  }
}

Takes TypesOf(Op op) {
  switch (op) {
    case Op::kNegate:
    case Op::kSign:
    case Op::kAbs:
    case Op::kSubtract:
      return Takes::kNumber;
    case Op::kPopcnt:
    case Op::kCountLeadingZeros:
    case Op::kShiftLeft:
    case Op::kShiftRightArithmetic:
    case Op::kShiftRightLogical:
    case Op::kMulhi:
      return Takes::kInteger;
    case Op::kNot:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      return Takes::kLogical;
    case Op::kCeil:
    case Op::kFloor:
    case Op::kRoundNearestAfz:
    case Op::kRoundNearestEven:
    case Op::kIsFinite:
    case Op::kReducePrecision:
    case Op::kStochasticConvert:
    case Op::kErf:
    case Op::kComplex:
      return Takes::kFloat;
    case Op::kReal:
    case Op::kImag:
      return Takes::kComplex;
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kPower:
    case Op::kCompare:
    case Op::kSelect:
    case Op::kClamp:
    case Op::kConvert:
    case Op::kBitcastConvert:
    case Op::kMap:
    case Op::kCopy:
      return Takes::kAny;
    default:
      return Takes::kFloatOrComplex;
  }
}

bool IsTranscendental(Op op) {
  for (AttrId id : InfoOf(op).optional) {
    if (id == AttrId::kResultAccuracy) return true;
  }
  return op == Op::kAtan2;
}

// The operand's dimensions with another element type.
Shape WithType(const Shape& shape, Type type) {
  Shape out = shape;
  out.layout.reset();
  out.type = type;
  return out;
}

bool SameShapes(const Instruction& instruction, int64_t a, int64_t b, bool types,
                std::string* error) {
  const Shape& x = instruction.operands[a]->shape;
  const Shape& y = instruction.operands[b]->shape;
  if (x.dims == y.dims && (!types || x.type == y.type)) return true;
  *error =
      absl::StrCat("operand shapes ", ToString(x, false), " and ", ToString(y, false), " differ");
  return false;
}

bool Convert(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  const Shape& to = instruction.shape;
  if (!to.IsArray()) {
    *error = absl::StrCat(OpName(instruction.op), " makes an array, not ", ToString(to, false));
    return false;
  }
  *result = WithType(from, to.type);
  if (instruction.op != Op::kBitcastConvert) return true;
  int from_bits = BitsOf(from.type), to_bits = BitsOf(to.type);
  if (from_bits == to_bits) return true;
  // The minor dimension holds the parts of the wider type.
  bool widens = from_bits < to_bits;
  int64_t ratio = widens ? to_bits / from_bits : from_bits / to_bits;
  if (widens && (from.dims.empty() || from.dims.back() != ratio)) {
    *error = absl::StrCat(OperandText(instruction, 0), " needs a last dimension of ", ratio,
                          " to become ", TypeName(to.type));
    return false;
  }
  if (widens) {
    result->dims.pop_back();
    if (!result->dim_kinds.empty()) result->dim_kinds.pop_back();
  } else {
    result->dims.push_back(ratio);
    if (!result->dim_kinds.empty()) result->dim_kinds.push_back(DimKind::kStatic);
  }
  return true;
}

bool Select(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& pred = instruction.operands[0]->shape;
  *result = WithType(instruction.operands[1]->shape, instruction.operands[1]->shape.type);
  if (pred.type != Type::kPred) {
    *error = absl::StrCat(OperandText(instruction, 0), " must be pred");
    return false;
  }
  if (!pred.IsScalar() && pred.dims != result->dims) {
    *error =
        absl::StrCat(OperandText(instruction, 0), " must be a scalar or have the dimensions of ",
                     OperandText(instruction, 1));
    return false;
  }
  return SameShapes(instruction, 1, 2, true, error);
}

bool Clamp(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& value = instruction.operands[1]->shape;
  *result = WithType(value, value.type);
  for (int64_t i : {0, 2}) {
    const Shape& bound = instruction.operands[i]->shape;
    if (bound.type == value.type && (bound.IsScalar() || bound.dims == value.dims)) continue;
    *error = absl::StrCat(OperandText(instruction, i), " must be ", TypeName(value.type), "[] or ",
                          ToString(value, false), " like the value");
    return false;
  }
  return true;
}

bool Map(const Instruction& instruction, Shape* result, std::string* error) {
  const Computation& body = *instruction.ComputationAttr(AttrId::kToApply);
  const Shape* root = &body.root->shape;
  if (root->IsTuple() && root->elements.size() == 1) root = &root->elements[0];  // as XLA does
  const std::vector<Instruction*> parameters = body.Parameters();
  const size_t n = instruction.operands.size();
  if (parameters.size() != n) {
    *error = absl::StrCat("map of ", n, " operand", n == 1 ? "" : "s", " needs a computation of ",
                          n, " parameter", n == 1 ? "" : "s", "; '", body.name, "' has ",
                          parameters.size());
    return false;
  }
  for (size_t i = 0; i < n; ++i) {
    if (i > 0 && !SameShapes(instruction, 0, static_cast<int64_t>(i), false, error)) return false;
    const Shape given = Shape::Array(instruction.operands[i]->shape.type, {});
    if (SameDims(parameters[i]->shape, given)) continue;
    *error = absl::StrCat("parameter ", i, " of '", body.name, "' is ",
                          ToString(parameters[i]->shape, false), "; map gives it ",
                          ToString(given, false));
    return false;
  }
  *result = WithType(instruction.operands[0]->shape, root->type);
  if (root->IsScalar()) return true;
  *error =
      absl::StrCat("map applies a computation that yields a scalar, not ", ToString(*root, false));
  return false;
}

}  // namespace

bool Elementwise(const Instruction& instruction, Shape* result, std::string* error) {
  Op op = instruction.op;
  Takes takes = TypesOf(op);
  if (IsTranscendental(op)) takes = op == Op::kErf ? Takes::kFloat : Takes::kFloatOrComplex;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const Shape& shape = instruction.operands[i]->shape;
    if (!shape.IsArray()) {
      *error = absl::StrCat(OperandText(instruction, i), " of ", OpName(op), " must be an array");
      return false;
    }
    bool random_bits = op == Op::kStochasticConvert && i == 1;
    if (random_bits || Fits(takes, shape.type)) continue;
    *error = absl::StrCat(OperandText(instruction, i), ": ", OpName(op), " takes ", TextOf(takes));
    return false;
  }
  if (op == Op::kSelect) return Select(instruction, result, error);
  if (op == Op::kClamp) return Clamp(instruction, result, error);
  if (op == Op::kMap) return Map(instruction, result, error);
  if (op == Op::kConvert || op == Op::kBitcastConvert) return Convert(instruction, result, error);
  const Shape& first = instruction.operands[0]->shape;
  *result = WithType(first, first.type);
  if (instruction.operands.size() == 2) {
    bool types = op != Op::kStochasticConvert;
    if (!SameShapes(instruction, 0, 1, types, error)) return false;
    // A dynamic dimension of either operand makes the result's dynamic.
    if (result->dim_kinds.empty()) result->dim_kinds = instruction.operands[1]->shape.dim_kinds;
  }
  switch (op) {
    case Op::kCompare:
    case Op::kIsFinite:
      result->type = Type::kPred;
      break;
    case Op::kAbs:
    case Op::kReal:
    case Op::kImag:
      result->type = RealPart(first.type);
      break;
    case Op::kComplex:
      if (first.type != Type::kF32 && first.type != Type::kF64) {
        *error = absl::StrCat(OperandText(instruction, 0), ": complex takes f32 or f64");
        return false;
      }
      result->type = first.type == Type::kF32 ? Type::kC64 : Type::kC128;
      break;
    case Op::kStochasticConvert: {
      const Shape& random = instruction.operands[1]->shape;
      if (ClassOf(random.type) != TypeClass::kUnsigned ||
          BitsOf(random.type) != BitsOf(first.type)) {
        return Fail(error, absl::StrCat(OperandText(instruction, 1), " must hold u",
                                        BitsOf(first.type), " bits"));
      }
      result->type = instruction.shape.type;
      break;
    }
    case Op::kReducePrecision:
      if (instruction.IntAttr(AttrId::kExponentBits) < 1 ||
          instruction.IntAttr(AttrId::kMantissaBits) < 0) {
        return Fail(error, "reduce-precision keeps at least 1 exponent bit and 0 mantissa bits");
      }
      break;
    default:
      break;
  }
  return true;
}

bool Fail(std::string* error, std::string message) {
  *error = std::move(message);
  return false;
}

bool CheckDimensions(const Ints& dimensions, int64_t rank, absl::string_view what,
                     std::string* error) {
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (int64_t d : dimensions) {
    if (d < 0 || d >= rank) {
      *error = absl::StrCat(what, " holds ", d, ", but the rank is ", rank);
      return false;
    }
    if (seen[d]) {
      *error = absl::StrCat(what, " holds ", d, " twice");
      return false;
    }
    seen[d] = true;
  }
  return true;
}

}  // namespace shape_rules

bool HasShapeRule(Op op) {
  return op != Op::kWhile && op != Op::kConditional && op != Op::kCustomCall;
}

bool InferShape(const Instruction& instruction, Shape* result, std::string* error) {
  using namespace shape_rules;
  switch (instruction.op) {
    case Op::kReduce:
    case Op::kReduceWindow:
    case Op::kSelectAndScatter:
    case Op::kScan:
    case Op::kSort:
      return Reduction(instruction, result, error);
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
    case Op::kGather:
    case Op::kScatter:
      return Indexing(instruction, result, error);
    case Op::kInfeed:
    case Op::kOutfeed:
    case Op::kAfterAll:
    case Op::kAddDependency:
      return Communication(instruction, result, error);
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kCall:
    case Op::kFusion:
    case Op::kCopyStart:
    case Op::kCopyDone:
    case Op::kOptBarrier:
    case Op::kWhile:
    case Op::kConditional:
    case Op::kParameter:
    case Op::kConstant:
      return Calls(instruction, result, error);
    case Op::kCopy:
    case Op::kIota:
      return Movement(instruction, result, error);
    default:
      break;
  }
  switch (InfoOf(instruction.op).op_class) {
    case OpClass::kElementwise:
      return Elementwise(instruction, result, error);
    case OpClass::kMove:
      return Movement(instruction, result, error);
    case OpClass::kContract:
      return Contraction(instruction, result, error);
    case OpClass::kCollective:
    case OpClass::kAsync:
      return Communication(instruction, result, error);
    default:
      return Others(instruction, result, error);
  }
}

}  // namespace tpuc
