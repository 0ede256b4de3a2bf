// Each fault has a program that provokes it, and names cycle, bundle, function and source.
#include <gtest/gtest.h>

#include "harness.h"

namespace tpuc::interp::testing {
namespace {

constexpr int kHbm = 32768;

// The fault's code after running the given bundles; every fault must be the same timing-only.
std::string Code(std::initializer_list<std::initializer_list<Inst>> bundles, bool strict = true) {
  std::string codes[2];
  for (bool timing_only : {false, true}) {
    Harness h;
    h.options.strict = strict;
    h.options.timing_only = timing_only;
    h.Hbm(kHbm, Words(8 * kTile, 1));
    for (const auto& b : bundles) h.Bundle(b);
    codes[timing_only] = h.FaultOf();
  }
  EXPECT_EQ(codes[0], codes[1]);
  return codes[0];
}
Inst Start(int hbm, int granules, int vmem, int flag) {
  return Do(Opcode::kDmaHbmToVmem, {Imm(hbm), Imm(granules), Imm(vmem), Imm(flag)});
}
Inst Wait(int flag, int granules) { return Do(Opcode::kDmaDoneWait, {Imm(flag), Imm(granules)}); }
Inst Smem(Opcode op, int word) {
  Inst i = op == Opcode::kSld ? Do(op, S(1), {}) : Do(op, {Imm(1)});
  i.mem.offset = word;
  return i;
}

TEST(FaultTest, Assumptions) {
  const auto multiple = [](int value, int of) {
    return Do(Opcode::kSassumeMultiple, S(1), {Imm(value), Imm(of)});
  };
  const auto range = [](int value, int least, int most) {
    return Do(Opcode::kSassumeRange, S(1), {Imm(value), Imm(least), Imm(most)});
  };
  EXPECT_EQ(Code({{multiple(24, 8)}}), "ok");
  EXPECT_EQ(Code({{multiple(-24, 8)}}), "ok");
  EXPECT_EQ(Code({{multiple(20, 8)}}), "E0263");
  EXPECT_EQ(Code({{multiple(20, 0)}}), "E0263");
  EXPECT_EQ(Code({{range(7, 0, 7)}}), "ok");
  EXPECT_EQ(Code({{range(8, 0, 7)}}), "E0264");
  EXPECT_EQ(Code({{range(-1, 0, 7)}}), "E0264");
}

TEST(FaultTest, Bounds) {
  EXPECT_EQ(Code({{Load(1, 262144 - 7)}}), "E0250");
  EXPECT_EQ(Code({{Store(F(1), -1)}}), "E0250");
  EXPECT_EQ(Code({{Store(F(1), 262144 - 8, 0xff, 2)}}), "E0250");
  EXPECT_EQ(Code({{Store(F(1), 262144 - 8)}}), "ok");
  EXPECT_EQ(Code({{Store(F(1), 262144 - 4, 0x0f)}}), "ok");
  EXPECT_EQ(Code({{Smem(Opcode::kSld, 262144)}}), "E0250");
  EXPECT_EQ(Code({{Smem(Opcode::kSst, -1)}}), "E0250");
  EXPECT_EQ(Code({{Start(kHbm + 8 * 128 - 1, 2, 0, 3)}}), "E0250");
  EXPECT_EQ(Code({{Start(-1, 2, 0, 3)}}), "E0250");
  EXPECT_EQ(Code({{Start(kHbm, 32, 262143, 3)}}), "E0250");
  EXPECT_EQ(Code({{Start(kHbm, -5, 0, 3)}}), "E0250");
  EXPECT_EQ(Code({{Do(Opcode::kDmaHbmToSmem, {Imm(kHbm), Imm(1), Imm(262140), Imm(3)})}}), "E0250");
  // A step beyond the end.
  EXPECT_EQ(Code({{Do(Opcode::kDmaHbmToVmem,
                      {Imm(kHbm), Imm(256), Imm(0), Imm(3), Imm(1024), Imm(128), Imm(128)})}}),
            "E0250");
}

TEST(FaultTest, Uninitialised) {
  EXPECT_EQ(Code({{Load(1, 0)}}), "E0251");
  EXPECT_EQ(Code({{Load(1, 0)}}, false), "ok");
  EXPECT_EQ(Code({{Store(F(1), 0, 0x7f)}, {Load(1, 0)}}), "E0251");
  EXPECT_EQ(Code({{Store(F(1), 0, 0x7f)}, {Load(1, 0, 0x7f)}}), "ok");
  EXPECT_EQ(Code({{Smem(Opcode::kSld, 4)}}), "E0251");
  EXPECT_EQ(Code({{Smem(Opcode::kSst, 4)}, {Smem(Opcode::kSld, 4)}}), "ok");
}

TEST(FaultTest, InFlight) {
  EXPECT_EQ(Code({{Store(F(1), 0)}, {Start(kHbm, 128, 0, 3)}, {Load(1, 7)}}), "E0252");
  EXPECT_EQ(Code({{Store(F(1), 0)}, {Start(kHbm, 128, 0, 3)}, {Load(1, 7)}}, false), "ok");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)}, {Store(F(1), 0)}}), "E0252");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)}, {Wait(3, 128)}, {Load(1, 0)}}), "ok");
  // Done in time, though nobody waited.
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)}, {Do(Opcode::kVdelay, {Imm(2000)})}, {Load(1, 0)}}),
            "ok");
  Inst out = Do(Opcode::kDmaVmemToHbm, {Imm(0), Imm(128), Imm(0), Imm(3)});
  EXPECT_EQ(Code({{Store(F(1), 0)}, {out}, {Store(F(2), 0)}}), "E0252");
  EXPECT_EQ(Code({{Store(F(1), 0)}, {out}, {Load(1, 0)}}), "ok");  // reading a source is no race
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)}, {Start(kHbm, 128, 7, 4)}}), "E0252");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)}, {Start(kHbm, 128, 8, 4)}}), "ok");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)},
                  {Do(Opcode::kDmaVmemToHbm, {Imm(0), Imm(128), Imm(0), Imm(4)})}}),
            "E0252");
  // Interleaved columns of one array do not meet.
  auto columns = [](int at, int flag) {
    return Do(Opcode::kDmaVmemToHbm,
              {Imm(16 * flag), Imm(256), Imm(at), Imm(flag), Imm(128), Imm(256), Imm(128)});
  };
  EXPECT_EQ(Code({{Store(F(1), 16)},
                  {Store(F(1), 24)},
                  {Store(F(1), 32)},
                  {Store(F(1), 40)},
                  {columns(0, 1)},
                  {columns(128, 2)}}),
            "ok");
  EXPECT_EQ(Code({{columns(0, 1)}, {columns(256, 2)}}), "E0252");
  EXPECT_EQ(Code({{Do(Opcode::kDmaHbmToSmem, {Imm(kHbm), Imm(1), Imm(0), Imm(3)})},
                  {Smem(Opcode::kSst, 7)}}),
            "E0252");
}

