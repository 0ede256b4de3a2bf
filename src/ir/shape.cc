// Shapes: the type table, sizes, comparison and text (shape.h). Device sizes under tiles are in
// tiling.cc. Products saturate at INT64_MAX, so that no input text can overflow them.
#include "src/ir/shape.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace tpuc {
namespace {

struct TypeInfo {
  absl::string_view name;
  TypeClass type_class;
  int bits;
};

constexpr TypeInfo kTypes[] = {
#define TYPE(id, text, cls, bits) {text, TypeClass::cls, bits},
#include "src/ir/types.def"
#undef TYPE
};

const TypeInfo& InfoOf(Type type) { return kTypes[static_cast<size_t>(type)]; }

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::numeric_limits<int64_t>::max();
  return product;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::numeric_limits<int64_t>::max();
  return sum;
}

void AppendJoined(std::string* out, absl::Span<const int64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) absl::StrAppend(out, i ? "," : "", values[i]);
}

void AppendTile(std::string* out, const Tile& tile) {
  *out += '(';
  for (size_t i = 0; i < tile.dims.size(); ++i) {
    if (i) *out += ',';
    if (tile.dims[i] == Tile::kCombine) {
      *out += '*';
    } else {
      absl::StrAppend(out, tile.dims[i]);
    }
  }
  *out += ')';
}

void AppendLayout(std::string* out, const Layout& layout) {
  *out += '{';
  AppendJoined(out, layout.minor_to_major);
  size_t before = out->size();
  *out += ':';
  if (!layout.level_types.empty()) absl::StrAppend(out, "D(", layout.level_types, ")");
  if (!layout.tiles.empty()) {
    *out += 'T';
    for (const Tile& tile : layout.tiles) AppendTile(out, tile);
  }
  if (layout.tail_padding != 1) absl::StrAppend(out, "L(", layout.tail_padding, ")");
  if (layout.index_type) absl::StrAppend(out, "#(", TypeName(*layout.index_type), ")");
  if (layout.pointer_type) absl::StrAppend(out, "*(", TypeName(*layout.pointer_type), ")");
  if (layout.element_bits != 0) absl::StrAppend(out, "E(", layout.element_bits, ")");
  if (layout.memory_space != 0) absl::StrAppend(out, "S(", layout.memory_space, ")");
  if (!layout.splits.empty()) {
    *out += "SC";
    for (const SplitConfig& split : layout.splits) {
      absl::StrAppend(out, "(", split.dimension, ":");
      AppendJoined(out, split.indices);
      *out += ')';
    }
  }
  if (layout.metadata_prefix_bytes != 0) {
    absl::StrAppend(out, "M(", layout.metadata_prefix_bytes, ")");
  }
  if (out->size() == before + 1) out->pop_back();  // nothing after the ':'
  *out += '}';
}

void AppendShape(std::string* out, const Shape& shape, bool with_layout) {
  if (shape.IsTuple()) {
    *out += '(';
    for (size_t i = 0; i < shape.elements.size(); ++i) {
      if (i) *out += ", ";
      // XLA numbers every fifth element, for people.
      if (i && i % 5 == 0) absl::StrAppend(out, "/*index=", i, "*/");
      AppendShape(out, shape.elements[i], with_layout);
    }
    *out += ')';
    return;
  }
  if (shape.is_buffer) *out += "b(";
  absl::StrAppend(out, TypeName(shape.type), "[");
  for (int i = 0; i < shape.rank(); ++i) {
    if (i) *out += ',';
    DimKind kind = shape.dim_kinds.empty() ? DimKind::kStatic : shape.dim_kinds[i];
    if (kind == DimKind::kUnbounded) {
      *out += '?';
    } else {
      absl::StrAppend(out, kind == DimKind::kBounded ? "<=" : "", shape.dims[i]);
    }
  }
  *out += ']';
  if (with_layout && shape.layout && !(shape.dims.empty() && *shape.layout == DefaultLayout(0))) {
    AppendLayout(out, *shape.layout);
  }
  if (shape.is_buffer) *out += ')';
}

}  // namespace

