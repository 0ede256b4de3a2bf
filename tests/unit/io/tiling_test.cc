// Device bytes of small arrays, written out by hand from XLA's tiling rule.
#include "src/ir/tiling.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tpuc {
namespace {

Tile T(Dims dims) { return Tile{std::move(dims)}; }

Shape Tiled(Type type, Dims dims, Dims minor_to_major, std::vector<Tile> tiles,
            int element_bits = 0) {
  Shape s = Shape::Array(type, std::move(dims));
  Layout layout;
  layout.minor_to_major = std::move(minor_to_major);
  layout.tiles.assign(tiles.begin(), tiles.end());
  layout.element_bits = element_bits;
  s.layout = layout;
  return s;
}

// 1, 2, 3, ... in the first byte of each element.
Literal Counting(Type type, Dims dims) {
  Literal l(Shape::Array(type, std::move(dims)));
  int64_t width = LiteralBytesOf(type);
  for (int64_t i = 0; i < l.size(); ++i) l.bytes()[i * width] = static_cast<uint8_t>(i + 1);
  return l;
}

// The first byte of each device element.
std::vector<int> Packed(Type type, Dims dims, const Shape& shape) {
  Literal l = Counting(type, std::move(dims));
  std::vector<uint8_t> bytes = PackToDevice(l, shape);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), DeviceBytes(shape));
  EXPECT_TRUE(UnpackFromDevice(bytes, shape).IdenticalTo(l));
  std::vector<int> out;
  for (size_t i = 0; i < bytes.size(); i += LiteralBytesOf(type)) out.push_back(bytes[i]);
  return out;
}

using Bytes = std::vector<int>;

