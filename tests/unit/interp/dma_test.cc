// DMA: values of contiguous and strided transfers, cost against the chip file's numbers, sharing of
// the bandwidth, warm runs, timing-only runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "harness.h"

namespace tpuc::interp::testing {
namespace {

constexpr int kHbm = 32768;  // first free granule after the harness's output buffer

Inst Start(int hbm, int granules, int vmem, int flag) {
  return Do(Opcode::kDmaHbmToVmem, {Imm(hbm), Imm(granules), Imm(vmem), Imm(flag)});
}
Inst Wait(int flag, int granules) { return Do(Opcode::kDmaDoneWait, {Imm(flag), Imm(granules)}); }

int64_t Fixed(const Harness& h) { return h.chip->dma_fixed_cycles; }
// Whole cycles for this many bytes at the HBM's rate.
int64_t Flow(const Harness& h, double bytes) {
  return static_cast<int64_t>(std::ceil(bytes / h.chip->hbm_bytes_per_cycle - 1e-6));
}

TEST(DmaTest, CopiesThereAndBack) {
  Words data = RandomWords(4 * kTile, 1);
  Harness h;
  h.Hbm(kHbm, data);
  h.Bundle({Start(kHbm, 512, 40, 3)});
  h.Bundle({Wait(3, 512)});
  EXPECT_EQ(h.ReadBack(40, 4), data);
}

TEST(DmaTest, CostIsFixedPlusBytes) {
  Harness h;
  h.Hbm(kHbm, Words(64 * kTile, 1));
  h.Bundle({Start(kHbm, 64 * 128, 0, 3)});
  h.Bundle({Wait(3, 64 * 128)});
  h.Bundle({Load(1, 0)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok) << r.fault.message;
  EXPECT_EQ(r.cycles, Fixed(h) + Flow(h, 64 * 4096.0) + 2);
  EXPECT_EQ(r.tlp.stall_dma, r.cycles - 3);
  EXPECT_EQ(r.tlp.hbm_read_bytes, 64 * 4096);
  EXPECT_EQ(r.hbm_bytes, 64 * 4096);
}

TEST(DmaTest, TransfersShareTheBandwidthAndPayTheFixedPartOnce) {
  Harness h;
  h.Hbm(kHbm, Words(128 * kTile, 1));
  h.Bundle({Start(kHbm, 64 * 128, 0, 3)});
  h.Bundle({Start(kHbm + 64 * 128, 64 * 128, 512, 4)});
  h.Bundle({Wait(3, 64 * 128)});
  h.Bundle({Wait(4, 64 * 128)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok) << r.fault.message;
  EXPECT_EQ(r.cycles, Fixed(h) + Flow(h, 128 * 4096.0) + 1);
}

TEST(DmaTest, WorkHidesATransfer) {
  Harness h;
  h.Hbm(kHbm, Words(kTile, 1));
  h.Bundle({Start(kHbm, 128, 0, 3)});
  for (int i = 0; i < 700; ++i) h.Bundle({Move(1, i)});
  h.Bundle({Wait(3, 128)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok);
  EXPECT_EQ(r.cycles, 702);
  EXPECT_EQ(r.tlp.stall_dma, 0);
}

// A latency that runs while the core waits for DMA is not paid again, and not counted as DMA.
TEST(DmaTest, OtherStallsHideBehindTheWait) {
  Harness h;
  h.Hbm(kHbm, Words(kTile, 1));
  h.Bundle({Start(kHbm, 128, 0, 3)});
  h.Bundle({Do(Opcode::kVaddXlane, {F(1.0f)}, 0)});
  h.Bundle({Wait(3, 128)});
  h.Bundle({Do(Opcode::kVpopXlane, V(1), {}, 0)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok);
  EXPECT_EQ(r.cycles, Fixed(h) + Flow(h, 4096) + 2);
  EXPECT_EQ(r.tlp.stall_queue, 1 + 137 - 3);             // the schedule without DMA
  EXPECT_EQ(r.tlp.stall_dma, r.cycles - (1 + 137 + 1));  // the rest
}

TEST(DmaTest, StridedTransferMovesTilesAndCostsSegments) {
  Words data = RandomWords(8 * kTile, 2);
  Harness h;
  h.Hbm(kHbm, data);
  // Every second tile, packed.
  h.Bundle({Do(Opcode::kDmaHbmToVmem,
               {Imm(kHbm), Imm(4 * 128), Imm(0), Imm(3), Imm(256), Imm(128), Imm(128)})});
  h.Bundle({Wait(3, 4 * 128)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok) << r.fault.message;
  EXPECT_EQ(r.cycles,
            Fixed(h) +
                Flow(h, 4 * 4096.0 + 3 * h.chip->dma_segment_cycles * h.chip->hbm_bytes_per_cycle) +
                1);
  Words out = h.ReadBack(0, 4);
  for (int i = 0; i < 4 * kTile; ++i) {
    ASSERT_EQ(out[i], data[i / kTile * 2 * kTile + i % kTile]);
  }
}

TEST(DmaTest, OtherPaths) {
  Words data = RandomWords(kTile, 3);
  data[0] = 11;
  data[1] = 22;
  Harness h;
  h.Hbm(kHbm, data);
  h.Bundle({Do(Opcode::kDmaHbmToHbm, {Imm(kHbm), Imm(128), Imm(1024), Imm(1)})});
  h.Bundle({Wait(1, 128)});
  h.Bundle({Start(1024, 128, 0, 2)});
  h.Bundle({Wait(2, 128)});
  h.Bundle({Do(Opcode::kDmaVmemToVmem, {Imm(0), Imm(128), Imm(8), Imm(3)})});
  h.Bundle({Wait(3, 128)});
  EXPECT_EQ(h.ReadBack(8, 1), data);
  EXPECT_EQ(h.result.hbm_bytes, 4096 * 2 + 4096 + 4096);
  h.Bundle({Do(Opcode::kDmaHbmToSmem, {Imm(kHbm), Imm(1), Imm(100), Imm(4)})});
  h.Bundle({Wait(4, 1)});
  Inst load = Do(Opcode::kSld, S(1), {});
  load.mem.offset = 101;
  h.Bundle({load});
  h.Bundle({Do(Opcode::kVstv, V(1), {S(1)})});
  h.Bundle({Store(1, 16)});
  EXPECT_EQ(h.ReadBack(16, 1), Words(kTile, 22));
  // 16 words of row 8 to SMEM, 8 of them back to the head of row 24.
  h.Bundle({Do(Opcode::kDmaVmemToSmem, {Imm(8), Imm(2), Imm(200), Imm(5)})});
  h.Bundle({Wait(5, 2)});
  h.Bundle({Start(1024, 128, 24, 6)});
  h.Bundle({Wait(6, 128)});
  h.Bundle({Do(Opcode::kDmaSmemToVmem, {Imm(208), Imm(1), Imm(24), Imm(7)})});
  h.Bundle({Wait(7, 1)});
  Words back = data;
  std::copy_n(data.begin() + 8, 8, back.begin());
  EXPECT_EQ(h.ReadBack(24, 1), back);
}

TEST(DmaTest, FlagsCountDown) {
  Harness h;
  h.Hbm(kHbm, Words(2 * kTile, 1));
  h.Bundle({Do(Opcode::kVsyncpa, {Imm(3), Imm(0)})});
  for (int i = 0; i < 2; ++i) {
    h.Bundle({Start(kHbm, 128, 0, 3)});
    h.Bundle({Wait(3, 128)});
    h.Bundle({Do(Opcode::kVsyncadd, {Imm(3), Imm(-128)})});
  }
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok) << r.fault.message;
  EXPECT_EQ(r.cycles, 2 * (Fixed(h) + Flow(h, 4096) + 2) + 1);
}

TEST(DmaTest, WarmRunSkipsTheCrossProgramCopy) {
  Words data = RandomWords(64 * kTile, 4);
  Harness h;
  h.Hbm(kHbm, data);
  h.program.sources.push_back({"copy-start.1", "", ""});
  isa::Copy copy;
  copy.name = "copy-start.1";
  copy.cross_program = true;
  h.program.copies.push_back(copy);
  Inst start = Start(kHbm, 64 * 128, 0, 3);
  start.source = 0;
  h.Bundle({start});
  h.Bundle({Wait(3, 64 * 128)});
  h.Bundle({Load(1, 0)});
  RunResult cold = h.Go();
  ASSERT_TRUE(cold.ok);
  EXPECT_EQ(cold.copies[0].start, 0);
  EXPECT_EQ(cold.copies[0].done, Fixed(h) + Flow(h, 64 * 4096.0));
  EXPECT_EQ(cold.copies[0].wait_stall, cold.copies[0].done - 1);
  h.options.warm = true;
  RunResult warm = h.Go();
  ASSERT_TRUE(warm.ok);
  EXPECT_EQ(warm.cycles, 3);
  EXPECT_EQ(warm.hbm_bytes, 0);
  EXPECT_EQ(h.ReadBack(0, 64), data);
}

TEST(DmaTest, InFlightLimitMakesLaterOnesWait) {
  Harness h;
  Chip chip = *h.chip;
  chip.dma_in_flight = 1;
  h.chip = &chip;
  h.Hbm(kHbm, Words(2 * kTile, 1));
  h.Bundle({Start(kHbm, 128, 0, 3)});
  h.Bundle({Start(kHbm + 128, 128, 8, 4)});
  h.Bundle({Wait(4, 128)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok);
  EXPECT_EQ(r.cycles, 2 * (Fixed(h) + Flow(h, 4096)) + 1);
}

TEST(DmaTest, ThreeOfUnequalSizeShareEqually) {
  Harness h;
  h.Hbm(kHbm, Words(60 * kTile, 1));
  h.Bundle({Start(kHbm, 10 * 128, 0, 3)});
  h.Bundle({Start(kHbm + 1280, 50 * 128, 512, 4)});
  h.Bundle({Wait(3, 10 * 128)});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok);
  // One cycle alone, then at half rate until the small one is done.
  double rate = h.chip->hbm_bytes_per_cycle;
  double expected = Fixed(h) + 1 + (10 * 4096.0 - rate) / (rate / 2);
  EXPECT_EQ(r.tlp.cycles - 1, static_cast<int64_t>(std::ceil(expected - 1e-6)));
  EXPECT_EQ(r.cycles, Fixed(h) + Flow(h, 60 * 4096.0));  // the program ends with its transfers
}

TEST(TimingOnlyTest, SameCyclesAsARunWithValues) {
  Harness h;
  h.Hbm(kHbm, RandomFloats(4 * kTile, 5));
  h.Bundle({Start(kHbm, 512, 0, 3), Move(1, 4)});
  h.Bundle({Wait(3, 512)});
  h.Bundle({Load(1, 0)});  // 2: loop
  h.Bundle({Do(Opcode::kVpow2, {V(1)}), Do(Opcode::kSsub, S(1), {S(1), Imm(1)})});
  h.Bundle({Do(Opcode::kVpopEup, V(2), {}), Do(Opcode::kScmpGt, P(1), {S(1), Imm(0)})});
  h.Bundle({Do(Opcode::kVaddXlane, {V(2)}, 0)});
  h.Bundle({If(P(1), Branch(2))});
  h.Bundle({Do(Opcode::kVpopXlane, V(3), {}, 0)});  // the delay slots
  h.Bundle({Store(3, 32)});
  for (int i = 0; i < 2; ++i) h.Bundle({Move(4, 1)});
  h.Bundle({Do(Opcode::kVmatpush1, {V(3)}, 0)});
  h.Bundle({Do(Opcode::kVxposeStartEnd, {V(3)}, 1)});
  h.Bundle({Do(Opcode::kVmatmulLatch, {F(0.0f)}, 0)});
  for (int i = 0; i < 2; ++i) h.Bundle({Do(Opcode::kVpopMrf, V(4), {}, 0)});
  for (int i = 0; i < 16; ++i) h.Bundle({Do(Opcode::kVpopTrf, V(4), {}, 1)});
  RunResult with = h.Go();
  ASSERT_TRUE(with.ok) << with.fault.message;
  h.options.timing_only = true;
  RunResult without = h.Go();
  ASSERT_TRUE(without.ok) << without.fault.message;
  EXPECT_EQ(with.cycles, without.cycles);
  EXPECT_EQ(with.tlp.stall_queue, without.tlp.stall_queue);
}

TEST(TimingOnlyTest, ControlThatDependsOnVectorsRunsWithValues) {
  auto program = [](bool through_hbm) {
    Harness h;
    h.Vmem(0, Words(kTile, 9));
    h.Bundle({Load(1, 0)});
    if (through_hbm) {
      h.Bundle({Store(1, 8)});
      h.Bundle({Do(Opcode::kDmaVmemToHbm, {Imm(8), Imm(16), Imm(0), Imm(1)})});
      h.Bundle({Wait(1, 16)});
      h.Bundle({Do(Opcode::kDmaHbmToSmem, {Imm(0), Imm(1), Imm(0), Imm(2)})});
      h.Bundle({Wait(2, 1)});
      h.Bundle({Do(Opcode::kSld, S(1), {})});
    } else {
      h.Bundle({Do(Opcode::kVpush, {V(1)})});
      h.Bundle({Do(Opcode::kSpop, S(1), {})});
    }
    h.Bundle({Do(Opcode::kVdelay, {S(1)})});
    h.Bundle({Move(2, 1)});
    return h;
  };
  for (bool through_hbm : {false, true}) {
    Harness h = program(through_hbm);
    RunResult with = h.Go();
    ASSERT_TRUE(with.ok) << with.fault.message;
    h.options.timing_only = true;
    RunResult without = h.Go();
    ASSERT_TRUE(without.ok) << without.fault.message;
    EXPECT_EQ(with.cycles, without.cycles);
  }
}

TEST(TraceTest, SpansOfKernelsAndTransfers) {
  Harness h;
  h.options.trace = true;
  h.Hbm(kHbm, Words(kTile, 1));
  isa::Function kernel;
  kernel.name = "k";
  Harness::AddTo(&kernel, {Start(kHbm, 128, 0, 3)});
  Harness::AddTo(&kernel, {Wait(3, 128)});
  h.program.kernels.push_back(kernel);
  h.Bundle({Move(1, 1)});
  h.Bundle({Call(0, {})});
  RunResult r = h.Go();
  ASSERT_TRUE(r.ok);
  ASSERT_EQ(r.kernel_spans.size(), 1u);
  EXPECT_EQ(r.kernel_spans[0].start, 2);
  EXPECT_EQ(r.kernel_spans[0].end, r.cycles);
  ASSERT_EQ(r.dma_spans.size(), 1u);
  EXPECT_EQ(r.dma_spans[0].start, 2);
  EXPECT_EQ(r.dma_spans[0].done, r.cycles - 1);
  EXPECT_EQ(r.dma_spans[0].bytes, 4096);
  EXPECT_EQ(r.kernels[0].hbm_read_bytes, 4096);
}

}  // namespace
}  // namespace tpuc::interp::testing
