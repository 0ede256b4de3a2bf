// Slices and gathers at computed places (index.h).
#include "src/eval/index.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

bool Contains(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// Indices beyond int64 are beyond every array.
int64_t IndexAt(const Literal& indices, int64_t i) {
  const int64_t value = ElementAsInt(indices.shape().type, indices.bytes(), i);
  const bool wrapped = indices.shape().type == Type::kU64 && value < 0;
  return wrapped ? std::numeric_limits<int64_t>::max() : value;
}

// The clamped start of a window of `sizes` in an array of `dims`, as an element offset.
int64_t ClampedStart(const Dims& dims, const Dims& sizes, absl::Span<const Literal* const> starts) {
  const Dims strides = RowMajorStrides(dims);
  int64_t offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool vector = starts.size() == 1 && starts[0]->shape().rank() == 1;
    const int64_t start =
        vector ? IndexAt(*starts[0], static_cast<int64_t>(d)) : IndexAt(*starts[d], 0);
    offset += std::clamp<int64_t>(start, 0, dims[d] - sizes[d]) * strides[d];
  }
  return offset;
}

// The runs within a window: dimensions that lie one behind the other in both merge.
void FindRuns(const Dims& dims, const Dims& array, const Dims& partner, Windows* windows) {
  Dims outer_dims, outer_array, outer_partner;
  windows->run = 1;
  bool open = true;  // the run may still grow
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    const bool first = windows->run == 1 && outer_dims.empty();
    if (open && first) {
      windows->run = dims[d];
      windows->array_stride = array[d];
      windows->partner_stride = partner[d];
    } else if (open && array[d] == windows->run * windows->array_stride &&
               partner[d] == windows->run * windows->partner_stride) {
      windows->run *= dims[d];
    } else {
      open = false;
      outer_dims.insert(outer_dims.begin(), dims[d]);
      outer_array.insert(outer_array.begin(), array[d]);
      outer_partner.insert(outer_partner.begin(), partner[d]);
    }
  }
  windows->run_array = StridedOffsets(outer_dims, outer_array);
  windows->run_partner = StridedOffsets(outer_dims, outer_partner);
}

}  // namespace

Windows FindWindows(const Dims& array, const Literal& indices, const Dims& partner,
                    const WindowNumbers& numbers, bool clamp) {
  const Dims array_strides = RowMajorStrides(array), partner_strides = RowMajorStrides(partner);
  Windows windows;
  Dims window_dims, window_array, window_partner, batch_dims, batch_partner;
  size_t next = 0;
  for (size_t d = 0; d < array.size(); ++d) {
    if (Contains(numbers.hidden, static_cast<int64_t>(d))) continue;
    window_dims.push_back(numbers.sizes[d]);
    window_array.push_back(array_strides[d]);
    window_partner.push_back(partner_strides[numbers.window_dims[next++]]);
  }
  FindRuns(window_dims, window_array, window_partner, &windows);
  for (size_t d = 0; d < partner.size(); ++d) {
    if (Contains(numbers.window_dims, static_cast<int64_t>(d))) continue;
    batch_dims.push_back(partner[d]);
    batch_partner.push_back(partner_strides[d]);
  }
  windows.partner = StridedOffsets(batch_dims, batch_partner);
  // The indices' own strides along the batch dimensions and along the index vector.
  const Dims& index_dims = indices.shape().dims;
  const Dims index_strides = RowMajorStrides(index_dims);
  Dims batch_index;
  for (int64_t d = 0; d < static_cast<int64_t>(index_dims.size()); ++d) {
    if (d != numbers.index_vector_dim) batch_index.push_back(index_strides[d]);
  }
  const int64_t component = numbers.index_vector_dim < static_cast<int64_t>(index_dims.size())
                                ? index_strides[numbers.index_vector_dim]
                                : 0;
  const std::vector<int64_t> vectors = StridedOffsets(batch_dims, batch_index);
  windows.array.reserve(vectors.size());
  // Batching dimensions add the batch index itself.
  Dims batch_array(batch_dims.size(), 0);
  for (size_t k = 0; k < numbers.array_batch.size(); ++k) {
    const int64_t d = numbers.index_batch[k];
    batch_array[d - (d > numbers.index_vector_dim ? 1 : 0)] = array_strides[numbers.array_batch[k]];
  }
  const std::vector<int64_t> bases = StridedOffsets(batch_dims, batch_array);
  for (size_t w = 0; w < vectors.size(); ++w) {
    int64_t offset = bases[w];
    for (size_t k = 0; k < numbers.index_map.size() && offset >= 0; ++k) {
      const int64_t d = numbers.index_map[k], last = array[d] - numbers.sizes[d];
      int64_t start = IndexAt(indices, vectors[w] + static_cast<int64_t>(k) * component);
      if (clamp) start = std::clamp<int64_t>(start, 0, last);
      offset = start < 0 || start > last ? -1 : offset + start * array_strides[d];
    }
    windows.array.push_back(offset);
  }
  return windows;
}