TEST(Tiling, RowMajorAndColumnMajor) {
  EXPECT_EQ(Packed(Type::kF32, {2, 3}, Shape::Array(Type::kF32, {2, 3})),
            (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Packed(Type::kF32, {2, 3}, Tiled(Type::kF32, {2, 3}, {0, 1}, {})),
            (Bytes{1, 4, 2, 5, 3, 6}));
}

TEST(Tiling, PadsMinorDimension) {
  EXPECT_EQ(Packed(Type::kF32, {2, 3}, Tiled(Type::kF32, {2, 3}, {1, 0}, {T({2, 4})})),
            (Bytes{1, 2, 3, 0, 4, 5, 6, 0}));
}

TEST(Tiling, ColumnMajorTiles) {
  // Major to minor: columns (3), rows (2). Tile (2,2): columns 0-1, then column 2 and padding.
  EXPECT_EQ(Packed(Type::kF32, {2, 3}, Tiled(Type::kF32, {2, 3}, {0, 1}, {T({2, 2})})),
            (Bytes{1, 4, 2, 5, 3, 6, 0, 0}));
}

TEST(Tiling, TilesFollowEachOtherRowMajor) {
  // 3 x 3 in tiles of 2 x 2: four tiles.
  EXPECT_EQ(Packed(Type::kS32, {3, 3}, Tiled(Type::kS32, {3, 3}, {1, 0}, {T({2, 2})})),
            (Bytes{1, 2, 4, 5, 3, 0, 6, 0, 7, 8, 0, 0, 9, 0, 0, 0}));
}

TEST(Tiling, SubTilesPairRows) {
  // Tile (4,2), sub-tile (2,1): rows 0 and 1 of a lane are neighbours.
  EXPECT_EQ(Packed(Type::kBF16, {4, 2}, Tiled(Type::kBF16, {4, 2}, {1, 0}, {T({4, 2}), T({2, 1})})),
            (Bytes{1, 3, 2, 4, 5, 7, 6, 8}));
  EXPECT_EQ(Packed(Type::kS8, {4, 2}, Tiled(Type::kS8, {4, 2}, {1, 0}, {T({4, 2}), T({4, 1})})),
            (Bytes{1, 3, 5, 7, 2, 4, 6, 8}));
}

TEST(Tiling, MachineTilesOfBf16) {
  // bf16[16,128]{1,0:T(8,128)(2,1)}: word (row / 2, lane) holds rows 2i (low) and 2i + 1.
  Shape s = Tiled(Type::kBF16, {16, 128}, {1, 0}, {T({8, 128}), T({2, 1})});
  Literal l(Shape::Array(Type::kBF16, {16, 128}));
  std::iota(l.data<uint16_t>(), l.data<uint16_t>() + l.size(), 0);
  std::vector<uint8_t> bytes = PackToDevice(l, s);
  ASSERT_EQ(bytes.size(), 16u * 128 * 2);
  const uint16_t* device = reinterpret_cast<const uint16_t*>(bytes.data());
  for (int row = 0; row < 16; ++row) {
    for (int lane = 0; lane < 128; ++lane) {
      int at = row / 8 * 1024 + row % 8 / 2 * 256 + lane * 2 + row % 2;
      ASSERT_EQ(device[at], row * 128 + lane) << row << "," << lane;
    }
  }
}

TEST(Tiling, ScalarsAndVectors) {
  Bytes one(128, 0);
  one[0] = 1;
  EXPECT_EQ(Packed(Type::kF32, {}, Tiled(Type::kF32, {}, {}, {T({128})})), one);
  EXPECT_EQ(Packed(Type::kF32, {}, Shape::Array(Type::kF32, {})), (Bytes{1}));
  Bytes three(128, 0);
  three[0] = 1, three[1] = 2, three[2] = 3;
  EXPECT_EQ(Packed(Type::kF32, {3}, Tiled(Type::kF32, {3}, {0}, {T({128})})), three);
}

TEST(Tiling, SmallRowTiles) {
  for (int rows : {1, 2, 4}) {
    Shape s = Tiled(Type::kF32, {rows, 5}, {1, 0}, {T({rows, 128})});
    EXPECT_EQ(DeviceBytes(s), rows * 512);
    Bytes b = Packed(Type::kF32, {rows, 5}, s);
    EXPECT_EQ(b[128 * (rows - 1)], 5 * (rows - 1) + 1);
    EXPECT_EQ(b[128 * (rows - 1) + 5], 0);
  }
}

TEST(Tiling, HigherRanksTileTheLastTwo) {
  // [2,2,2] in layout {1,2,0}: dimension 1 is minor. Tile (2,2) holds one matrix, transposed.
  EXPECT_EQ(Packed(Type::kF32, {2, 2, 2}, Tiled(Type::kF32, {2, 2, 2}, {1, 2, 0}, {T({2, 2})})),
            (Bytes{1, 3, 2, 4, 5, 7, 6, 8}));
  Shape six = Tiled(Type::kF32, {2, 1, 2, 1, 2, 3}, {5, 4, 3, 2, 1, 0}, {T({2, 4})});
  EXPECT_EQ(Packed(Type::kF32, {2, 1, 2, 1, 2, 3}, six),
            (Bytes{1,  2,  3,  0, 4,  5,  6,  0, 7,  8,  9,  0, 10, 11, 12, 0,
                   13, 14, 15, 0, 16, 17, 18, 0, 19, 20, 21, 0, 22, 23, 24, 0}));
}

TEST(Tiling, CombinedDimension) {
  // T(*,4): both dimensions merge into 6, cut into fours.
  EXPECT_EQ(Packed(Type::kF32, {2, 3}, Tiled(Type::kF32, {2, 3}, {1, 0}, {T({Tile::kCombine, 4})})),
            (Bytes{1, 2, 3, 4, 5, 6, 0, 0}));
}

TEST(Tiling, FourBitElements) {
  Shape s = Tiled(Type::kS4, {4}, {0}, {}, 4);
  Literal l(Shape::Array(Type::kS4, {4}));
  int8_t values[] = {1, -2, 7, -8};
  std::copy(values, values + 4, l.data<int8_t>());
  std::vector<uint8_t> bytes = PackToDevice(l, s);
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0xe1, 0x87}));  // low bits first
  EXPECT_TRUE(UnpackFromDevice(bytes, s).IdenticalTo(l));
}

TEST(Tiling, Empty) {
  Shape s = Tiled(Type::kF32, {0, 5}, {1, 0}, {T({8, 128})});
  EXPECT_TRUE(PackToDevice(Literal(Shape::Array(Type::kF32, {0, 5})), s).empty());
}

}  // namespace
}  // namespace tpuc
