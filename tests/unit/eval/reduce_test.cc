// The order of a reduce (src/eval/reduce_windows.cc). Expected values are XLA's on a CPU (jax
// 0.10.2, xla_allow_excess_precision=false): steps that round, initial values that are no identity,
// and a reducer to which the order of everything shows.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "src/eval/evaluator.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"
#include "tests/unit/eval/modules.h"

namespace tpuc {
namespace {

constexpr char kAdd[] = "ROOT r = T[] add(p, q)";
constexpr char kHorner[] = "c = T[] constant(3)  s = T[] multiply(p, c)  ROOT r = T[] add(s, q)";

// reduce of the parameter of entry; T in the body stands for the type.
std::unique_ptr<Module> Program(absl::string_view type, absl::string_view body, const Dims& dims,
                                const Ints& reduced, absl::string_view init) {
  Dims kept;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end()) {
      kept.push_back(dims[d]);
    }
  }
  const std::string text = absl::StrReplaceAll(
      absl::StrCat("HloModule m\nf { p = T[] parameter(0)  q = T[] parameter(1)\n  ", body,
                   " }\nENTRY e { x = T[", absl::StrJoin(dims, ","), "] parameter(0)\n",
                   "  n = T[] constant(", init, ")  ROOT r = T[", absl::StrJoin(kept, ","),
                   "] reduce(x, n), dimensions={", absl::StrJoin(reduced, ","),
                   "}, to_apply=f }\n"),
      {{"T[", absl::StrCat(type, "[")}});
  return Parse(text);
}

template <typename F>
Literal Filled(const Shape& shape, F&& f) {
  Literal literal(shape);
  VisitNumber(shape.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < literal.size(); ++i) {
      const T value = static_cast<T>(f(i));
      Narrow(shape.type, &value, 1, literal.bytes(), i);
    }
  });
  return literal;
}

Literal Reduced(const Module& module, Literal x, Numbers numbers = Numbers::kIeee) {
  DiagSink diags;
  std::vector<Literal> inputs;
  inputs.push_back(std::move(x));
  EvalOptions options;
  options.numbers = numbers;
  auto result = Evaluate(module, std::move(inputs), options, &diags);
  EXPECT_TRUE(result) << diags.Render();
  return *std::move(result);
}

double RealAt(const Literal& x, int64_t i) {
  double real = 0;
  VisitNumber(x.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value;
    Widen(x.shape().type, x.bytes(), i, 1, &value);
    if constexpr (kIsComplex<T>) {
      real = value.real();
    } else {
      real = static_cast<double>(value);
    }
  });
  return real;
}

