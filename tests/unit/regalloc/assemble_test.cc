// Whole road LLO -> bundles on small kernels whose lengths follow by hand from the latencies.
#include "backend/regalloc/assemble.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/llo/operands.h"
#include "backend/llo/verifier.h"
#include "gtest/gtest.h"
#include "tests/unit/schedule/llo_text.h"

namespace tpuc {
namespace {

isa::Function Assembled(const llo::Function& f, int opt_level = 2, const Chip& chip = V6e()) {
  DiagSink diags;
  EXPECT_TRUE(VerifyLlo(f, &diags)) << diags.Render();
  isa::Function out;
  AssembleOptions options;
  options.opt_level = opt_level;
  options.spill_row = 4096;
  EXPECT_TRUE(Assemble(f, chip, options, &out, nullptr, &diags)) << diags.Render();
  return out;
}

// sqrt(x + eps) as the real compiler makes it: x * rsqrt(x), then selects for infinity and zero
// with the sign. vld 1, vmul 2, vadd 4, vrsqrt 6, pop 19, vmul 20, vsel 22, vsel 23, vst 24: 25
// cycles, as published (tpu-v6e-compiler.md (c), mini add_sqrt_fusion).
constexpr char kAddSqrt[] = R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] sm:0x01 buf:0
    %v1 = vmul.f32 %v0, 0.015625f
    %v2 = vadd.f32 %v1, 1e-06f
    %t0 = vrsqrt.f32 %v2
    %v3 = vpop.eup %t0
    %v4 = vmul.f32 %v2, %v3
    %vm0 = vcmp.eq.f32 %v2, 2139095040
    %v5 = vsel %vm0, %v2, %v4
    %vm1 = vcmp.eq.f32 %v2, 0f
    %v6 = vand.u32 %v2, 2147483648
    %v7 = vsel %vm1, %v6, %v5
    vst [vmem:%s1], %v7 sm:0x01 buf:1
)";

TEST(Assemble, AddSqrtTakes25Cycles) {
  isa::Function k = Assembled(LloFromText(kAddSqrt, 2));
  EXPECT_EQ(k.info.schedule_cycles, 25);
  EXPECT_EQ(k.info.spills, 0);
  EXPECT_LE(k.bundles.size(), 10u);  // published: 10
}

// One select for 0 and infinity, x + x == x (schedule-targets.md 3.1.5): 24.
TEST(Assemble, AddSqrtWithOneSelectTakes24Cycles) {
  isa::Function k = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] sm:0x01 buf:0
    %v1 = vmul.f32 %v0, 0.015625f
    %v2 = vadd.f32 %v1, 1e-06f
    %t0 = vrsqrt.f32 %v2
    %v3 = vpop.eup %t0
    %v4 = vmul.f32 %v2, %v3
    %v5 = vadd.f32 %v2, %v2
    %vm0 = vcmp.eq.f32 %v5, %v2
    %v6 = vsel %vm0, %v2, %v4
    vst [vmem:%s1], %v6 sm:0x01 buf:1
)",
                                          2));
  EXPECT_EQ(k.info.schedule_cycles, 24);
}

// Weights 15.., matmul, first pop 192 later, second 194; see schedule/rules.h.
TEST(Assemble, MatmulLatencies) {
  isa::Function k = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    vmatprep.subr.mxu0 %v0
    vmatpush3.msra.mxu0 %v0
    %v1 = vld [vmem:%s1] buf:1
    vmatprep.mubr.f32.mxu0 %v1
    %t0 = vmatmul.mubr.f32.vlgmr.msra.gmra.mxu0 %v1
    %v2 = vpop.f32.mrf.mxu0 %t0
    %v3 = vpop.f32.mrf.mxu0 %t0
    vst [vmem:%s2], %v2 buf:2
    vst [vmem:%s2+8], %v3 buf:2
)",
                                          3));
  // vld 1, subr 2, push 3, matmul 4, pop 196 and 198, vst 199.
  EXPECT_EQ(k.info.schedule_cycles, 200);
}

