// ragged-dot and scaled-dot (contract.h), made of plain dots.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/contract.h"
#include "src/eval/elementwise.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

bool Contains(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// x[..., first : first + count, ...] along dimension d.
Literal SliceOf(const Literal& x, int64_t d, int64_t first, int64_t count) {
  Dims dims = x.shape().dims;
  dims[d] = count;
  View from{0, RowMajorStrides(x.shape().dims)};
  from.offset = first * from.strides[d];
  Literal slice(Shape::Array(x.shape().type, dims));
  CopyStrided(dims, x.bytes(), from, slice.bytes(), {0, RowMajorStrides(dims)},
              LiteralBytesOf(x.shape().type));
  return slice;
}

// The operand times its scales, in f32.
bool Scaled(const Literal& x, const Literal& scale, Literal* out, std::string* error) {
  const Dims &dims = x.shape().dims, &blocks = scale.shape().dims;
  *out = Literal(Shape::Array(Type::kF32, dims));
  if (!EvalConvert(x, out, error)) return false;
  Literal factors(Shape::Array(Type::kF32, blocks));
  if (!EvalConvert(scale, &factors, error)) return false;
  if (out->size() == 0) return true;
  // Element i of a dimension has block i / (size / blocks).
  const Dims strides = RowMajorStrides(blocks);
  Dims index(dims.size(), 0);
  for (int64_t i = 0; i < out->size(); ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < blocks.size(); ++d) at += index[d] / (dims[d] / blocks[d]) * strides[d];
    out->data<float>()[i] *= factors.data<float>()[at];
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
  return true;
}

}  // namespace

bool EvalScaledDot(absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                   const EvalOptions& options, Literal* out, std::string* error) {
  Literal lhs, rhs;
  if (!Scaled(*operands[0], *operands[2], &lhs, error) ||
      !Scaled(*operands[1], *operands[3], &rhs, error)) {
    return false;
  }
  return EvalDot(lhs, rhs, attrs, options, out, error);
}

bool EvalRaggedDot(absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                   const EvalOptions& options, Literal* out, std::string* error) {
  const Literal &lhs = *operands[0], &rhs = *operands[1], &sizes = *operands[2];
  const Ints batch = IntsOf(attrs, AttrId::kLhsBatchDims);
  const Ints contracting = IntsOf(attrs, AttrId::kLhsContractingDims);
  const int64_t ragged = IntsOf(attrs, AttrId::kLhsRaggedDims)[0];
  if (sizes.shape().rank() != 1) {
    *error = "ragged-dot with other group sizes in each batch";
    return false;
  }
  if (Contains(batch, ragged)) return EvalDot(lhs, rhs, attrs, options, out, error);
  const int64_t total = lhs.shape().dims[ragged];
  int64_t first = 0;
  for (int64_t g = 0; g < sizes.size(); ++g) {
    const int64_t wanted = ElementAsInt(sizes.shape().type, sizes.bytes(), g);
    const int64_t count = std::clamp<int64_t>(wanted, 0, total - first);
    const Literal part = SliceOf(lhs, ragged, first, count);
    const Dims out_strides = RowMajorStrides(out->shape().dims);
    Dims dims = out->shape().dims;
    View to{0, out_strides};
    Literal product, other;
    if (Contains(contracting, ragged)) {  // [group, batch, lhs free, rhs free]
      size_t k = std::find(contracting.begin(), contracting.end(), ragged) - contracting.begin();
      other = SliceOf(rhs, IntsOf(attrs, AttrId::kRhsContractingDims)[k], first, count);
      dims[0] = 1;
      to.offset = g * out_strides[0];
    } else {  // rhs has a group dimension; rows of this group go to their own place
      const int64_t group_dim = IntsOf(attrs, AttrId::kRhsGroupDims)[0];
      other = SliceOf(rhs, group_dim, g, 1);
      int64_t place = static_cast<int64_t>(batch.size());
      for (int64_t d = 0; d < ragged; ++d) {
        if (!Contains(batch, d) && !Contains(contracting, d)) ++place;
      }
      dims[place] = count;
      to.offset = first * out_strides[place];
    }
    // A group dimension of size 1 is a free dimension of rhs and changes no element's place.
    product = Literal(Shape::Array(out->shape().type, dims));
    if (!EvalDot(part, other, attrs, options, &product, error)) return false;
    CopyStrided(dims, product.bytes(), {0, RowMajorStrides(dims)}, out->bytes(), to,
                LiteralBytesOf(out->shape().type));
    first += count;
  }
  return true;
}

}  // namespace tpuc
