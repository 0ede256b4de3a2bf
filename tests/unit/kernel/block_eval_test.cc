// The block evaluator against plain loops, and what it makes visible of undefined contents.
#include "backend/kernel/block_eval.h"

#include <fstream>
#include <sstream>

#include "tests/unit/kernel/testing.h"

namespace tpuc {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Literal> Inputs(const kernel::Program& p, uint64_t seed = 0) {
  std::vector<Literal> inputs;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Shape& s = p.inputs[i].shape;
    inputs.push_back(GenerateInput(Shape::Array(s.type, s.dims), static_cast<int64_t>(i), seed));
  }
  return inputs;
}

std::vector<Literal> RunProgram(const kernel::Program& p, std::vector<Literal> inputs) {
  DiagSink diags;
  auto results = EvaluateKernels(p, std::move(inputs), {}, &diags);
  EXPECT_TRUE(results.has_value()) << diags.Render();
  return results ? std::move(*results) : std::vector<Literal>();
}

std::string RunErrors(const std::string& text, std::vector<Literal> inputs) {
  auto p = Kernels(text);
  DiagSink diags;
  EvaluateKernels(*p, std::move(inputs), {}, &diags);
  return diags.Render();
}

class Matmul : public ::testing::TestWithParam<Sets> {};

TEST_P(Matmul, IsTheProduct) {
  auto p =
      Kernels(ReadFile(std::string(TPUC_SOURCE_DIR) + "/examples/kernels/matmul.tk"), GetParam());
  ASSERT_NE(p, nullptr);
  const std::vector<Literal> inputs = Inputs(*p);
  const auto& x = inputs[0];
  const auto& w = inputs[1];
  const int64_t m = x.shape().dims[0], k = x.shape().dims[1], n = w.shape().dims[1];
  const std::vector<Literal> results = RunProgram(*p, inputs);
  ASSERT_EQ(results.size(), 1u);
  ASSERT_EQ(results[0].size(), m * n);
  double worst = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < k; ++c) {
        sum += double{x.data<float>()[i * k + c]} * w.data<float>()[c * n + j];
      }
      const double got = results[0].data<float>()[i * n + j];
      ASSERT_FALSE(std::isnan(got)) << i << " " << j;
      worst = std::max(worst, std::abs(got - sum));
    }
  }
  EXPECT_LT(worst, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Matmul,
    ::testing::Values(Sets{}, Sets{{"bm", 64}, {"bn", 128}},
                      Sets{{"M", 7}, {"N", 5}, {"K", 3}, {"bm", 7}, {"bn", 5}, {"bk", 3}},
                      Sets{{"K", 513}, {"matmul.bk", 256}}));

TEST(BlockEval, UnmaskedEdgesAreNaN) {
  auto p = Kernels(R"(kernel k {
    grid i: 2;
    in x: f32[5,128] block [4, 128] at (i, 0);
    out o: f32[2,128] block [1, 128] at (i, 0);
    o[:] = sum(x[:], axis=0, keepdims=true);
  })");
  const std::vector<Literal> r = RunProgram(*p, Inputs(*p));
  EXPECT_FALSE(std::isnan(r[0].data<float>()[0]));
  EXPECT_TRUE(std::isnan(r[0].data<float>()[128]));  // rows 5, 6, 7 do not exist
}

TEST(BlockEval, ScratchAndOutputsStartUndefined) {
  auto p = Kernels(R"(kernel k {
    out o: f32[8,128];
    out n: s32[8,128];
    scratch a: f32[8,128];
    o[:] = a[:];
    n[0:4, :] = 7;
  })");
  const std::vector<Literal> r = RunProgram(*p, {});
  EXPECT_TRUE(std::isnan(r[0].data<float>()[5]));
  EXPECT_EQ(r[1].data<int32_t>()[3 * 128], 7);
  EXPECT_EQ(r[1].data<int32_t>()[4 * 128], INT32_MIN);
}

TEST(BlockEval, LoopsWhensAndDynamicSlices) {
  auto p = Kernels(R"(kernel k {
    param B = 8;
    grid i: 2;
    in x: f32[64,128] block [32, 128] at (i, 0);
    out o: f32[64,128] block [32, 128] at (i, 0);
    scratch n: s32[8,128];
    n[:] = 0;
    for a in 0..2 {
      for b in 0..2 {
        n[:] += 1;
        when a == 1 {
          o[(a * 2 + b) * B:+B, :] = x[(a * 2 + b) * B:+B, :] * 2;
        } else {
          o[(a * 2 + b) * B:+B, :] = convert(n[:], f32);
        }
      }
    }
  })");
  const std::vector<Literal> in = Inputs(*p);
  const std::vector<Literal> r = RunProgram(*p, in);
  const auto at = [&](int64_t row) { return r[0].data<float>()[row * 128 + 3]; };
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(15), 2);
  EXPECT_EQ(at(16), 2 * in[0].data<float>()[16 * 128 + 3]);
  EXPECT_EQ(at(31), 2 * in[0].data<float>()[31 * 128 + 3]);
  EXPECT_EQ(at(32), 1);  // n is set to zero at each grid point
}