TEST(FaultTest, Queues) {
  EXPECT_EQ(Code({{Do(Opcode::kVpopEup, V(1), {})}}), "E0253");
  EXPECT_EQ(Code({{Do(Opcode::kVpow2, {F(1)}), Do(Opcode::kVpopEup, V(1), {})}}), "E0253");
  EXPECT_EQ(Code({{Do(Opcode::kSpop, S(1), {})}}), "E0253");
  EXPECT_EQ(Code({{Do(Opcode::kVpow2, {F(1)})}}), "E0260");
  EXPECT_EQ(Code({{Do(Opcode::kVaddXlane, {F(1)}, 0)}, {Do(Opcode::kVpopPermute, V(1), {}, 0)}}),
            "E0261");
  EXPECT_EQ(Code({{Do(Opcode::kVxposeStart, {F(1)}, 0)}}), "E0260");
  EXPECT_EQ(Code({{Do(Opcode::kVxposeCont, {F(1)}, 0)}}), "E0261");
  EXPECT_EQ(Code({{Do(Opcode::kVxposeStart, {F(1)}, 0)}, {Do(Opcode::kVaddXlane, {F(1)}, 0)}}),
            "E0261");
  Harness h;
  for (int i = 0; i < 33; ++i) h.Bundle({Do(Opcode::kVpow2, {F(1)})});
  EXPECT_EQ(h.FaultOf(), "E0254");
  Harness long_transpose;
  long_transpose.Bundle({Do(Opcode::kVxposeStart, {F(1)}, 0)});
  for (int i = 0; i < 16; ++i) long_transpose.Bundle({Do(Opcode::kVxposeCont, {F(1)}, 0)});
  EXPECT_EQ(long_transpose.FaultOf(), "E0261");
}

TEST(FaultTest, DeadlockAndCycleLimit) {
  EXPECT_EQ(Code({{Wait(3, 1)}}), "E0255");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)}, {Wait(3, 129)}}), "E0255");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 4)}, {Wait(3, 128)}}), "E0255");
  Harness h;
  h.options.max_cycles = 1000;
  h.Bundle({Branch(0)});
  for (int i = 0; i < 4; ++i) h.Bundle({Move(1, 1)});
  EXPECT_EQ(h.FaultOf(), "E0256");
  EXPECT_EQ(h.Go().fault.cycle, 1000);
}

