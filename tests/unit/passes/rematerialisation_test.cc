// A chain whose peak exceeds the HBM fits after rematerialisation, with the same values.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "passes/live_ranges.h"
#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

// Forward: v(i) = dot(v(i-1), w); back: r = dot(r, v(i)), last first. All v live at the turn.
std::string Chain(int n) {
  const std::string shape = "f32[128,128]{1,0:T(8,128)}";
  const std::string dims = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  std::string text = absl::StrCat("HloModule chain\nENTRY e {\n  v0 = ", shape,
                                  " parameter(0)\n  w = ", shape, " parameter(1)\n");
  for (int i = 1; i <= n; ++i) {
    absl::StrAppend(&text, "  v", i, " = ", shape, " dot(v", i - 1, ", w)", dims);
  }
  absl::StrAppend(&text, "  r", n, " = ", shape, " dot(v", n, ", v", n, ")", dims);
  for (int i = n - 1; i >= 1; --i) {
    absl::StrAppend(&text, i == 1 ? "  ROOT r" : "  r", i, " = ", shape, " dot(r", i + 1, ", v", i,
                    ")", dims);
  }
  return text + "}\n";
}

struct Outcome {
  bool ok = false;
  std::string errors, remarks;
  std::unique_ptr<Module> module;
  BufferAssignment buffers;
};

Outcome Compile(const std::string& text, int64_t hbm_bytes, std::vector<std::string> passes) {
  Outcome out;
  DiagSink diags;
  out.module = ParseText(text, &diags);
  Chip chip = *BuiltinChip("v6e");
  chip.hbm_bytes = hbm_bytes;
  PipelineOptions options;
  options.all = false;
  options.passes = std::move(passes);
  options.want_remarks = true;
  auto observe = [&](absl::string_view, const Module&, bool, absl::string_view remarks) {
    absl::StrAppend(&out.remarks, remarks);
  };
  out.ok = RunPipeline(out.module.get(), chip, options, observe, &out.buffers, &diags);
  out.errors = diags.Render();
  return out;
}

TEST(Rematerialisation, ChainFits) {
  const std::string text = Chain(16);
  const int64_t matrix = 128 * 128 * 4;
  // Parameters and result take 3; of the 16 kept values room is left for 8.
  const int64_t hbm = 12 * matrix;
  Outcome without = Compile(text, hbm, {"schedule", "buffers"});
  EXPECT_FALSE(without.ok);
  EXPECT_NE(without.errors.find("E1000"), std::string::npos);
  Outcome with = Compile(text, hbm, {"schedule", "rematerialisation", "buffers"});
  ASSERT_TRUE(with.ok) << with.errors << with.remarks;
  EXPECT_NE(with.remarks.find("(1 kernels) frees 65536 bytes"), std::string::npos) << with.remarks;
  DiagSink diags;
  EXPECT_TRUE(VerifyHlo(*with.module, &diags)) << diags.Render();
  auto expected = RunSeeded(*ParseText(text, &diags), &diags);
  auto actual = RunSeeded(*with.module, &diags);
  ASSERT_TRUE(expected && actual) << diags.Render();
  EXPECT_EQ(Compare(*expected, *actual), "");
}

TEST(Rematerialisation, LeavesAloneWhatFits) {
  const std::string text = Chain(16);
  Outcome out = Compile(text, 64 * 128 * 128 * 4, {"schedule", "rematerialisation", "buffers"});
  ASSERT_TRUE(out.ok);
  EXPECT_EQ(out.remarks.find("frees"), std::string::npos);
}

TEST(Rematerialisation, SaysWhenNothingHelps) {
  Outcome out = Compile(Chain(4), 2 * 128 * 128 * 4, {"schedule", "rematerialisation", "buffers"});
  EXPECT_FALSE(out.ok);
  EXPECT_NE(out.errors.find("E1000"), std::string::npos);
}

}  // namespace
}  // namespace tpuc
