// Shape rules of operations that move data: broadcast, reshape, transpose, slice, pad ...
// (shape_inference.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::shape_rules {
namespace {

DimKind KindOf(const Shape& shape, int64_t d) {
  return shape.dim_kinds.empty() ? DimKind::kStatic : shape.dim_kinds[d];
}

// Dimension `d` of `from` becomes the next of `to`.
void AppendDim(const Shape& from, int64_t d, Shape* to) {
  if (KindOf(from, d) != DimKind::kStatic || !to->dim_kinds.empty()) {
    to->dim_kinds.resize(to->dims.size(), DimKind::kStatic);
    to->dim_kinds.push_back(KindOf(from, d));
  }
  to->dims.push_back(from.dims[d]);
}

bool Broadcast(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  const Ints& dimensions = instruction.IntsAttr(AttrId::kDimensions);
  *result = instruction.shape;
  result->type = from.type;
  if (static_cast<int>(dimensions.size()) != from.rank()) {
    *error =
        absl::StrCat("dimensions={", absl::StrJoin(dimensions, ","), "} places ", dimensions.size(),
                     " dimensions, ", OperandText(instruction, 0), " has ", from.rank());
    return false;
  }
  if (!CheckDimensions(dimensions, result->rank(), "dimensions of broadcast", error)) return false;
  for (int i = 0; i < from.rank(); ++i) {
    // XLA lets a dimension of size 1 repeat.
    if (from.dims[i] == result->dims[dimensions[i]] || from.dims[i] == 1) continue;
    *error = absl::StrCat("dimension ", i, " of ", OperandText(instruction, 0), " has size ",
                          from.dims[i], ", dimension ", dimensions[i], " of the result ",
                          ToString(*result, false), " has ", result->dims[dimensions[i]]);
    return false;
  }
  return true;
}

bool Reshape(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  *result = instruction.shape;
  result->type = from.type;
  if (from.ElementCount() == result->ElementCount()) return true;
  *error = absl::StrCat(OperandText(instruction, 0), " has ", from.ElementCount(),
                        " elements, the result ", ToString(instruction.shape, false), " has ",
                        result->ElementCount());
  return false;
}

bool Bitcast(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  *result = instruction.shape;
  if (!from.IsArray() || !result->IsArray()) return true;
  auto bits = [](const Shape& s) { return static_cast<double>(s.ElementCount()) * BitsOf(s.type); };
  if (bits(from) == bits(*result)) return true;
  *error = absl::StrCat(OperandText(instruction, 0), " holds ", from.LiteralBytes(),
                        " bytes, the result ", ToString(instruction.shape, false), " holds ",
                        result->LiteralBytes());
  return false;
}

bool Transpose(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  const Ints& dimensions = instruction.IntsAttr(AttrId::kDimensions);
  if (static_cast<int>(dimensions.size()) != from.rank()) {
    *error =
        absl::StrCat("dimensions={", absl::StrJoin(dimensions, ","), "} orders ", dimensions.size(),
                     " dimensions, ", OperandText(instruction, 0), " has ", from.rank());
    return false;
  }
  if (!CheckDimensions(dimensions, from.rank(), "dimensions of transpose", error)) return false;
  *result = Shape::Array(from.type, {});
  for (int64_t d : dimensions) AppendDim(from, d, result);
  return true;
}

bool Slice(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  const auto& ranges = std::get<std::vector<SliceDim>>(*instruction.Find(AttrId::kSlice));
  if (static_cast<int>(ranges.size()) != from.rank()) {
    *error = absl::StrCat("slice has ", ranges.size(), " ranges, ", OperandText(instruction, 0),
                          " has ", from.rank(), " dimensions");
    return false;
  }
  *result = Shape::Array(from.type, {});
  for (size_t i = 0; i < ranges.size(); ++i) {
    const SliceDim& r = ranges[i];
    if (r.stride < 1 || r.start < 0 || r.limit > from.dims[i] || r.start > r.limit) {
      *error = absl::StrCat("range [", r.start, ":", r.limit, ":", r.stride, "] of dimension ", i,
                            " does not lie in ", OperandText(instruction, 0));
      return false;
    }
    result->dims.push_back((r.limit - r.start) / r.stride + ((r.limit - r.start) % r.stride != 0));
  }
  return true;
}

bool Concatenate(const Instruction& instruction, Shape* result, std::string* error) {
  const Ints& dimensions = instruction.IntsAttr(AttrId::kDimensions);
  const Shape& first = instruction.operands[0]->shape;
  if (!CheckDimensions(dimensions, first.rank(), "dimensions of concatenate", error)) return false;
  int64_t d = dimensions[0];
  *result = first;
  result->layout.reset();
  for (size_t i = 1; i < instruction.operands.size(); ++i) {
    const Shape& shape = instruction.operands[i]->shape;
    bool fits = shape.type == first.type && shape.rank() == first.rank();
    for (int k = 0; fits && k < first.rank(); ++k) fits = k == d || shape.dims[k] == first.dims[k];
    if (!fits) {
      *error = absl::StrCat(OperandText(instruction, static_cast<int64_t>(i)), " differs from ",
                            OperandText(instruction, 0), " in more than dimension ", d,
                            ", along which they are concatenated");
      return false;
    }
    if (__builtin_add_overflow(result->dims[d], shape.dims[d], &result->dims[d])) {
      *error = "the size of the concatenated dimension does not fit 64 bits";
      return false;
    }
  }
  return true;
}

bool Pad(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  const Shape& value = instruction.operands[1]->shape;
  const auto& dims = std::get<std::vector<PadDim>>(*instruction.Find(AttrId::kPadding));
  if (!value.IsScalar() || value.type != from.type) {
    *error = absl::StrCat(OperandText(instruction, 1), " must be the scalar ", TypeName(from.type),
                          "[]");
    return false;
  }
  if (static_cast<int>(dims.size()) != from.rank()) {
    *error = absl::StrCat("padding has ", dims.size(), " dimensions, ", OperandText(instruction, 0),
                          " has ", from.rank());
    return false;
  }
  *result = Shape::Array(from.type, {});
  for (size_t i = 0; i < dims.size(); ++i) {
    const PadDim& p = dims[i];
    int64_t gaps = 0, size = 0;
    bool overflow =
        p.interior < 0 ||
        __builtin_mul_overflow(std::max<int64_t>(from.dims[i] - 1, 0), p.interior, &gaps) ||
        __builtin_add_overflow(from.dims[i], gaps, &size) ||
        __builtin_add_overflow(size, p.low, &size) || __builtin_add_overflow(size, p.high, &size);
    if (overflow || size < 0) {
      *error = absl::StrCat("padding ", p.low, "_", p.high, "_", p.interior, " of dimension ", i,
                            " of ", OperandText(instruction, 0), " leaves no valid size");
      return false;
    }
    result->dims.push_back(size);
  }
  return true;
}

bool Iota(const Instruction& instruction, Shape* result, std::string* error) {
  *result = instruction.shape;
  if (!result->IsArray() || result->type == Type::kPred) {
    *error = absl::StrCat("iota makes an array of numbers, not ", ToString(*result, false));
    return false;
  }
  int64_t d = instruction.IntAttr(AttrId::kIotaDimension);
  if (result->rank() == 0) {
    *error = "iota makes an array, not a scalar";
    return false;
  }
  return CheckDimensions({d}, result->rank(), "iota_dimension", error);
}

// operand, then a size for each dimension of the result.
bool DynamicReshape(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& from = instruction.operands[0]->shape;
  *result = instruction.shape;
  if (!result->IsArray() || instruction.operands.size() != result->dims.size() + 1) {
    *error = absl::StrCat("dynamic-reshape to ", ToString(*result, false),
                          " takes a size for each "
                          "dimension, not ",
                          instruction.operands.size() - 1);
    return false;
  }
  for (size_t i = 1; i < instruction.operands.size(); ++i) {
    const Shape& size = instruction.operands[i]->shape;
    if (size.IsScalar() && IsInteger(size.type)) continue;
    *error = absl::StrCat(OperandText(instruction, static_cast<int64_t>(i)),
                          " must be the size of dimension ", i - 1);
    return false;
  }
  result->type = from.type;
  if (from.ElementCount() == result->ElementCount()) return true;
  *error = absl::StrCat(OperandText(instruction, 0), " has ", from.ElementCount(),
                        " elements, the result ", ToString(instruction.shape, false), " has ",
                        result->ElementCount());
  return false;
}

}  // namespace

