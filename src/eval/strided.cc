// Strided copies (strided.h). Dimensions that lie one behind the other in both views are merged,
// then the two innermost that matter are done in tiles, so that a transpose touches each cache
// line a few times only; the rest is a counter over the outer dimensions.
#include "src/eval/strided.h"

#include <algorithm>
#include <cstring>

namespace tpuc {
namespace {

struct Axis {
  int64_t size, from, to;  // strides in elements
};

// Outermost first; size-1 axes dropped, neighbours merged where both views allow it.
absl::InlinedVector<Axis, 6> Merge(const Dims& dims, const View& from, const View& to) {
  absl::InlinedVector<Axis, 6> axes;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const Axis axis{dims[d], from.strides[d], to.strides[d]};
    if (!axes.empty() && axes.back().from == axis.from * axis.size &&
        axes.back().to == axis.to * axis.size) {
      axes.back() = {axes.back().size * axis.size, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

template <typename T>
void CopyLine(const Axis& axis, const T* from, T* to) {
  if (axis.to == 1 && axis.from == 1) {
    std::memcpy(to, from, axis.size * sizeof(T));
  } else if (axis.to == 1 && axis.from == 0) {
    std::fill_n(to, axis.size, *from);
  } else {
    for (int64_t i = 0; i < axis.size; ++i) to[i * axis.to] = from[i * axis.from];
  }
}

// Rows of `inner` along `outer`, in tiles where the inner reads are far apart.
template <typename T>
void CopyPlane(const Axis& outer, const Axis& inner, const T* from, T* to) {
  constexpr int64_t kTile = 32;
  const bool far = std::abs(inner.from) > 8 && std::abs(outer.from) < std::abs(inner.from);
  if (!far) {
    for (int64_t i = 0; i < outer.size; ++i) {
      CopyLine(inner, from + i * outer.from, to + i * outer.to);
    }
    return;
  }
  for (int64_t i0 = 0; i0 < outer.size; i0 += kTile) {
    const int64_t i1 = std::min(outer.size, i0 + kTile);
    for (int64_t j0 = 0; j0 < inner.size; j0 += kTile) {
      const int64_t j1 = std::min(inner.size, j0 + kTile);
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j) {
          to[i * outer.to + j * inner.to] = from[i * outer.from + j * inner.from];
        }
      }
    }
  }
}

template <typename T>
void Copy(absl::InlinedVector<Axis, 6> axes, const T* from, T* to) {
  if (axes.empty()) {
    *to = *from;
    return;
  }
  const Axis inner = axes.back();
  axes.pop_back();
  // The tile's other side: the axis along which `from` is nearest.
  Axis outer{1, 0, 0};
  if (!axes.empty()) {
    const auto nearest =
        std::min_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
          const int64_t x = a.from == 0 ? INT64_MAX : std::abs(a.from);
          const int64_t y = b.from == 0 ? INT64_MAX : std::abs(b.from);
          return x < y;
        });
    const bool far = std::abs(inner.from) > 8;
    const auto chosen = far ? nearest : axes.end() - 1;
    outer = *chosen;
    axes.erase(chosen);
  }
  absl::InlinedVector<int64_t, 6> index(axes.size(), 0);
  while (true) {
    CopyPlane(outer, inner, from, to);
    size_t d = axes.size();
    while (d > 0) {
      --d;
      from += axes[d].from;
      to += axes[d].to;
      if (++index[d] < axes[d].size) break;
      from -= axes[d].from * axes[d].size;
      to -= axes[d].to * axes[d].size;
      index[d] = 0;
      if (d == 0) return;
    }
    if (axes.empty()) return;
  }
}

}  // namespace

Dims RowMajorStrides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

void CopyStrided(const Dims& dims, const uint8_t* from, const View& from_view, uint8_t* to,
                 const View& to_view, int64_t bytes) {
  for (int64_t size : dims) {
    if (size == 0) return;
  }
  const auto axes = Merge(dims, from_view, to_view);
  VisitElementSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Copy<T>(axes, reinterpret_cast<const T*>(from) + from_view.offset,
            reinterpret_cast<T*>(to) + to_view.offset);
  });
}

std::vector<int64_t> StridedOffsets(const Dims& dims, const Dims& strides) {
  std::vector<int64_t> offsets{0};
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * dims[d]);
    for (int64_t base : offsets) {
      for (int64_t i = 0; i < dims[d]; ++i) next.push_back(base + i * strides[d]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

std::vector<int64_t> IndexOffsets(const Dims& dims, const std::vector<int64_t>& chosen) {
  const Dims strides = RowMajorStrides(dims);
  Dims sizes, steps;
  for (int64_t d : chosen) {
    sizes.push_back(dims[d]);
    steps.push_back(strides[d]);
  }
  return StridedOffsets(sizes, steps);
}

void FillElements(const uint8_t* from, int64_t bytes, int64_t n, uint8_t* to) {
  CopyStrided({n}, from, View{0, {0}}, to, View{0, {1}}, bytes);
}

}  // namespace tpuc