// Zeros reduced from 1: how often the initial value enters, or what it makes of a reducer that is
// not associative.
TEST(ReduceOrder, InitialValueOfEachWindow) {
  constexpr char kDead[] = "m = T[] multiply(p, q)  ROOT r = T[] add(p, q)";
  constexpr char kPlusOne[] = "c = T[] constant(1)  s = T[] add(p, c)  ROOT r = T[] add(s, q)";
  constexpr char kSubtract[] = "ROOT r = T[] subtract(p, q)";
  constexpr char kReversed[] = "ROOT r = T[] subtract(q, p)";
  constexpr char kRight[] = "ROOT r = T[] copy(q)";
  struct Row {
    const char* body;
    std::vector<const char*> types;
    Dims dims;
    double want;
  };
  const std::vector<const char*> all{"s8",   "s32", "u32", "s64", "f16",
                                     "bf16", "f32", "f64", "c64", "f8e4m3fnuz"};
  const Row rows[] = {
      {kAdd, all, {20}, 1},
      {kAdd, all, {33}, 3},
      {kAdd, all, {65}, 4},
      {kAdd, all, {1, 65}, 4},
      {kAdd, all, {40, 40}, 5},
      {kDead, all, {65}, 4},
      {kDead, all, {3, 65}, 4},
      {kRight, all, {65}, 0},
      {kSubtract, all, {65}, -2},
      {kSubtract, all, {33}, -1},
      {kReversed, all, {33}, 3},
      {kReversed, all, {40, 40}, 1},
      {kAdd, {"s4"}, {65}, 4},
      {kAdd, {"s2"}, {33}, -1},
      {kDead, {"s2"}, {33}, -1},
      {kAdd, {"s2"}, {65}, 0},
      {kPlusOne, {"s4"}, {65}, -8},
      {kPlusOne, {"s8"}, {3, 65}, -54},
      {kPlusOne, {"s32", "f16", "f32", "f64"}, {3, 65}, 202},
      {kPlusOne, {"s32", "f16", "f32", "f64"}, {1025}, 1096},
      {kPlusOne, {"bf16"}, {1025}, 1064},
      {kPlusOne, {"f8e4m3fnuz"}, {65}, 52},
      // Of many f32 and f64, a library adds the initial value once.
      {kAdd, {"f32", "f64"}, {4095}, 133},
      {kAdd, {"f32", "f64"}, {4096}, 1},
      {kDead, {"f32", "f64"}, {2, 2048}, 1},
      {kAdd, {"c64"}, {4096}, 133},
      {kAdd, {"f16"}, {8192}, 265},
      {kPlusOne, {"f32"}, {8192}, 8721},
  };
  for (const Row& row : rows) {
    for (const char* type : row.types) {
      SCOPED_TRACE(absl::StrCat(type, "[", absl::StrJoin(row.dims, ","), "] ", row.body));
      Ints reduced;
      for (size_t d = 0; d < row.dims.size(); ++d) reduced.push_back(static_cast<int64_t>(d));
      const bool complex = type[0] == 'c';
      auto module = Program(type, row.body, row.dims, reduced, complex ? "(1, 0)" : "1");
      ASSERT_TRUE(module);
      const Literal out = Reduced(*module, Literal(module->entry->Parameters()[0]->shape));
      const bool is_unsigned = type[0] == 'u';
      const double want = is_unsigned && row.want < 0 ? row.want + 4294967296.0 : row.want;
      EXPECT_EQ(RealAt(out, 0), want);
    }
  }
}

// The first and the last result of a polynomial with the elements as coefficients, modulo 2^32.
TEST(ReduceOrder, EveryPlaceShows) {
  struct Row {
    Dims dims;
    Ints reduced;
    uint32_t first, last;
  };
  const Row rows[] = {
      {{65}, {0}, 3395517708, 3395517708},         {{5, 20}, {0, 1}, 125369163, 125369163},
      {{32, 5}, {0, 1}, 2599049198, 2599049198},   {{40, 40}, {0, 1}, 4197186278, 4197186278},
      {{70, 3, 5}, {0, 2}, 541655925, 2273754810}, {{70, 3, 5}, {2, 0}, 541655925, 2273754810},
      {{7, 3, 5}, {2, 0}, 1340583024, 792802344},  {{1025}, {0}, 1532488100, 1532488100},
      {{3, 65}, {0, 1}, 789076946, 789076946},     {{5, 33, 4}, {1}, 2128380082, 2707428670},
      {{1, 100}, {0, 1}, 3033356349, 3033356349},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(absl::StrJoin(row.dims, ","));
    auto module = Program("u32", kHorner, row.dims, row.reduced, "5");
    ASSERT_TRUE(module);
    const Literal out = Reduced(*module, Filled(Shape::Array(Type::kU32, row.dims),
                                                [](int64_t i) { return (i * i * 7 + 3) % 61; }));
    EXPECT_EQ(out.data<uint32_t>()[0], row.first);
    EXPECT_EQ(out.data<uint32_t>()[out.size() - 1], row.last);
  }
}

TEST(ReduceOrder, NarrowFloatsRoundAfterEachStep) {
  struct Row {
    Type type;
    Dims dims;
    Ints reduced;
    const char* init;
    double first, last;
  };
  const Row rows[] = {
      {Type::kF16, {65}, {0}, "0", 160, 160},
      {Type::kF16, {65}, {0}, "1.5", 166, 166},
      {Type::kF16, {70, 3, 5}, {0, 2}, "0", 881, 984},
      {Type::kF16, {70, 3, 5}, {0, 2}, "1.5", 888, 990},
      {Type::kF16, {3, 64, 16}, {0, 1, 2}, "0", 8408, 8408},
      {Type::kF16, {7, 3, 5}, {0, 2}, "1.5", 35.75, 112.75},
      {Type::kBF16, {65}, {0}, "1.5", 167, 167},
      {Type::kBF16, {70, 3, 5}, {0, 2}, "0", 876, 988},
      {Type::kBF16, {3, 64, 16}, {0, 1, 2}, "1.5", 8096, 8096},
      {Type::kF8E4M3FNUZ, {65}, {0}, "0", 160, 160},
      {Type::kF8E4M3FNUZ, {7, 3, 5}, {0, 2}, "0", 32, 112},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(
        absl::StrCat(TypeName(row.type), " ", absl::StrJoin(row.dims, ","), " ", row.init));
    auto module = Program(TypeName(row.type), kAdd, row.dims, row.reduced, row.init);
    ASSERT_TRUE(module);
    const auto x = [&] {
      return Filled(Shape::Array(row.type, row.dims),
                    [](int64_t i) { return static_cast<double>((i * i * 7 + 3) % 61) / 4 - 5; });
    };
    const Literal out = Reduced(*module, x());
    EXPECT_EQ(RealAt(out, 0), row.first);
    EXPECT_EQ(RealAt(out, out.size() - 1), row.last);
  }
}