TEST(Assemble, TwoRowSumsUseBothXlus) {
  isa::Function k = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %v1 = vld [vmem:%s0+8] buf:0
    %t0 = vadd.xlane.f32 %v0
    %t1 = vadd.xlane.f32 %v1
    %v2 = vpop.xlane %t0
    %v3 = vpop.xlane %t1
    vst [vmem:%s1], %v2 buf:1
    vst [vmem:%s1+8], %v3 buf:1
)",
                                          2));
  // vld 1, push 2 on both, pop 139 on both, vst 140.
  EXPECT_EQ(k.info.schedule_cycles, 141);
}

// Start, end 4 later; first pop 128 - 4 * 2 after the end; 16 pops, 4 apart.
TEST(Assemble, TransposeLatencies) {
  std::string body = R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %v1 = vld [vmem:%s0+8] buf:0
    %t0 = vxpose.b32.start %v0
    vxpose.b32.end %t0, %v1
)";
  for (int i = 0; i < 16; ++i) {
    absl::StrAppend(&body, "    %v", 2 + i, " = vpop.trf %t0\n    vst [vmem:%s1+", 8 * i, "], %v",
                    2 + i, " buf:1\n");
  }
  isa::Function k = Assembled(LloFromText(body, 2));
  // vld 1, start 2, end 6, pop 126 .. 186, vst 187.
  EXPECT_EQ(k.info.schedule_cycles, 188);
}

TEST(Assemble, StoreToLoadOfTheSameRowTakes7) {
  isa::Function same = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    vst [vmem:%s0+8], %v0 buf:0
    %v1 = vld [vmem:%s0+8] buf:0
    vst [vmem:%s0+16], %v1 buf:0
)",
                                             1));
  EXPECT_EQ(same.info.schedule_cycles, 11);  // vld 1, vst 2, vld 9, vst 10
  isa::Function other = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    vst [vmem:%s0+8], %v0 buf:0
    %v1 = vld [vmem:%s0+24] buf:0
    vst [vmem:%s0+16], %v1 buf:0
)",
                                              1));
  EXPECT_EQ(other.info.schedule_cycles, 3);
}

// The branch's four delay slots stay, and the loop counter's chain fits before it.
TEST(Assemble, LoopKeepsDelaySlots) {
  isa::Function k = Assembled(LloFromText(R"(
  blocks first=1 last=1 trips=-1 grid=0
  block 0 "entry" trips=1 grid=0
    %s1 = smov 0
  block 1 "body" trips=-1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %v1 = vadd.f32 %v0, 1f
    vst [vmem:%s0+8], %v1 buf:0
    %s1 = sadd.s32 %s1, 1
    %p0 = scmp.lt.s32 %s1, 3
    (%p0) sbr.rel ->1
)",
                                          1));
  // sadd 0, scmp 1, sbr 3, delay slots 4 .. 7.
  ASSERT_EQ(k.info.loops.size(), 1u);
  EXPECT_EQ(k.info.loops[0].ii, 8);
  EXPECT_EQ(k.info.loops[0].trips, -1);
  EXPECT_EQ(k.info.loops[0].stages, 1);
  EXPECT_TRUE(absl::StrContains(k.info.loops[0].bound, "trips unknown"));
  const isa::LoopInfo& loop = k.info.loops[0];
  int branch = -1;
  for (int b = loop.first_bundle; b <= loop.last_bundle; ++b) {
    for (const isa::Inst& inst : k.bundles[b].insts) {
      if (inst.op == isa::Opcode::kSbr) {
        branch = b;
        EXPECT_EQ(inst.target, loop.first_bundle);
      }
    }
  }
  EXPECT_EQ(loop.last_bundle - branch, V6e().delay_slots);
  EXPECT_EQ(k.info.schedule_cycles, 1 + 8);
}

