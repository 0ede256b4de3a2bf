// Loops of element-wise steps: which steps they take, and values as the definitions give them.
#include "src/eval/fusion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/eval/evaluator.h"
#include "src/eval/plan.h"
#include "tests/unit/eval/modules.h"

namespace tpuc {
namespace {

constexpr int64_t kSize = 200000;  // more than a loop's least, no multiple of a block

// The names of each loop's steps.
std::vector<std::vector<std::string>> Loops(const Module& module) {
  const Plan plan = MakePlan(*module.entry, false);
  std::vector<std::vector<std::string>> loops;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.together[s] < 2) continue;
    loops.emplace_back();
    for (int k = 0; k < plan.together[s]; ++k) {
      loops.back().emplace_back(module.entry->instructions[plan.steps[s + k]]->name);
    }
  }
  return loops;
}

float Value(int64_t i) { return static_cast<float>(i % 23 - 11) * 0.25f; }

Literal Input() {
  Literal x(Shape::Array(Type::kF32, {kSize}));
  for (int64_t i = 0; i < kSize; ++i) x.data<float>()[i] = Value(i);
  return x;
}

// The root, a tuple, for x = Input().
std::vector<Literal> RunTuple(const Module& module) {
  DiagSink diags;
  std::vector<Literal> inputs;
  inputs.push_back(Input());
  auto result = Evaluate(module, std::move(inputs), {}, &diags);
  EXPECT_TRUE(result) << diags.Render();
  return result ? result->elements() : std::vector<Literal>();
}

template <typename T, typename F>
int64_t Wrong(const Literal& literal, F&& expected) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < literal.size(); ++i) {
    wrong += literal.data<T>()[i] != static_cast<T>(expected(Value(i)));
  }
  return wrong;
}

TEST(Fusion, SeveralResultsAndOperandsThatLiveOn) {
  const auto module = Parse(R"(
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[200000]{0} parameter(0)
  zero = f32[] constant(0)
  y = f32[200000]{0} multiply(x, x)
  zeros = f32[200000]{0} broadcast(zero), dimensions={}
  six = f32[] constant(6)
  p = pred[200000]{0} compare(y, x), direction=GT
  sixes = f32[200000]{0} broadcast(six), dimensions={}
  z = f32[200000]{0} clamp(zeros, y, sixes)
  half = bf16[200000]{0} convert(z)
  q = pred[200000]{0} not(p)
  s = f32[200000]{0} select(q, z, y)
  r = f32[] reduce(s, zero), dimensions={0}, to_apply=add
  t = f32[200000]{0} negate(x)
  ROOT all = (pred[200000]{0}, f32[200000]{0}, bf16[200000]{0}, f32[200000]{0}, f32[200000]{0}, f32[]) tuple(p, z, half, s, t, r)
}
)");
  ASSERT_TRUE(module);
  EXPECT_EQ(Loops(*module),
            (std::vector<std::vector<std::string>>{{"y", "p", "z", "half", "q", "s"}}));
  const std::vector<Literal> out = RunTuple(*module);
  ASSERT_EQ(out.size(), 6u);
  const auto clamped = [](float x) { return std::min(x * x, 6.0f); };
  EXPECT_EQ(Wrong<uint8_t>(out[0], [](float x) { return x * x > x; }), 0);
  EXPECT_EQ(Wrong<float>(out[1], clamped), 0);
  // Quarters to 6 have few enough bits for bf16: its upper half is that of f32.
  EXPECT_EQ(Wrong<uint16_t>(out[2],
                            [&](float x) {
                              const float value = clamped(x);
                              uint32_t bits;
                              std::memcpy(&bits, &value, 4);
                              return bits >> 16;
                            }),
            0);
  EXPECT_EQ(Wrong<float>(out[3], [&](float x) { return x * x > x ? x * x : clamped(x); }), 0);
  EXPECT_EQ(Wrong<float>(out[4], [](float x) { return -x; }), 0);
}

// What stands between two steps of a loop and reads or makes large arrays ends it.
TEST(Fusion, NothingMovesAcrossLargeArrays) {
  const auto module = Parse(R"(
ENTRY e {
  x = f32[200000]{0} parameter(0)
  y = f32[200000]{0} negate(x)
  v = f32[200000]{0} reverse(x), dimensions={0}
  z = f32[200000]{0} abs(y)
  w = f32[200000]{0} add(z, v)
  ROOT all = (f32[200000]{0}) tuple(w)
}
)");
  ASSERT_TRUE(module);
  EXPECT_EQ(Loops(*module), (std::vector<std::vector<std::string>>{{"z", "w"}}));
  const std::vector<Literal> out = RunTuple(*module);
  ASSERT_EQ(out.size(), 1u);
  int64_t wrong = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    wrong += out[0].data<float>()[i] != std::fabs(Value(i)) + Value(kSize - 1 - i);
  }
  EXPECT_EQ(wrong, 0);
}

