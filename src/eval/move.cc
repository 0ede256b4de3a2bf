// Data movement (move.h): each operation says which view of which array it copies where.
#include "src/eval/move.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/dynamic.h"
#include "src/eval/strided.h"

namespace tpuc {
namespace {

const Dims& DimsOf(const Literal& x) { return x.shape().dims; }
View Whole(const Literal& x) { return {0, RowMajorStrides(DimsOf(x))}; }
int64_t Width(const Literal& x) { return LiteralBytesOf(x.shape().type); }

void CopyTo(const Literal& a, const View& view, Literal* out) {
  CopyStrided(DimsOf(*out), a.bytes(), view, out->bytes(), Whole(*out), Width(a));
}

// Operand dimension i becomes result dimension dimensions[i]; the others repeat.
void Broadcast(const Literal& a, const Ints& dimensions, Literal* out) {
  const Dims strides = RowMajorStrides(DimsOf(a));
  View view{0, Dims(DimsOf(*out).size(), 0)};
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (DimsOf(a)[i] != 1) view.strides[dimensions[i]] = strides[i];
  }
  CopyTo(a, view, out);
}

// Result dimension i is operand dimension dimensions[i].
void Transpose(const Literal& a, const Ints& dimensions, Literal* out) {
  const Dims strides = RowMajorStrides(DimsOf(a));
  View view;
  for (int64_t d : dimensions) view.strides.push_back(strides[d]);
  CopyTo(a, view, out);
}

void Reverse(const Literal& a, const Ints& dimensions, Literal* out) {
  View view = Whole(a);
  for (int64_t d : dimensions) {
    view.offset += (DimsOf(a)[d] - 1) * view.strides[d];
    view.strides[d] = -view.strides[d];
  }
  CopyTo(a, view, out);
}

void Slice(const Literal& a, const std::vector<SliceDim>& slices, Literal* out) {
  View view = Whole(a);
  for (size_t d = 0; d < slices.size(); ++d) {
    view.offset += slices[d].start * view.strides[d];
    view.strides[d] *= slices[d].stride;
  }
  CopyTo(a, view, out);
}

void Concatenate(absl::Span<const Literal* const> operands, int64_t dimension, Literal* out) {
  View to = Whole(*out);
  for (const Literal* a : operands) {
    CopyStrided(DimsOf(*a), a->bytes(), Whole(*a), out->bytes(), to, Width(*a));
    to.offset += DimsOf(*a)[dimension] * to.strides[dimension];
  }
}

// Element i of a dimension lands at low + i * (interior + 1); what falls outside is cropped.
void Pad(const Literal& a, const Literal& value, const std::vector<PadDim>& padding, Literal* out) {
  FillElements(value.bytes(), Width(a), out->size(), out->bytes());
  View from = Whole(a), to = Whole(*out);
  Dims dims = DimsOf(a);
  for (size_t d = 0; d < padding.size(); ++d) {
    const int64_t step = padding[d].interior + 1, low = padding[d].low;
    const int64_t size = DimsOf(*out)[d];
    const int64_t first = low < 0 ? (-low + step - 1) / step : 0;
    const int64_t end = low >= size ? 0 : std::min(dims[d], (size - 1 - low) / step + 1);
    dims[d] = std::max<int64_t>(0, end - first);
    from.offset += first * from.strides[d];
    to.offset += (low + first * step) * to.strides[d];
    to.strides[d] *= step;
  }
  CopyStrided(dims, a.bytes(), from, out->bytes(), to, Width(a));
}

// View of an array as its layout orders it in memory: dimensions major to minor.
struct Physical {
  Dims dims;
  View view;
};
Physical PhysicalOf(const Literal& x, const std::optional<Layout>& written) {
  const Dims strides = RowMajorStrides(DimsOf(x));
  Physical physical;
  const Layout layout = written.value_or(DefaultLayout(x.shape().rank()));
  for (size_t i = layout.minor_to_major.size(); i-- > 0;) {
    const int64_t d = layout.minor_to_major[i];
    physical.dims.push_back(DimsOf(x)[d]);
    physical.view.strides.push_back(strides[d]);
  }
  return physical;
}

// The same bytes in memory under another layout. Literals are row major, so each side is put into
// its physical order; tiles do not change which element is which.
void Bitcast(const Literal& a, const std::optional<Layout>& layout, Literal* out) {
  const Physical from = PhysicalOf(a, layout), to = PhysicalOf(*out, out->shape().layout);
  std::vector<uint8_t> memory(a.byte_size());
  CopyStrided(from.dims, a.bytes(), from.view, memory.data(), {0, RowMajorStrides(from.dims)},
              Width(a));
  CopyStrided(to.dims, memory.data(), {0, RowMajorStrides(to.dims)}, out->bytes(), to.view,
              Width(*out));
}

}  // namespace

