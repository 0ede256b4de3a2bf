// Random LLO, assembled at -O0 and -O2 and for chips with few registers, must compute the same
// bytes; and its bundles must take the time that the schedule says.
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "backend/interp/interp.h"
#include "backend/isa/verifier.h"
#include "backend/llo/verifier.h"
#include "backend/regalloc/assemble.h"
#include "gtest/gtest.h"
#include "tests/unit/interp/harness.h"
#include "tests/unit/regalloc/random_llo.h"
#include "tests/unit/schedule/llo_text.h"

namespace tpuc {
namespace {

using interp::testing::Call;
using interp::testing::Harness;
using interp::testing::Imm;

constexpr int kOutputRow = 8 * RandomLlo::kTiles;

struct Outcome {
  interp::testing::Words words;
  int64_t cycles = 0;
  isa::KernelInfo info;
};

Outcome Execute(const llo::Function& f, const Chip& chip, int opt_level) {
  DiagSink diags;
  AssembleOptions options;
  options.opt_level = opt_level;
  options.spill_row = 4096;
  options.spill_word = 1024;
  Outcome out;
  isa::Function kernel;
  EXPECT_TRUE(Assemble(f, chip, options, &kernel, nullptr, &diags)) << diags.Render();
  if (diags.has_errors()) return out;
  Harness h;
  h.chip = &chip;
  h.Vmem(0, interp::testing::RandomFloats(1024 * RandomLlo::kTiles, 1));
  h.Vmem(kOutputRow, interp::testing::RandomFloats(1024 * RandomLlo::kTiles, 2));
  h.Vmem(RandomLlo::kScratchRow, interp::testing::RandomFloats(1024 * RandomLlo::kScratchTiles, 3));
  h.program.kernels.push_back(kernel);
  h.Bundle({Call(0, {Imm(0), Imm(kOutputRow)})});
  EXPECT_TRUE(isa::VerifyBundles(h.program, chip, &diags)) << diags.Render();
  out.words = h.ReadBack(kOutputRow, RandomLlo::kTiles);
  EXPECT_TRUE(h.result.ok || !out.words.empty());
  interp::RunResult run = h.Go();
  EXPECT_TRUE(run.ok) << InfoOf(run.fault.code).code << " " << run.fault.message << " bundle "
                      << run.fault.bundle;
  out.info = kernel.info;
  if (run.ok) out.cycles = run.kernels[0].cycles;
  return out;
}

bool HasPredicates(const llo::Function& f) {
  for (const llo::Block& b : f.blocks) {
    for (const isa::Inst& inst : b.insts) {
      if (inst.pred.valid() && inst.op != isa::Opcode::kSbr) return true;
    }
  }
  return false;
}

class Differential : public ::testing::TestWithParam<int> {};

TEST_P(Differential, SameBytesAtEveryLevelAndRegisterCount) {
  Chip few = V6e();
  few.vector_registers = 8;
  few.mask_registers = 4;
  few.scalar_registers = 8;
  few.predicate_registers = 4;
  Chip some = V6e();
  some.vector_registers = 16;
  some.mask_registers = 4;
  for (int i = 0; i < 10; ++i) {
    int seed = GetParam() * 10 + i;
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    llo::Function f = RandomLlo(seed).Make(30 + 40 * (seed % 5));
    DiagSink diags;
    ASSERT_TRUE(VerifyLlo(f, &diags)) << diags.Render();
    Outcome reference = Execute(f, V6e(), 0);
    ASSERT_FALSE(reference.words.empty());
    for (const Chip* chip :
         {&V6e(), static_cast<const Chip*>(&some), static_cast<const Chip*>(&few)}) {
      Outcome o = Execute(f, *chip, 2);
      EXPECT_TRUE(o.words == reference.words) << chip->vector_registers << " registers";
      if (f.blocks.size() > 1) continue;  // a branch may be taken or not
      // A store or pop that its predicate turns off is not waited for: then it may be sooner.
      EXPECT_LE(o.cycles, o.info.schedule_cycles);
      if (!HasPredicates(f)) {
        EXPECT_EQ(o.cycles, o.info.schedule_cycles);
      }
    }
  }
}

// Loops long enough to be pipelined, with addresses that move.
TEST_P(Differential, SameBytesFromPipelinedLoops) {
  int pipelined = 0;
  for (int i = 0; i < 10; ++i) {
    int seed = 1000 + GetParam() * 10 + i;
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    llo::Function f = RandomLlo(seed).MakeLoop(10, 4 + 6 * (seed % 7), 20 + seed % 21);
    DiagSink diags;
    ASSERT_TRUE(VerifyLlo(f, &diags)) << diags.Render();
    Outcome reference = Execute(f, V6e(), 0);
    ASSERT_FALSE(reference.words.empty());
    Outcome o = Execute(f, V6e(), 2);
    EXPECT_TRUE(o.words == reference.words);
    EXPECT_LE(o.cycles, o.info.schedule_cycles);
    if (!HasPredicates(f)) {
      EXPECT_EQ(o.cycles, o.info.schedule_cycles);
    }
    for (const isa::LoopInfo& loop : o.info.loops) {
      EXPECT_GE(loop.ii, loop.mii);
      pipelined += loop.stages > 1;
    }
  }
  EXPECT_GT(pipelined, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Differential, ::testing::Range(0, 6));

}  // namespace
}  // namespace tpuc
