// See layout.h.
#include "backend/lower/layout.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "src/ir/tiling.h"

namespace tpuc::lower {

int64_t TileUnit(VLayout layout, int d) {
  if (layout.dense() && d == layout.lane) return kSublanes * kLanes;
  if (d == layout.lane) return kLanes;
  if (d == layout.sub) return kSublanes;
  return 1;
}

int64_t TileExtent(const Dims& dims, VLayout layout, int d) {
  return CeilDiv(dims[d], TileUnit(layout, d));
}

int64_t TileCount(const Dims& dims, VLayout layout) {
  int64_t n = 1;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) n *= TileExtent(dims, layout, d);
  return n;
}

bool Serves(VLayout have, VLayout want, const Dims& dims) {
  if (have == want) return true;
  if (have.dense() || want.dense()) return false;
  auto axis = [&](int h, int w) {
    return h == w || (h < 0 && (w < 0 || dims[w] == 1)) ||
           (h >= 0 && w >= 0 && dims[h] == 1 && dims[w] == 1);
  };
  // A dimension that `have` leads must not be one that `want` spreads, unless it has size 1.
  return axis(have.sub, want.sub) && axis(have.lane, want.lane);
}

std::optional<Coord> Div(Coord a, int64_t n) {
  if (a.is_const()) return Coord::Const(a.c / n);
  if (a.scale % n != 0) return std::nullopt;
  a.scale /= static_cast<int32_t>(n);
  a.c = a.c / n;
  return a;
}

int64_t MemForm::GroupRow(int64_t i, int64_t j) const {
  if (flat) return i * kSublanes / packing;
  if (tile_sub < kSublanes) return (i * (kSublanes / tile_sub) * lane_tiles + j) * tile_rows;
  int64_t groups = tile_sub / kSublanes;
  return ((i / groups) * lane_tiles + j) * tile_rows + (i % groups) * (kSublanes / packing);
}

namespace {

bool SetTile(const Layout& layout, int bits, MemForm* form, std::string* why) {
  form->packing = bits < 32 ? 32 / bits : 1;
  const bool nibbles = form->packing == PackedElements(form->type) &&
                       (layout.element_bits == bits || layout.tiles.empty());
  if (bits > 32 || (bits < 8 && !nibbles)) {
    *why = absl::StrCat("elements of ", bits, " bits");
    return false;
  }
  if (layout.element_bits != 0 && layout.element_bits != bits) {
    *why = absl::StrCat("elements stored in ", layout.element_bits, " bits");
    return false;
  }
  return true;
}

// Rank 0 and 1: in order, but that narrow types have rows of 128 side by side in their words.
bool InOrder(const Layout& layout, int packing) {
  size_t n = layout.tiles.size();
  if (packing > 1 && n > 0) {
    if (n < 2 || layout.tiles[n - 1].dims != Dims{packing, 1}) return false;
    if (layout.tiles[n - 2].dims != Dims{kLanes}) return false;
    n -= 2;
  }
  for (size_t i = 0; i < n; ++i) {
    if (layout.tiles[i].dims.size() != 1) return false;
  }
  return true;
}

// Rank 0 and 1: one row per 128 * packing elements.
bool FlatForm(const Layout& layout, MemForm* form, std::string* why) {
  int64_t n = form->dims.empty() ? 1 : form->dims[0];
  int64_t tile = layout.tiles.empty() ? kLanes * form->packing : layout.tiles[0].dims.back();
  if (!InOrder(layout, form->packing)) {
    *why = absl::StrCat("layout ", ToString(layout), " of a ", 32 / form->packing, "-bit type");
    return false;
  }
  if (tile % (kLanes * form->packing) != 0 && form->packing > 1 && tile != kLanes) {
    *why = absl::StrCat("a rank-1 tile of ", tile);
    return false;
  }
  form->flat = true;
  form->lane = form->dims.empty() ? -1 : 0;
  int64_t unit = tile % (kLanes * form->packing) == 0 ? tile : kLanes * form->packing;
  form->rows = CeilDiv(n, unit) * (unit / (kLanes * form->packing));
  form->lane_tiles = CeilDiv(n, kLanes);
  form->tile_sub = form->packing;
  form->tile_rows = 1;
  return true;
}

}  // namespace

