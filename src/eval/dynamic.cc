// Actual shapes of instructions (dynamic.h).
#include "src/eval/dynamic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"
#include "src/ir/shape_inference.h"

namespace tpuc {
namespace {

// The written dimensions with the scalars' values where they are dynamic.
void TakeSizes(absl::Span<const Literal* const> sizes, Shape* shape) {
  for (size_t d = 0; d < shape->dims.size() && d < sizes.size(); ++d) {
    const int64_t size = ElementAsInt(sizes[d]->shape().type, sizes[d]->bytes(), 0);
    shape->dims[d] = std::clamp<int64_t>(size, 0, shape->dims[d]);
  }
}

// One dynamic dimension of a reshape follows from the number of elements.
bool Reshape(const Shape& operand, Shape* shape, std::string* error) {
  int64_t known = 1, unknown = -1;
  for (int d = 0; d < shape->rank(); ++d) {
    const bool dynamic = !shape->dim_kinds.empty() && shape->dim_kinds[d] != DimKind::kStatic;
    if (dynamic && unknown >= 0) {
      *error = absl::StrCat("a reshape to several dynamic dimensions, ", ToString(*shape, false));
      return false;
    }
    if (dynamic) {
      unknown = d;
    } else {
      known *= shape->dims[d];
    }
  }
  if (unknown >= 0 && known > 0) shape->dims[unknown] = operand.ElementCount() / known;
  if (shape->ElementCount() == operand.ElementCount()) return true;
  *error = absl::StrCat("a reshape of ", ToString(operand, false), " to ", ToString(*shape, false));
  return false;
}

}  // namespace

bool ActualShape(const Instruction& in, absl::Span<const Literal* const> operands, Shape* shape,
                 std::string* error) {
  *shape = in.shape;
  const Shape* first = operands.empty() ? nullptr : &operands[0]->shape();
  switch (in.op) {
    case Op::kSetDimensionSize: {
      const int64_t d = in.IntsAttr(AttrId::kDimensions)[0];
      const int64_t bound = in.operands[0]->shape.dims[d];
      const int64_t size = ElementAsInt(operands[1]->shape().type, operands[1]->bytes(), 0);
      *shape = *first;
      shape->dims[d] = std::clamp<int64_t>(size, 0, bound);
      break;
    }
    case Op::kDynamicReshape:
      TakeSizes(operands.subspan(1), shape);
      break;
    case Op::kReshape:
      if (!Reshape(*first, shape, error)) return false;
      break;
    case Op::kBroadcast: {
      const Ints& dimensions = in.IntsAttr(AttrId::kDimensions);
      for (size_t i = 0; i < dimensions.size(); ++i) {
        const bool repeats = first->dims[i] == 1 && in.operands[0]->shape.dims[i] == 1;
        if (!repeats) shape->dims[dimensions[i]] = first->dims[i];
      }
      break;
    }
    case Op::kGetDimensionSize:
    case Op::kIota:
      break;
    default: {
      Instruction copy;
      std::vector<Instruction> values(operands.size());
      copy.op = in.op;
      copy.shape = in.shape;
      copy.attrs = in.attrs;
      for (size_t i = 0; i < operands.size(); ++i) {
        values[i].name = in.operands[i]->name;
        values[i].op = Op::kParameter;
        values[i].shape = operands[i]->shape();
        values[i].shape.dim_kinds.clear();
        copy.operands.push_back(&values[i]);
      }
      if (!InferShape(copy, shape, error)) return false;
    }
  }
  shape->dim_kinds.clear();
  for (Shape& element : shape->elements) element.dim_kinds.clear();
  return true;
}

Literal Resized(const Literal& x, const Shape& shape) {
  Literal out(shape);
  Dims dims = shape.dims;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = std::min(dims[d], x.shape().dims[d]);
  CopyStrided(dims, x.bytes(), {0, RowMajorStrides(x.shape().dims)}, out.bytes(),
              {0, RowMajorStrides(shape.dims)}, LiteralBytesOf(shape.type));
  return out;
}

}  // namespace tpuc
