// Kernels from HLO: their form, and their values against the reference evaluator.
#include "backend/kernel/from_hlo.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "backend/kernel/block_eval.h"
#include "backend/kernel/verifier.h"
#include "grammar/hlo/parser.h"
#include "grammar/kernel/printer.h"
#include "tests/unit/kernel/testing.h"

namespace tpuc {
namespace {

std::unique_ptr<Module> Hlo(const std::string& text) {
  DiagSink diags;
  auto m = ParseHlo(Text(text, "m.hlo"), &diags);
  EXPECT_NE(m, nullptr) << diags.Render();
  return m;
}

Chip BigChip() {
  Chip chip = SmallChip();
  chip.scoped_vmem_bytes = int64_t{32} << 20;
  return chip;
}

std::unique_ptr<kernel::Program> FromHlo(const Module& m, const Chip& chip = BigChip()) {
  DiagSink diags;
  auto p = KernelsFromHlo(m, {}, chip, &diags);
  EXPECT_NE(p, nullptr) << diags.Render();
  return p;
}

std::string FromHloErrors(const std::string& text, const Chip& chip = BigChip()) {
  auto m = Hlo(text);
  DiagSink diags;
  EXPECT_EQ(KernelsFromHlo(*m, {}, chip, &diags), nullptr);
  return diags.Render();
}

std::vector<Literal> InputsOf(const Module& m) {
  std::vector<Literal> inputs;
  for (const Instruction* p : m.entry->Parameters()) {
    inputs.push_back(
        GenerateInput(Shape::Array(p->shape.type, p->shape.dims), p->parameter_number, 0));
  }
  return inputs;
}

// The kernels' results, the evaluator's, and those of the printed and parsed kernels agree.
void ExpectSameValues(const Module& m, const Sets& set = {}, double limit = 1e-6,
                      Numbers numbers = Numbers::kIeee) {
  auto p = FromHlo(m);
  ASSERT_NE(p, nullptr);
  DiagSink diags;
  ASSERT_TRUE(VerifyKernels(*p, BigChip(), &diags)) << diags.Render() << PrintKernels(*p);
  const std::vector<Literal> inputs = InputsOf(m);
  EvalOptions options;
  options.numbers = numbers;
  auto got = EvaluateKernels(*p, inputs, options, &diags);
  auto want = Evaluate(m, inputs, options, &diags);
  ASSERT_TRUE(got && want) << diags.Render();
  std::vector<Literal> expected;
  if (m.entry->root->shape.IsTuple()) {
    expected = std::move(want->elements());
  } else {
    expected.push_back(*std::move(want));
  }
  ASSERT_EQ(got->size(), expected.size());
  const std::string text = PrintKernels(*p);
  auto again = ParseKernels(Text(text), set, &diags);
  ASSERT_NE(again, nullptr) << diags.Render() << text;
  ASSERT_TRUE(VerifyKernels(*again, BigChip(), &diags)) << diags.Render() << text;
  auto got_again = EvaluateKernels(*again, inputs, options, &diags);
  ASSERT_TRUE(got_again) << diags.Render();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(RelativeError((*got)[i], expected[i]), limit) << text;
    EXPECT_LE(RelativeError((*got_again)[i], expected[i]), limit) << text;
  }
}

// The mini attention of the published dumps after fusion (tpu-v6e-compiler.md (a)), with dots.
const char* const kMini = R"(HloModule mini, is_scheduled=true

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
%first (p0: f32[16,64], p1: f32[64,64]) -> (f32[16], f32[16,64]) {
  %p0 = f32[16,64]{1,0:T(8,128)} parameter(0)
  %p1 = f32[64,64]{1,0:T(8,128)S(1)} parameter(1)
  %h = f32[16,64]{1,0:T(8,128)} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(mini)/dot_general" source_file="mini.py" source_line=4}
  %sq = f32[16,64]{1,0:T(8,128)} multiply(%h, %h)
  %zero = f32[] constant(0)
  %r = f32[16]{0:T(128)} reduce(%sq, %zero), dimensions={1}, to_apply=%add
  ROOT %t = (f32[16]{0:T(128)S(1)}, f32[16,64]{1,0:T(8,128)S(1)}) tuple(%r, %h)
}
%norm (p0: f32[16]) -> f32[16] {
  %p0 = f32[16]{0:T(128)S(1)} parameter(0)
  %c = f32[] constant(0.015625)
  %cb = f32[16]{0:T(128)} broadcast(%c), dimensions={}
  %m = f32[16]{0:T(128)} multiply(%p0, %cb)
  %e = f32[] constant(1e-06)
  %eb = f32[16]{0:T(128)} broadcast(%e), dimensions={}
  %a = f32[16]{0:T(128)} add(%m, %eb)
  ROOT %q = f32[16]{0:T(128)S(1)} sqrt(%a)
}
%div (p0: f32[16,64], p1: f32[16]) -> f32[16,64] {
  %p0 = f32[16,64]{1,0:T(8,128)} parameter(0)
  %p1 = f32[16]{0:T(128)} parameter(1)
  %b = f32[16,64]{1,0:T(8,128)} broadcast(%p1), dimensions={0}
  ROOT %d = f32[16,64]{1,0:T(8,128)} divide(%p0, %b)
}
%rowmax (p0: f32[16,64], p1: f32[16]) -> f32[16] {
  %p0 = f32[16,64]{1,0:T(8,128)S(1)} parameter(0)
  %p1 = f32[16]{0:T(128)S(1)} parameter(1)
  %d = f32[16,64]{1,0:T(8,128)} fusion(%p0, %p1), kind=kLoop, calls=%div
  %ninf = f32[] constant(-inf)
  ROOT %r = f32[16]{0:T(128)S(1)} reduce(%d, %ninf), dimensions={1}, to_apply=%max
}
%last (p0: f32[16,64], p1: f32[16], p2: f32[16], p3: f32[64,32]) -> f32[16,32] {
  %p0 = f32[16,64]{1,0:T(8,128)S(1)} parameter(0)
  %p1 = f32[16]{0:T(128)S(1)} parameter(1)
  %p2 = f32[16]{0:T(128)S(1)} parameter(2)
  %p3 = f32[64,32]{0,1:T(8,128)S(1)} parameter(3)
  %d = f32[16,64]{1,0:T(8,128)} fusion(%p0, %p1), kind=kLoop, calls=%div
  %b = f32[16,64]{1,0:T(8,128)} broadcast(%p2), dimensions={0}
  %s = f32[16,64]{1,0:T(8,128)} subtract(%d, %b)
  %e = f32[16,64]{1,0:T(8,128)} exponential(%s)
  ROOT %o = f32[16,32]{1,0:T(8,128)} dot(%e, %p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY %main (x: f32[16,64], w1: f32[64,64], w2: f32[64,32]) -> f32[16,32] {
  %w1 = f32[64,64]{1,0:T(8,128)} parameter(1)
  %cs = (f32[64,64]{1,0:T(8,128)S(1)}, f32[64,64]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%w1), cross_program_prefetch_index=0
  %w2 = f32[64,32]{0,1:T(8,128)} parameter(2)
  %x = f32[16,64]{1,0:T(8,128)} parameter(0)
  %cd = f32[64,64]{1,0:T(8,128)S(1)} copy-done(%cs)
  %multiply_reduce_fusion = (f32[16]{0:T(128)S(1)}, f32[16,64]{1,0:T(8,128)S(1)}) fusion(%x, %cd), kind=kOutput, calls=%first
  %cs2 = (f32[64,32]{0,1:T(8,128)S(1)}, f32[64,32]{0,1:T(8,128)}, u32[]{:S(2)}) copy-start(%w2)
  %sumsq = f32[16]{0:T(128)S(1)} get-tuple-element(%multiply_reduce_fusion), index=0
  %h = f32[16,64]{1,0:T(8,128)S(1)} get-tuple-element(%multiply_reduce_fusion), index=1
  %add_sqrt_fusion = f32[16]{0:T(128)S(1)} fusion(%sumsq), kind=kLoop, calls=%norm
  %fusion.5 = f32[16]{0:T(128)S(1)} fusion(%h, %add_sqrt_fusion), kind=kInput, calls=%rowmax
  %cd2 = f32[64,32]{0,1:T(8,128)S(1)} copy-done(%cs2)
  ROOT %fusion = f32[16,32]{1,0:T(8,128)} fusion(%h, %add_sqrt_fusion, %fusion.5, %cd2), kind=kOutput, calls=%last
}
)";

TEST(FromHlo, MiniAttention) {
  auto m = Hlo(kMini);
  auto p = FromHlo(*m);
  ASSERT_NE(p, nullptr);
  ASSERT_EQ(p->kernels.size(), 4u);
  ASSERT_EQ(p->steps.size(), 8u);
  EXPECT_EQ(p->inputs[0].name, "x");
  EXPECT_EQ(p->inputs[1].name, "w1");
  EXPECT_TRUE(p->steps[0].cross_program);
  EXPECT_FALSE(p->steps[3].cross_program);
  const kernel::Kernel& first = p->kernels[0];
  EXPECT_EQ(first.ops, (std::vector<std::string>{"dot", "multiply", "reduce"}));
  EXPECT_EQ(first.op_names, (std::vector<std::string>{"jit(mini)/dot_general"}));
  EXPECT_EQ(first.Outputs().size(), 2u);
  ASSERT_EQ(first.params.size(), 1u);
  EXPECT_EQ(first.params[0].value, 16);
  EXPECT_EQ(first.GridSteps(), 1);
  EXPECT_EQ(first.nodes[2].place, "mini.py:4");
  EXPECT_EQ(p->buffers[p->steps[1].operands[1]].name, "w1.vmem");
  ExpectSameValues(*m);
}

TEST(FromHlo, MiniAttentionPrints) {
  auto p = FromHlo(*Hlo(kMini));
  EXPECT_EQ(PrintKernel(p->kernels[2]), R"(kernel fusion.5 {
  param b0 = 16;
  grid i: cdiv(16, b0);
  in multiply_reduce_fusion_1: f32[16,64]{1,0:T(8,128)S(1)} block [b0, 64] at (i, 0);
  in add_sqrt_fusion: f32[16]{0:T(128)S(1)} block [b0] at (i);
  out o: f32[16]{0:T(128)S(1)} block [b0] at (i);
  multiply_reduce_fusion_1_block = multiply_reduce_fusion_1[:];  # h
  add_sqrt_fusion_block = add_sqrt_fusion[:];  # add_sqrt_fusion
  b = broadcast(add_sqrt_fusion_block, [b0, 64], dims={0});  # b
  d = multiply_reduce_fusion_1_block / b;  # d
  r = max(d, axis=1);  # r
  o[:] = r;  # r
}
)");
  EXPECT_EQ(PrintKernel(p->kernels[1]), R"(kernel add_sqrt_fusion {
  param b0 = 16;
  grid i: cdiv(16, b0);
  in multiply_reduce_fusion_0: f32[16]{0:T(128)S(1)} block [b0] at (i);
  out o: f32[16]{0:T(128)S(1)} block [b0] at (i);
  multiply_reduce_fusion_0_block = multiply_reduce_fusion_0[:];  # sumsq
  m = multiply_reduce_fusion_0_block * 0.015625;  # m
  a = m + 1e-06;  # a
  q = sqrt(a);  # q
  o[:] = q;  # q
}
)");
}

