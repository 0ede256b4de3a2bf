// How a block value lies in vector registers, and how an array lies in VMEM.
//
//   f32[16,64] in registers {sub 0, lane 1}: 2 registers, one per 8 rows
//   f32[16]    {sub 0, lane -1}: 2 registers, row r in sublane r mod 8 of register r / 8, all lanes
//   f32[16]    {sub -1, lane 0}: 1 register, all sublanes alike
//   f32[3000]  {sub 0, lane 0}: dense, 1024 elements a register
//
// A register is named by tile coordinates, one per logical dimension: the index itself for a
// leading dimension, / 8 for the sublane dimension, / 128 for the lane dimension, / 1024 for a
// dense one.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "src/ir/shape.h"

namespace tpuc::lower {

constexpr int64_t kSublanes = 8, kLanes = 128;

struct VLayout {
  int8_t sub = -1, lane = -1;  // logical dimension along it; -1: replicated
  bool dense() const { return sub >= 0 && sub == lane; }
  bool operator==(const VLayout& o) const { return sub == o.sub && lane == o.lane; }
  bool operator!=(const VLayout& o) const { return !(*this == o); }
  template <typename H>
  friend H AbslHashValue(H h, const VLayout& l) {
    return H::combine(std::move(h), l.sub, l.lane);
  }
};

// Row-major: the last two dimensions; rank 1 along lanes, alike in all sublanes.
inline VLayout DefaultVLayout(int rank) {
  return {static_cast<int8_t>(rank - 2 < 0 ? -1 : rank - 2), static_cast<int8_t>(rank - 1)};
}

// Elements of dimension d that one register holds.
int64_t TileUnit(VLayout layout, int d);
// Registers along dimension d.
int64_t TileExtent(const Dims& dims, VLayout layout, int d);
int64_t TileCount(const Dims& dims, VLayout layout);

// A value that lies in `have` may be read as `want`: what is replicated serves a dimension of
// size 1.
bool Serves(VLayout have, VLayout want, const Dims& dims);

// One tile coordinate: counter(loop) * scale + c.
struct Coord {
  int16_t loop = -1;  // index into Lowering::loops; -1: none
  int32_t scale = 0;
  int64_t c = 0;
  static Coord Const(int64_t c) { return {-1, 0, c}; }
  bool is_const() const { return loop < 0; }
  bool operator==(const Coord& o) const { return loop == o.loop && scale == o.scale && c == o.c; }
  template <typename H>
  friend H AbslHashValue(H h, const Coord& x) {
    return H::combine(std::move(h), x.loop, x.scale, x.c);
  }
};
inline Coord operator+(Coord a, int64_t c) {
  a.c += c;
  return a;
}
inline Coord operator*(Coord a, int64_t n) {
  a.scale *= static_cast<int32_t>(n);
  a.c *= n;
  return a;
}
// a / n where the counter's part is a multiple of n; nullopt where it is not.
std::optional<Coord> Div(Coord a, int64_t n);
using Coords = absl::InlinedVector<Coord, 4>;

// An array (or a window of one) in VMEM, in rows of 512 bytes.
struct MemForm {
  Type type = Type::kF32;
  Dims dims;                // logical
  int sub = -1, lane = -1;  // logical dimensions of the tiles; rank 1: lane 0; rank 0: neither
  int packing = 1;          // elements in a 32-bit word
  int tile_sub = 8;         // logical rows of a tile (of 128 elements each)
  int tile_rows = 8;        // memory rows of a tile
  int64_t sub_tiles = 1, lane_tiles = 1;
  Dims stride;        // rows from one index of a leading dimension to the next; else 0
  Dims major;         // leading dimensions, most major first
  int64_t rows = 0;   // in all
  bool flat = false;  // rank 1: rows of 128 elements, one after another (packed in pairs ..)

  VLayout natural() const { return {static_cast<int8_t>(sub), static_cast<int8_t>(lane)}; }
  // First row of the 8-row group i and lane tile j within one leading index (tile_sub >= 8, or one
  // tile of rows). Rows of one group follow each other.
  int64_t GroupRow(int64_t i, int64_t j) const;
  // Row of logical row r of the sublane dimension in lane tile 0.
  int64_t RowOf(int64_t r) const {
    return (r / tile_sub) * lane_tiles * tile_rows + (r % tile_sub) / packing;
  }
};

// The form of `shape`'s layout for an array of dimensions `dims` (a block of it, or all of it).
// nullopt: a layout that lowering cannot read (the reason in *why).
std::optional<MemForm> FormOf(const Shape& shape, const Dims& dims, std::string* why);
// 32-bit words in the register layout, tiles row-major: what temporaries use.
MemForm TemporaryForm(const Dims& dims, VLayout layout);

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tpuc::lower
