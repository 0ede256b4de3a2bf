// Check values of the oracle README, "Generated inputs".
#include "src/eval/inputs.h"

#include "gtest/gtest.h"
#include "src/num/convert.h"

namespace tpuc {
namespace {

TEST(Inputs, CheckValues) {
  const Literal f = GenerateInput(Shape::Array(Type::kF32, {4}), 0, 0);
  EXPECT_EQ(f.data<float>()[0], 0.7666215896606445f);
  EXPECT_EQ(f.data<float>()[1], 0.13312304019927979f);
  EXPECT_EQ(f.data<float>()[2], 0.1823793649673462f);
  EXPECT_EQ(f.data<float>()[3], -0.773099422454834f);
  const Literal s = GenerateInput(Shape::Array(Type::kS32, {2, 2}), 0, 0);
  const int32_t want[] = {1, 4, 6, -4};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(s.data<int32_t>()[i], want[i]);
  const Literal g = GenerateInput(Shape::Array(Type::kF32, {2, 3}), 1, 0);
  EXPECT_EQ(g.data<float>()[5], -0.43412721157073975f);
}

TEST(Inputs, TypesFollowTheDraw) {
  const Literal f = GenerateInput(Shape::Array(Type::kF32, {3000}), 2, 5);
  const Literal b = GenerateInput(Shape::Array(Type::kBF16, {3000}), 2, 5);
  const Literal p = GenerateInput(Shape::Array(Type::kPred, {3000}), 2, 5);
  const Literal u = GenerateInput(Shape::Array(Type::kU8, {3000}), 2, 5);
  const Literal c = GenerateInput(Shape::Array(Type::kC64, {1500}), 2, 5);
  const Literal d = GenerateInput(Shape::Array(Type::kF64, {3000}), 2, 5);
  for (int i = 0; i < 3000; ++i) {
    const float x = f.data<float>()[i];
    ASSERT_TRUE(x >= -1 && x < 1);
    ASSERT_EQ(b.data<uint16_t>()[i], num::BF16FromF32(x));
    ASSERT_EQ(p.bytes()[i], x >= 0);  // both are the top bit of the draw
    ASSERT_LT(u.bytes()[i], 16);
    ASSERT_EQ(c.data<float>()[i], x);
    ASSERT_EQ(d.data<double>()[i], x);
  }
}

TEST(Inputs, EmptyAndTuple) {
  EXPECT_EQ(GenerateInput(Shape::Array(Type::kF32, {0, 4}), 0, 0).byte_size(), 0);
  const Shape pair = Shape::Tuple({Shape::Array(Type::kF32, {1}), Shape::Array(Type::kF32, {3})});
  const Literal t = GenerateInput(pair, 0, 0);
  ASSERT_EQ(t.elements().size(), 2u);
  EXPECT_EQ(t.elements()[1].data<float>()[2], -0.773099422454834f);
}

}  // namespace
}  // namespace tpuc
