// Tiles by type and shape, and free reshapes (tiling_rule.h). A reshape is compared group by group:
// runs of dimensions of equal product, such as [4,6|5] and [24|5], whose offsets add up apart.
#include "passes/tiling_rule.h"

#include <algorithm>

#include "src/ir/tiling.h"

namespace tpuc {
namespace {

// Larger groups are not compared: the reshape is then taken to move bytes.
constexpr int64_t kMaxGroup = int64_t{1} << 24;

int64_t RowsOfTile(int64_t rows, int packed) {
  for (int64_t tile : {1, 2, 4}) {
    if (tile >= packed && rows <= tile) return tile;
  }
  return std::max<int64_t>(8, packed);
}

// Small enough for tables of offsets.
bool Comparable(const Shape& s) {
  for (int64_t d : s.dims) {
    if (d > kMaxGroup) return false;
  }
  return true;
}

// Offsets (in padded elements) of the elements of dimensions [first, last), row major.
std::vector<int64_t> GroupOffsets(const TiledOffsets& offsets, size_t first, size_t last) {
  std::vector<int64_t> all = {0};
  for (size_t d = first; d < last; ++d) {
    std::vector<int64_t> next;
    next.reserve(all.size() * offsets.offset[d].size());
    for (int64_t base : all) {
      for (int64_t o : offsets.offset[d]) next.push_back(base + o);
    }
    all = std::move(next);
  }
  return all;
}

}  // namespace

Layout TiledLayout(Type type, const Dims& dims, const Order& order) {
  Layout layout;
  layout.minor_to_major = order;
  int packed = PackedElements(type);
  if (packed == 8) layout.element_bits = 4;
  if (dims.size() < 2) {
    layout.tiles.push_back({{128 * packed}});
    if (packed > 1) layout.tiles.push_back({{128}});
  } else {
    layout.tiles.push_back({{RowsOfTile(dims[order[1]], packed), 128}});
  }
  if (packed > 1) layout.tiles.push_back({{packed, 1}});
  return layout;
}

Order RowMajor(int rank) { return DefaultLayout(rank).minor_to_major; }

Order SmallerOrder(Type type, const Dims& dims) {
  Order row_major = RowMajor(static_cast<int>(dims.size()));
  if (dims.size() < 2) return row_major;
  Order swapped = row_major;
  std::swap(swapped[0], swapped[1]);
  Shape a = Shape::Array(type, dims), b = a;
  a.layout = TiledLayout(type, dims, row_major);
  b.layout = TiledLayout(type, dims, swapped);
  return DeviceBytes(b) < DeviceBytes(a) ? swapped : row_major;
}

bool TransposeIsBitcast(const Shape& from, const Shape& to,
                        const std::vector<int64_t>& permutation) {
  if (from.type != to.type || DeviceBytes(to) > DeviceBytes(from)) return false;
  if (from.ElementCount() == 0) return true;
  if (!Comparable(from)) return false;
  TiledOffsets a = OffsetsOf(from), b = OffsetsOf(to);
  if (!a.separable || !b.separable) return false;
  for (size_t d = 0; d < permutation.size(); ++d) {
    if (a.offset[permutation[d]] != b.offset[d]) return false;
  }
  return true;
}

bool ReshapeIsBitcast(const Shape& from, const Shape& to) {
  if (from.type != to.type || DeviceBytes(to) > DeviceBytes(from)) return false;
  if (from.ElementCount() != to.ElementCount()) return false;
  if (from.ElementCount() == 0) return true;
  if (!Comparable(from) || !Comparable(to)) return false;
  TiledOffsets a = OffsetsOf(from), b = OffsetsOf(to);
  if (!a.separable || !b.separable) return false;
  size_t i = 0, j = 0;
  while (i < from.dims.size() || j < to.dims.size()) {
    size_t i0 = i, j0 = j;
    int64_t product_a = 1, product_b = 1;
    // At least one dimension of either side, then whichever lags.
    if (i < from.dims.size()) product_a *= from.dims[i++];
    if (j < to.dims.size()) product_b *= to.dims[j++];
    while (product_a != product_b) {
      if (product_a < product_b) {
        product_a *= from.dims[i++];
      } else {
        product_b *= to.dims[j++];
      }
    }
    if (product_a > kMaxGroup) return false;
    if (GroupOffsets(a, i0, i) != GroupOffsets(b, j0, j)) return false;
  }
  return true;
}

}  // namespace tpuc
