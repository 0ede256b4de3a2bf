// The assembler, the bundle verifier and the interpreter must agree on random LLO functions:
// bundles pass the verifier, -O0 and -O2 give the same bytes, the run takes the cycles that the
// scheduler predicts, and a timing-only run as many.
#include <gtest/gtest.h>

#include "backend/isa/verifier.h"
#include "backend/llo/llo.h"
#include "backend/llo/verifier.h"
#include "backend/regalloc/assemble.h"
#include "grammar/bundle/printer.h"
#include "harness.h"

namespace tpuc::interp::testing {
namespace {

using isa::RegClass;

// Random straight-line or looping functions over eight input tiles (rows 0 ..) and eight output
// tiles (rows 256 ..), addressed from s0 and s1.
class Generator {
 public:
  Generator(uint64_t seed, const Chip& chip) : words_(RandomWords(4096, seed)), chip_(chip) {}

  llo::Function Make(int blocks, int ops) {
    f_.name = "k";
    f_.args = 2;
    f_.registers[static_cast<int>(RegClass::kScalar)] = 2;
    f_.info.grid_steps = 1;
    int64_t trips = 2 + Next(3);
    Reg counter = f_.New(RegClass::kScalar);
    bool loop = blocks > 2;
    for (int b = 0; b < blocks; ++b) {
      f_.blocks.emplace_back();
      block_ = &f_.blocks.back();
      block_->label = "b" + std::to_string(b);
      bool inside = loop && b == 1;
      block_->trips = inside ? trips : 1;
      values_.clear();
      masks_.clear();
      if (b == 0) Add(Opcode::kSmov, counter, {Imm(static_cast<int>(trips))});
      for (int i = 0; i < 4; ++i) LoadTile();
      for (int i = 0; i < ops; ++i) Random();
      for (int i = 0; i < 3; ++i) StoreTile();
      if (inside) {
        Add(Opcode::kSsub, counter, {counter, Imm(1)});
        Reg more = f_.New(RegClass::kPredicate);
        Add(Opcode::kScmpGt, more, {counter, Imm(0)});
        Inst branch = Do(Opcode::kSbr, {});
        branch.pred = more;
        branch.target = 1;
        block_->insts.push_back(branch);
      }
    }
    if (loop) {
      llo::Loop l;
      l.first = l.last = 1;
      l.trips = trips;
      f_.loops.push_back(l);
    }
    return f_;
  }

 private:
  uint32_t Next(uint32_t n) { return words_[at_++ % words_.size()] % n; }
  void Add(Opcode op, Reg dest, std::initializer_list<Operand> src, int unit = -1) {
    block_->insts.push_back(Do(op, dest, src, unit));
  }
  Reg Vector() { return f_.New(RegClass::kVector); }
  Reg Token() { return f_.New(RegClass::kToken); }
  Operand Any() {
    if (Next(8) == 0) return F(0.5f + static_cast<float>(Next(8)));
    return values_[values_.size() - 1 - Next(std::min<uint32_t>(values_.size(), 12))];
  }
  void LoadTile() {
    Reg v = Vector();
    Inst i = Do(Opcode::kVld, v, {});
    bool own = Next(4) == 0;
    i.mem.base = S(own ? 1 : 0);
    i.mem.buffer = own ? 1 : 0;
    i.mem.offset = static_cast<int>(8 * Next(8));
    if (Next(4) == 0) i.mem.sublane_stride = 0;
    block_->insts.push_back(i);
    values_.push_back(v);
  }
  void StoreTile() {
    Inst i = Do(Opcode::kVst, {Any()});
    i.mem.base = S(1);
    i.mem.buffer = 1;
    i.mem.offset = static_cast<int>(8 * Next(8));
    block_->insts.push_back(i);
  }
  void Binary() {
    const Opcode ops[] = {Opcode::kVaddF32, Opcode::kVsubF32, Opcode::kVmulF32,  Opcode::kVmaxF32,
                          Opcode::kVxor,    Opcode::kVaddS32, Opcode::kVpackBf16};
    Reg v = Vector();
    Operand a = Any(), b = Any();
    Add(ops[Next(7)], v, {a, b});
    values_.push_back(v);
  }
  void Select() {
    Reg m = f_.New(RegClass::kMask), v = Vector();
    Operand a = Any(), b = Any();
    Add(Opcode::kVcmpLtF32, m, {a, b});
    masks_.push_back(m);
    Operand c = Any(), d = Any();
    Add(Opcode::kVsel, v, {masks_[Next(static_cast<uint32_t>(masks_.size()))], c, d});
    values_.push_back(v);
  }
  void Eup() {
    const Opcode ops[] = {Opcode::kVpow2, Opcode::kVrcp, Opcode::kVrsqrt, Opcode::kVtanh};
    Reg t = Token(), v = Vector();
    Operand a = Any();
    Add(ops[Next(4)], t, {a});
    Add(Opcode::kVpopEup, v, {t});
    values_.push_back(v);
  }
  void Xlu() {
    Reg t = Token(), v = Vector();
    Operand a = Any();
    if (Next(2) == 0) {
      Add(Opcode::kVaddXlane, t, {a});
      Add(Opcode::kVpopXlane, v, {t});
    } else {
      Add(Opcode::kVrotLane, t, {a, Imm(static_cast<int>(Next(128)))});
      Add(Opcode::kVpopPermute, v, {t});
    }
    values_.push_back(v);
  }
  void Transpose() {
    Reg t = Token();
    Operand a = Any(), b = Any();
    Add(Opcode::kVxposeStart, t, {a});
    Add(Opcode::kVxposeEnd, Reg{}, {t, b});
    for (int i = 0; i < 16; ++i) {
      Reg v = Vector();
      Add(Opcode::kVpopTrf, v, {t});
      if (i % 5 == 0) values_.push_back(v);
    }
  }
  void Matmul() {
    const bool wide = chip_.mxu_tiles() > 1;
    int unit = static_cast<int>(Next(chip_.mxus));
    bool transposed = Next(2) == 0;
    for (int g = 0; g < 16; ++g) {
      Operand w = Any();
      if (!wide) {
        Add(transposed ? Opcode::kVmatpush1Xpose : Opcode::kVmatpush1, Reg{}, {w}, unit);
        continue;
      }
      Operand u = Any();
      Add(Opcode::kVmatprepSubr, Reg{}, {u}, unit);
      Add(transposed ? Opcode::kVmatpush3Xpose : Opcode::kVmatpush3, Reg{}, {w}, unit);
    }
    for (int i = 0; i < 2; ++i) {
      Operand upper = Any(), lower = Any();
      if (wide) Add(Opcode::kVmatprepMubr, Reg{}, {upper}, unit);
      Reg t = Token();
      Add(i == 0 ? Opcode::kVmatmulLatch : Opcode::kVmatmul, t, {lower}, unit);
      for (int j = 0; j < chip_.mxu_tiles(); ++j) {
        Reg v = Vector();
        Add(Opcode::kVpopMrf, v, {t}, unit);
        values_.push_back(v);
      }
    }
  }
  void Random() {
    switch (Next(24)) {
      case 0:
        return Xlu();
      case 1:
        return Matmul();
      case 2:
        return Next(3) == 0 ? Transpose() : Xlu();
      case 3:
      case 4:
      case 5:
        return Eup();
      case 6:
      case 7:
      case 8:
        return Select();
      case 9:
      case 10:
      case 11:
        return LoadTile();
      case 12:
      case 13:
        return StoreTile();
      default:
        return Binary();
    }
  }

