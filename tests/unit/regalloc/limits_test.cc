// What a chip may be too small for: queues, registers, room for spilling. Each is a diagnostic.
#include "backend/regalloc/assemble.h"
#include "gtest/gtest.h"
#include "tests/unit/schedule/llo_text.h"

namespace tpuc {
namespace {

DiagCode Problem(const std::string& body, const Chip& chip, int64_t spill_row = 0) {
  DiagSink diags;
  AssembleOptions options;
  options.spill_row = spill_row;
  isa::Function out;
  int64_t rows = 0;
  EXPECT_FALSE(Assemble(LloFromText(body, 1), chip, options, &out, &rows, &diags));
  return diags.diags().empty() ? DiagCode::kSyntax : diags.diags()[0].code;
}

TEST(Limits, QueueShallowerThanOnePush) {
  Chip chip = V6e();
  chip.mrf_depth = 1;
  EXPECT_EQ(Problem("block 0 \"e\" trips=1 grid=0\n%v0 = vld [vmem:%s0]\n"
                    "%t0 = vmatmul.mubr.f32.gmra.mxu0 %v0\n%v1 = vpop.f32.mrf.mxu0 %t0\n"
                    "%v2 = vpop.f32.mrf.mxu0 %t0\n",
                    chip),
            DiagCode::kQueueDepth);
}

TEST(Limits, FewerRegistersThanOneInstructionReads) {
  Chip chip = V6e();
  chip.vector_registers = 1;
  EXPECT_EQ(Problem("block 0 \"e\" trips=1 grid=0\n%v0 = vld [vmem:%s0]\n%v1 = vld [vmem:%s0+8]\n"
                    "%v2 = vadd.f32 %v0, %v1\nvst [vmem:%s0], %v2\n",
                    chip),
            DiagCode::kTooFewRegisters);
}

TEST(Limits, NoRoomForSpills) {
  Chip chip = V6e();
  chip.vector_registers = 4;
  std::string body = "block 0 \"e\" trips=1 grid=0\n";
  for (int i = 0; i < 12; ++i) {
    std::string n = std::to_string(i);
    body += "%t" + n + " = vpow2.f32 " + n + "f\n%v" + n + " = vpop.eup %t" + n + "\nvst [vmem:%s0], %v" + n +
            "\n";
  }
  // From the last to the first: all of them live at once.
  body += "%v20 = vadd.f32 %v11, %v10\n";
  for (int i = 9; i >= 0; --i) {
    body += "%v" + std::to_string(30 - i) + " = vadd.f32 %v" +
            std::to_string(i == 9 ? 20 : 29 - i) + ", %v" + std::to_string(i) + "\n";
  }
  body += "vst [vmem:%s0], %v30\n";
  EXPECT_EQ(Problem(body, chip, chip.vmem_bytes / 512), DiagCode::kSpillSpace);
}

}  // namespace
}  // namespace tpuc