// Mean and variance by the definition, in f64.
struct Moments {
  double mean = 0, variance = 0;
};
Moments MomentsOf(const Literal& x, int64_t feature, int64_t features) {
  Moments m;
  const int64_t run = x.size() / 2 / features;
  const auto each = [&](auto f) {
    for (int64_t o = 0; o < 2; ++o) {
      for (int64_t i = 0; i < run; ++i) f(x.data<float>()[(o * features + feature) * run + i]);
    }
  };
  each([&](double v) { m.mean += v / static_cast<double>(2 * run); });
  each([&](double v) { m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(2 * run); });
  return m;
}

void CheckNorm(const char* results, float offset, float step) {
  const auto module = Parse(std::string(R"(
ENTRY e {
  x = f32[2,4,50000]{2,1,0} parameter(0)
  scale = f32[4]{0} constant({1, 2, 3, 0.5})
  offset = f32[4]{0} constant({0, 1, -1, 2})
  n = (f32[2,4,50000]{2,1,0}, f32[4]{0}, f32[4]{0}) batch-norm-training(x, scale, offset), epsilon=0.125, feature_index=1
  y = f32[2,4,50000]{2,1,0} get-tuple-element(n), index=0
  m = f32[4]{0} get-tuple-element(n), index=1
  v = f32[4]{0} get-tuple-element(n), index=2
  zero = f32[] constant(0)
  zeros = f32[2,4,50000]{2,1,0} broadcast(zero), dimensions={}
  six = f32[] constant(1.5)
  sixes = f32[2,4,50000]{2,1,0} broadcast(six), dimensions={}
  p = pred[2,4,50000]{2,1,0} compare(y, zeros), direction=GT
  z = f32[2,4,50000]{2,1,0} clamp(zeros, y, sixes)
  )") + results + "\n}\n");
  ASSERT_TRUE(module);
  EXPECT_EQ(Loops(*module), (std::vector<std::vector<std::string>>{{"n", "y", "p", "z"}}));
  Literal x(Shape::Array(Type::kF32, {2, 4, 50000}));
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = offset + step * Value(i);
  const Literal input = x;
  DiagSink diags;
  std::vector<Literal> inputs;
  inputs.push_back(std::move(x));
  const auto result = Evaluate(*module, std::move(inputs), {}, &diags);
  ASSERT_TRUE(result) << diags.Render();
  const std::vector<Literal>& out = result->elements();
  const double scales[] = {1, 2, 3, 0.5}, offsets[] = {0, 1, -1, 2};
  for (int64_t c = 0; c < 4; ++c) {
    const Moments m = MomentsOf(input, c, 4);
    EXPECT_NEAR(out[0].data<float>()[c], m.mean, 1e-6 * std::fabs(m.mean) + 1e-6);
    EXPECT_NEAR(out[1].data<float>()[c], m.variance, 1e-6 * m.variance + 1e-9);
    double worst = 0;
    for (int64_t i = 0; i < input.size(); ++i) {
      if (i / 50000 % 4 != c) continue;
      const double y =
          (input.data<float>()[i] - m.mean) / std::sqrt(m.variance + 0.125) * scales[c] +
          offsets[c];
      const double z = std::min(std::max(y, 0.0), 1.5);
      worst = std::max(worst, std::fabs(out[2].data<float>()[i] - z));
      if (out.size() > 4) worst = std::max(worst, std::fabs(out[4].data<float>()[i] - y));
      if (std::fabs(y) > 1e-5) {
        EXPECT_EQ(out[3].data<uint8_t>()[i], y > 0) << i;
      }
    }
    EXPECT_LT(worst, 2e-6) << c;
  }
}

TEST(Fusion, BatchNormHandsOnWhatItHasWritten) {
  CheckNorm(
      "ROOT all = (f32[4]{0}, f32[4]{0}, f32[2,4,50000]{2,1,0}, pred[2,4,50000]{2,1,0}) "
      "tuple(m, v, z, p)",
      0, 1);
}

TEST(Fusion, AllOfABatchNormMayBeReadLater) {
  CheckNorm(
      "ROOT all = (f32[4]{0}, f32[4]{0}, f32[2,4,50000]{2,1,0}, pred[2,4,50000]{2,1,0}, "
      "f32[2,4,50000]{2,1,0}) tuple(m, v, z, p, y)",
      0, 1);
}

// Far from zero, where a difference of sums would leave little of the variance; and without any.
TEST(Fusion, MomentsFarFromZero) {
  const char* results =
      "ROOT all = (f32[4]{0}, f32[4]{0}, f32[2,4,50000]{2,1,0}, pred[2,4,50000]{2,1,0}) "
      "tuple(m, v, z, p)";
  CheckNorm(results, 65536, 0.25f);
  CheckNorm(results, 0.1f, 0);
}

}  // namespace
}  // namespace tpuc
