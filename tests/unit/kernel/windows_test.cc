// Windows of programs larger than VMEM: blocks are chosen under the budget, and block by block the
// kernels give the evaluator's values, also after printing, reading and editing.
#include "backend/kernel/windows.h"

#include <gtest/gtest.h>

#include "backend/kernel/block_eval.h"
#include "backend/kernel/from_hlo.h"
#include "backend/kernel/verifier.h"
#include "grammar/hlo/parser.h"
#include "grammar/kernel/printer.h"
#include "src/eval/evaluator.h"
#include "tests/unit/kernel/testing.h"

namespace tpuc {
namespace {

Chip WindowChip() {
  Chip chip = SmallChip();  // 1 MiB of scoped VMEM
  chip.hbm_bytes_per_cycle = 936;
  chip.dma_fixed_cycles = 600;
  chip.valu = 4;
  chip.mxus = 2;
  chip.xlus = 2;
  return chip;
}

std::unique_ptr<Module> Parse(const std::string& text) {
  DiagSink diags;
  auto m = ParseHlo(Text(text, "m.hlo"), &diags);
  EXPECT_NE(m, nullptr) << diags.Render();
  return m;
}

std::string WithReducers(const std::string& entry) {
  return R"(HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
%max (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] maximum(%a, %b)
}
ENTRY %main {
)" + entry +
         "}\n";
}

// Kernels of one instruction or fusion each; `set` edits parameters of the printed text.
void ExpectWindows(const std::string& text, const Sets& set = {}, double limit = 2e-6,
                   int64_t vmem = 1 << 20) {
  auto m = Parse(text);
  ASSERT_NE(m, nullptr);
  DiagSink diags;
  Chip chip = WindowChip();
  chip.scoped_vmem_bytes = vmem;
  auto p = KernelsFromHlo(*m, {}, chip, &diags);
  ASSERT_NE(p, nullptr) << diags.Render();
  ASSERT_TRUE(VerifyKernels(*p, chip, &diags)) << diags.Render() << PrintKernels(*p);
  int64_t most = 0;
  for (const kernel::Kernel& k : p->kernels) most = std::max(most, k.GridSteps());
  EXPECT_GT(most, 1) << PrintKernels(*p);
  std::vector<Literal> inputs;
  for (const Instruction* i : m->entry->Parameters()) {
    inputs.push_back(
        GenerateInput(Shape::Array(i->shape.type, i->shape.dims), i->parameter_number, 0));
  }
  auto want = Evaluate(*m, inputs, {}, &diags);
  ASSERT_TRUE(want) << diags.Render();
  std::vector<Literal> expected;
  if (m->entry->root->shape.IsTuple()) {
    expected = std::move(want->elements());
  } else {
    expected.push_back(*std::move(want));
  }
  const std::string printed = PrintKernels(*p);
  auto again = ParseKernels(Text(printed), set, &diags);
  ASSERT_NE(again, nullptr) << diags.Render() << printed;
  ASSERT_TRUE(VerifyKernels(*again, chip, &diags)) << diags.Render() << printed;
  for (const kernel::Program* program : {p.get(), again.get()}) {
    auto got = EvaluateKernels(*program, inputs, {}, &diags);
    ASSERT_TRUE(got) << diags.Render() << printed;
    ASSERT_EQ(got->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(RelativeError((*got)[i], expected[i]), limit) << i << "\n" << printed;
    }
  }
}

TEST(Windows, ElementWise) {
  ExpectWindows(WithReducers(R"(
    %x = f32[700,301] parameter(0)
    %y = f32[700,301] parameter(1)
    ROOT %s = f32[700,301] add(%x, %y)
  )"));
  ExpectWindows(WithReducers(R"(
    %x = bf16[3,700,301] parameter(0)
    %n = bf16[3,700,301] negate(%x)
    ROOT %s = bf16[3,700,301] multiply(%x, %n)
  )"));
}

TEST(Windows, Moves) {
  ExpectWindows(WithReducers(R"(
    %x = f32[700,301] parameter(0)
    ROOT %s = f32[301,700] transpose(%x), dimensions={1,0}
  )"));
  ExpectWindows(WithReducers(R"(
    %x = f32[5,700,301] parameter(0)
    ROOT %s = f32[700,5,301] transpose(%x), dimensions={1,0,2}
  )"));
  ExpectWindows(WithReducers(R"(
    %x = f32[700,301] parameter(0)
    %z = f32[] constant(7)
    ROOT %s = f32[700,310] pad(%x, %z), padding=0_0x4_5
  )"));
}

TEST(Windows, SumsGatherOverSteps) {
  for (const char* dims : {"0", "1"}) {
    const std::string out = dims[0] == '0' ? "301" : "1900";
    ExpectWindows(WithReducers(absl::StrCat(R"(
      %x = f32[1900,301] parameter(0)
      %z = f32[] constant(-inf)
      ROOT %s = f32[)",
                                            out, R"(] reduce(%x, %z), dimensions={)", dims,
                                            R"(}, to_apply=%max
    )")));
  }
  ExpectWindows(WithReducers(R"(
    %x = f32[1900,301] parameter(0)
    %z = f32[] constant(2)
    ROOT %s = f32[] reduce(%x, %z), dimensions={0,1}, to_apply=%add
  )"),
                {}, 1e-5);
}

TEST(Windows, MatrixProducts) {
  const std::string text = WithReducers(R"(
    %x = f32[500,1100] parameter(0)
    %w = f32[1100,600] parameter(1)
    ROOT %s = f32[500,600] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  )");
  ExpectWindows(text, {}, 1e-5);
  ExpectWindows(WithReducers(R"(
    %x = bf16[500,1100] parameter(0)
    %w = bf16[600,1100] parameter(1)
    ROOT %s = bf16[500,600] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  )"),
                {}, 1e-2);
  ExpectWindows(WithReducers(R"(
    %x = f32[3,500,200] parameter(0)
    %w = f32[3,200,300] parameter(1)
    ROOT %s = f32[3,500,300] dot(%x, %w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  )"),
                {}, 1e-5);
}

// Scores with a mask counted by iotas, their row maxima beside them; then work that needs both.
TEST(Windows, AttentionScores) {
  ExpectWindows(R"(HloModule m, is_scheduled=true

%max (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] maximum(%a, %b)
}
%scores (q: f32[2,300,128], k: f32[2,300,128]) -> (f32[2,300], f32[2,300,300]) {
  %q = f32[2,300,128] parameter(0)
  %k = f32[2,300,128] parameter(1)
  %d = f32[2,300,300] dot(%q, %k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  %i = s32[2,300,300] iota(), iota_dimension=1
  %j = s32[2,300,300] iota(), iota_dimension=2
  %h = f32[2,300,300] iota(), iota_dimension=0
  %in = pred[2,300,300] compare(%i, %j), direction=GE
  %s = f32[2,300,300] select(%in, %d, %h)
  %ninf = f32[] constant(-inf)
  %m = f32[2,300] reduce(%s, %ninf), dimensions={2}, to_apply=%max
  ROOT %t = (f32[2,300], f32[2,300,300]) tuple(%m, %s)
}
ENTRY %main (q: f32[2,300,128], k: f32[2,300,128]) -> (f32[2,300], f32[2,300,300]) {
  %q = f32[2,300,128] parameter(0)
  %k = f32[2,300,128] parameter(1)
  ROOT %f = (f32[2,300], f32[2,300,300]) fusion(%q, %k), kind=kOutput, calls=%scores
}
)",
                {}, 1e-5, 1500000);
}

// What follows a gathered sum runs in the last step; a value needed there and before is made twice.
TEST(Windows, WorkAfterASum) {
  ExpectWindows(R"(HloModule m, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
%norm (x: f32[2000,256], y: f32[256]) -> f32[256] {
  %x = f32[2000,256] parameter(0)
  %y = f32[256] parameter(1)
  %e = f32[256] exponential(%y)
  %b = f32[2000,256] broadcast(%e), dimensions={1}
  %d = f32[2000,256] multiply(%x, %b)
  %zero = f32[] constant(0)
  %s = f32[256] reduce(%d, %zero), dimensions={0}, to_apply=%add
  ROOT %r = f32[256] add(%s, %e)
}
ENTRY %main (x: f32[2000,256], y: f32[256]) -> f32[256] {
  %x = f32[2000,256] parameter(0)
  %y = f32[256] parameter(1)
  ROOT %f = f32[256] fusion(%x, %y), kind=kLoop, calls=%norm
}
)",
                {}, 1e-5);
}

// The window of an operand may be edited like that of a hand-written kernel.
TEST(Windows, EditedBlocks) {
  ExpectWindows(WithReducers(R"(
    %x = f32[1024,512] parameter(0)
    %y = f32[1024,512] parameter(1)
    ROOT %s = f32[1024,512] add(%x, %y)
  )"),
                {{"b0", 64}});
}

TEST(Windows, TheTableNamesTheChoice) {
  auto m = Parse(WithReducers(R"(
    %x = f32[1024,512] parameter(0)
    %y = f32[1024,512] parameter(1)
    ROOT %s = f32[1024,512] add(%x, %y)
  )"));
  DiagSink diags;
  std::string table;
  auto p = KernelsFromHlo(*m, {}, WindowChip(), &diags, {nullptr, &table, {}});
  ASSERT_NE(p, nullptr);
  EXPECT_NE(table.find("windows of s"), std::string::npos) << table;
  EXPECT_NE(table.find("whole arrays"), std::string::npos) << table;
  EXPECT_NE(table.find("does not fit: the limit is 1 MiB"), std::string::npos) << table;
  EXPECT_LE(kernel::TotalBytes(kernel::WindowsOf(p->kernels[0])), 1 << 20);
}

}  // namespace
}  // namespace tpuc