std::optional<MemForm> FormOf(const Shape& shape, const Dims& dims, std::string* why) {
  MemForm form;
  form.type = shape.type;
  form.dims = dims;
  form.stride.assign(dims.size(), 0);
  int rank = static_cast<int>(dims.size());
  int bits = BitsOf(shape.type);
  Layout layout = shape.layout ? *shape.layout : DefaultLayout(rank);
  if (layout.minor_to_major.size() != dims.size())
    layout.minor_to_major = DefaultLayout(rank).minor_to_major;
  if (!SetTile(layout, bits, &form, why)) return std::nullopt;
  if (rank < 2) {
    if (!FlatForm(layout, &form, why)) return std::nullopt;
    return form;
  }
  form.lane = static_cast<int>(layout.minor_to_major[0]);
  form.sub = static_cast<int>(layout.minor_to_major[1]);
  int64_t tile_sub = kSublanes;
  if (!layout.tiles.empty()) {
    const Dims& t = layout.tiles[0].dims;
    if (t.size() == 1 && t[0] == kLanes) {
      tile_sub = 1;
    } else if (t.size() != 2 || t[1] != kLanes) {
      *why = absl::StrCat("layout ", ToString(layout));
      return std::nullopt;
    } else {
      tile_sub = t[0];
    }
    const bool packed = layout.tiles.size() == 2 && layout.tiles[1].dims == Dims{form.packing, 1};
    if (form.packing > 1 ? !packed : layout.tiles.size() > 1) {
      *why = absl::StrCat("layout ", ToString(layout), " of a ", bits, "-bit type");
      return std::nullopt;
    }
  } else if (dims[form.sub] < kSublanes && form.packing == 1) {
    tile_sub = dims[form.sub] > 4 ? 8 : dims[form.sub] > 2 ? 4 : dims[form.sub];
  }
  form.sub_tiles = CeilDiv(dims[form.sub], tile_sub);
  form.lane_tiles = CeilDiv(dims[form.lane], kLanes);
  form.tile_sub = static_cast<int>(tile_sub);
  form.tile_rows = static_cast<int>(CeilDiv(tile_sub, form.packing));
  if (tile_sub <= 0 ||
      (tile_sub < kSublanes && form.sub_tiles > 1 && (tile_sub > 1 || form.packing > 1)) ||
      (tile_sub > kSublanes && tile_sub % kSublanes != 0)) {
    *why = absl::StrCat("layout ", ToString(layout));
    return std::nullopt;
  }
  int64_t rows = form.sub_tiles * form.lane_tiles * form.tile_rows;
  for (int k = 2; k < rank; ++k) {
    int d = static_cast<int>(layout.minor_to_major[k]);
    form.stride[d] = rows;
    rows *= dims[d];
    form.major.insert(form.major.begin(), d);
  }
  form.rows = rows;
  return form;
}

MemForm TemporaryForm(const Dims& dims, VLayout layout) {
  MemForm form;
  form.dims = dims;
  form.sub = layout.sub;
  form.lane = layout.lane;
  form.stride.assign(dims.size(), 0);
  form.flat = layout.dense();
  if (!layout.dense()) {
    if (layout.sub >= 0) form.sub_tiles = CeilDiv(dims[layout.sub], kSublanes);
    if (layout.lane >= 0) form.lane_tiles = CeilDiv(dims[layout.lane], kLanes);
  } else {
    form.lane_tiles = CeilDiv(dims[layout.lane], kSublanes * kLanes) * kSublanes;
    form.sub = -1;
  }
  int64_t rows = layout.dense() ? form.lane_tiles : form.sub_tiles * form.lane_tiles * kSublanes;
  for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
    if (d == layout.sub || d == layout.lane) continue;
    form.stride[d] = rows;
    rows *= dims[d];
    form.major.insert(form.major.begin(), d);
  }
  form.rows = rows;
  return form;
}

}  // namespace tpuc::lower