TEST(FaultTest, MatrixUnit) {
  auto code = [](std::initializer_list<std::initializer_list<Inst>> bundles) {
    Harness h;
    for (const auto& b : bundles) h.Bundle(b);
    for (int i = 0; i < 2; ++i) h.Bundle({Do(Opcode::kVpopMrf, V(1), {}, 0)});
    return h.FaultOf();
  };
  Inst push = Do(Opcode::kVmatpush1, {F(1)}, 0);
  EXPECT_EQ(code({{push}, {Do(Opcode::kVmatmulLatch, {F(1)}, 0)}}), "E0257");
  EXPECT_EQ(code({{push}, {Do(Opcode::kVmatmulLatch, {F(0)}, 0)}}), "ok");
  EXPECT_EQ(code({{Do(Opcode::kVcmask, M(1), {Imm(8 << 4 | 8 << 16)})},
                  {push},
                  {Do(Opcode::kVmatmulLatchMsk, {M(1), F(1)}, 0)}}),
            "ok");
  EXPECT_EQ(
      code(
          {{push}, {Do(Opcode::kVmatprepMubr, {F(1)}, 0)}, {Do(Opcode::kVmatmulLatch, {F(0)}, 0)}}),
      "E0257");
  EXPECT_EQ(code({{push}, {Do(Opcode::kVmatpush1Xpose, {F(1)}, 0)}}), "E0261");
  EXPECT_EQ(code({{Do(Opcode::kVmatmul, {F(1)}, 0)}}), "E0257");
  Harness left;
  left.Bundle({push});
  EXPECT_EQ(left.FaultOf(), "E0260");
}

TEST(FaultTest, HaltAndFlags) {
  EXPECT_EQ(
      Code({{Do(Opcode::kScmpEq, P(1), {Imm(1), Imm(1)})}, {If(P(1), Do(Opcode::kShalt, {}))}}),
      "E0200");
  EXPECT_EQ(Code({{Do(Opcode::kScmpEq, P(1), {Imm(1), Imm(1)})},
                  {If(P(1), Do(Opcode::kShalt, {}), true)}}),
            "ok");
  EXPECT_EQ(Code({{Do(Opcode::kVsyncadd, {Imm(3), Imm(-1)})}}), "E0259");
  EXPECT_EQ(Code({{Do(Opcode::kVsyncpa, {Imm(512), Imm(0)})}}), "E0259");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 512)}}), "E0259");
  EXPECT_EQ(Code({{Wait(-1, 1)}}), "E0259");
  EXPECT_EQ(Code({{Start(kHbm, 128, 0, 3)}, {Do(Opcode::kVsyncpa, {Imm(3), Imm(0)})}}), "E0259");
}

TEST(FaultTest, BadInstructions) {
  EXPECT_EQ(Code({{Do(Opcode::kVaddF32, V(64), {F(1), F(1)})}}), "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVaddF32, V(1), {V(-1), F(1)})}}), "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVaddF32, V(1), {S(1), F(1)})}}), "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVaddF32, S(1), {F(1), F(1)})}}), "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVaddF32, V(1), {F(1)})}}), "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVaddXlane, {F(1)}, 2)}}), "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVaddXlane, {F(1)})}}), "E0258");
  EXPECT_EQ(Code({{If(P(15), Move(1, 1))}}), "E0258");
  EXPECT_EQ(Code({{If(S(1), Move(1, 1))}}), "E0258");
  EXPECT_EQ(Code({{Branch(2)}}), "E0258");
  EXPECT_EQ(Code({{Branch(-1)}}), "E0258");
  EXPECT_EQ(Code({{Branch(0)}, {Move(1, 1)}}), "E0258");  // ends inside the delay slots
  EXPECT_EQ(
      Code({{Branch(0)}, {Branch(0)}, {Move(1, 1)}, {Move(1, 1)}, {Move(1, 1)}, {Move(1, 1)}}),
      "E0258");
  EXPECT_EQ(Code({{Call(0, {})}}), "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVaddXlane, {F(1)}, 0), Do(Opcode::kVaddXlane, {F(1)}, 0)}}),
            "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kVmatpush1, {F(1)}, 0), Do(Opcode::kVmatmulLatch, {F(1)}, 0)}}),
            "E0258");
  EXPECT_EQ(Code({{Do(Opcode::kDmaHbmToVmem,
                      {Imm(kHbm), Imm(100), Imm(0), Imm(3), Imm(64), Imm(64), Imm(64)})}}),
            "E0258");
}

