// Shapes and layouts of HLO values (hlo-text.md sections 8 and 9).
//
//   f32[16,64]{1,0:T(8,128)S(1)}   an array: type, dimensions, layout
//   (f32[16], s32[])               a tuple
//
// Plain data. A shape without a layout means the default, row major, untiled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

namespace tpuc {

enum class Type : uint8_t {
#define TYPE(id, text, cls, bits) id,
#include "src/ir/types.def"
#undef TYPE
};
enum class TypeClass : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex, kOther };

absl::string_view TypeName(Type type);
std::optional<Type> TypeFromName(absl::string_view name);
TypeClass ClassOf(Type type);
int BitsOf(Type type);
// Bytes of one element in a Literal: bits rounded up to whole bytes.
int64_t LiteralBytesOf(Type type);
inline bool IsFloat(Type t) { return ClassOf(t) == TypeClass::kFloat; }
inline bool IsInteger(Type t) {
  return ClassOf(t) == TypeClass::kSigned || ClassOf(t) == TypeClass::kUnsigned;
}

using Dims = absl::InlinedVector<int64_t, 4>;

// One tile; a dimension of kCombine is printed '*' and merges with the next more minor one.
struct Tile {
  static constexpr int64_t kCombine = -1;
  Dims dims;
  bool operator==(const Tile& o) const { return dims == o.dims; }
};

struct SplitConfig {
  int64_t dimension;
  std::vector<int64_t> indices;
  bool operator==(const SplitConfig& o) const {
    return dimension == o.dimension && indices == o.indices;
  }
};

struct Layout {
  Dims minor_to_major;
  std::vector<Tile> tiles;
  int64_t memory_space = 0;           // 0 HBM, 1 VMEM, 2 sync flag, 5 host, 6 SMEM
  int64_t element_bits = 0;           // E(n); 0: the type's own
  int64_t tail_padding = 1;           // L(n), elements
  int64_t metadata_prefix_bytes = 0;  // M(n)
  std::optional<Type> index_type, pointer_type;
  std::vector<SplitConfig> splits;
  std::string level_types;  // D(...) kept as text
  bool operator==(const Layout& o) const;
};

enum class DimKind : uint8_t { kStatic, kBounded, kUnbounded };  // f32[<=8], f32[?]

struct Shape {
  Type type = Type::kTuple;
  bool is_buffer = false;  // b(f32[8]{0})
  Dims dims;
  absl::InlinedVector<DimKind, 4> dim_kinds;  // empty: all static
  std::optional<Layout> layout;
  std::vector<Shape> elements;  // of a tuple

  static Shape Array(Type type, Dims dims) {
    Shape s;
    s.type = type;
    s.dims = std::move(dims);
    return s;
  }
  static Shape Tuple(std::vector<Shape> elements) {
    Shape s;
    s.elements = std::move(elements);
    return s;
  }
  bool IsTuple() const { return type == Type::kTuple; }
  bool IsArray() const { return ClassOf(type) != TypeClass::kOther; }
  bool IsScalar() const { return IsArray() && dims.empty(); }
  int rank() const { return static_cast<int>(dims.size()); }
  bool is_dynamic() const;
  // Product of the dimensions (bounds for dynamic ones); saturates at INT64_MAX.
  int64_t ElementCount() const;
  // Bytes of the dense row-major literal; of a tuple, the sum. Saturates.
  int64_t LiteralBytes() const;
  // Leaves of a tuple in order; 1 for anything else.
  int64_t LeafCount() const;
  bool operator==(const Shape& o) const;  // everything, layout included
};

// Same tuple structure, element types and dimensions; layouts are ignored, a dynamic dimension
// counts by its bound (hlo-text.md section 8.3).
bool Compatible(const Shape& a, const Shape& b);
// Compatible, the element type of floats aside.
bool SameDims(const Shape& a, const Shape& b);

// Row-major: {rank-1, ..., 1, 0}, no tiles.
Layout DefaultLayout(int rank);

// Bytes that an array takes in a device memory under its layout (tile padding included). An array
// without tiles takes its dense size. This is what VMEM, HBM and DMA count.
int64_t DeviceBytes(const Shape& shape);

// HLO text: "f32[16,64]{1,0:T(8,128)}"; without layout "f32[16,64]".
std::string ToString(const Layout& layout);
std::string ToString(const Shape& shape, bool with_layout = true);
void AppendTo(const Shape& shape, bool with_layout, std::string* out);

}  // namespace tpuc