bool EvalDynamicSlice(absl::Span<const Literal* const> operands, Literal* out, std::string*) {
  const Literal& a = *operands[0];
  View from{0, RowMajorStrides(a.shape().dims)};
  from.offset = ClampedStart(a.shape().dims, out->shape().dims, operands.subspan(1));
  CopyStrided(out->shape().dims, a.bytes(), from, out->bytes(),
              {0, RowMajorStrides(out->shape().dims)}, LiteralBytesOf(a.shape().type));
  return true;
}

bool EvalDynamicUpdateSlice(absl::Span<const Literal* const> operands, Literal* out, std::string*) {
  const Literal &a = *operands[0], &update = *operands[1];
  if (a.bytes() != out->bytes()) std::memcpy(out->bytes(), a.bytes(), a.byte_size());
  View to{0, RowMajorStrides(a.shape().dims)};
  to.offset = ClampedStart(a.shape().dims, update.shape().dims, operands.subspan(2));
  CopyStrided(update.shape().dims, update.bytes(), {0, RowMajorStrides(update.shape().dims)},
              out->bytes(), to, LiteralBytesOf(a.shape().type));
  return true;
}

bool EvalGather(const Literal& operand, const Literal& indices, absl::Span<const Attr> attrs,
                Literal* out, std::string*) {
  const Ints sizes = IntsOf(attrs, AttrId::kSliceSizes);
  const bool empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  if (operand.size() == 0 || empty) return true;  // slices of nothing: zeros
  WindowNumbers numbers;
  numbers.window_dims = IntsOf(attrs, AttrId::kOffsetDims);
  numbers.hidden = IntsOf(attrs, AttrId::kCollapsedSliceDims);
  numbers.array_batch = IntsOf(attrs, AttrId::kOperandBatchingDims);
  numbers.index_batch = IntsOf(attrs, AttrId::kStartIndicesBatchingDims);
  numbers.hidden.insert(numbers.hidden.end(), numbers.array_batch.begin(),
                        numbers.array_batch.end());
  numbers.index_map = IntsOf(attrs, AttrId::kStartIndexMap);
  numbers.index_vector_dim = IntOf(attrs, AttrId::kIndexVectorDim);
  numbers.sizes.assign(sizes.begin(), sizes.end());
  const Windows windows =
      FindWindows(operand.shape().dims, indices, out->shape().dims, numbers, /*clamp=*/true);
  VisitElementSize(LiteralBytesOf(operand.shape().type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = operand.data<T>();
    T* to = out->data<T>();
    const int64_t a = windows.array_stride, p = windows.partner_stride, n = windows.run;
    for (size_t w = 0; w < windows.array.size(); ++w) {
      for (size_t r = 0; r < windows.run_array.size(); ++r) {
        const T* x = from + windows.array[w] + windows.run_array[r];
        T* y = to + windows.partner[w] + windows.run_partner[r];
        if (a == 1 && p == 1) {
          std::memcpy(y, x, n * sizeof(T));
        } else {
          for (int64_t i = 0; i < n; ++i) y[i * p] = x[i * a];
        }
      }
    }
  });
  return true;
}

Literal TakeElements(const Literal& x, const int64_t* places, int64_t n) {
  Literal taken(Shape::Array(x.shape().type, {n}));
  VisitElementSize(LiteralBytesOf(x.shape().type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>();
    T* to = taken.data<T>();
    for (int64_t i = 0; i < n; ++i) to[i] = from[places[i]];
  });
  return taken;
}

void PutElements(const Literal& from, const int64_t* places, int64_t n, Literal* x) {
  VisitElementSize(LiteralBytesOf(x->shape().type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* values = from.data<T>();
    T* to = x->data<T>();
    for (int64_t i = 0; i < n; ++i) to[places[i]] = values[i];
  });
}

}  // namespace tpuc
