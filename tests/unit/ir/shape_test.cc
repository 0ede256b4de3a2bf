// Shapes: text, sizes under tiles, comparison. Sizes are worked out by hand from the tile rule
// (hlo-text.md section 9), not by the code under test.
#include "src/ir/shape.h"

#include <limits>

#include "grammar/hlo/parser.h"
#include "gtest/gtest.h"
#include "src/ir/tiling.h"

namespace tpuc {
namespace {

Shape S(const char* text) {
  Shape shape;
  EXPECT_TRUE(ParseShapeText(text, &shape)) << text;
  return shape;
}

TEST(Shape, TextRoundTrips) {
  for (const char* text :
       {"f32[]", "f32[16,64]", "f32[16,64]{1,0:T(8,128)S(1)}", "bf16[2,3,4]{2,1,0:T(8,128)(2,1)}",
        "u32[]{:T(128)}", "s32[]{:S(6)}", "f32[<=8,?]{1,0}", "b(f32[8]{0})", "token[]",
        "(f32[2]{0}, (s32[], pred[3]{0:T(128)(4,1)}))", "()",
        "f32[5,6,7]{2,1,0:T(2,*,128)L(4)#(u8)*(u32)E(32)S(3)SC(1:2,4)M(64)}",
        "f32[10,10]{1,0:D(D,C+)}"}) {
    EXPECT_EQ(ToString(S(text)), text);
  }
  EXPECT_EQ(ToString(S("f32[16,64]{1,0:T(8,128)}"), false), "f32[16,64]");
  EXPECT_EQ(ToString(S("(s8[], s8[], s8[], s8[], s8[], s8[])")),
            "(s8[], s8[], s8[], s8[], s8[], /*index=5*/s8[])");
  Shape shape;
  for (const char* wrong : {"", "f32", "f32[2", "f32[2]]", "f32[-1]", "F32[2]", "f32[2]{}",
                            "f32[2]{0} "
                            "x",
                            "(f32[2]", "f32[2,3]{0}"}) {
    EXPECT_FALSE(ParseShapeText(wrong, &shape)) << wrong;
  }
}

TEST(Shape, DeviceBytes) {
  struct Row {
    const char* shape;
    int64_t bytes;
  };
  for (const Row& row : {
           Row{"f32[16,64]", 16 * 64 * 4},
           Row{"f32[16,64]{1,0:T(8,128)}", 16 * 128 * 4},
           Row{"f32[16,64]{0,1:T(8,128)}", 64 * 128 * 4},  // 64 rows of 16
           Row{"f32[1,1]{1,0:T(8,128)}", 8 * 128 * 4},
           Row{"f32[1,130]{1,0:T(1,128)}", 256 * 4},
           Row{"bf16[17,130]{1,0:T(8,128)(2,1)}", 24 * 256 * 2},
           Row{"bf16[2,17,130]{2,1,0:T(8,128)(2,1)}", 2 * 24 * 256 * 2},
           Row{"bf16[17,2,130]{2,0,1:T(8,128)(2,1)}", 2 * 24 * 256 * 2},
           Row{"u32[]{:T(128)}", 128 * 4},
           Row{"f32[100]{0:T(256)}", 256 * 4},
           Row{"s4[16,128]{1,0:T(8,128)E(4)}", 16 * 128 / 2},
           Row{"s4[16,128]", 16 * 128},
           Row{"pred[9,9]{1,0:T(8,128)(4,1)}", 16 * 128},
           Row{"f32[10]{0:L(8)}", 16 * 4},
           Row{"f32[10]{0:M(64)}", 40 + 64},
           Row{"f32[2,3,100]{2,1,0:T(8,*,128)}", 8 * 384 * 4},  // 3 x 100 merge to 300
           Row{"f32[0,4]{1,0:T(8,128)}", 0},
           Row{"token[]", 0},
           Row{"(f32[16,64]{1,0:T(8,128)}, s32[])", 16 * 128 * 4 + 4},
           Row{"c64[3]", 24},
       }) {
    EXPECT_EQ(DeviceBytes(S(row.shape)), row.bytes) << row.shape;
  }
}

TEST(Shape, SizesSaturate) {
  Shape shape = Shape::Array(Type::kF32, {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(shape.ElementCount(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(shape.LiteralBytes(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(DeviceBytes(shape), std::numeric_limits<int64_t>::max());
  shape.dims.push_back(0);
  EXPECT_EQ(shape.ElementCount(), 0);
}

TEST(Shape, Compatible) {
  EXPECT_TRUE(Compatible(S("f32[2,3]{0,1}"), S("f32[2,3]")));
  EXPECT_TRUE(Compatible(S("f32[<=2,3]"), S("f32[2,3]")));
  EXPECT_FALSE(Compatible(S("f32[2,3]"), S("bf16[2,3]")));
  EXPECT_FALSE(Compatible(S("f32[2,3]"), S("f32[3,2]")));
  EXPECT_FALSE(Compatible(S("(f32[2])"), S("f32[2]")));
  EXPECT_TRUE(SameDims(S("f32[2,3]"), S("bf16[2,3]")));
  EXPECT_FALSE(SameDims(S("f32[2,3]"), S("s32[2,3]")));
  EXPECT_FALSE(S("f32[2,3]{1,0}") == S("f32[2,3]"));
}

TEST(Shape, Counts) {
  EXPECT_EQ(S("((f32[2], s8[]), token[], ())").LeafCount(), 3);
  EXPECT_EQ(S("(f32[2], s4[3], pred[])").LiteralBytes(), 8 + 3 + 1);
  EXPECT_TRUE(S("(f32[2], f32[<=3])").is_dynamic());
  EXPECT_FALSE(S("f32[3]").is_dynamic());
}

// ---- bytes in device order ----

Literal Counting(const char* text) {
  Literal literal(S(text));
  for (int64_t i = 0; i < literal.size(); ++i) {
    if (literal.byte_size() == literal.size()) {
      literal.data<uint8_t>()[i] = static_cast<uint8_t>(i);
    } else if (literal.byte_size() == 2 * literal.size()) {
      literal.data<uint16_t>()[i] = static_cast<uint16_t>(i);
    } else {
      literal.data<uint32_t>()[i] = static_cast<uint32_t>(i);
    }
  }
  return literal;
}

TEST(Tiling, F32Tiles) {
  Literal literal = Counting("f32[20,300]{1,0:T(8,128)}");
  auto bytes = PackToDevice(literal, literal.shape());
  ASSERT_EQ(bytes.size(), 24u * 384 * 4);
  const auto* device = reinterpret_cast<const uint32_t*>(bytes.data());
  int64_t sum = 0;
  for (int64_t r = 0; r < 20; ++r) {
    for (int64_t c = 0; c < 300; ++c) {
      int64_t at = ((r / 8) * 3 + c / 128) * 1024 + (r % 8) * 128 + c % 128;
      ASSERT_EQ(device[at], r * 300 + c) << r << " " << c;
    }
  }
  for (size_t i = 0; i < bytes.size() / 4; ++i) sum += device[i];
  EXPECT_EQ(sum, int64_t{6000} * 5999 / 2);  // all padding is 0
  EXPECT_TRUE(UnpackFromDevice(bytes, literal.shape()).IdenticalTo(literal));
}

TEST(Tiling, PackedPairs) {
  // Column-major, so that the rows of the tiles are the logical dimension 1.
  Literal literal = Counting("bf16[130,10]{0,1:T(8,128)(2,1)}");
  auto bytes = PackToDevice(literal, literal.shape());
  const auto* device = reinterpret_cast<const uint16_t*>(bytes.data());
  for (int64_t c = 0; c < 130; ++c) {
    for (int64_t r = 0; r < 10; ++r) {
      int64_t at = ((r / 8) * 2 + c / 128) * 1024 + (r % 8) / 2 * 256 + (c % 128) * 2 + r % 2;
      ASSERT_EQ(device[at], c * 10 + r) << r << " " << c;
    }
  }
  EXPECT_TRUE(UnpackFromDevice(bytes, literal.shape()).IdenticalTo(literal));
}

TEST(Tiling, RoundTrips) {
  for (const char* text :
       {"f32[]", "u32[]{:T(128)}", "f32[3,5,7]{0,2,1}", "f32[3,5,7]{2,1,0:T(2,*,4)}",
        "u8[9,130]{1,0:T(8,128)(4,1)}", "f32[2,3,9,130]{3,2,1,0:T(8,128)}",
        "f32[0,3]{1,0:T(8,128)}", "f32[10]{0:L(8)M(32)}", "bf16[5,6]{1,0:T(4,8)(2,1)}", "c64[3]",
        "f64[5]{0:T(4)}"}) {
    Literal literal = Counting(text);
    auto bytes = PackToDevice(literal, literal.shape());
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), DeviceBytes(literal.shape())) << text;
    EXPECT_TRUE(UnpackFromDevice(bytes, literal.shape()).IdenticalTo(literal)) << text;
  }
}

TEST(Tiling, NarrowTypesPack) {
  Literal literal(S("s4[6]{0:E(4)}"));
  int8_t values[] = {-8, 7, 1, -1, 0, 3};
  memcpy(literal.bytes(), values, 6);
  auto bytes = PackToDevice(literal, literal.shape());
  ASSERT_EQ(bytes, (std::vector<uint8_t>{0x78, 0xf1, 0x30}));  // low half first
  EXPECT_TRUE(UnpackFromDevice(bytes, literal.shape()).IdenticalTo(literal));
}

}  // namespace
}  // namespace tpuc