TEST(FromHlo, RowBlocksMayBeEdited) {
  // Rows of the left side; the weights are whole at every step. 100 rows: the last block is cut
  // off.
  auto rows = Hlo(R"(HloModule m
%f {
  %x = f32[100,64] parameter(0)
  %w = f32[64,32] parameter(1)
  %n = f32[100,64] exponential(%x)
  %d = f32[100,32] dot(%n, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[32,100] transpose(%d), dimensions={1,0}
  %u = f32[100,32] transpose(%t), dimensions={1,0}
  ROOT %r = (f32[100,32], f32[100,64]) tuple(%u, %n)
}
ENTRY %main {
  %x = f32[100,64] parameter(0)
  %w = f32[64,32] parameter(1)
  ROOT %r = (f32[100,32], f32[100,64]) fusion(%x, %w), kind=kOutput, calls=%f
}
)");
  for (int64_t b0 : {8, 24, 104}) ExpectSameValues(*rows, {{"b0", b0}}, 1e-6);
  auto m = Hlo(kMini);
  // f32[16] cannot be cut into eights: the verifier says what can be done.
  auto p = FromHlo(*m);
  DiagSink diags;
  auto again = ParseKernels(Text(PrintKernels(*p)), Sets{{"add_sqrt_fusion.b0", 8}}, &diags);
  ASSERT_NE(again, nullptr) << diags.Render();
  EXPECT_FALSE(VerifyKernels(*again, BigChip(), &diags));
  EXPECT_NE(diags.Render().find("[E2002]"), std::string::npos);
  EXPECT_NE(diags.Render().find("nearest allowed: 16"), std::string::npos) << diags.Render();
}

std::string Entry(const std::string& body, const std::string& before = "") {
  return absl::StrCat("HloModule m\n", before, "ENTRY %main {\n", body, "}\n");
}

const char* const kAdd =
    "%add { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %s = f32[] add(%a, %b) }\n";

TEST(FromHlo, SingleOperationsAndWiring) {
  ExpectSameValues(*Hlo(Entry(R"(
    %x = f32[8,128] parameter(0)
    %y = f32[128,8] transpose(%x), dimensions={1,0}
    %z = f32[1024] reshape(%y)
    %c = f32[1024] copy(%z)
    ROOT %t = (f32[1024], f32[8,128], f32[128,8]) tuple(%c, %x, %y)
  )")));
  // The same value leaves twice; constants leave.
  ExpectSameValues(*Hlo(Entry(R"(
    %x = f32[8,128] parameter(0)
    %c = f32[2,2] constant({{1, 2}, {3, -4.5}})
    %s = f32[] constant(7)
    %y = f32[8,128] negate(%x)
    ROOT %t = (f32[8,128], f32[8,128], f32[2,2], f32[]) tuple(%y, %y, %c, %s)
  )")));
}

// The machine adds it once, as chip numbers do; XLA on a CPU once in each window of a reduce.
TEST(FromHlo, ReduceInitialValues) {
  ExpectSameValues(*Hlo(Entry(R"(
    %x = f32[8,128] parameter(0)
    %i = f32[] constant(2.5)
    ROOT %r = f32[8] reduce(%x, %i), dimensions={1}, to_apply=%add
  )",
                              kAdd)),
                   {}, 1e-6, Numbers::kChip);
  ExpectSameValues(*Hlo(Entry(R"(
    %x = f32[8,128] parameter(0)
    %i = f32[] parameter(1)
    ROOT %r = f32[] reduce(%x, %i), dimensions={0,1}, to_apply=%add
  )",
                              kAdd)),
                   {}, 1e-6, Numbers::kChip);
}

TEST(FromHlo, OperationsOfManyKinds) {
  ExpectSameValues(*Hlo(Entry(R"(
    %x = f32[8,128] parameter(0)
    %y = s32[8,128] parameter(1)
    %zero = f32[] constant(0)
    %six = f32[] constant(6)
    %cl = f32[8,128] clamp(%zero, %x, %six)
    %sl = f32[4,64] slice(%cl), slice={[0:8:2], [64:128]}
    %pd = f32[7,66] pad(%sl, %six), padding=1_2x0_2
    %rv = f32[7,66] reverse(%pd), dimensions={1}
    %cc = f32[14,66] concatenate(%rv, %pd), dimensions={0}
    %io = f32[14,66] iota(), iota_dimension=1
    %lt = pred[14,66] compare(%cc, %io), direction=LT
    %se = f32[14,66] select(%lt, %cc, %io)
    %cv = bf16[14,66] convert(%se)
    %bc = s32[8,128] bitcast-convert(%x)
    %an = s32[8,128] and(%bc, %y)
    %sh = s32[] constant(3)
    %sb = s32[8,128] broadcast(%sh), dimensions={}
    %sr = s32[8,128] shift-right-logical(%an, %sb)
    %rp = f32[8,128] reduce-precision(%x), exponent_bits=8, mantissa_bits=7
    ROOT %t = (bf16[14,66], s32[8,128], f32[8,128]) tuple(%cv, %sr, %rp)
  )")));
}

TEST(FromHlo, FusedBitcastsAreReshapesAndTransposes) {
  ExpectSameValues(*Hlo(R"(HloModule m
%f {
  %p = f32[16,128]{1,0} parameter(0)
  %b = f32[2,8,128]{2,1,0} bitcast(%p)
  %c = f32[128,16]{0,1} bitcast(%p)
  %n = f32[128,16]{0,1} negate(%c)
  ROOT %t = (f32[2,8,128]{2,1,0}, f32[128,16]{0,1}) tuple(%b, %n)
}
ENTRY %main {
  %x = f32[16,128]{1,0} parameter(0)
  ROOT %r = (f32[2,8,128]{2,1,0}, f32[128,16]{0,1}) fusion(%x), kind=kLoop, calls=%f
}
)"));
}

TEST(FromHlo, ZeroSizedValuesHaveNoBuffer) {
  auto m = Hlo(Entry(R"(
    %x = f32[0,8] parameter(0)
    %y = f32[8,128] parameter(1)
    %n = f32[0,8] negate(%x)
    %m = f32[8,128] negate(%y)
    ROOT %t = (f32[0,8], f32[8,128]) tuple(%n, %m)
  )"));
  auto p = FromHlo(*m);
  EXPECT_EQ(p->kernels.size(), 1u);
  EXPECT_EQ(p->inputs[0].buffer, -1);
  EXPECT_EQ(p->outputs[0].buffer, -1);
  ExpectSameValues(*m);
}

TEST(FromHlo, UnsupportedOperationsAreNamed) {
  const std::string sort =
      FromHloErrors(Entry(R"(
    %x = f32[128] parameter(0)
    ROOT %s = f32[128] sort(%x), dimensions={0}, to_apply=%lt
  )",
                          "%lt { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %c = pred[] "
                          "compare(%a, %b), direction=LT }\n"));
  EXPECT_NE(sort.find("[E1200]"), std::string::npos) << sort;
  EXPECT_NE(sort.find("sort is not supported in kernels yet"), std::string::npos) << sort;
  const std::string reduce =
      FromHloErrors(Entry(R"(
    %x = f32[8,128] parameter(0)
    %i = f32[] constant(0)
    ROOT %r = f32[8] reduce(%x, %i), dimensions={1}, to_apply=%sub
  )",
                          "%sub { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %s = f32[] "
                          "subtract(%a, %b) }\n"));
  EXPECT_NE(reduce.find("reduce by the computation sub"), std::string::npos) << reduce;
}

// Nothing of a reversed dimension can be computed from a block of it.
TEST(FromHlo, WhatDoesNotFitNamesItsOperands) {
  const std::string errors = FromHloErrors(Entry(R"(
    %x = f32[4096,4096] parameter(0)
    ROOT %n = f32[4096,4096] reverse(%x), dimensions={0,1}
  )"));
  EXPECT_NE(errors.find("[E1001]"), std::string::npos) << errors;
  EXPECT_NE(errors.find("x: 67108864 bytes = 1 x 67108864"), std::string::npos) << errors;
}

TEST(FromHlo, OraclePrograms) {
  const std::string dir = std::string(TPUC_SOURCE_DIR) + "/../shared/oracle/programs/";
  std::ifstream index(dir + "INDEX.tsv");
  if (!index) GTEST_SKIP() << "no oracle beside the source";
  std::string line;
  std::getline(index, line);
  int checked = 0, unsupported = 0;
  while (std::getline(index, line)) {
    const std::string name = line.substr(0, line.find('\t'));
    const std::string group = name.substr(0, name.find('/'));
    if (group == "conv" || group == "flow" || group == "random" || group == "linalg" ||
        group == "model" || group == "kernel" || group == "index" ||
        name.find("dynamic_") != std::string::npos) {
      continue;
    }
    std::ifstream in(dir + name + ".hlo");
    std::stringstream text;
    text << in.rdbuf();
    DiagSink diags;
    auto m = ParseHlo(Text(text.str(), name), &diags);
    ASSERT_NE(m, nullptr) << diags.Render();
    if (KernelsFromHlo(*m, {}, BigChip(), &diags) == nullptr) {
      // Operations of later work, or too large for one window: named, never anything else.
      for (const Diag& d : diags.diags()) {
        EXPECT_TRUE(d.code == DiagCode::kUnsupportedOp || d.code == DiagCode::kVmemBudget)
            << name << ": " << diags.Render();
      }
      ++unsupported;
      continue;
    }
    if (!Evaluate(*m, InputsOf(*m), {}, &diags)) {  // complex numbers: named, as above
      for (const Diag& d : diags.diags()) EXPECT_EQ(d.code, DiagCode::kUnsupportedOp) << name;
      ++unsupported;
      continue;
    }
    SCOPED_TRACE(name);
    ExpectSameValues(*m, {}, 2e-6);
    if (HasFailure()) return;
    ++checked;
  }
  RecordProperty("checked", checked);
  RecordProperty("unsupported", unsupported);
  EXPECT_GT(checked, 100);
}

}  // namespace
}  // namespace tpuc
