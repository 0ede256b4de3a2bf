// Tiled layouts (tiling.h). A tile cuts the minor dimensions of what is there so far into
// (tile count ..., tile ...), and a further tile does the same to the innermost tile. Every step
// acts on one dimension at a time, so an element's offset is a sum of one table per dimension;
// only '*' (merge with the next minor dimension) couples dimensions.
#include "src/ir/tiling.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/diag/check.h"

namespace tpuc {
namespace {

int64_t Multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::numeric_limits<int64_t>::max();
  return product;
}
int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

Layout LayoutOf(const Shape& shape) {
  return shape.layout ? *shape.layout : DefaultLayout(shape.rank());
}

// Dimensions from major to minor.
Dims PhysicalDims(const Shape& shape, const Layout& layout) {
  Dims dims;
  for (int i = static_cast<int>(layout.minor_to_major.size()) - 1; i >= 0; --i) {
    dims.push_back(shape.dims[layout.minor_to_major[i]]);
  }
  return dims;
}

// One tiling step on dimension sizes and, if given, on an index into them: merges '*' dimensions,
// then splits the minor ones. Missing major dimensions count as 1 (u32[]{:T(128)}).
void ApplyTile(const Tile& tile, Dims* dims, Dims* index) {
  while (dims->size() < tile.dims.size()) {
    dims->insert(dims->begin(), 1);
    if (index) index->insert(index->begin(), 0);
  }
  size_t first = dims->size() - tile.dims.size();
  Dims out(dims->begin(), dims->begin() + first), out_index, sizes, inner, inner_index;
  if (index) out_index.assign(index->begin(), index->begin() + first);
  int64_t merged = 1, merged_index = 0;
  for (size_t i = 0; i < tile.dims.size(); ++i) {
    merged = Multiply(merged, (*dims)[first + i]);
    if (index) merged_index = merged_index * (*dims)[first + i] + (*index)[first + i];
    if (tile.dims[i] == Tile::kCombine) {
      if (i + 1 < tile.dims.size()) continue;
      // A last '*' has no more minor dimension to merge with: it stays whole.
      inner.push_back(merged);
      if (index) inner_index.push_back(merged_index);
      out.push_back(1);
      if (index) out_index.push_back(0);
      continue;
    }
    int64_t size = std::max<int64_t>(tile.dims[i], 1);
    out.push_back(CeilDiv(merged, size));
    inner.push_back(size);
    if (index) {
      out_index.push_back(merged_index / size);
      inner_index.push_back(merged_index % size);
    }
    merged = 1;
    merged_index = 0;
  }
  out.insert(out.end(), inner.begin(), inner.end());
  if (index) out_index.insert(out_index.end(), inner_index.begin(), inner_index.end());
  *dims = std::move(out);
  if (index) *index = std::move(out_index);
}

int64_t PaddedElements(const Shape& shape, const Layout& layout) {
  if (shape.ElementCount() == 0) return 0;
  Dims dims = PhysicalDims(shape, layout);
  for (const Tile& tile : layout.tiles) ApplyTile(tile, &dims, nullptr);
  int64_t count = 1;
  for (int64_t dim : dims) count = Multiply(count, dim);
  if (layout.tail_padding > 1) {
    count = Multiply(CeilDiv(count, layout.tail_padding), layout.tail_padding);
  }
  return count;
}

int64_t OffsetOf(const Dims& physical_dims, const Layout& layout, Dims index) {
  Dims dims = physical_dims;
  for (const Tile& tile : layout.tiles) ApplyTile(tile, &dims, &index);
  int64_t offset = 0;
  for (size_t i = 0; i < dims.size(); ++i) offset = offset * dims[i] + index[i];
  return offset;
}

// Every dimension once, so that nothing above reads out of bounds.
bool LayoutFits(const Shape& shape, const Layout& layout) {
  if (static_cast<int>(layout.minor_to_major.size()) != shape.rank()) return false;
  absl::InlinedVector<bool, 8> seen(shape.rank(), false);
  for (int64_t dim : layout.minor_to_major) {
    if (dim < 0 || dim >= shape.rank() || seen[dim]) return false;
    seen[dim] = true;
  }
  return true;
}

// Bits of one element in device memory.
int64_t DeviceBits(const Shape& shape, const Layout& layout) {
  if (layout.element_bits > 0) return layout.element_bits;
  return LiteralBytesOf(shape.type) * 8;
}

// Calls f(row-major element number, device element number) for every element.
template <typename F>
void ForEachElement(const Shape& shape, F f) {
  int64_t count = shape.ElementCount();
  if (count == 0) return;
  Layout layout = LayoutOf(shape);
  TiledOffsets tables = OffsetsOf(shape);
  Dims index(shape.rank(), 0);
  if (!tables.separable) {
    Dims physical_dims = PhysicalDims(shape, layout);
    for (int64_t i = 0; i < count; ++i) {
      Dims physical;
      for (int d = shape.rank() - 1; d >= 0; --d) {
        physical.push_back(index[layout.minor_to_major[d]]);
      }
      f(i, OffsetOf(physical_dims, layout, std::move(physical)));
      for (int d = shape.rank() - 1; d >= 0 && ++index[d] == shape.dims[d]; --d) index[d] = 0;
    }
    return;
  }
  if (shape.rank() == 0) return f(0, 0);
  int last = shape.rank() - 1;
  const std::vector<int64_t>& minor = tables.offset[last];
  for (int64_t i = 0; i < count; i += shape.dims[last]) {
    int64_t base = 0;
    for (int d = 0; d < last; ++d) base += tables.offset[d][index[d]];
    for (int64_t j = 0; j < shape.dims[last]; ++j) f(i + j, base + minor[j]);
    for (int d = last - 1; d >= 0 && ++index[d] == shape.dims[d]; --d) index[d] = 0;
  }
}

}  // namespace

