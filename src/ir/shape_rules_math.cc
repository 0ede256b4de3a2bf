// Shape rules of whole-array mathematics: factors, solves, transforms, normalisation, topk, random
// numbers, dimension sizes (shape_inference.h).
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::shape_rules {
namespace {

bool IsComplex(Type type) { return ClassOf(type) == TypeClass::kComplex; }

const Shape& ShapeOf(const Instruction& in, size_t operand) { return in.operands[operand]->shape; }

// Operand 0 is an array of that rank at least.
bool NeedsRank(const Instruction& in, int64_t rank, std::string* error) {
  if (ShapeOf(in, 0).IsArray() && ShapeOf(in, 0).rank() >= rank) return true;
  return Fail(error, absl::StrCat(OperandText(in, 0), " of ", OpName(in.op),
                                  " must be an array of rank ", rank, " or more"));
}

// Operand 0 holds square matrices of floats.
bool NeedsMatrices(const Instruction& in, std::string* error) {
  const Shape& a = ShapeOf(in, 0);
  if (!NeedsRank(in, 2, error)) return false;
  const int rank = a.rank();
  if (a.dims[rank - 1] == a.dims[rank - 2] && (IsFloat(a.type) || IsComplex(a.type))) return true;
  return Fail(error, absl::StrCat(OperandText(in, 0), " of ", OpName(in.op),
                                  " must hold square matrices of floats or complex values"));
}

bool TriangularSolve(const Instruction& in, Shape* result, std::string* error) {
  if (!NeedsMatrices(in, error)) return false;
  const Shape &a = ShapeOf(in, 0), &b = ShapeOf(in, 1);
  const bool left = in.BoolAttr(AttrId::kLeftSide);
  *result = WithoutLayout(b);
  bool fits = b.type == a.type && b.rank() == a.rank() &&
              std::equal(a.dims.begin(), a.dims.end() - 2, b.dims.begin());
  fits = fits && b.dims[b.rank() - (left ? 2 : 1)] == a.dims.back();
  if (!fits) {
    return Fail(error, absl::StrCat(OperandText(in, 1), " must have the type and batch of ",
                                    OperandText(in, 0), " and ", a.dims.back(),
                                    left ? " rows" : " columns"));
  }
  if (in.StringAttr(AttrId::kTransposeA) != "TRANSPOSE_INVALID") return true;
  return Fail(error, "transpose_a is NO_TRANSPOSE, TRANSPOSE or ADJOINT");
}

bool Fft(const Instruction& in, Shape* result, std::string* error) {
  const Ints& lengths = in.IntsAttr(AttrId::kFftLength);
  const absl::string_view type = in.StringAttr(AttrId::kFftType);
  if (lengths.empty() || lengths.size() > 3) {
    return Fail(error, "fft_length has one to three dimensions");
  }
  if (!NeedsRank(in, static_cast<int64_t>(lengths.size()), error)) return false;
  const Shape& a = ShapeOf(in, 0);
  *result = WithoutLayout(a);
  const bool real = type == "RFFT";
  if (real ? a.type != Type::kF32 && a.type != Type::kF64 : !IsComplex(a.type)) {
    return Fail(error, absl::StrCat(OperandText(in, 0), " of an ", type, " must be ",
                                    real ? "f32 or f64" : "complex"));
  }
  const size_t first = a.dims.size() - lengths.size();
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool half = type == "IRFFT" && i + 1 == lengths.size();
    const int64_t wanted = half ? (lengths[i] == 0 ? 0 : lengths[i] / 2 + 1) : lengths[i];
    if (lengths[i] >= 0 && a.dims[first + i] == wanted) continue;
    return Fail(
        error, absl::StrCat("dimension ", first + i, " of ", OperandText(in, 0), " must have size ",
                            wanted, " for an ", type, " of length ", lengths[i]));
  }
  if (real) {
    result->type = a.type == Type::kF64 ? Type::kC128 : Type::kC64;
    result->dims.back() = lengths.back() == 0 ? 0 : lengths.back() / 2 + 1;
  } else if (type == "IRFFT") {
    result->type = a.type == Type::kC128 ? Type::kF64 : Type::kF32;
    result->dims.back() = lengths.back();
  }
  return true;
}

bool BatchNorm(const Instruction& in, Shape* result, std::string* error) {
  const Shape& a = ShapeOf(in, 0);
  const int64_t feature = in.IntAttr(AttrId::kFeatureIndex);
  if (!NeedsRank(in, 1, error) || !CheckDimensions({feature}, a.rank(), "feature_index", error)) {
    return false;
  }
  if (!IsFloat(a.type)) {
    return Fail(error, absl::StrCat(OperandText(in, 0), " of ", OpName(in.op),
                                    " must hold floating-point numbers"));
  }
  const Shape vector = Shape::Array(a.type, {a.dims[feature]});
  const bool grad = in.op == Op::kBatchNormGrad;
  for (size_t i = 1; i < in.operands.size(); ++i) {
    const bool whole = grad && i == 4;
    const Shape wanted = whole ? Shape::Array(a.type, a.dims) : vector;
    if (SameDims(ShapeOf(in, i), wanted)) continue;
    return Fail(error, absl::StrCat(OperandText(in, static_cast<int64_t>(i)), " must be ",
                                    ToString(wanted, false),
                                    whole ? " like operand 0" : ", one value a feature"));
  }
  *result = WithoutLayout(a);
  if (in.op != Op::kBatchNormInference) *result = Shape::Tuple({*result, vector, vector});
  return true;
}

bool Topk(const Instruction& in, Shape* result, std::string* error) {
  if (!NeedsRank(in, 1, error)) return false;
  Shape values = WithoutLayout(ShapeOf(in, 0));
  const int64_t k = in.IntAttr(AttrId::kK);
  if (k < 0 || k > values.dims.back()) {
    return Fail(error, absl::StrCat("topk takes ", k, " of the ", values.dims.back(), " values of ",
                                    OperandText(in, 0)));
  }
  values.dims.back() = k;
  Shape indices = values;
  indices.type = Type::kS32;
  *result = Shape::Tuple({values, indices});
  return true;
}

// Two scalars; older programs repeat the dimensions in a third operand.
bool Rng(const Instruction& in, Shape* result, std::string* error) {
  *result = in.shape;
  if (!in.shape.IsArray()) return Fail(error, "rng makes an array");
  for (int64_t i : {0, 1}) {
    const Shape& shape = ShapeOf(in, i);
    if (shape.IsScalar() && shape.type == in.shape.type) continue;
    return Fail(error, absl::StrCat(OperandText(in, i), " of rng must be ", TypeName(in.shape.type),
                                    "[], as is the result"));
  }
  return true;
}

// (new state, bits), the bits as written; or, in older programs, the bits alone.
bool RngBitGenerator(const Instruction& in, Shape* result, std::string* error) {
  const Shape &state = ShapeOf(in, 0), &shape = in.shape;
  *result = shape;
  if (shape.IsArray() && state.IsArray()) return true;
  if (shape.IsTuple() && shape.elements.size() == 2 && state.IsArray() &&
      Compatible(shape.elements[0], state) && shape.elements[1].IsArray()) {
    return true;
  }
  return Fail(error, absl::StrCat("rng-bit-generator makes (", ToString(state, false),
                                  ", bits), not ", ToString(shape, false)));
}

bool DimensionSize(const Instruction& in, Shape* result, std::string* error) {
  const Ints& dimensions = in.IntsAttr(AttrId::kDimensions);
  if (!NeedsRank(in, 1, error) || dimensions.size() != 1 ||
      !CheckDimensions(dimensions, ShapeOf(in, 0).rank(),
                       absl::StrCat("dimensions of ", OpName(in.op)), error)) {
    if (error->empty()) *error = absl::StrCat(OpName(in.op), " names one dimension");
    return false;
  }
  if (in.op == Op::kGetDimensionSize) {
    *result = Shape::Array(Type::kS32, {});
    return true;
  }
  const Shape& size = ShapeOf(in, 1);
  if (!size.IsScalar() || size.type != Type::kS32) {
    return Fail(error, absl::StrCat(OperandText(in, 1), " must be the size, s32[]"));
  }
  *result = WithoutLayout(ShapeOf(in, 0));
  result->dim_kinds.resize(result->dims.size(), DimKind::kStatic);
  result->dim_kinds[dimensions[0]] = DimKind::kBounded;
  return true;
}

}  // namespace

