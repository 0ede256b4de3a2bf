// Broken programs never crash the verifier or the interpreter: fields of a sound program are
// overwritten at random, verified, and run under a cycle limit.
#include <gtest/gtest.h>

#include "backend/isa/verifier.h"
#include "harness.h"

namespace tpuc::interp::testing {
namespace {

isa::Program Sound() {
  Harness h;
  isa::Function kernel;
  kernel.name = "k";
  kernel.args = 2;
  auto add = [&](std::initializer_list<Inst> insts) { Harness::AddTo(&kernel, insts); };
  Inst load = Load(1, 0), store = Store(4, 8);
  load.mem.base = S(0);
  store.mem.base = S(1);
  add({load, Move(3, 4)});
  add({Do(Opcode::kVpow2, {V(1)}), Do(Opcode::kSsub, S(3), {S(3), Imm(1)})});
  add({Do(Opcode::kVpopEup, V(2), {}), Do(Opcode::kScmpGt, P(1), {S(3), Imm(0)})});
  add({Do(Opcode::kVaddXlane, {V(2)}, 0), If(P(1), Branch(1))});
  add({Do(Opcode::kVpopXlane, V(3), {}, 0)});
  add({Do(Opcode::kVcmpLtF32, M(1), {V(3), F(1)})});
  add({Do(Opcode::kVsel, V(4), {M(1), V(3), V(2)})});
  add({store});
  add({Do(Opcode::kVmatprepSubr, {V(3)}, 0)});
  add({Do(Opcode::kVmatpush3, {V(3)}, 0), Do(Opcode::kVmatprepMubr, {F(0)}, 0)});
  add({Do(Opcode::kVmatmulLatch, {F(0)}, 0), Do(Opcode::kVxposeStartEnd, {V(1)}, 1)});
  for (int i = 0; i < 2; ++i) add({Do(Opcode::kVpopMrf, V(5), {}, 0)});
  for (int i = 0; i < 16; ++i) add({Do(Opcode::kVpopTrf, V(6), {}, 1)});
  h.program.kernels.push_back(kernel);
  h.Hbm(32768, Words(2 * kTile, 1));
  h.Bundle({Do(Opcode::kDmaHbmToVmem,
               {Imm(32768), Imm(256), Imm(0), Imm(3), Imm(128), Imm(128), Imm(128)}),
            Move(0, 0)});
  h.Bundle({Do(Opcode::kDmaDoneWait, {Imm(3), Imm(256)}), Move(1, 8)});
  h.Bundle({Call(0, {})});
  h.Bundle({Do(Opcode::kDmaVmemToHbm, {Imm(8), Imm(128), Imm(0), Imm(4)})});
  h.Bundle({Do(Opcode::kDmaDoneWait, {Imm(4), Imm(128)})});
  return h.program;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : words_(RandomWords(256, seed)) {}
  void Apply(isa::Program* p) {
    int changes = 1 + static_cast<int>(Next(3));
    for (int i = 0; i < changes; ++i) One(Next(3) == 0 ? &p->tlp : &p->kernels[0]);
    if (Next(10) == 0) p->buffers[Next(2)].offset = static_cast<int32_t>(Word());
    if (Next(10) == 0) p->outputs[0].buffer = static_cast<int>(Next(4)) - 1;
    if (Next(10) == 0) p->kernels[0].args = static_cast<int>(Next(40)) - 2;
  }

 private:
  uint32_t Word() { return words_[at_++ % words_.size()]; }
  uint32_t Next(uint32_t n) { return Word() % n; }
  int32_t Number() {
    const int32_t some[] = {0,
                            1,
                            -1,
                            7,
                            8,
                            16,
                            63,
                            64,
                            127,
                            128,
                            255,
                            256,
                            512,
                            262143,
                            262144,
                            0x7fffffff,
                            static_cast<int32_t>(0x80000000u)};
    return Next(4) == 0 ? static_cast<int32_t>(Word()) : some[Next(17)];
  }
  Operand AnyOperand() {
    if (Next(2) == 0) return Imm(Number());
    return Reg{static_cast<isa::RegClass>(Next(6)), static_cast<int32_t>(Next(70)) - 2};
  }
  void One(isa::Function* f) {
    if (f->bundles.empty()) return;
    isa::Bundle& b = f->bundles[Next(static_cast<uint32_t>(f->bundles.size()))];
    if (b.insts.empty()) return;
    Inst& i = b.insts[Next(static_cast<uint32_t>(b.insts.size()))];
    switch (Next(9)) {
      case 0:
        i.op = static_cast<Opcode>(Next(isa::kOpcodeCount));
        break;
      case 1:
        i.dest = AnyOperand().reg;
        break;
      case 2:
        if (!i.src.empty()) i.src[Next(static_cast<uint32_t>(i.src.size()))] = AnyOperand();
        break;
      case 3:
        i.src.push_back(AnyOperand());
        break;
      case 4:
        i.pred = Next(2) == 0 ? P(static_cast<int>(Next(17)) - 1) : AnyOperand().reg;
        break;
      case 5:
        i.unit = static_cast<int8_t>(Next(6)) - 2;
        break;
      case 6:
        i.target = Number();
        break;
      case 7:
        i.mem.offset = Number();
        i.mem.sublane_stride = Number();
        i.mem.sublane_mask = static_cast<uint8_t>(Word());
        i.mem.base = AnyOperand();
        break;
      default:
        b.insts.push_back(i);
        break;
    }
  }

  Words words_;
  size_t at_ = 0;
};

TEST(GarbageTest, MutatedProgramsNeverCrash) {
  Harness h;
  h.program = Sound();
  h.inputs.resize(1);
  h.options.max_cycles = 20000;
  ASSERT_EQ(h.FaultOf(), "ok");
  DiagSink none;
  ASSERT_TRUE(isa::VerifyBundles(h.program, *h.chip, &none)) << none.Render();
  int faults = 0, rejected = 0;
  for (int seed = 0; seed < 400; ++seed) {
    h.program = Sound();
    Mutator(seed).Apply(&h.program);
    DiagSink diags;
    rejected += isa::VerifyBundles(h.program, *h.chip, &diags) ? 0 : 1;
    h.options.timing_only = seed % 3 == 0;
    h.options.strict = seed % 2 == 0;
    faults += h.FaultOf() == "ok" ? 0 : 1;
  }
  EXPECT_GT(rejected, 150);
  EXPECT_GT(faults, 150);
}

}  // namespace
}  // namespace tpuc::interp::testing