// What folding takes (EvaluateReduce of the instruction) is the run's own value, bit for bit.
TEST(ReduceOrder, OneInstructionAsInARun) {
  for (const char* type : {"f16", "f32", "s8", "f8e4m3fnuz"}) {
    SCOPED_TRACE(type);
    auto module = Program(type, kAdd, {3, 65}, {0, 1}, "1");
    ASSERT_TRUE(module);
    const Instruction& reduce = *module->entry->root;
    const Literal& init = *reduce.operands[1]->literal;
    const auto fraction = [](int64_t i) { return static_cast<double>(i % 17) / 16; };
    const auto subnormal = [](int64_t) { return 1e-39; };
    for (const Literal& x : {Filled(reduce.operands[0]->shape, fraction),
                             Filled(reduce.operands[0]->shape, subnormal)}) {
      std::string error;
      const auto one = EvaluateReduce(reduce, x, init, {}, &error);
      ASSERT_TRUE(one) << error;
      const Literal run = Reduced(*module, x);
      EXPECT_EQ(std::memcmp(one->bytes(), run.bytes(), run.byte_size()), 0);
    }
    std::string error;
    const Literal x = Filled(reduce.operands[0]->shape, subnormal);
    const auto zeros = EvaluateReduce(reduce, x, Literal(init.shape()), {}, &error);
    ASSERT_TRUE(zeros) << error;
    EXPECT_EQ(RealAt(*zeros, 0), 0);
  }
}

// The computation and the result are of another precision than the operand. By hand, in the same
// order: XLA on a CPU refuses it.
TEST(ReduceOrder, MixedTypes) {
  constexpr char kText[] = R"(HloModule m
f { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }
ENTRY e { x = bf16[40] parameter(0)  n = f32[] constant(0.0078125)
  ROOT r = f32[] reduce(x, n), dimensions={0}, to_apply=f })";
  const auto module = Parse(kText);
  ASSERT_TRUE(module);
  const Literal fives = Filled(Shape::Array(Type::kBF16, {40}), [](int64_t) { return 5; });
  EXPECT_EQ(RealAt(Reduced(*module, fives), 0), 200 + 3 * 0.0078125);
}

// The initial value is narrower than the rest: it is converted, and starts five windows and what
// they leave.
TEST(ReduceOrder, NarrowInitialValue) {
  constexpr char kText[] = R"(HloModule m
f { p = f16[] parameter(0)  q = f16[] parameter(1)  ROOT r = f16[] add(p, q) }
ENTRY e { x = f16[129] parameter(0)  n = f8e5m2[] constant(0.5)
  ROOT r = f16[] reduce(x, n), dimensions={0}, to_apply=f })";
  const auto module = Parse(kText);
  ASSERT_TRUE(module);
  const Literal ones = Filled(Shape::Array(Type::kF16, {129}), [](int64_t) { return 1; });
  EXPECT_EQ(RealAt(Reduced(*module, ones), 0), 129 + 6 * 0.5);
}

// The chip adds the initial value once, and rounds once.
TEST(ReduceOrder, ChipNumbers) {
  auto module = Program("bf16", kAdd, {65}, {0}, "1");
  ASSERT_TRUE(module);
  const Literal ones = Filled(Shape::Array(Type::kBF16, {65}), [](int64_t) { return 5; });
  EXPECT_EQ(RealAt(Reduced(*module, ones, Numbers::kChip), 0), 326);
}

}  // namespace
}  // namespace tpuc