// With trips enough the loop is pipelined: a trip every few cycles instead of every 8.
TEST(Assemble, LongLoopsArePipelined) {
  isa::Function k = Assembled(LloFromText(R"(
  blocks first=1 last=1 trips=100 grid=0
  block 0 "entry" trips=1 grid=0
    %s1 = smov 0
  block 1 "body" trips=100 grid=0
    %s2 = sshll.u32 %s1, 3
    %s3 = sadd.s32 %s0, %s2
    %v0 = vld [vmem:%s3] buf:0
    %v1 = vmul.f32 %v0, 1.5f
    %t0 = vpow2.f32 %v1
    %v2 = vpop.eup %t0
    vst [vmem:%s3], %v2 buf:0
    %s1 = sadd.s32 %s1, 1
    %p0 = scmp.lt.s32 %s1, 100
    (%p0) sbr.rel ->1
)",
                                          1));
  ASSERT_EQ(k.info.loops.size(), 1u);
  const isa::LoopInfo& loop = k.info.loops[0];
  EXPECT_EQ(loop.trips, 100);
  EXPECT_EQ(loop.mii, 2);  // three scalar operations in two slots
  EXPECT_EQ(loop.ii, 2);
  // sshll 0, sadd 1, vld 2, vmul 3, vpow2 5, vpop 18, vst 19.
  EXPECT_GE(loop.stages, 10);
  EXPECT_LE(k.info.schedule_cycles, 100 * 2 + 25);
}

// The first trip's matmul takes the weights, whether the loop is pipelined or its first trip is put
// before it (-O0); no other does.
TEST(Assemble, OnlyTheFirstTripLatches) {
  llo::Function f = LloFromText(R"(
  blocks first=1 last=1 trips=40 grid=0 latch=1
  block 0 "entry" trips=1 grid=0
    %s1 = smov 0
    %v0 = vld [vmem:%s0] buf:0
    vmatpush1.msra.mxu0 %v0
  block 1 "body" trips=40 grid=0
    %s2 = sshll.u32 %s1, 3
    %s3 = sadd.s32 %s0, %s2
    %v1 = vld [vmem:%s3] buf:0
    %t0 = vmatmul.mubr.f32.gmra.mxu0 %v1
    %v2 = vpop.f32.mrf.mxu0 %t0
    %v3 = vpop.f32.mrf.mxu0 %t0
    vst [vmem:%s3], %v2 buf:0
    %s1 = sadd.s32 %s1, 1
    %p0 = scmp.lt.s32 %s1, 40
    (%p0) sbr.rel ->1
)",
                                1);
  for (int level : {0, 2}) {
    isa::Function k = Assembled(f, level);
    int latching = 0, first = -1, first_latching = -1;
    for (size_t b = 0; b < k.bundles.size(); ++b) {
      for (const isa::Inst& inst : k.bundles[b].insts) {
        if (!llo::IsMatmul(inst.op)) continue;
        if (first < 0) first = static_cast<int>(b);
        if (!llo::IsLatch(inst.op)) continue;
        ++latching;
        first_latching = static_cast<int>(b);
      }
    }
    EXPECT_EQ(latching, 1) << level;
    EXPECT_EQ(first_latching, first) << level;
  }
}

// 137 cycles pass between a row's load and its store. With an address of its own for each of the
// trips in flight, 34 of them at an interval of 4, the 32 scalar registers would not do.
TEST(Assemble, LateStoresAreAddressedFromANewerTrip) {
  isa::Function k = Assembled(LloFromText(R"(
  blocks first=1 last=1 trips=200 grid=0
  block 0 "entry" trips=1 grid=0
    %s2 = smov 0
  block 1 "body" trips=200 grid=0
    %s3 = sshll.u32 %s2, 4
    %s4 = sadd.s32 %s3, %s0
    %s5 = sadd.s32 %s3, %s1
    %v0 = vld [vmem:%s4] buf:0
    %t0 = vadd.xlane.f32 %v0
    %v1 = vpop.xlane %t0
    vst [vmem:%s5+8], %v1 buf:1
    %v2 = vld [vmem:%s4+8] buf:0
    %t1 = vadd.xlane.f32 %v2
    %v3 = vpop.xlane %t1
    vst [vmem:%s5+16], %v3 buf:1
    %s2 = sadd.s32 %s2, 1
    %p0 = scmp.lt.s32 %s2, 200
    (%p0) sbr.rel ->1
)",
                                          2));
  ASSERT_EQ(k.info.loops.size(), 1u);
  EXPECT_EQ(k.info.loops[0].ii, k.info.loops[0].mii);
  EXPECT_LE(k.info.loops[0].ii, 4);
  bool behind = false;  // the newer trip's address lies ahead
  for (const isa::Bundle& bundle : k.bundles) {
    for (const isa::Inst& inst : bundle.insts) {
      behind |= inst.op == isa::Opcode::kVst && inst.mem.offset < 0;
    }
  }
  EXPECT_TRUE(behind);
}

