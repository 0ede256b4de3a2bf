// The five kernels of mini-attention (tpu-v6e-compiler.md (a)): values against the reference
// evaluator, cycles against the vendor compiler's 438, 25, 342, 360, 358.
#include <cmath>

#include "gtest/gtest.h"
#include "tests/unit/lower/run_kernel.h"

namespace tpuc {
namespace {

using kernel::NodeId;

struct Limits {
  int64_t cycles;
  double error = 2e-5;
};

void Check(const KernelBuilder& b, const Limits& limits) {
  RunSettings settings;
  settings.text = std::getenv("TPUC_TEXT") != nullptr;
  Outcome r = RunBoth(b.k, settings);
  if (settings.text) fprintf(stderr, "%s\n%s\n", r.llo.c_str(), r.bundles_text.c_str());
  ASSERT_TRUE(r.ok) << r.error;
  fprintf(stderr, "cycles %lld (+%lld dma) bundles %lld error %g\n", (long long)r.cycles,
          (long long)r.dma_stall, (long long)r.bundles, r.max_error);
  EXPECT_LE(r.max_error, limits.error);
  EXPECT_LE(r.cycles, limits.cycles);
  EXPECT_EQ(r.spills, 0);
  settings.opt_level = 0;
  settings.text = false;
  Outcome slow = RunBoth(b.k, settings);
  ASSERT_TRUE(slow.ok) << slow.error;
  EXPECT_LE(slow.max_error, limits.error);
}

TEST(MiniAttention, MatmulAndSumOfSquares) {
  KernelBuilder b;
  int x = b.In({16, 64}), w1 = b.In({64, 64}, 1), ss = b.Out({16}, 1), h = b.Out({16, 64}, 1);
  NodeId dot = b.Dot(b.Load(x), b.Load(w1), {1}, {0});
  b.Store(h, dot);
  b.Store(ss, b.Reduce(Op::kAdd, b.Like(Op::kMultiply, {dot, dot}), {1}));
  Check(b, {459, 4e-3});
}

TEST(MiniAttention, AddSqrt) {
  KernelBuilder b;
  int ss = b.In({16}, 1), rms = b.Out({16}, 1);
  NodeId mean = b.Like(Op::kMultiply, {b.Load(ss), b.Splat(0.015625f, {16})});
  b.Store(rms, b.Like(Op::kSqrt, {b.Like(Op::kAdd, {mean, b.Splat(1.0f, {16})})}));
  Check(b, {26});
}

NodeId Normal(KernelBuilder& b, int h, int rms) {
  return b.Like(Op::kDivide, {b.Load(h), b.Broadcast(b.Load(rms), {16, 64}, {0})});
}

TEST(MiniAttention, Max) {
  KernelBuilder b;
  int h = b.In({16, 64}, 1), rms = b.In({16}, 1), m = b.Out({16}, 1);
  b.Store(m, b.Reduce(Op::kMaximum, Normal(b, h, rms), {1}));
  Check(b, {180});  // the maximum does not wait for the divisors
}

TEST(MiniAttention, SumOfExp) {
  KernelBuilder b;
  int h = b.In({16, 64}, 1), rms = b.In({16}, 1), m = b.In({16}, 1), s = b.Out({16}, 1);
  NodeId d = b.Like(Op::kSubtract, {Normal(b, h, rms), b.Broadcast(b.Load(m), {16, 64}, {0})});
  b.Store(s, b.Reduce(Op::kAdd, b.Like(Op::kExponential, {d}), {1}));
  Check(b, {378});
}

TEST(MiniAttention, NormaliseAndMatmul) {
  KernelBuilder b;
  int h = b.In({16, 64}, 1), rms = b.In({16}, 1), m = b.In({16}, 1), s = b.In({16}, 1);
  int w2 = b.In({64, 32}, 1, Type::kF32, {0, 1}), o = b.Out({16, 32});
  NodeId d = b.Like(Op::kSubtract, {Normal(b, h, rms), b.Broadcast(b.Load(m), {16, 64}, {0})});
  NodeId e = b.Like(Op::kExponential, {d});
  NodeId p = b.Like(Op::kDivide, {e, b.Broadcast(b.Load(s), {16, 64}, {0})});
  b.Store(o, b.Dot(p, b.Load(w2), {1}, {0}));
  Check(b, {375, 4e-3});
}

}  // namespace
}  // namespace tpuc