TEST(BlockEval, SqueezedDimensionsAndGridOrder) {
  auto p = Kernels(R"(kernel k {
    grid h: 3 parallel, i: 2;
    in x: f32[3,16,128] block [squeeze, 8, 128] at (h, i, 0);
    out o: f32[3,8,128] block [squeeze, 8, 128] at (h, 0, 0);
    when i == 0 { o[:] = x[:]; }
    when i == num(i) - 1 { o[:] += x[:] * 10; }
  })");
  const std::vector<Literal> in = Inputs(*p);
  const std::vector<Literal> r = RunProgram(*p, in);
  for (int64_t h = 0; h < 3; ++h) {
    const float a = in[0].data<float>()[(h * 16 + 5) * 128 + 9];
    const float b = in[0].data<float>()[(h * 16 + 13) * 128 + 9];
    EXPECT_EQ(r[0].data<float>()[(h * 8 + 5) * 128 + 9], a + b * 10);
  }
}

TEST(BlockEval, AliasedOutputKeepsWhatIsNotVisited) {
  auto p = Kernels(R"(kernel k {
    grid i: 1;
    in x: f32[16,128];
    out o: f32[16,128] block [8, 128] at (1, 0) alias x;
    o[:] = o[:] + 1;
  })");
  const Literal x = GenerateInput(Shape::Array(Type::kF32, {16, 128}), 0, 0);
  const std::vector<Literal> r = RunProgram(*p, {x});
  EXPECT_EQ(r[0].data<float>()[7], x.data<float>()[7]);
  EXPECT_EQ(r[0].data<float>()[8 * 128], x.data<float>()[8 * 128] + 1);
}

TEST(BlockEval, ProgramsWithCopiesConstantsAndViews) {
  auto p = Kernels(R"(
kernel twice { in a: f32[8,128]{1,0:T(8,128)S(1)}; out o: f32[8,128]{1,0:T(8,128)S(1)}; o[:] = a[:] + a[:]; }
kernel sum { in a: f32[8,128]{1,0:T(8,128)S(1)}; in c: f32[128]; out o: f32[8]; o[:] = sum(a[:] * c[:], axis=1); }
program p {
  buffer x: f32[8,128];
  buffer xv: f32[8,128]{1,0:T(8,128)S(1)};
  buffer y: f32[8,128]{1,0:T(8,128)S(1)};
  buffer c: f32[128] = splat 0.5;
  buffer r: f32[8];
  input x;
  output out0 in r;
  copy_start s: x -> xv cross_program;
  copy_done d: s;
  call twice(xv, y);
  call sum(y, c, r);
})");
  const std::vector<Literal> in = Inputs(*p);
  const std::vector<Literal> r = RunProgram(*p, in);
  for (int64_t i = 0; i < 8; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 128; ++j) sum += in[0].data<float>()[i * 128 + j];
    EXPECT_NEAR(r[0].data<float>()[i], sum, 1e-5);
  }
}

TEST(BlockEval, ABufferSeenAsAnotherShapeHasTheSameBytes) {
  // f32[16,128] in tiles of 8x128 is the same bytes as f32[2,8,128].
  auto p = Kernels(R"(
kernel split { in a: f32[2,8,128]; out o: f32[8,128]; o[:] = reshape(slice(a[:], [1:2, :, :]), [8, 128]); }
program p {
  buffer x: f32[16,128];
  buffer r: f32[8,128];
  input x;
  output r;
  call split(x, r);
})");
  const std::vector<Literal> in = Inputs(*p);
  const std::vector<Literal> r = RunProgram(*p, in);
  EXPECT_EQ(r[0].data<float>()[3 * 128 + 4], in[0].data<float>()[11 * 128 + 4]);
}

TEST(BlockEval, FaultsNameKernelGridPointAndLine) {
  const std::string text = R"(kernel k {
  grid i: 3;
  in n: s32[1,128];
  in x: f32[16,128];
  out o: f32[24,128] block [8, 128] at (i, 0);
  t = n[0:1, 0:1];
  o[:] = x[reshape(t, []) * 8 :+ 8, :];
})";
  Literal n(Shape::Array(Type::kS32, {1, 128}));
  n.data<int32_t>()[0] = 2;
  Literal x(Shape::Array(Type::kF32, {16, 128}));
  const std::string errors = RunErrors(text, {n, x});
  EXPECT_NE(errors.find("E0512"), std::string::npos) << errors;
  EXPECT_NE(errors.find("kernel k at i=0, t.tk:7: slice [16:+8] of dimension 0 of x (16 elements)"),
            std::string::npos)
      << errors;
}

TEST(BlockEval, InputsAreChecked) {
  const std::string text = "kernel k { in x: f32[8,128]; out o: f32[8,128]; o[:] = x[:]; }";
  EXPECT_NE(RunErrors(text, {}).find("[E0510]"), std::string::npos);
  EXPECT_NE(RunErrors(text, {Literal(Shape::Array(Type::kF32, {8, 64}))}).find("[E0510]"),
            std::string::npos);
}

TEST(BlockEval, MemoryLimit) {
  auto p =
      Kernels("kernel k { in x: f32[100000,100000]; out o: f32[8,128]; o[:] = x[0:8, 0:128]; }");
  DiagSink diags;
  EvalOptions options;
  options.memory_limit = 1 << 20;
  EXPECT_FALSE(EvaluateKernels(*p, {}, options, &diags).has_value());
  EXPECT_NE(diags.Render().find("[E0512]"), std::string::npos);
}

}  // namespace
}  // namespace tpuc
