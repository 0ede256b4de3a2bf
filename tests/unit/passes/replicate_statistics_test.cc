// Which results are kept over all lanes, and that values stay.
#include <gtest/gtest.h>

#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

struct Outcome {
  std::string text, remarks, difference;
};

Outcome Replicate(const std::string& text) {
  Outcome out;
  DiagSink diags;
  auto module = ParseText(text, &diags), before = ParseText(text, &diags);
  EXPECT_TRUE(module) << diags.Render();
  PipelineOptions options;
  options.stop_after = "replicate-statistics";
  options.want_remarks = options.replicate_statistics = true;
  auto observe = [&](absl::string_view pass, const Module&, bool, absl::string_view remarks) {
    if (pass == "replicate-statistics") out.remarks = std::string(remarks);
  };
  BufferAssignment buffers;
  EXPECT_TRUE(RunPipeline(module.get(), *BuiltinChip("v6e"), options, observe, &buffers, &diags))
      << diags.Render();
  EXPECT_TRUE(VerifyHlo(*module, &diags)) << diags.Render();
  auto expected = RunSeeded(*before, &diags), actual = RunSeeded(*module, &diags);
  EXPECT_TRUE(expected && actual) << diags.Render();
  if (expected && actual) out.difference = Compare(*expected, *actual);
  out.text = PrintHlo(*module);
  return out;
}

constexpr char kHead[] = R"(HloModule m
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
max {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] maximum(x, y)
}
)";

TEST(ReplicateStatistics, MiniAttention) {
  Outcome out = Replicate(ReadText(std::string(TPUC_SOURCE_DIR) + "/examples/mini_attention.hlo"));
  EXPECT_EQ(out.difference, "");
  // The sum of squares, the root (as its reciprocal), the maximum, the sum.
  for (const char* kept : {"multiply_reduce_fusion result 0", "add_sqrt_fusion result 0",
                           "fusion.1 result 0", "fusion.2 result 0"}) {
    EXPECT_NE(out.remarks.find(absl::StrCat(kept, " kept over all lanes, 8192 bytes")),
              std::string::npos)
        << out.remarks;
  }
  EXPECT_NE(out.remarks.find("add_sqrt_fusion result 0 is only divided by: inverted"),
            std::string::npos);
  EXPECT_NE(out.text.find("rsqrt("), std::string::npos);
  EXPECT_EQ(out.text.find(" sqrt("), std::string::npos);
}

TEST(ReplicateStatistics, SoftmaxOfThreeDimensions) {
  Outcome out = Replicate(std::string(kHead) + R"(ENTRY e {
  x = f32[3,10,72] parameter(0)
  ninf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[3,10] reduce(x, ninf), dimensions={2}, to_apply=max
  mb = f32[3,10,72] broadcast(m), dimensions={0,1}
  d = f32[3,10,72] subtract(x, mb)
  e = f32[3,10,72] exponential(d)
  s = f32[3,10] reduce(e, zero), dimensions={2}, to_apply=add
  sb = f32[3,10,72] broadcast(s), dimensions={0,1}
  ROOT r = f32[3,10,72] divide(e, sb)
})");
  EXPECT_EQ(out.difference, "");
  EXPECT_NE(out.text.find("f32[3,10,128]"), std::string::npos) << out.remarks;
}

// Read along other dimensions, by the result, or over more than 128: stays.
TEST(ReplicateStatistics, RefusesOtherUses) {
  for (const char* rest : {
           "ROOT r = f32[16] negate(s)\n",
           "b = f32[72,16] broadcast(s), dimensions={1}\n  y = f32[72,16] parameter(1)\n"
           "  ROOT r = f32[72,16] multiply(b, y)\n",
           "b = f32[16,200] broadcast(s), dimensions={0}\n  y = f32[16,200] parameter(1)\n"
           "  ROOT r = f32[16,200] multiply(b, y)\n",
       }) {
    Outcome out = Replicate(std::string(kHead) +
                            "ENTRY e {\n  x = f32[16,64] parameter(0)\n"
                            "  zero = f32[] constant(0)\n"
                            "  s = f32[16] reduce(x, zero), dimensions={1}, to_apply=add\n  " +
                            rest + "}\n");
    EXPECT_EQ(out.difference, "");
    EXPECT_EQ(out.text.find("128]"), std::string::npos) << out.text;
  }
}

}  // namespace
}  // namespace tpuc