bool Movement(const Instruction& instruction, Shape* result, std::string* error) {
  if (instruction.op != Op::kBitcast && instruction.op != Op::kCopy &&
      !instruction.operands.empty() && !instruction.operands[0]->shape.IsArray()) {
    *error = absl::StrCat(OperandText(instruction, 0), " of ", OpName(instruction.op),
                          " must be an array");
    return false;
  }
  switch (instruction.op) {
    case Op::kBroadcast:
      return Broadcast(instruction, result, error);
    case Op::kReshape:
      return Reshape(instruction, result, error);
    case Op::kBitcast:
      return Bitcast(instruction, result, error);
    case Op::kTranspose:
      return Transpose(instruction, result, error);
    case Op::kSlice:
      return Slice(instruction, result, error);
    case Op::kConcatenate:
      return Concatenate(instruction, result, error);
    case Op::kPad:
      return Pad(instruction, result, error);
    case Op::kIota:
      return Iota(instruction, result, error);
    case Op::kDynamicReshape:
      return DynamicReshape(instruction, result, error);
    case Op::kCopy:
      *result = instruction.operands[0]->shape;
      result->layout.reset();
      return true;
    case Op::kReverse:
      *result = instruction.operands[0]->shape;
      result->layout.reset();
      return CheckDimensions(instruction.IntsAttr(AttrId::kDimensions), result->rank(),
                             "dimensions of reverse", error);
    default:
      *result = instruction.shape;
      return true;
  }
}

}  // namespace tpuc::shape_rules