int64_t DeviceBytes(const Shape& shape) {
  if (shape.IsTuple()) {
    int64_t sum = 0;
    for (const Shape& element : shape.elements) {
      if (__builtin_add_overflow(sum, DeviceBytes(element), &sum)) {
        return std::numeric_limits<int64_t>::max();
      }
    }
    return sum;
  }
  if (!shape.IsArray()) return 0;
  Layout layout = LayoutOf(shape);
  if (!LayoutFits(shape, layout)) return shape.LiteralBytes();
  int64_t bits = Multiply(PaddedElements(shape, layout), DeviceBits(shape, layout));
  if (bits == std::numeric_limits<int64_t>::max()) return bits;
  int64_t bytes = CeilDiv(bits, 8);
  if (__builtin_add_overflow(bytes, layout.metadata_prefix_bytes, &bytes)) {
    return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

TiledOffsets OffsetsOf(const Shape& shape) {
  TiledOffsets out;
  Layout layout = LayoutOf(shape);
  CHECK(LayoutFits(shape, layout));
  out.elements = PaddedElements(shape, layout);
  for (const Tile& tile : layout.tiles) {
    for (int64_t dim : tile.dims) out.separable &= dim != Tile::kCombine;
  }
  if (!out.separable) return out;
  // One part of the device index: how far each index of one dimension moves along it.
  struct Part {
    int64_t dim, size;           // dim -1: a made dimension of size 1
    std::vector<int64_t> place;  // by index of the dimension
  };
  std::vector<Part> parts;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    int64_t dim = layout.minor_to_major[i];
    Part part{dim, shape.dims[dim], std::vector<int64_t>(shape.dims[dim])};
    for (int64_t k = 0; k < part.size; ++k) part.place[k] = k;
    parts.push_back(std::move(part));
  }
  for (const Tile& tile : layout.tiles) {
    while (parts.size() < tile.dims.size()) parts.insert(parts.begin(), Part{-1, 1, {}});
    size_t first = parts.size() - tile.dims.size();
    for (size_t i = 0; i < tile.dims.size(); ++i) {
      int64_t size = std::max<int64_t>(tile.dims[i], 1);
      Part& outer = parts[first + i];
      Part inner{outer.dim, size, outer.place};
      for (int64_t& place : inner.place) place %= size;
      for (int64_t& place : outer.place) place /= size;
      outer.size = CeilDiv(outer.size, size);
      parts.push_back(std::move(inner));
    }
  }
  out.offset.resize(shape.rank());
  for (int d = 0; d < shape.rank(); ++d) out.offset[d].assign(shape.dims[d], 0);
  int64_t stride = 1;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    for (size_t k = 0; k < part->place.size(); ++k) {
      out.offset[part->dim][k] += part->place[k] * stride;
    }
    stride = Multiply(stride, part->size);
  }
  return out;
}