absl::string_view TypeName(Type type) { return InfoOf(type).name; }
TypeClass ClassOf(Type type) { return InfoOf(type).type_class; }
int BitsOf(Type type) { return InfoOf(type).bits; }
int64_t LiteralBytesOf(Type type) { return (BitsOf(type) + 7) / 8; }

std::optional<Type> TypeFromName(absl::string_view name) {
  static const auto* by_name = [] {
    auto* map = new absl::flat_hash_map<absl::string_view, Type>;
    for (size_t i = 0; i < std::size(kTypes); ++i) (*map)[kTypes[i].name] = static_cast<Type>(i);
    map->erase(TypeName(Type::kTuple));
    (*map)["opaque_type"] = Type::kOpaque;
    return map;
  }();
  auto it = by_name->find(name);
  if (it == by_name->end()) return std::nullopt;
  return it->second;
}

bool Layout::operator==(const Layout& o) const {
  return minor_to_major == o.minor_to_major && tiles == o.tiles && memory_space == o.memory_space &&
         element_bits == o.element_bits && tail_padding == o.tail_padding &&
         metadata_prefix_bytes == o.metadata_prefix_bytes && index_type == o.index_type &&
         pointer_type == o.pointer_type && splits == o.splits && level_types == o.level_types;
}

bool Shape::is_dynamic() const {
  for (DimKind kind : dim_kinds) {
    if (kind != DimKind::kStatic) return true;
  }
  for (const Shape& element : elements) {
    if (element.is_dynamic()) return true;
  }
  return false;
}

int64_t Shape::ElementCount() const {
  int64_t count = 1;
  bool zero = false;
  for (int64_t dim : dims) {
    zero |= dim == 0;
    count = SaturatingMultiply(count, dim);
  }
  return zero ? 0 : count;
}

int64_t Shape::LiteralBytes() const {
  if (!IsTuple()) return SaturatingMultiply(ElementCount(), LiteralBytesOf(type));
  int64_t sum = 0;
  for (const Shape& element : elements) sum = SaturatingAdd(sum, element.LiteralBytes());
  return sum;
}

int64_t Shape::LeafCount() const {
  if (!IsTuple()) return 1;
  int64_t count = 0;
  for (const Shape& element : elements) count += element.LeafCount();
  return count;
}

bool Shape::operator==(const Shape& o) const {
  return type == o.type && is_buffer == o.is_buffer && dims == o.dims && dim_kinds == o.dim_kinds &&
         layout == o.layout && elements == o.elements;
}

bool Compatible(const Shape& a, const Shape& b) {
  if (a.type != b.type || a.is_buffer != b.is_buffer || a.dims != b.dims ||
      a.elements.size() != b.elements.size()) {
    return false;
  }
  for (size_t i = 0; i < a.elements.size(); ++i) {
    if (!Compatible(a.elements[i], b.elements[i])) return false;
  }
  return true;
}

bool SameDims(const Shape& a, const Shape& b) {
  if (a.IsTuple() || b.IsTuple()) {
    if (a.type != b.type || a.elements.size() != b.elements.size()) return false;
    for (size_t i = 0; i < a.elements.size(); ++i) {
      if (!SameDims(a.elements[i], b.elements[i])) return false;
    }
    return true;
  }
  return a.dims == b.dims && (a.type == b.type || (IsFloat(a.type) && IsFloat(b.type)));
}

Layout DefaultLayout(int rank) {
  Layout layout;
  for (int i = rank - 1; i >= 0; --i) layout.minor_to_major.push_back(i);
  return layout;
}

void AppendTo(const Shape& shape, bool with_layout, std::string* out) {
  AppendShape(out, shape, with_layout);
}

std::string ToString(const Layout& layout) {
  std::string out;
  AppendLayout(&out, layout);
  return out;
}

std::string ToString(const Shape& shape, bool with_layout) {
  std::string out;
  AppendShape(&out, shape, with_layout);
  return out;
}

}  // namespace tpuc
