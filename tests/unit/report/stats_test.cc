// The statistics object and table of a small program made by hand.
#include "backend/report/stats.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "backend/report/bounds.h"

namespace tpuc {
namespace {

isa::Inst Make(isa::Opcode op, int target = -1) {
  isa::Inst i;
  i.op = op;
  i.target = target;
  return i;
}

isa::Program Small() {
  isa::Program p;
  p.module = "jit_f";
  p.chip_name = "v6e";
  p.options = "-O2 --strips=auto";
  isa::Function k;
  k.name = "add_fusion";
  k.info.ops = {"add", "multiply"};
  k.info.grid_steps = 4;
  k.info.spills = 2;
  k.info.hbm_read_bytes = 100;
  k.info.hbm_written_bytes = 50;
  k.info.loops = {{0, 1, 7, 3, 4, 2}};
  k.bundles.resize(2);
  k.bundles[0].insts = {Make(isa::Opcode::kVld), Make(isa::Opcode::kVaddF32),
                        Make(isa::Opcode::kSadd)};
  k.bundles[1].insts = {Make(isa::Opcode::kVst)};
  p.kernels = {k};
  p.tlp.bundles.resize(3);
  p.tlp.bundles[0].insts = {Make(isa::Opcode::kCall, 0)};
  p.tlp.bundles[2].insts = {Make(isa::Opcode::kCall, 0)};
  p.buffers = {{"x", isa::Memory::kHbm, 0, 4096, "f32[8,128]", 0, 3},
               {"h", isa::Memory::kVmem, 512, 4096, "f32[8,128]", 1, 2}};
  p.copies = {{"copy-start", 1000, true, 0, 2}};
  return p;
}

TEST(Stats, CompileJson) {
  nlohmann::json j = nlohmann::json::parse(StatsJson(Small(), nullptr, nullptr));
  EXPECT_EQ(j["schema"], "tpuc.stats/1");
  EXPECT_EQ(j["hbm_bytes"], 2 * 150 + 1000);
  EXPECT_FALSE(j.contains("cycles"));
  nlohmann::json k = j["kernels"][0];
  EXPECT_EQ(k["calls"], 2);
  EXPECT_EQ(k["bundles"], 2);
  EXPECT_EQ(k["instructions"], 4);
  EXPECT_EQ(k["slots"]["load"], 1);
  EXPECT_EQ(k["slots"]["store"], 1);
  EXPECT_EQ(k["slots"]["valu"], 1);
  EXPECT_EQ(k["slots"]["salu"], 1);
  EXPECT_EQ(k["slots"]["mxu"], 0);
  EXPECT_EQ(k["loops"][0]["mii"], 3);
  EXPECT_EQ(k["loops"][0]["ii"], 4);
  EXPECT_EQ(k["loops"][0]["trips"], 7);
  EXPECT_FALSE(k.contains("stalls"));
  EXPECT_EQ(j["buffers"][1]["space"], "vmem");
  EXPECT_EQ(j["copies"][0]["cross_program"], true);
}

TEST(Stats, RunAndCheckJson) {
  RunStats run;
  run.cycles = 1234;
  run.time_us = 1.5;
  run.hbm_bytes = 77;
  run.kernels.resize(1);
  run.kernels[0].calls = 2;
  run.kernels[0].cycles = 600;
  run.kernels[0].stalls = {1, 2, 3, 4};
  CheckResult check{true, 0.5, 0.25, 0.125};
  nlohmann::json j = nlohmann::json::parse(StatsJson(Small(), &run, &check));
  EXPECT_EQ(j["cycles"], 1234);
  EXPECT_EQ(j["time_us"], 1.5);
  EXPECT_EQ(j["hbm_bytes"], 77);
  EXPECT_EQ(j["kernels"][0]["cycles"], 600);
  EXPECT_EQ(j["kernels"][0]["stalls"]["dma"], 3);
  EXPECT_EQ(j["check"]["ok"], true);
  EXPECT_EQ(j["check"]["max_abs"], 0.5);
}

// Shares are of the kernel's own; a dot of depth 192 on an MXU of 256 has a quarter of zeros.
TEST(Stats, WorkByOperation) {
  isa::Program p = Small();
  p.sources = {
      {"", "dot", "a/k.tk:3"}, {"", "reduce_max", "a/k.tk:4"}, {"exp.1", "jit(f)/exp", ""}};
  p.kernels[0].info.dots = {{0, 64, 192, 512, 256, 512}};
  RunStats run;
  run.cycles = 1000;
  run.kernels.resize(1);
  KernelRun& k = run.kernels[0];
  k.cycles = 1000;
  k.instructions = 400;
  k.slots = {512, 80, 200, 0, 0, 0, 0};
  k.operations = {{-1, 50, {}},
                  {0, 100, {512, 0, 20, 0, 0, 0, 0}},
                  {1, 200, {0, 60, 150, 0, 0, 0, 0}},
                  {2, 50, {0, 20, 30, 0, 0, 0, 0}}};
  const nlohmann::json j = nlohmann::json::parse(StatsJson(p, &run, nullptr))["kernels"][0];
  ASSERT_EQ(j["operations"].size(), 3u);
  EXPECT_EQ(j["operations"][0]["name"], "reduce_max");
  EXPECT_EQ(j["operations"][0]["slots"]["valu"], 150);
  EXPECT_EQ(j["operations"][1]["dot"]["on_zeros"], 0.25);
  EXPECT_FALSE(j["operations"][2].contains("dot"));
  EXPECT_EQ(j["mxu_on_zeros"], 0.25);
  const std::string text = StatsText(p, &run, nullptr);
  EXPECT_NE(
      text.find("  reduce_max                  k.tk:4                       50%     -   75%   75%"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("MXU work on zeros: dot k.tk:3 25%, depth 192 of 256, columns 512\n"),
            std::string::npos)
      << text;
}

TEST(Stats, TableFitsAScreen) {
  isa::Program p = Small();
  while (p.kernels.size() < 40) p.kernels.push_back(p.kernels[0]);
  while (p.buffers.size() < 60) p.buffers.push_back(p.buffers[1]);
  while (p.copies.size() < 30) p.copies.push_back(p.copies[0]);
  RunStats run;
  run.cycles = 1234567;
  run.kernels.resize(40);
  run.kernels[0].cycles = 1000;
  run.kernels[0].stalls.dma = 700;
  CheckResult check{true, 1e-3, 1e-4, 1e-5};
  std::string text = StatsText(p, &run, &check);
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_LE(lines.size(), 46u);  // the last is empty
  for (const std::string& line : lines) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_NE(text.find("1,234,567 cycles"), std::string::npos);
  EXPECT_NE(text.find("waits for DMA 70%"), std::string::npos);
  EXPECT_NE(text.find("add multiply"), std::string::npos);
}

// The v6e: 918e12 bf16 operations a second at 1750 MHz are 524,571 a cycle (chips.md section 2).
TEST(Bounds, SharesOfThePeak) {
  Chip chip;
  chip.clock_mhz = 1750;
  chip.sublanes = 8, chip.mxus = 2, chip.mxu_size = 256, chip.xlus = 2;
  chip.valu = 4, chip.eup = 1, chip.load = 3, chip.store = 2;
  chip.hbm_bytes_per_cycle = 936;
  chip.intervals[static_cast<int>(IntervalKey::kMatmulF32)] = 4;
  EXPECT_NEAR(PeakFlopsPerCycle(chip), 524571, 524571 * 1e-3);
  isa::Program p = Small();
  p.kernels[0].info.flops = 131072 * 1000;
  RunStats run;
  run.cycles = 2000;
  run.kernels.resize(1);
  KernelRun& k = run.kernels[0];
  k.calls = 2, k.cycles = 1750, k.hbm_read_bytes = 936 * 1000;
  k.slots.mxu = 1750, k.slots.valu = 700;
  k.stalls = {0, 0, 1400, 0};
  run.tlp.cycles = 250;
  std::string line = std::vector<std::string>(absl::StrSplit(BoundsText(p, run, chip), '\n'))[2];
  std::vector<std::string> cells = absl::StrSplit(line, ' ', absl::SkipEmpty());
  EXPECT_EQ(cells, (std::vector<std::string>{"add_fusion", "1.00", "262M", "29%", "914.1", "KiB",
                                             "57%", "280", "50%", "0%", "10%", "0%", "0%", "0%",
                                             "80%", "0%", "0%", "0%"}));
  EXPECT_NE(AdviceText(p, run, chip).find("add_fusion waits for copies in 70%"), std::string::npos);
}

}  // namespace
}  // namespace tpuc