TEST(FaultTest, StridesThatGoWrong) {
  auto strided = [](int from, int to) {
    return Do(Opcode::kDmaHbmToVmem,
              {Imm(kHbm), Imm(64), Imm(0), Imm(3), Imm(from), Imm(to), Imm(16)});
  };
  EXPECT_EQ(Code({{strided(16, 8)}}), "E0258");  // the destination's steps overlap
  EXPECT_EQ(Code({{strided(0, 16)}}), "ok");     // one source row to all
  EXPECT_EQ(Code({{Do(Opcode::kDmaHbmToVmem,
                      {Imm(32), Imm(64), Imm(0), Imm(3), Imm(-16), Imm(16), Imm(16)})}}),
            "E0250");  // below zero
  EXPECT_EQ(Code({{strided(0x7fffffff, 16)}}), "E0250");
  EXPECT_EQ(Code({{Do(Opcode::kDmaHbmToVmem, {Imm(kHbm), Imm(0x7fffffff), Imm(0), Imm(3),
                                              Imm(0x7fffffff), Imm(0x7fffffff), Imm(1)})}}),
            "E0250");
}

TEST(FaultTest, CallsInKernels) {
  Harness h;
  isa::Function kernel;
  kernel.name = "k";
  Harness::AddTo(&kernel, {Call(0, {})});
  h.program.kernels.push_back(kernel);
  h.Bundle({Call(0, {})});
  EXPECT_EQ(h.FaultOf(), "E0258");
  h.program.tlp.bundles.clear();
  h.Bundle({Call(0, {Imm(1)})});  // takes none
  EXPECT_EQ(h.FaultOf(), "E0258");
}

TEST(FaultTest, InputsAndBuffers) {
  Harness h;
  h.Hbm(kHbm, Words(kTile, 1));
  h.inputs.clear();
  EXPECT_EQ(h.FaultOf(), "E0262");
  h.inputs.resize(1);
  EXPECT_EQ(h.FaultOf(), "ok");
  h.inputs[0].bytes.resize(4097);
  EXPECT_EQ(h.FaultOf(), "E0262");
  h.inputs[0].bytes.clear();
  h.program.buffers[0].offset = h.chip->hbm_bytes;
  EXPECT_EQ(h.FaultOf(), "E0262");
  h.program.buffers[0].offset = -512;
  EXPECT_EQ(h.FaultOf(), "E0262");
  Harness bad_port;
  bad_port.program.outputs[0].buffer = 7;
  EXPECT_EQ(bad_port.FaultOf(), "E0262");
  Harness simd;
  simd.options.simd = "mmx";
  EXPECT_EQ(simd.FaultOf(), "E0262");
}

TEST(FaultTest, NamesPlaceAndSource) {
  Harness h;
  h.program.sources.push_back({"dot.3", "jit(f)/dot_general", "f.py:12"});
  isa::Function kernel;
  kernel.name = "fusion";
  Harness::AddTo(&kernel, {Move(1, 0)});
  Inst load = Load(1, 40);
  load.source = 0;
  Harness::AddTo(&kernel, {load});
  h.program.kernels.push_back(kernel);
  h.Bundle({Move(1, 0)});
  h.Bundle({Call(0, {})});
  RunResult r = h.Go();
  ASSERT_FALSE(r.ok);
  EXPECT_EQ(r.fault.message, "vld: VMEM row 40 was never written");
  EXPECT_EQ(r.fault.cycle, 3);
  EXPECT_EQ(r.fault.bundle, 1);
  EXPECT_EQ(r.fault.kernel, "fusion");
  EXPECT_EQ(r.fault.hlo, "dot.3");
  EXPECT_EQ(r.fault.op_name, "jit(f)/dot_general");
  EXPECT_EQ(r.fault.place, "f.py:12");
  DiagSink diags;
  AddFault(r.fault, &diags);
  ASSERT_EQ(diags.diags().size(), 1u);
  ASSERT_EQ(diags.diags()[0].notes.size(), 2u);
  EXPECT_EQ(diags.diags()[0].notes[0].message, "in cycle 3, bundle 1 of fusion");
  EXPECT_EQ(diags.diags()[0].notes[1].message, "from dot.3 (jit(f)/dot_general) at f.py:12");
}

}  // namespace
}  // namespace tpuc::interp::testing