bool Others(const Instruction& in, Shape* result, std::string* error) {
  switch (in.op) {
    case Op::kCholesky:
      *result = WithoutLayout(ShapeOf(in, 0));
      return NeedsMatrices(in, error);
    case Op::kTriangularSolve:
      return TriangularSolve(in, result, error);
    case Op::kFft:
      return Fft(in, result, error);
    case Op::kBatchNormTraining:
    case Op::kBatchNormInference:
    case Op::kBatchNormGrad:
      return BatchNorm(in, result, error);
    case Op::kTopk:
      return Topk(in, result, error);
    case Op::kRng:
      return Rng(in, result, error);
    case Op::kRngBitGenerator:
      return RngBitGenerator(in, result, error);
    case Op::kRngGetAndUpdateState:
      *result = Shape::Array(Type::kU64, {2});
      return true;
    case Op::kGetDimensionSize:
    case Op::kSetDimensionSize:
      return DimensionSize(in, result, error);
    case Op::kDomain:
      *result = WithoutLayout(ShapeOf(in, 0));
      return true;
    case Op::kPartitionId:
    case Op::kReplicaId:
      *result = Shape::Array(Type::kU32, {});
      return true;
    default:
      if (InfoOf(in.op).shape == ShapeRule::kWritten) {
        *result = in.shape;
        return true;
      }
      return Fail(error, absl::StrCat("tpuc has no rule for the shape of ", OpName(in.op)));
  }
}

}  // namespace tpuc::shape_rules
