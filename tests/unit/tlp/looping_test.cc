// The top-level program is an LLO program like any other: a hand-written one with a loop around a
// kernel call doubles an array four times.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/interp/interp.h"
#include "backend/isa/verifier.h"
#include "backend/llo/verifier.h"
#include "backend/regalloc/assemble.h"
#include "grammar/bundle/parser.h"
#include "grammar/bundle/printer.h"

namespace tpuc {
namespace {

const char kProgram[] = R"(tpuc.llo 1
module "doubling"
options ""
chip "" {{{
}}}
buffer "x" hbm at=0 bytes=4096 shape="f32[8,128]{1,0:T(8,128)}" from=0 to=0
buffer "y" hbm at=4096 bytes=4096 shape="f32[8,128]{1,0:T(8,128)}" from=0 to=0
buffer "v" vmem at=0 bytes=4096 shape="f32[8,128]{1,0:T(8,128)S(1)}" from=0 to=0
input "x" "f32[8,128]{1,0:T(8,128)}" buffer=0
output "y" "f32[8,128]{1,0:T(8,128)}" buffer=1
llo "double" args=1 steps=1 {
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %v1 = vadd.f32 %v0, %v0
    vst [vmem:%s0], %v1 buf:0
}
llo "tlp" args=0 steps=1 {
  blocks first=1 last=2 trips=4 grid=0
  block 0 "copy in" trips=1 grid=0
    vsyncpa 0, 0
    dma.hbm_to_vmem 0, 128, 0, 0
    %s0 = smov 0
    dma.done.wait 0, 128
    vsyncadd 0, -128
  block 1 "call" trips=4 grid=0
    inlined_call 0 ->0
  block 2 "count" trips=4 grid=0
    %s0 = sadd.s32 %s0, 1
    %p0 = scmp.lt.s32 %s0, 4
    (%p0) sbr.rel ->1
  block 3 "copy out" trips=1 grid=0
    dma.vmem_to_hbm 0, 128, 128, 0
    dma.done.wait 0, 128
    vsyncadd 0, -128
}
)";

class LoopingTlp : public testing::TestWithParam<int> {};

TEST_P(LoopingTlp, CallsTheKernelFourTimes) {
  DiagSink diags;
  auto llo = bundle::ParseLlo(std::make_shared<Source>(Source{"doubling.llo", kProgram}), &diags);
  ASSERT_TRUE(llo) << diags.Render();
  const Chip& chip = *BuiltinChip("v6e");
  isa::Program program = llo->shell;
  program.chip_name = chip.name;
  program.chip_text = chip.text;
  AssembleOptions options;
  options.opt_level = GetParam();
  options.spill_row = 8;
  for (const llo::Function& f : llo->kernels) {
    ASSERT_TRUE(VerifyLlo(f, &diags)) << diags.Render();
    int64_t rows = 0;
    ASSERT_TRUE(Assemble(f, chip, options, &program.kernels.emplace_back(), &rows, &diags));
    options.spill_row += rows;
  }
  int64_t rows = 0;
  options.spill_word = 1024;  // the kernel's are the first
  ASSERT_TRUE(VerifyLlo(llo->tlp, &diags)) << diags.Render();
  ASSERT_TRUE(Assemble(llo->tlp, chip, options, &program.tlp, &rows, &diags)) << diags.Render();
  ASSERT_TRUE(VerifyBundles(program, chip, &diags)) << diags.Render();

  std::vector<float> x(8 * 128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 300;
  interp::PortData in;
  in.bytes.resize(x.size() * 4);
  std::memcpy(in.bytes.data(), x.data(), in.bytes.size());
  interp::RunResult result = interp::Run(program, chip, {in}, {.max_cycles = 1'000'000});
  ASSERT_TRUE(result.ok) << result.fault.message << "\n" << bundle::PrintBundles(program);
  EXPECT_EQ(result.kernels[0].calls, 4);
  std::vector<float> y(x.size());
  std::memcpy(y.data(), result.outputs[0].data(), result.outputs[0].size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 16 * x[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Levels, LoopingTlp, testing::Values(0, 2));

}  // namespace
}  // namespace tpuc
