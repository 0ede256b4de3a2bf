// The bundle verifier: a sound program passes; each rule has a program that breaks it, told by code
// and text.
#include "backend/isa/verifier.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace tpuc::isa {
namespace {

Inst Do(Opcode op, Reg dest, std::initializer_list<Operand> src, int unit = -1) {
  Inst i{};
  i.op = op;
  i.dest = dest;
  for (const Operand& s : src) i.src.push_back(s);
  i.unit = static_cast<int8_t>(unit);
  return i;
}
Inst Do(Opcode op, std::initializer_list<Operand> src, int unit = -1) {
  return Do(op, Reg{}, src, unit);
}
Operand Imm(int v) { return Operand::Imm(v); }
Inst If(int p, Inst i, bool negated = false) {
  i.pred = P(p);
  i.pred_negated = negated;
  return i;
}
Inst Load(int v, int row) {
  Inst i = Do(Opcode::kVld, V(v), {});
  i.mem.offset = row;
  return i;
}
Inst Store(int v, int row) {
  Inst i = Do(Opcode::kVst, {V(v)});
  i.mem.offset = row;
  return i;
}
Inst Branch(int target) {
  Inst i = Do(Opcode::kSbr, {});
  i.target = target;
  return i;
}
Inst Move(int s, int v) { return Do(Opcode::kSmov, S(s), {Imm(v)}); }
Inst Compare(int p) { return Do(Opcode::kScmpLt, P(p), {Imm(1), Imm(2)}); }

using Bundles = std::initializer_list<std::initializer_list<Inst>>;

Function Make(const std::string& name, int args, Bundles bundles) {
  Function f;
  f.name = name;
  f.args = args;
  for (const auto& insts : bundles) {
    Bundle b;
    for (const Inst& i : insts) b.insts.push_back(i);
    f.bundles.push_back(b);
  }
  return f;
}

// All diagnostics, one a line: "E0660 message".
std::string Verify(const Program& program, const char* chip = "v6e") {
  DiagSink diags;
  bool ok = VerifyBundles(program, *BuiltinChip(chip), &diags);
  std::string text;
  for (const Diag& d : diags.diags()) {
    text += std::string(InfoOf(d.code).code) + " " + d.message + "\n";
  }
  EXPECT_EQ(ok, text.empty());
  return text;
}
std::string Kernel(Bundles bundles, int args = 0, const char* chip = "v6e") {
  Program p;
  p.tlp.name = "tlp";
  p.kernels.push_back(Make("k", args, bundles));
  return Verify(p, chip);
}
std::string Code(Bundles bundles) { return Kernel(bundles).substr(0, 5); }

// Four MXUs of 128 x 128: one result a matmul, no second half; two of 256 x 256: two results.
TEST(VerifierTest, MxusAreTheChips) {
  auto one = [](int unit, const char* chip) {
    return Kernel({{Do(Opcode::kVmatpush1, {Imm(0)}, unit)},
                   {Do(Opcode::kVmatmulLatch, {Imm(0)}, unit)},
                   {Do(Opcode::kVpopMrf, V(1), {}, unit)}},
                  0, chip);
  };
  auto two = [](int unit, const char* chip) {
    return Kernel({{Do(Opcode::kVmatpush1, {Imm(0)}, unit)},
                   {Do(Opcode::kVmatmulLatch, {Imm(0)}, unit)},
                   {Do(Opcode::kVpopMrf, V(1), {}, unit)},
                   {Do(Opcode::kVpopMrf, V(1), {}, unit)}},
                  0, chip);
  };
  for (int unit = 0; unit < 4; ++unit) EXPECT_EQ(one(unit, "v5e"), "");
  EXPECT_NE(two(1, "v5e").find("is empty"), std::string::npos);
  EXPECT_NE(one(4, "v5e").find("unit 4 of 4"), std::string::npos);
  EXPECT_NE(one(1, "v6e").find("ends with 1 results"), std::string::npos);
  EXPECT_EQ(two(1, "v6e"), "");
  EXPECT_NE(Kernel({{Do(Opcode::kVmatprepSubr, {Imm(0)}, 1)}}, 0, "v5e").find("second half"),
            std::string::npos);
}

TEST(VerifierTest, SoundProgramPasses) {
  EXPECT_EQ(Kernel({{Load(1, 0), Move(3, 10)},
                    {Do(Opcode::kVpow2, {V(1)}), Do(Opcode::kSsub, S(3), {S(3), Imm(1)})},  // 1
                    {Do(Opcode::kScmpGt, P(1), {S(3), Imm(0)})},
                    {If(1, Branch(1)), Do(Opcode::kVpopEup, V(2), {})},
                    {},
                    {},
                    {},
                    {},
                    {Store(2, 8)}}),
            "");
}

TEST(VerifierTest, Slots) {
  Inst add = Do(Opcode::kVaddF32, V(9), {Imm(0), Imm(0)});
  auto adds = [&](int v) { return Do(Opcode::kVaddF32, V(v), {Imm(0), Imm(0)}); };
  EXPECT_EQ(Kernel({{adds(1), adds(2), adds(3), adds(4), adds(5)}}),
            "E0660 k, bundle 0: 5 of VALU slots in one bundle, at most 4\n");
  EXPECT_EQ(Code({{Do(Opcode::kVpow2, {Imm(0)}), Do(Opcode::kVpow2, {Imm(0)})}}), "E0660");
  EXPECT_EQ(Code({{Move(1, 0), Move(2, 0), Move(3, 0)}}), "E0660");
  EXPECT_EQ(Code({{Load(1, 0), Load(2, 0), Load(3, 0), Load(4, 0)}}), "E0660");
  EXPECT_EQ(Code({{Load(1, 0), Load(2, 0), Load(3, 0), Do(Opcode::kVtrace, {Imm(0)})}}), "E0660");
  EXPECT_EQ(Code({{Do(Opcode::kVsyncpa, {Imm(0), Imm(0)}), Do(Opcode::kVtrace, {Imm(0)})}}),
            "E0660");
  Inst sld = Do(Opcode::kSld, S(1), {}), sst = Do(Opcode::kSst, {Imm(0)});
  EXPECT_EQ(Code({{sst, sld}}), "E0660");
  EXPECT_EQ(Code({{Do(Opcode::kVaddXlane, {Imm(0)}, 0), Do(Opcode::kVaddXlane, {Imm(0)}, 0)}}),
            "E0660");
  EXPECT_EQ(Code({{Do(Opcode::kVmatpush1, {Imm(0)}, 0), Do(Opcode::kVmatpush1, {Imm(0)}, 0)}}),
            "E0660");
  EXPECT_EQ(Code({{Do(Opcode::kVmatpush1, {Imm(0)}, 0)},
                  {Do(Opcode::kVmatpush1, {Imm(0)}, 0), Do(Opcode::kVmatmulLatch, {Imm(0)}, 0)}}),
            "E0660");
  Inst dma = Do(Opcode::kDmaHbmToVmem, {Imm(0), Imm(0), Imm(0), Imm(0)});
  EXPECT_EQ(Code({{dma, dma}}), "E0660");
  EXPECT_EQ(Kernel({{Do(Opcode::kVaddF32, V(1), {Imm(1), Imm(2)}),
                     Do(Opcode::kVaddF32, V(2), {Imm(3), Imm(4)}),
                     Do(Opcode::kVaddF32, V(3), {Imm(5), Imm(6)}),
                     Do(Opcode::kVaddF32, V(4), {Imm(7), Imm(8)}), Move(1, 9)}}),
            "E0660 k, bundle 0: 9 different literals in one bundle, at most 8\n");
}

TEST(VerifierTest, Operands) {
  EXPECT_EQ(Kernel({{Do(Opcode::kVaddF32, V(64), {Imm(0), Imm(0)})}}),
            "E0661 k, bundle 0, vadd.f32 v64: destination v64 is not one of the 64 v registers\n");
  EXPECT_EQ(Code({{Do(Opcode::kVaddF32, V(1), {S(0), Imm(0)})}}), "E0661");
  EXPECT_EQ(Code({{Do(Opcode::kVaddF32, V(1), {Imm(0)})}}), "E0661");
  EXPECT_EQ(Code({{Do(Opcode::kVaddXlane, {Imm(0)}, 2)}}), "E0661");
  EXPECT_EQ(Code({{If(15, Move(1, 0))}}), "E0661");
  EXPECT_EQ(Code({{Load(1, 262144)}}), "E0666");
  EXPECT_EQ(Code({{Do(Opcode::kVsyncpa, {Imm(512), Imm(0)})}}), "E0666");
  EXPECT_EQ(Code({{Do(Opcode::kDmaHbmToVmem, {Imm(0), Imm(1), Imm(0), Imm(-1)})}}), "E0666");
}

TEST(VerifierTest, DefinitionsOnAllPaths) {
  EXPECT_EQ(Kernel({{Move(1, 0)}, {Do(Opcode::kVaddF32, V(1), {V(2), Imm(0)})}}),
            "E0662 k, bundle 1, vadd.f32 v1: reads v2, which is not written on every path to it\n");
  // Sources are read before results are written.
  EXPECT_EQ(Code({{Move(1, 0), Do(Opcode::kSadd, S(2), {S(1), Imm(1)})}}), "E0662");
  EXPECT_EQ(Kernel({{Do(Opcode::kSadd, S(2), {S(0), S(1)})}}, 2), "");
  EXPECT_EQ(Kernel({{Do(Opcode::kSadd, S(2), {S(0), S(1)})}}, 1).substr(0, 5), "E0662");
  // A branch over the definition.
  auto skip = [](Inst use) {
    return Kernel({{Compare(1)}, {If(1, Branch(7))}, {}, {}, {}, {}, {Move(3, 1)}, {use}});
  };
  EXPECT_EQ(skip(Do(Opcode::kSadd, S(4), {S(3), Imm(0)})).substr(0, 5), "E0662");
  EXPECT_EQ(skip(If(1, Do(Opcode::kSadd, S(4), {S(3), Imm(0)}), true)), "");  // guarded
  // In a loop the definition of the last round reaches the guarded first use.
  EXPECT_EQ(Kernel({{Compare(1)},
                    {If(1, Store(5, 0))},  // 1
                    {Load(5, 8)},
                    {If(1, Branch(1))},
                    {},
                    {},
                    {},
                    {}}),
            "");
  EXPECT_EQ(Code({{Move(1, 0), Move(1, 1)}}), "E0662");
  EXPECT_EQ(Code({{Compare(1)}, {If(1, Move(1, 0)), If(1, Move(1, 1), true)}}), "");
}

TEST(VerifierTest, Queues) {
  Inst pow2 = Do(Opcode::kVpow2, {Imm(0)}), pop = Do(Opcode::kVpopEup, V(1), {});
  EXPECT_EQ(Code({{pop}}), "E0663");
  EXPECT_EQ(Code({{pow2, pop}}), "E0663");
  EXPECT_EQ(Kernel({{pow2}}),
            "E0663 k, bundle 0: the function ends with 1 results in the EUP queue\n");
  EXPECT_EQ(Code({{pow2}, {pop, pow2}, {pop}}), "");
  EXPECT_EQ(Code({{Do(Opcode::kVaddXlane, {Imm(0)}, 0)}, {Do(Opcode::kVpopPermute, V(1), {}, 0)}}),
            "E0663");
  // A push in a loop without its pop.
  EXPECT_EQ(Code({{Compare(1)}, {pow2}, {If(1, Branch(1))}, {}, {}, {}, {}, {pop}}), "E0663");
  // A software-pipelined loop keeps one in flight.
  EXPECT_EQ(Code({{Compare(1), pow2}, {pow2}, {If(1, Branch(1)), pop}, {}, {}, {}, {}, {pop}}), "");
  EXPECT_EQ(Code({{Compare(1)}, {If(1, pow2)}, {If(1, pop)}}), "");
  EXPECT_EQ(Code({{Compare(1)}, {If(1, pow2)}, {pop}}), "E0663");
  Function deep = Make("k", 0, {});
  for (int i = 0; i < 33; ++i) deep.bundles.push_back(Make("", 0, {{pow2}}).bundles[0]);
  for (int i = 0; i < 33; ++i) deep.bundles.push_back(Make("", 0, {{pop}}).bundles[0]);
  Program p;
  p.kernels.push_back(deep);
  EXPECT_EQ(Verify(p).substr(0, 5), "E0663");
}

TEST(VerifierTest, MatrixAndTransposeUnits) {
  Inst push = Do(Opcode::kVmatpush1, {Imm(0)}, 1), latch = Do(Opcode::kVmatmulLatch, {Imm(0)}, 1);
  Inst mul = Do(Opcode::kVmatmul, {Imm(0)}, 1), pop = Do(Opcode::kVpopMrf, V(1), {}, 1);
  EXPECT_EQ(Code({{push}, {latch}, {pop}, {pop}}), "");
  EXPECT_EQ(Code({{push}, {latch}, {mul}, {pop}, {pop}, {pop}, {pop}}), "");
  EXPECT_EQ(Code({{push}, {latch}, {pop}}), "E0663");
  EXPECT_EQ(Code({{latch}, {pop}, {pop}}), "E0663");
  EXPECT_EQ(Code({{mul}, {pop}, {pop}}), "E0663");
  EXPECT_EQ(Code({{push}}), "E0663");
  EXPECT_EQ(Code({{Do(Opcode::kVmatprepMubr, {Imm(0)}, 0)}}), "E0663");
  EXPECT_EQ(Code({{Do(Opcode::kVxposeEnd, {Imm(0)}, 0)}}), "E0663");
  EXPECT_EQ(
      Code({{Do(Opcode::kVxposeStart, {Imm(0)}, 0)}, {Do(Opcode::kVrotLane, {Imm(0), Imm(1)}, 0)}}),
      "E0663");
  Function f = Make(
      "k", 0, {{Do(Opcode::kVxposeStart, {Imm(0)}, 0)}, {Do(Opcode::kVxposeEnd, {Imm(0)}, 0)}});
  for (int i = 0; i < 16; ++i) {
    f.bundles.push_back(Make("", 0, {{Do(Opcode::kVpopTrf, V(1), {}, 0)}}).bundles[0]);
  }
  Program p;
  p.kernels.push_back(f);
  EXPECT_EQ(Verify(p), "");
  p.kernels[0].bundles.pop_back();
  EXPECT_EQ(Verify(p).substr(0, 5), "E0663");
}

TEST(VerifierTest, BranchesAndCalls) {
  EXPECT_EQ(Code({{Branch(9)}, {}, {}, {}, {}}), "E0664");
  EXPECT_EQ(Code({{Branch(0)}, {}, {}, {}}), "E0664");  // three delay slots
  EXPECT_EQ(Code({{Branch(5)}, {}, {}, {Branch(0)}, {}, {}, {}, {}}), "E0664");
  EXPECT_EQ(Code({{Branch(2)}, {}, {}, {}, {}}), "E0664");
  EXPECT_EQ(Code({{Branch(5)}, {}, {}, {}, {}}), "");  // to the end
  Inst call = Do(Opcode::kCall, {});
  call.target = 0;
  EXPECT_EQ(Code({{call}}), "E0664");
  Program p;
  p.tlp.name = "tlp";
  p.kernels.push_back(Make("k", 1, {}));
  call.src.push_back(Imm(3));
  p.tlp.bundles = Make("", 0, {{call}}).bundles;
  EXPECT_EQ(Verify(p), "");
  p.tlp.bundles[0].insts[0].target = 1;
  EXPECT_EQ(Verify(p).substr(0, 5), "E0664");
  p.tlp.bundles[0].insts[0].target = 0;
  p.tlp.bundles[0].insts[0].src.push_back(Imm(4));
  EXPECT_EQ(Verify(p).substr(0, 5), "E0661");
  // Without operands the arguments are s0 ..
  p.tlp.bundles[0].insts[0].src.clear();
  EXPECT_EQ(Verify(p).substr(0, 5), "E0662");
  p.tlp.bundles = Make("", 0, {{Move(0, 1)}, {p.tlp.bundles[0].insts[0]}}).bundles;
  EXPECT_EQ(Verify(p), "");
  // A kernel may use the vector registers: they hold nothing after a call.
  p.tlp.bundles = Make("", 0, {{Load(1, 0)}, {call}, {Store(1, 8)}}).bundles;
  EXPECT_EQ(Verify(p).substr(0, 5), "E0662");
}

TEST(VerifierTest, Buffers) {
  Program p;
  auto add = [&](Memory m, int64_t offset, int64_t bytes, int64_t from, int64_t to) {
    Buffer b;
    b.name = "b" + std::to_string(p.buffers.size());
    b.memory = m;
    b.offset = offset;
    b.bytes = bytes;
    b.from = from;
    b.to = to;
    p.buffers.push_back(b);
  };
  add(Memory::kVmem, 0, 4096, 1, 5);
  add(Memory::kVmem, 4096, 4096, 2, 6);
  add(Memory::kVmem, 0, 4096, 5, 9);  // takes over
  add(Memory::kHbm, 0, 4096, 1, 9);   // another memory
  EXPECT_EQ(Verify(p), "");
  add(Memory::kVmem, 2048, 1024, 3, 4);
  EXPECT_EQ(Verify(p),
            "E0665 buffers b0 [0, +4096) and b4 [2048, +1024) overlap while both live\n");
  p.buffers.pop_back();
  add(Memory::kSmem, 1 << 20, 4, 1, 2);
  EXPECT_EQ(Verify(p).substr(0, 5), "E0665");
  p.buffers.pop_back();
  p.inputs.push_back({"x", "", 9, -1});
  EXPECT_EQ(Verify(p).substr(0, 5), "E0665");
}

}  // namespace
}  // namespace tpuc::isa
