// rng-bit-generator against XLA's CPU backend (jax.lax.rng_bit_generator, JAX 0.10.2): new state,
// then bits.
#include "src/eval/random.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace tpuc {
namespace {

struct Row {
  const char* algorithm;
  std::vector<uint64_t> state;
  Type type;
  Dims dims;
  std::vector<uint64_t> want;
};

TEST(RngBitGenerator, AgreesWithXla) {
  const Row rows[] = {
      {"rng_three_fry",
       {42U, 7U},
       Type::kU32,
       {5},
       {42U, 10U, 2642642533U, 3437982737U, 356970675U, 1736384518U, 4222757798U}},
      {"rng_three_fry",
       {42U, 7U},
       Type::kU32,
       {3, 2},
       {42U, 10U, 2642642533U, 3437982737U, 356970675U, 1736384518U, 4222757798U, 1010817143U}},
      {"rng_three_fry",
       {1U, 2U},
       Type::kU64,
       {3},
       {1U, 5U, 0x802FD53B0296E954U, 0xDF435003ED3492D3U, 0xFCC0F26163B40BD3U}},
      {"rng_three_fry", {1U, 2U}, Type::kU8, {3}, {1U, 4U, 84U, 59U, 211U}},
      {"rng_philox",
       {42U, 7U},
       Type::kU32,
       {5},
       {42U, 9U, 1436477672U, 1015822685U, 1056814300U, 3113490754U, 1193696974U}},
      {"rng_philox",
       {3U, 0xFFFFFFFFFFFFFFFFU},
       Type::kU64,
       {3},
       {3U, 1U, 0x20A5704067533BA1U, 0x31BD04A6AD3553A2U, 0x8DAF6A4476F63D01U}},
      {"rng_default", {1U, 2U}, Type::kU16, {2, 2}, {1U, 3U, 42825U, 48104U, 9175U, 9433U}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.algorithm);
    Literal state(Shape::Array(Type::kU64, {2})), next(state.shape());
    Literal bits(Shape::Array(row.type, row.dims));
    std::memcpy(state.bytes(), row.state.data(), 16);
    std::string error;
    ASSERT_TRUE(EvalRngBitGenerator(state, row.algorithm, &next, &bits, &error)) << error;
    std::vector<uint64_t> got(next.data<uint64_t>(), next.data<uint64_t>() + 2);
    const int64_t bytes = LiteralBytesOf(row.type);
    for (int64_t i = 0; i < bits.size(); ++i) {
      uint64_t value = 0;
      std::memcpy(&value, bits.bytes() + i * bytes, bytes);
      got.push_back(value);
    }
    EXPECT_EQ(got, row.want);
  }
}

// A state of three words counts in 128 bits.
TEST(RngBitGenerator, CountersCarry) {
  Literal state(Shape::Array(Type::kU64, {3})), next(state.shape());
  Literal bits(Shape::Array(Type::kU32, {8}));
  state.data<uint64_t>()[1] = ~uint64_t{0};
  std::string error;
  ASSERT_TRUE(EvalRngBitGenerator(state, "rng_default", &next, &bits, &error)) << error;
  EXPECT_EQ(next.data<uint64_t>()[1], 1u);
  EXPECT_EQ(next.data<uint64_t>()[2], 1u);
  Literal one(Shape::Array(Type::kU32, {1}));
  EXPECT_FALSE(EvalRngBitGenerator(one, "rng_default", &one, &bits, &error));
  EXPECT_EQ(error, "rng-bit-generator of u32[8] from u32[1]");
  EXPECT_FALSE(EvalRngBitGenerator(state, "rng_three_fry", &next, &bits, &error));
  EXPECT_EQ(error, "Threefry with a state of other than 128 bits");
}

}  // namespace
}  // namespace tpuc