int PackedElements(Type type) {
  const int bits = BitsOf(type);
  if (bits == 0 || bits >= 32) return 1;
  if (bits == 16) return 2;
  return bits == 4 && IsInteger(type) ? 8 : 4;
}

std::string LayoutProblem(const Shape& shape) {
  for (const Shape& element : shape.elements) {
    if (std::string problem = LayoutProblem(element); !problem.empty()) return problem;
  }
  if (!shape.layout) return "";
  const Layout& layout = *shape.layout;
  if (!LayoutFits(shape, layout)) {
    return absl::StrCat("the layout {", absl::StrJoin(layout.minor_to_major, ","), "} of ",
                        ToString(shape, false), " does not order its dimensions");
  }
  const int64_t bits = layout.element_bits;
  if (bits != 0 && (bits > 128 || (bits & (bits - 1)) != 0)) {
    return absl::StrCat("E(", bits, ") in the layout of ", ToString(shape, false),
                        " is no power of two up to 128");
  }
  return "";
}

std::vector<uint8_t> PackToDevice(const Literal& literal, const Shape& device_shape) {
  CHECK(!literal.elided() && literal.shape().dims == device_shape.dims &&
        literal.shape().type == device_shape.type);
  Layout layout = LayoutOf(device_shape);
  std::vector<uint8_t> out(DeviceBytes(device_shape));
  const uint8_t* from = literal.bytes();
  uint8_t* to = out.data() + layout.metadata_prefix_bytes;
  int64_t bits = DeviceBits(device_shape, layout);
  int64_t bytes = LiteralBytesOf(device_shape.type);
  if (bits < 8) {
    uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
    ForEachElement(device_shape, [&](int64_t i, int64_t o) {
      to[o * bits / 8] |= static_cast<uint8_t>((from[i] & mask) << (o * bits % 8));
    });
  } else if (bits == 32 && bytes == 4) {
    ForEachElement(device_shape,
                   [&](int64_t i, int64_t o) { memcpy(to + 4 * o, from + 4 * i, 4); });
  } else {
    int64_t stride = bits / 8;
    int64_t copied = std::min(stride, bytes);
    ForEachElement(device_shape, [&](int64_t i, int64_t o) {
      memcpy(to + stride * o, from + bytes * i, copied);
    });
  }
  return out;
}

Literal UnpackFromDevice(absl::Span<const uint8_t> bytes, const Shape& device_shape) {
  CHECK(static_cast<int64_t>(bytes.size()) >= DeviceBytes(device_shape));
  Layout layout = LayoutOf(device_shape);
  Literal literal(device_shape);
  const uint8_t* from = bytes.data() + layout.metadata_prefix_bytes;
  uint8_t* to = literal.bytes();
  int64_t bits = DeviceBits(device_shape, layout);
  int64_t width = LiteralBytesOf(device_shape.type);
  if (bits < 8) {
    uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
    bool is_signed = ClassOf(device_shape.type) == TypeClass::kSigned;
    ForEachElement(device_shape, [&](int64_t i, int64_t o) {
      uint8_t value = static_cast<uint8_t>(from[o * bits / 8] >> (o * bits % 8)) & mask;
      // Narrow signed values are held sign-extended, as their byte.
      if (is_signed && (value >> (bits - 1))) value |= static_cast<uint8_t>(~mask);
      to[i] = value;
    });
  } else {
    int64_t stride = bits / 8;
    int64_t copied = std::min(stride, width);
    ForEachElement(device_shape, [&](int64_t i, int64_t o) {
      memcpy(to + width * i, from + stride * o, copied);
    });
  }
  return literal;
}

}  // namespace tpuc
