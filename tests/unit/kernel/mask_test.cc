// Masks and their tables: the published worked example, and random masks against a plain loop over
// all elements; what the language does with them.
#include "backend/kernel/mask.h"

#include <random>

#include "backend/kernel/block_eval.h"
#include "grammar/kernel/printer.h"
#include "gtest/gtest.h"
#include "tests/unit/kernel/testing.h"

namespace tpuc {
namespace {

using kernel::BlockTables;
using kernel::TableOf;

std::vector<int32_t> Ints32(const std::shared_ptr<Literal>& l) {
  return std::vector<int32_t>(l->data<int32_t>(), l->data<int32_t>() + l->size());
}

std::string MaskKernel(const std::string& value, const std::string& extents,
                       const std::string& blocks) {
  return absl::StrCat("kernel k { param c = 0, w = 5; mask M(row, col) over [", extents,
                      "] = ", value, "; blocks B of M by (", blocks,
                      "); grid t: B.active; prefetch kind = B.kind; in x: f32[8,128]; ",
                      "out o: f32[8,128]; when kind[t] == 1 { o[:] = x[:]; } }");
}

std::shared_ptr<const BlockTables> Tables(const std::string& value, const std::string& extents,
                                          const std::string& blocks, const Sets& set = {}) {
  const auto p = Kernels(MaskKernel(value, extents, blocks), set);
  return p == nullptr ? nullptr : p->kernels[0].blocks[0].tables;
}

// Reference: attention-kernels.md D.1 (the course's slide): causal 4096 x 4096 in blocks of
// 1024 x 2048.
TEST(Mask, WorkedExample) {
  const auto t = Tables("row >= col", "4096, 4096", "1024, 2048");
  ASSERT_NE(t, nullptr);
  using V = std::vector<int32_t>;
  EXPECT_EQ(t->rows * t->cols, 8);
  EXPECT_EQ(t->Count(0), 6);
  EXPECT_EQ(t->patterns.size(), 2u);
  EXPECT_EQ(t->grid_width, 2);
  EXPECT_EQ(Ints32(TableOf(*t, "row")), (V{0, 1, 2, 2, 3, 3}));
  EXPECT_EQ(Ints32(TableOf(*t, "col")), (V{0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(Ints32(TableOf(*t, "kind")), (V{1, 1, 2, 1, 2, 1}));
  EXPECT_EQ(Ints32(TableOf(*t, "next")), (V{0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(Ints32(TableOf(*t, "first")), (V{1, 1, 1, 0, 1, 0}));
  EXPECT_EQ(Ints32(TableOf(*t, "last")), (V{1, 1, 0, 1, 0, 1}));
  EXPECT_EQ(Ints32(TableOf(*t, "block_mask")), (V{1, 0, 1, 0, 2, 1, 2, 1}));
  EXPECT_EQ(Ints32(TableOf(*t, "data_next")), (V{0, 0, 0, 0, 0, 1, 0, 1}));
  const auto patterns = TableOf(*t, "patterns");
  EXPECT_EQ(patterns->shape().dims, (Dims{2, 1024, 2048}));
  // Diagonals at offsets 0 and 1024.
  for (int64_t p = 0; p < 2; ++p) {
    for (int64_t r : {0, 1, 512, 1023}) {
      const uint8_t* row = patterns->bytes() + (p * 1024 + r) * 2048;
      EXPECT_EQ(row[r + p * 1024], 1);
      if (r + p * 1024 + 1 < 2048) {
        EXPECT_EQ(row[r + p * 1024 + 1], 0);
      }
    }
  }
}

// Against a loop over all elements that knows nothing of ranges.
TEST(Mask, TablesAgreeWithElements) {
  const struct {
    const char* text;
    bool (*value)(int64_t row, int64_t col);
  } kMasks[] = {
      {"row >= col", [](int64_t r, int64_t c) { return r >= c; }},
      {"col <= row && row - col <= 7", [](int64_t r, int64_t c) { return c <= r && r - c <= 7; }},
      {"row / 8 == col / 8", [](int64_t r, int64_t c) { return r / 8 == c / 8; }},
      {"!(col > row + 3 || row > col * 2 + 9)",
       [](int64_t r, int64_t c) { return !(c > r + 3 || r > c * 2 + 9); }},
      {"(row + col) % 3 != 1 | row == col",
       [](int64_t r, int64_t c) { return (r + c) % 3 != 1 || r == c; }},
      {"select(row < 16, col < 8, min(row, 40) > col)",
       [](int64_t r, int64_t c) { return r < 16 ? c < 8 : std::min<int64_t>(r, 40) > c; }},
      {"(c == 0 || row / c == col / c) && max(row, col) >= 0 && -col <= row",
       [](int64_t, int64_t) { return true; }},
  };
  const int64_t kRows = 48, kCols = 64;
  for (const auto& m : kMasks) {
    for (const auto& [br, bc] : {std::pair<int64_t, int64_t>{8, 16}, {16, 8}, {48, 64}, {4, 32}}) {
      const auto t = Tables(m.text, "48, 64", absl::StrCat(br, ", ", bc));
      ASSERT_NE(t, nullptr) << m.text;
      std::vector<int32_t> kinds;
      std::vector<std::vector<uint8_t>> patterns;
      for (int64_t i = 0; i < kRows / br; ++i) {
        for (int64_t j = 0; j < kCols / bc; ++j) {
          std::vector<uint8_t> block;
          for (int64_t r = 0; r < br; ++r) {
            for (int64_t c = 0; c < bc; ++c) block.push_back(m.value(i * br + r, j * bc + c));
          }
          const int64_t set = std::count(block.begin(), block.end(), 1);
          const uint8_t kind = set == 0 ? 0 : set == br * bc ? 2 : 1;
          EXPECT_EQ(t->kind[i * (kCols / bc) + j], kind) << m.text << " " << i << " " << j;
          if (kind != 0) kinds.push_back(kind);
          if (kind == 1 && std::find(patterns.begin(), patterns.end(), block) == patterns.end()) {
            patterns.push_back(block);
          }
        }
      }
      EXPECT_EQ(Ints32(TableOf(*t, "kind")), kinds) << m.text;
      EXPECT_EQ(t->patterns, patterns) << m.text;
    }
  }
}

TEST(Mask, LargeMasksAreDecidedByRanges) {
  const auto t = Tables("row >= col", "131072, 131072", "1024, 1024");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->Count(0), 128 * 129 / 2);
  EXPECT_EQ(t->patterns.size(), 1u);
}

TEST(Mask, RefusesWhatHasNoTables) {
  const auto errors = [](const std::string& value, const std::string& blocks = "8, 8") {
    return KernelErrors(MaskKernel(value, "32, 32", blocks));
  };
  EXPECT_NE(
      errors("col > row").find("1 of the 32 rows of mask M have no column; the first is row 31"),
      std::string::npos);
  EXPECT_NE(errors("row / 8 > col / 8").find("8 of the 32 rows"), std::string::npos);
  EXPECT_NE(errors("row / col == 0").find("no value in row 0"), std::string::npos);
  EXPECT_NE(errors("true", "0, 8").find("blocks of 0 rows"), std::string::npos);
  EXPECT_NE(errors("num(t) > row").find("not a grid axis"), std::string::npos);
  EXPECT_NE(KernelErrors("kernel k { blocks B of N by (8, 8); }").find("N is not a mask"),
            std::string::npos);
  EXPECT_NE(KernelErrors("kernel k { mask M(r, c) over [8, 8] = r >= c; blocks B of M by (8, 8);"
                         " prefetch x = B.rows; }")
                .find("the tables are row, col"),
            std::string::npos);
}

// Blocks may end past the mask: columns there are false, rows do not exist.
TEST(Mask, BlocksNeedNotDivide) {
  const auto p = Kernels(
      "kernel k { mask M(r, c) over [20, 28] = c < 16 || r >= 8; blocks B of M by (8, 16);"
      " grid t: B.active; out o: s32[20,32] block [8, 32] at (0, 0);"
      " o[:] = convert(M(iota([8, 32], dim=0) + 8, iota([8, 32], dim=1)), s32); }");
  ASSERT_NE(p, nullptr);
  const kernel::BlockTables& t = *p->kernels[0].blocks[0].tables;
  EXPECT_EQ(t.rows, 3);
  EXPECT_EQ(t.cols, 2);
  EXPECT_EQ(t.kind, (std::vector<uint8_t>{2, 0, 2, 1, 2, 1}));  // rows 16..23: four of them are
  ASSERT_EQ(t.patterns.size(), 2u);                             // of eight rows and of four
  for (int64_t e = 0; e < 8 * 16; ++e) {
    EXPECT_EQ(t.patterns[0][e], e % 16 < 12);
    EXPECT_EQ(t.patterns[1][e], e % 16 < 12 && e / 16 < 4);
  }
  DiagSink diags;
  const auto out = EvaluateKernels(*p, {}, {}, &diags);
  ASSERT_TRUE(out) << diags.Render();
  for (int64_t c = 0; c < 32; ++c) EXPECT_EQ((*out)[0].data<int32_t>()[c], c < 28) << c;
}

// allowed[row / 8, col / 8] decides blocks; bodies have the tables, not the array.
TEST(Mask, OfAnArray) {
  const std::string text =
      "kernel k { param n = 2; array allowed: s8[n,3] = {{1, 0, 0}, {0, 1, 1}};"
      " mask M(r, c) over [16, 24] = allowed[r / 8, c / 8] != 0 && c >= r;"
      " blocks B of M by (8, 8); grid t: B.active; prefetch kind = B.kind;"
      " out o: s32[16,128] block [8, 128] at (0, 0); o[:] = kind[t]; }";
  const auto p = Kernels(text);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->kernels[0].blocks[0].tables->kind, (std::vector<uint8_t>{1, 0, 0, 0, 1, 2}));
  const std::string printed = PrintKernels(*p);
  const auto again = Kernels(printed);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(PrintKernels(*again), printed);
  const auto errors = [](const std::string& array, const std::string& value,
                         const std::string& body = "") {
    return KernelErrors("kernel k { array a: " + array + "; mask M(r, c) over [16, 24] = " + value +
                        "; grid t: 1; out o: s32[8,128]; " + body + " o[:] = 0; }");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(errors("f32[2] = splat 1", "true"), "masks read arrays of integers"));
  EXPECT_TRUE(has(errors("s8[2] = {1, 0, 1}", "true"), "not a s8[2]"));
  EXPECT_TRUE(has(errors("s8[2] = \"a.npy\"", "true"), "cannot be read from a.npy here"));
  EXPECT_TRUE(has(errors("s8[2] = {1, 1}", "a[r, c] == 1"), "one index a dimension"));
  EXPECT_TRUE(has(errors("s8[2] = {1, 1}", "a[r] == 1 ", "x = M(iota([8], dim=0), 0);"),
                  "which a body cannot read"));
  EXPECT_TRUE(
      has(KernelErrors("kernel k { array a: s8[2] = {1, 1};"
                       " mask M(r, c) over [16, 8] = a[r] == 1; blocks B of M by (8, 8); }"),
          "no value in row 2"));
}

// The condition in a body is the condition of the tables.
TEST(Mask, BodyComputesTheSame) {
  const std::string text =
      "kernel k { param w = 9; mask M(r, c) over [32, 256] = c <= r && r - c <= w || r / 8 == c % "
      "5;"
      " grid i: 4; out o: s32[32,256] block [8, 256] at (i, 0);"
      " seen = M(i * 8 + iota([8, 256], dim=0), iota([8, 256], dim=1));"
      " o[:] = convert(seen, s32); }";
  const auto p = Kernels(text);
  ASSERT_NE(p, nullptr);
  DiagSink diags;
  const auto out = EvaluateKernels(*p, {}, {}, &diags);
  ASSERT_TRUE(out) << diags.Render();
  for (int64_t r = 0; r < 32; ++r) {
    for (int64_t c = 0; c < 256; ++c) {
      const bool want = (c <= r && r - c <= 9) || r / 8 == c % 5;
      ASSERT_EQ((*out)[0].data<int32_t>()[r * 256 + c], want) << r << " " << c;
      bool at = false;
      ASSERT_TRUE(kernel::MaskAt(p->kernels[0].masks[0], p->kernels[0].params, r, c, &at));
      ASSERT_EQ(at, want);
    }
  }
}

// What is printed reads as the same kernel, with the same tables, and takes other parameters.
TEST(Mask, PrintsAndReadsBack) {
  const std::string text =
      "kernel k { param n = 64, b = 16, w = 20;"
      " mask M(r, c) over [n, n] = (r >= c || !(w > 3)) && r - c <= w;"
      " blocks B of M by (b, b);"
      " grid t: B.active;"
      " prefetch row = B.row, kind = B.kind;"
      " in m = B.patterns block [squeeze, b, b] at (min(kind[t], B.distinct) - 1, 0, 0);"
      " in x: f32[n,128] block [b, 128] at (row[t], 0);"
      " out o: f32[n,128] block [b, 128] at (row[t], 0);"
      " when kind[t] == 1 & row[t] > 0 { o[:] = x[:]; } else { o[:] = x[:] * 2; } }";
  const auto p = Kernels(text);
  ASSERT_NE(p, nullptr);
  const std::string printed = PrintKernels(*p);
  const auto again = Kernels(printed);
  ASSERT_NE(again, nullptr) << printed;
  EXPECT_EQ(PrintKernels(*again), printed);
  EXPECT_EQ(again->kernels[0].blocks[0].tables->kind, p->kernels[0].blocks[0].tables->kind);
  EXPECT_NE(
      printed.find("in m = B.patterns block [squeeze, b, b] at (min(kind[t], B.distinct) - 1"),
      std::string::npos)
      << printed;
  const auto other = Kernels(printed, Sets{{"w", 3}});
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other->kernels[0].grid[0].extent, p->kernels[0].grid[0].extent);
}

// Grid sizes and index maps that inputs decide, on literals.
TEST(Prefetch, DecidesGridAndWindows) {
  const std::string text =
      "kernel k { grid t: n[0] most 6; prefetch n: s32[1], at: s32[6];"
      " in x: f32[64,128] block [8, 128] at (at[t], 0);"
      " out o: f32[48,128] block [8, 128] at (t, 0);"
      " o[:] = x[:] + convert(broadcast(at[t], [8, 128]), f32); }";
  const auto p = Kernels(text);
  ASSERT_NE(p, nullptr);
  const auto run = [&](int32_t n, std::vector<int32_t> at, std::string* errors) {
    std::vector<Literal> inputs;
    inputs.emplace_back(Shape::Array(Type::kS32, {1}));
    inputs[0].data<int32_t>()[0] = n;
    inputs.emplace_back(Shape::Array(Type::kS32, {6}));
    std::copy(at.begin(), at.end(), inputs[1].data<int32_t>());
    inputs.push_back(GenerateInput(Shape::Array(Type::kF32, {64, 128}), 2, 0));
    DiagSink diags;
    auto out = EvaluateKernels(*p, inputs, {}, &diags);
    *errors = diags.Render();
    return out;
  };
  std::string errors;
  const std::vector<int32_t> at = {7, 0, 3, 3, 1, 2};
  const auto out = run(4, at, &errors);
  ASSERT_TRUE(out) << errors;
  const Literal x = GenerateInput(Shape::Array(Type::kF32, {64, 128}), 2, 0);
  for (int64_t t = 0; t < 6; ++t) {
    for (int64_t e = 0; e < 8 * 128; ++e) {
      const float got = (*out)[0].data<float>()[t * 1024 + e];
      if (t >= 4) {
        ASSERT_TRUE(std::isnan(got));  // never visited
      } else {
        ASSERT_EQ(got, x.data<float>()[at[t] * 1024 + e] + static_cast<float>(at[t]));
      }
    }
  }
  EXPECT_FALSE(run(7, at, &errors));
  EXPECT_NE(errors.find("grid axis t has size 7, at most 6"), std::string::npos) << errors;
  EXPECT_FALSE(run(4, {0, 8, 0, 0, 0, 0}, &errors));
  EXPECT_NE(errors.find("at t=1: block 8 of dimension 0 of x lies outside"), std::string::npos)
      << errors;
}

TEST(Prefetch, RevisitedOutputIsNoticed) {
  const auto p = Kernels(
      "kernel k { grid t: 4; prefetch at: s32[4]; in x: f32[8,128];"
      " out o: f32[32,128] block [8, 128] at (at[t], 0); o[:] = x[:]; }");
  ASSERT_NE(p, nullptr);
  std::vector<Literal> inputs;
  inputs.emplace_back(Shape::Array(Type::kS32, {4}));
  const std::vector<int32_t> at = {1, 1, 0, 1};
  std::copy(at.begin(), at.end(), inputs[0].data<int32_t>());
  inputs.push_back(GenerateInput(Shape::Array(Type::kF32, {8, 128}), 1, 0));
  DiagSink diags;
  EXPECT_FALSE(EvaluateKernels(*p, inputs, {}, &diags));
  EXPECT_NE(diags.Render().find("at t=3: block (1, 0) of output o is visited again"),
            std::string::npos)
      << diags.Render();
}

TEST(Prefetch, Refusals) {
  const auto has = [](const std::string& text, const std::string& what) {
    const std::string errors = KernelErrors(text);
    EXPECT_NE(errors.find(what), std::string::npos) << errors;
  };
  has("kernel k { grid t: n[0]; prefetch n: s32[1]; }", "known at run time only");
  has("kernel k { grid t: 4 most 5; }", "no most");
  has("kernel k { prefetch n: s32[4]; out o: f32[8,128]; o[:] = n[0:2]; }", "lies in SMEM");
  has("kernel k { prefetch n: s32[4]; n[0] = 1; }", "read only");
  has("kernel k { prefetch n: bf16[4]; }", "scalars of 32 bits");
  has("kernel k { grid t: 2; prefetch n: s32[4]; in x: f32[8,128] block [8,128] at (n[t,0], 0); }",
      "one index a dimension");
  has("kernel k { grid t: 2; in x: f32[8,128] block [8,128] at (x[t,0], 0); }",
      "not a prefetched array");
}

// Windows at any tile, overlapping: o[t] is rows 8 t to 8 t + 15.
TEST(Windows, IndexMapsThatCountElements) {
  const std::string text =
      "kernel k { grid t: 7; in x: f32[64,128] block [16, 128] at element (t * 8, 0);"
      " out o: f32[112,128] block [16, 128] at (t, 0); o[:] = x[:]; }";
  const auto p = Kernels(text);
  ASSERT_NE(p, nullptr);
  EXPECT_NE(PrintKernels(*p).find("at element (t * 8, 0)"), std::string::npos);
  EXPECT_TRUE(Kernels(PrintKernels(*p))->kernels[0].refs[0].element_index);
  const Literal x = GenerateInput(Shape::Array(Type::kF32, {64, 128}), 0, 0);
  DiagSink diags;
  const auto out = EvaluateKernels(*p, {x}, {}, &diags);
  ASSERT_TRUE(out) << diags.Render();
  for (int64_t t = 0; t < 7; ++t) {
    for (int64_t e = 0; e < 16 * 128; ++e) {
      ASSERT_EQ((*out)[0].data<float>()[t * 2048 + e], x.data<float>()[t * 1024 + e]);
    }
  }
}

// Conditions on parameters: only the taken branch exists, and defines names for what follows.
TEST(Elaborate, ConditionsOnParameters) {
  const std::string text =
      "kernel k { param twice = 1, dtype = f32; in x: dtype[8,128]; out o: dtype[8,128];"
      " when twice == 1 && !(twice > 2) { y = x[:] * 2; } else { y = nothing; }"
      " when twice == 0 { o[:] = y; } else { o[:] = y + dtype(1); } }";
  const auto p = Kernels(text);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(PrintKernels(*p).find("when"), std::string::npos) << PrintKernels(*p);
  DiagSink diags;
  const std::pair<std::string, std::string> words[] = {{"dtype", "bf16"}};
  const auto b = ParseKernels(Text(text), {}, &diags, words);
  ASSERT_NE(b, nullptr) << diags.Render();
  EXPECT_EQ(b->inputs[0].shape.type, Type::kBF16);
  const std::pair<std::string, std::string> wrong[] = {{"twice", "bf16"}};
  EXPECT_EQ(ParseKernels(Text(text), {}, &diags, wrong), nullptr);
  EXPECT_NE(diags.Render().find("parameter twice does not take a word"), std::string::npos)
      << diags.Render();
}

}  // namespace
}  // namespace tpuc