bool EvalBitcast(const Literal& a, const std::optional<Layout>& layout, Literal* out,
                 std::string* error) {
  if (Width(a) != Width(*out) || a.size() != out->size()) {
    *error = "bitcast between types of different width";
    return false;
  }
  Bitcast(a, layout, out);
  return true;
}

bool EvalResize(Op op, const Literal& a, Literal* out, std::string*) {
  if (op == Op::kSetDimensionSize) {
    *out = Resized(a, out->shape());
  } else {  // row-major order, as far as it goes
    const int64_t bytes = std::min(a.byte_size(), out->byte_size());
    if (bytes > 0) std::memcpy(out->bytes(), a.bytes(), bytes);
  }
  return true;
}

bool EvalIota(int64_t dimension, Literal* out, std::string* error) {
  const Type type = out->shape().type;
  const Dims& dims = DimsOf(*out);
  const int64_t n = dims[dimension];
  std::vector<uint8_t> line(n * LiteralBytesOf(type));
  const bool typed = VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) {
      const T value = static_cast<T>(i);
      Narrow(type, &value, 1, line.data(), i);
    }
  });
  if (!typed) {
    *error = absl::StrCat("iota of ", TypeName(type));
    return false;
  }
  View view{0, Dims(dims.size(), 0)};
  view.strides[dimension] = 1;
  CopyStrided(dims, line.data(), view, out->bytes(), Whole(*out), LiteralBytesOf(type));
  return true;
}

bool EvalMove(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
              Literal* out, std::string* error) {
  const Literal& a = *operands[0];
  if (out->size() == 0) return true;
  switch (op) {
    case Op::kCopy:
    case Op::kReshape:
      if (a.byte_size() != out->byte_size()) {
        *error = absl::StrCat(OpName(op), " between types of different width");
        return false;
      }
      std::memcpy(out->bytes(), a.bytes(), a.byte_size());
      return true;
    case Op::kBitcast:
      return EvalBitcast(a, a.shape().layout, out, error);
    case Op::kBroadcast:
      Broadcast(a, IntsOf(attrs, AttrId::kDimensions), out);
      return true;
    case Op::kTranspose:
      Transpose(a, IntsOf(attrs, AttrId::kDimensions), out);
      return true;
    case Op::kReverse:
      Reverse(a, IntsOf(attrs, AttrId::kDimensions), out);
      return true;
    case Op::kSlice:
      Slice(a, *FindAttr<std::vector<SliceDim>>(attrs, AttrId::kSlice), out);
      return true;
    case Op::kConcatenate:
      Concatenate(operands, IntsOf(attrs, AttrId::kDimensions)[0], out);
      return true;
    case Op::kPad:
      Pad(a, *operands[1], *FindAttr<std::vector<PadDim>>(attrs, AttrId::kPadding), out);
      return true;
    default:
      *error = std::string(OpName(op));
      return false;
  }
}

}  // namespace tpuc