  Words words_;
  const Chip& chip_;
  size_t at_ = 0;
  llo::Function f_;
  llo::Block* block_ = nullptr;
  std::vector<Reg> values_, masks_;
};

struct Ran {
  Words out;
  int64_t cycles = 0, scheduled = 0;
};

Ran Assembled(const llo::Function& f, const Chip& chip, int opt_level) {
  DiagSink diags;
  Ran ran;
  EXPECT_TRUE(VerifyLlo(f, &diags, chip.mxu_tiles())) << diags.Render();
  AssembleOptions options;
  options.opt_level = opt_level;
  options.spill_row = 4096;
  options.spill_word = 16;
  isa::Function kernel;
  EXPECT_TRUE(Assemble(f, chip, options, &kernel, nullptr, &diags)) << diags.Render();
  Harness h;
  h.chip = &chip;
  h.program.chip_name = chip.name;
  h.Vmem(0, RandomFloats(8 * kTile, 7));
  h.Vmem(256, RandomFloats(8 * kTile, 8));
  h.program.kernels.push_back(kernel);
  h.Bundle({Move(0, 0), Move(1, 256)});
  h.Bundle({Call(0, {})});
  EXPECT_TRUE(isa::VerifyBundles(h.program, *h.chip, &diags)) << diags.Render();
  ran.out = h.ReadBack(256, 8);
  EXPECT_FALSE(ran.out.empty()) << h.result.fault.message << " in bundle " << h.result.fault.bundle;
  ran.cycles = h.result.kernels[0].cycles - h.result.kernels[0].stall_dma;
  ran.scheduled = kernel.info.schedule_cycles;
  h.options.timing_only = true;
  EXPECT_EQ(h.Go().kernels[0].cycles, h.result.kernels[0].cycles);
  return ran;
}

void Agree(const Chip& chip) {
  for (int seed = 0; seed < 60; ++seed) {
    llo::Function f = Generator(1000 + seed, chip).Make(1 + seed % 3, 10 + 4 * (seed % 11));
    SCOPED_TRACE("seed " + std::to_string(seed));
    Ran slow = Assembled(f, chip, 0), fast = Assembled(f, chip, 2);
    EXPECT_EQ(slow.out, fast.out);
    EXPECT_EQ(slow.cycles, slow.scheduled);
    EXPECT_EQ(fast.cycles, fast.scheduled);
    EXPECT_LE(fast.cycles, slow.cycles);
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << bundle::PrintLlo(f);
      break;
    }
  }
}
TEST(AgreementTest, RandomFunctions) { Agree(*BuiltinChip("v6e")); }
TEST(AgreementTest, RandomFunctionsOfFourSmallMxus) { Agree(*BuiltinChip("v5e")); }

}  // namespace
}  // namespace tpuc::interp::testing
