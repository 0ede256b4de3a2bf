// Cycles of small sequences against the published latencies (tpu-v6e-compiler.md (f), section 7 of
// schedule-targets.md). A program's cycles are the issue of its last bundle, plus one.
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "harness.h"

namespace tpuc::interp::testing {
namespace {

// The issue cycle of the last bundle.
int64_t LastIssue(const Harness& h) {
  RunResult r = h.Go();
  EXPECT_TRUE(r.ok) << r.fault.message;
  int64_t sum = 0;
  r.kernels.push_back(r.tlp);
  for (const KernelRun& k : r.kernels) {
    EXPECT_EQ(k.cycles, k.bundles + k.stall_operand + k.stall_unit + k.stall_queue + k.stall_dma);
    sum += k.cycles;
  }
  EXPECT_EQ(r.cycles, sum);
  return r.cycles - 1;
}

TEST(TimingTest, LoadAddPow2PopMul) {
  Harness h;
  h.Vmem(0, Words(kTile, 0));
  h.Bundle({Load(1, 0)});                                // 0
  h.Bundle({Do(Opcode::kVaddF32, V(2), {V(1), V(1)})});  // 1: vld 1
  h.Bundle({Do(Opcode::kVpow2, {V(2)})});                // 3: valu 2
  h.Bundle({Do(Opcode::kVpopEup, V(3), {})});            // 16: eup 13
  h.Bundle({Do(Opcode::kVmulF32, V(4), {V(3), V(3)})});  // 17: pop 1
  h.Bundle({Store(4, 8)});                               // 19
  EXPECT_EQ(LastIssue(h), 19);
  RunResult r = h.Go();
  EXPECT_EQ(r.tlp.stall_operand, 2);
  EXPECT_EQ(r.tlp.stall_queue, 12);
}

TEST(TimingTest, SelectAndCompareTakeOne) {
  Harness h;
  h.Bundle({Do(Opcode::kVcmask, M(1), {Imm(8 << 4 | 4 << 16)})});
  h.Bundle({Do(Opcode::kVsel, V(1), {M(1), Imm(1), Imm(0)})});
  h.Bundle({Store(1, 0)});
  EXPECT_EQ(LastIssue(h), 2);
}

TEST(TimingTest, ScalarLatencies) {
  Harness h;
  Inst store = Do(Opcode::kSst, {Imm(4)});
  Inst load = Do(Opcode::kSld, S(1), {});
  h.Bundle({store});                                               // 0
  h.Bundle({load});                                                // 1
  h.Bundle({Do(Opcode::kSadd, S(2), {S(1), Imm(1)})});             // 7: sld 6
  h.Bundle({Do(Opcode::kSmul, S(3), {S(2), Imm(3)})});             // 8: salu 1
  h.Bundle({Do(Opcode::kScmpLt, P(1), {S(3), Imm(3)})});           // 10: smul 2
  h.Bundle({Do(Opcode::kSselect, S(4), {P(1), Imm(1), Imm(2)})});  // 12: predicate 2
  h.Bundle({Do(Opcode::kSdiv, S(5), {Imm(9), S(4)})});             // 14: scalar_select 2
  h.Bundle({Do(Opcode::kVstv, V(1), {S(5)})});                     // 23: sdiv 9
  h.Bundle({Store(1, 0)});                                         // 24: vmov 1
  EXPECT_EQ(LastIssue(h), 24);
}

TEST(TimingTest, StoreToLoadOfTheSameRow) {
  for (int row : {0, 7, 8}) {
    Harness h;
    h.Vmem(0, Words(2 * kTile, 0));
    h.Bundle({Store(F(1.0f), 0)});
    h.Bundle({Load(1, row)});
    EXPECT_EQ(LastIssue(h), row == 8 ? 1 : 7) << row;
  }
  Harness h;  // only the sublanes that are read count
  h.Vmem(0, Words(2 * kTile, 0));
  h.Bundle({Store(F(1.0f), 0)});
  h.Bundle({Load(1, 7, 0xfe)});
  EXPECT_EQ(LastIssue(h), 1);
}

TEST(TimingTest, MatmulTakes192AndPopsEveryTwo) {
  Harness h;
  h.Bundle({Do(Opcode::kVmatpush1, {F(1.0f)}, 0)});                           // 0
  h.Bundle({Do(Opcode::kVmatpush1, {F(1.0f)}, 0)});                           // 2
  h.Bundle({Do(Opcode::kVmatmulLatchMsk, {M(0), F(1.0f)}, 0)});               // 3: matpush 1
  h.Bundle({Do(Opcode::kVmatmul, {F(0.0f)}, 0)});                             // 7: matmul 4
  for (int i = 0; i < 4; ++i) h.Bundle({Do(Opcode::kVpopMrf, V(i), {}, 0)});  // 195 197 199 201
  EXPECT_EQ(LastIssue(h), 201);
  RunResult r = h.Go();
  EXPECT_EQ(r.tlp.slots.mxu, 8);
}

TEST(TimingTest, TransposedPushesAndLatch) {
  Harness h;
  h.Bundle({Do(Opcode::kVmatprepSubr, {F(0.0f)}, 1)});    // 0
  h.Bundle({Do(Opcode::kVmatpush3Xpose, {F(1.0f)}, 1)});  // 1: matprep 1
  h.Bundle({Do(Opcode::kVmatprepSubr, {F(0.0f)}, 1)});    // 2: subr 1 after push
  h.Bundle({Do(Opcode::kVmatpush3Xpose, {F(1.0f)}, 1)});  // 5: push to push 4
  h.Bundle({Do(Opcode::kVmatprepMubr, {F(1.0f)}, 1)});    // 6
  h.Bundle({Do(Opcode::kVmatmulLatch, {F(1.0f)}, 1)});    // 8: matpush_xpose 3
  h.Bundle({Do(Opcode::kVmatpush1, {F(1.0f)}, 1)});       // 9: one after the latch
  h.Bundle({Do(Opcode::kVmatmulLatch, {F(0.0f)}, 1)});    // 12: matmul 4
  for (int i = 0; i < 4; ++i) h.Bundle({Do(Opcode::kVpopMrf, V(i), {}, 1)});  // 200 202 204 206
  EXPECT_EQ(LastIssue(h), 206);
}

TEST(TimingTest, CrossLaneAndPermute) {
  Harness h;
  h.Bundle(
      {Do(Opcode::kVaddXlane, {F(1.0f)}, 0), Do(Opcode::kVbcastLane, {F(1.0f), Imm(3)}, 1)});  // 0
  h.Bundle({Do(Opcode::kVmaxXlane, {F(1.0f)}, 0)});   // 4: one XLU every 4
  h.Bundle({Do(Opcode::kVpopPermute, V(1), {}, 1)});  // 114
  h.Bundle({Do(Opcode::kVpopXlane, V(2), {}, 0)});    // 137
  h.Bundle({Do(Opcode::kVpopXlane, V(3), {}, 0)});    // 141
  EXPECT_EQ(LastIssue(h), 141);
  EXPECT_EQ(h.Go().tlp.slots.xlu, 12);
}

TEST(TimingTest, TransposesPopAt128Minus4n) {
  for (int n : {1, 2, 16}) {
    Harness h;
    for (int i = 0; i < n; ++i) {
      Opcode op = n == 1       ? Opcode::kVxposeStartEnd
                  : i == 0     ? Opcode::kVxposeStart
                  : i == n - 1 ? Opcode::kVxposeEnd
                               : Opcode::kVxposeCont;
      h.Bundle({Do(op, {F(1.0f)}, 0)});
    }
    for (int i = 0; i < 16; ++i) h.Bundle({Do(Opcode::kVpopTrf, V(1), {}, 0)});
    // Pushes every 4, first pop 128 - 4n after the last push, then every 4.
    EXPECT_EQ(LastIssue(h), 4 * (n - 1) + 128 - 4 * n + 15 * 4) << n;
  }
}

TEST(TimingTest, TransposesOfOneXluStart64Apart) {
  Harness h;
  h.Bundle({Do(Opcode::kVxposeStartEnd, {F(1.0f)}, 0)});
  h.Bundle({Do(Opcode::kVxposeStartEnd, {F(1.0f)}, 1)});
  h.Bundle({Do(Opcode::kVxposeStartEnd, {F(1.0f)}, 0)});
  for (int i = 0; i < 32; ++i) h.Bundle({Do(Opcode::kVpopTrf, V(1), {}, 0)});
  for (int i = 0; i < 16; ++i) h.Bundle({Do(Opcode::kVpopTrf, V(1), {}, 1)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok) << r.fault.message;
  // Second group on xlu0 starts at 64 and pops from 188 to 248; then xlu1's sixteen, 4 apart.
  EXPECT_EQ(r.cycles - 1, 64 + 124 + 60 + 1 + 60);
}

TEST(TimingTest, VectorToScalarTakes49) {
  Harness h;
  h.Bundle({Do(Opcode::kVpush, {F(1.0f)})});
  h.Bundle({Do(Opcode::kSpop, S(1), {})});
  EXPECT_EQ(LastIssue(h), 49);
}

TEST(TimingTest, BranchesHaveFourDelaySlots) {
  Harness h;
  h.Bundle({Move(1, 3)});                               // 0
  h.Bundle({Do(Opcode::kSsub, S(1), {S(1), Imm(1)})});  // 1: loop
  h.Bundle({Do(Opcode::kScmpGt, P(1), {S(1), Imm(0)})});
  h.Bundle({If(P(1), Branch(1))});
  for (int i = 0; i < 4; ++i) h.Bundle({Do(Opcode::kSadd, S(2), {S(2), Imm(1)})});
  h.Bundle({Do(Opcode::kVstv, V(1), {S(2)})});
  h.Bundle({Store(1, 0)});
  // The loop: 7 bundles and one cycle for the predicate, three times.
  EXPECT_EQ(LastIssue(h), 1 + 3 * 8 + 1);
  EXPECT_EQ(h.ReadBack(0, 1)[0], 12u);
}

TEST(TimingTest, DelayHoldsTheNextBundle) {
  Harness h;
  h.Bundle({Do(Opcode::kVdelay, {Imm(10)})});
  h.Bundle({Move(1, 1)});
  EXPECT_EQ(LastIssue(h), 11);
}

TEST(TimingTest, CallsStartInTheNextCycleAndHaveTheirOwnScalars) {
  Harness h;
  isa::Function kernel;
  kernel.name = "k";
  kernel.args = 2;
  Harness::AddTo(&kernel, {Do(Opcode::kSadd, S(2), {S(0), S(1)})});
  Harness::AddTo(&kernel, {Do(Opcode::kVstv, V(1), {S(2)})});
  Inst store = Store(1, 0);
  store.mem.base = S(0);
  Harness::AddTo(&kernel, {store});
  h.program.kernels.push_back(kernel);
  h.Bundle({Move(0, 8), Move(2, 77)});
  h.Bundle({Call(0, {S(0), Imm(5)})});
  h.Bundle({Call(0, {Imm(16), S(2)})});
  h.Bundle({Move(3, 1)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok) << r.fault.message;
  // Arguments are ready one cycle after the first bundle could issue.
  // The second kernel starts when the row that the first stored last may be loaded: 5 later.
  EXPECT_EQ(r.cycles, 4 + 2 * 4 + 5);
  EXPECT_EQ(r.kernels[0].calls, 2);
  EXPECT_EQ(r.kernels[0].cycles, 8);
  EXPECT_EQ(r.kernels[0].bundles, 6);
  EXPECT_EQ(r.tlp.cycles, 4 + 5);
  Words out = h.ReadBack(8, 2);
  EXPECT_EQ(out[0], 13u);
  EXPECT_EQ(out[kTile], 16u + 77u);
}

TEST(TimingTest, CallWithoutOperandsPassesItsFirstScalars) {
  Harness h;
  isa::Function kernel;
  kernel.name = "k";
  kernel.args = 2;
  Harness::AddTo(&kernel, {Do(Opcode::kSadd, S(0), {S(0), S(1)})});
  Harness::AddTo(&kernel, {Do(Opcode::kVstv, V(1), {S(0)})});
  Harness::AddTo(&kernel, {Store(1, 0)});
  h.program.kernels.push_back(kernel);
  h.Bundle({Move(0, 8), Do(Opcode::kSmul, S(1), {Imm(3), Imm(4)})});
  h.Bundle({Call(0, {})});                      // 2: smul 2
  h.Bundle({Do(Opcode::kVstv, V(2), {S(0)})});  // 8: kernel from 3, arguments at 4, 5, 6
  h.Bundle({Store(2, 8)});
  EXPECT_EQ(LastIssue(h), 8);
  Words out = h.ReadBack(0, 2);
  EXPECT_EQ(out[0], 20u);
  EXPECT_EQ(out[kTile], 8u);  // the kernel's scalars are its own
}

TEST(TimingTest, ChipNumbersDecide) {
  DiagSink diags;
  std::string text =
      absl::StrReplaceAll(BuiltinChip("v6e")->text, {{"\nvalu = 2 ", "\nvalu = 5 "}});
  auto chip = ParseChip(std::make_shared<const Source>(Source{"x.chip", text}), &diags);
  ASSERT_NE(chip, nullptr);
  Harness h;
  h.chip = chip.get();
  h.Bundle({Do(Opcode::kVaddF32, V(1), {F(1.0f), F(2.0f)})});
  h.Bundle({Store(1, 0)});
  EXPECT_EQ(LastIssue(h), 5);
}

}  // namespace
}  // namespace tpuc::interp::testing