// Three trips, one a cycle: written out, without branches. The last starts at 2, and takes
// vld 0, vadd 1, vst 3.
TEST(Assemble, FewTripsAreWrittenOut) {
  isa::Function k = Assembled(LloFromText(R"(
  blocks first=1 last=1 trips=3 grid=0
  block 0 "entry" trips=1 grid=0
    %s1 = smov 0
  block 1 "body" trips=3 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %v1 = vadd.f32 %v0, 1f
    vst [vmem:%s0+8], %v1 buf:0
    %s1 = sadd.s32 %s1, 1
    %p0 = scmp.lt.s32 %s1, 3
    (%p0) sbr.rel ->1
)",
                                          1));
  ASSERT_EQ(k.info.loops.size(), 1u);
  EXPECT_EQ(k.info.loops[0].mii, 1);
  EXPECT_EQ(k.info.loops[0].ii, 1);
  EXPECT_EQ(k.info.loops[0].stages, 4);
  EXPECT_EQ(k.info.loops[0].trips, 3);
  for (const isa::Bundle& bundle : k.bundles) {
    for (const isa::Inst& inst : bundle.insts) EXPECT_NE(inst.op, isa::Opcode::kSbr);
  }
  EXPECT_EQ(k.info.schedule_cycles, 1 + 2 + 4);
}

// A sum kept in memory: vld 1, vadd 2, vst -> vld 7.
TEST(Assemble, RecurrencesAreNamed) {
  isa::Function k = Assembled(LloFromText(R"(
  blocks first=1 last=1 trips=50 grid=0
  block 0 "entry" trips=1 grid=0
    %s1 = smov 0
  block 1 "body" trips=50 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %v1 = vadd.f32 %v0, 1f
    vst [vmem:%s0], %v1 buf:0
    %s1 = sadd.s32 %s1, 1
    %p0 = scmp.lt.s32 %s1, 50
    (%p0) sbr.rel ->1
)",
                                          1));
  ASSERT_EQ(k.info.loops.size(), 1u);
  EXPECT_EQ(k.info.loops[0].mii, 10);
  EXPECT_TRUE(absl::StrContains(k.info.loops[0].bound, "recurrence: "));
  EXPECT_TRUE(absl::StrContains(k.info.loops[0].bound, "10 cycles"));
  for (const char* op : {"vld", "vadd.f32", "vst"}) {
    EXPECT_TRUE(absl::StrContains(k.info.loops[0].bound, op)) << k.info.loops[0].bound;
  }
}

// 80 values held at once on 64 registers: spilled, and never more than 64 named.
TEST(Assemble, SpillsWhatDoesNotFit) {
  std::string body = "  block 0 \"entry\" trips=1 grid=0\n    %v0 = vld [vmem:%s0] buf:0\n";
  for (int i = 1; i <= 80; ++i) {
    absl::StrAppend(&body, "    %v", i, " = vmul.f32 %v", i - 1, ", 1.5f\n");
  }
  int last = 80;
  for (int i = 1; i < 80; ++i) {  // needs every one of them again, oldest first
    absl::StrAppend(&body, "    %v", last + 1, " = vsub.f32 %v", last, ", %v", i, "\n");
    ++last;
  }
  absl::StrAppend(&body, "    vst [vmem:%s1], %v", last, " buf:1\n");
  isa::Function k = Assembled(LloFromText(body, 2));
  EXPECT_GT(k.info.spills, 0);
  EXPECT_LE(k.info.spills, 20);
  EXPECT_EQ(k.info.fills, k.info.spills);
  EXPECT_LE(k.info.max_live_vregs, 64);
  for (const isa::Bundle& b : k.bundles) {
    for (const isa::Inst& inst : b.insts) EXPECT_LT(inst.dest.id, 64);
  }
}

TEST(Assemble, MemoryFormIsOneOperationABundle) {
  isa::Function k = Assembled(LloFromText(kAddSqrt, 2), 0);
  for (const isa::Bundle& b : k.bundles) EXPECT_LE(b.insts.size(), 1u);
  EXPECT_GT(k.bundles.size(), 30u);
}

// Two tiles divided by one value: one comparison, one reciprocal.
TEST(Assemble, WhatIsComputedTwiceIsComputedOnce) {
  isa::Function k = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %v1 = vld [vmem:%s0+8] buf:0
    %v2 = vld [vmem:%s0+16] buf:0
    %vm0 = vcmp.ge.f32 %v0, 1f
    %v3 = vsel %vm0, %v1, 0f
    %t0 = vrcp.f32 %v0
    %v4 = vpop.eup %t0
    %v5 = vmul.f32 %v3, %v4
    %vm1 = vcmp.ge.f32 %v0, 1f
    %v6 = vsel %vm1, %v2, 0f
    %t1 = vrcp.f32 %v0
    %v7 = vpop.eup %t1
    %v8 = vmul.f32 %v6, %v7
    vst [vmem:%s0+24], %v5 buf:0
    vst [vmem:%s0+32], %v8 buf:0
)",
                                          1));
  int compares = 0, reciprocals = 0, pops = 0, products = 0;
  for (const isa::Bundle& bundle : k.bundles) {
    for (const isa::Inst& inst : bundle.insts) {
      compares += inst.op == isa::Opcode::kVcmpGeF32;
      reciprocals += inst.op == isa::Opcode::kVrcp;
      pops += inst.op == isa::Opcode::kVpopEup;
      products += inst.op == isa::Opcode::kVmulF32;
    }
  }
  EXPECT_EQ(compares, 1);
  EXPECT_EQ(reciprocals, 1);
  EXPECT_EQ(pops, 1);
  EXPECT_EQ(products, 2);
}

// Twelve literals, of which a bundle holds eight: four come from scalar registers.
TEST(Assemble, CallsWithManyOperands) {
  for (int opt_level : {0, 2}) {
    isa::Function k = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    inlined_call 11, 22, 33, 44, 55, 66, 77, 88, 99, 110, 121, 132, 132 ->0
)",
                                            0),
                                opt_level);
    const isa::Inst* call = nullptr;
    for (const isa::Bundle& bundle : k.bundles) {
      for (const isa::Inst& inst : bundle.insts) {
        if (inst.op == isa::Opcode::kCall) call = &inst;
      }
    }
    ASSERT_NE(call, nullptr);
    ASSERT_EQ(call->src.size(), 13u);
    int literals = 0;
    for (const isa::Operand& o : call->src) literals += o.is_imm();
    EXPECT_EQ(literals, 8);
    EXPECT_FALSE(call->src[12].is_imm());
  }
}

// A value in a vector register does not survive a call; a scalar does.
TEST(Assemble, VectorsGoToMemoryAcrossCalls) {
  isa::Function k = Assembled(LloFromText(R"(
  block 0 "entry" trips=1 grid=0
    %s0 = smov 5
    %v0 = vld [vmem:64]
    inlined_call 192, %s0, 64 ->0
    inlined_call %s0 ->1
    vst [vmem:%s0], %v0
)",
                                          0));
  // A call keeps its operands: immediates as they are, 5 in a scalar register, which outlives it.
  std::vector<isa::Inst> calls;
  for (const isa::Bundle& b : k.bundles) {
    for (const isa::Inst& inst : b.insts) {
      if (inst.op == isa::Opcode::kCall) calls.push_back(inst);
    }
  }
  ASSERT_EQ(calls.size(), 2u);
  ASSERT_EQ(calls[0].src.size(), 3u);
  EXPECT_EQ(calls[0].src[0].imm, 192);
  EXPECT_EQ(calls[0].src[2].imm, 64);
  ASSERT_EQ(calls[1].src.size(), 1u);
  EXPECT_TRUE(calls[1].src[0].reg == calls[0].src[1].reg);
  EXPECT_EQ(calls[1].target, 1);
  EXPECT_EQ(k.info.spills, 1);
  EXPECT_EQ(k.info.fills, 1);
}

}  // namespace
}  // namespace tpuc
