// The chip parser: the built-in v6e against figures of the published dumps, and each diagnostic.
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "backend/chip/chip.h"

namespace tpuc {
namespace {

std::string CodesOf(const std::string& text) {
  DiagSink diags;
  auto chip = ParseChip(std::make_shared<const Source>(Source{"t.chip", text}), &diags);
  std::string codes;
  for (const Diag& d : diags.diags()) {
    codes += std::string(InfoOf(d.code).code) + "@" + std::to_string(d.loc.line) + " ";
  }
  EXPECT_EQ(chip == nullptr, !codes.empty());
  return codes;
}

std::string Edited(absl::string_view from, absl::string_view to) {
  std::string text = BuiltinChip("v6e")->text;
  EXPECT_NE(text.find(std::string(from)), std::string::npos);
  return absl::StrReplaceAll(text, {{from, to}});
}

TEST(ChipTest, V6eHasThePublishedNumbers) {
  const Chip* c = BuiltinChip("v6e");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->name, "v6e");
  EXPECT_EQ(c->latency(LatencyKey::kMatmul), 192);
  EXPECT_EQ(c->latency(LatencyKey::kXlane), 137);
  EXPECT_EQ(c->latency(LatencyKey::kVst), 7);
  EXPECT_EQ(c->interval(IntervalKey::kXposeGroup), 64);
  EXPECT_EQ(c->vmem_bytes, int64_t{128} << 20);
  EXPECT_EQ(c->delay_slots, 4);
  // 1638 GB/s at 1.75 GHz.
  EXPECT_DOUBLE_EQ(c->hbm_bytes_per_cycle, 936.0);
  for (const ChipRow& row : c->rows) EXPECT_FALSE(row.source.empty()) << row.name;
}

// 197e12 bf16 operations a second, 16 GiB of HBM (chips.md section 2); each chip has every number.
TEST(ChipTest, V5eHasThePublishedNumbers) {
  const Chip* c = BuiltinChip("v5e");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->mxus, 4);
  EXPECT_EQ(c->mxu_size, 128);
  EXPECT_EQ(c->mxu_tiles(), 1);
  EXPECT_EQ(BuiltinChip("v6e")->mxu_tiles(), 2);
  double rows = 8.0 / c->interval(IntervalKey::kMatmulF32);
  EXPECT_NEAR(c->mxus * 128.0 * 128 * 2 * rows * c->clock_mhz * 1e6, 197e12, 0.5e12);
  EXPECT_EQ(c->hbm_bytes, int64_t{16} << 30);
  EXPECT_EQ(c->vmem_bytes, int64_t{128} << 20);
  EXPECT_EQ(c->smem_bytes, int64_t{1} << 20);
  EXPECT_DOUBLE_EQ(c->hbm_bytes_per_cycle, 546.0);  // 819 GB/s at 1.5 GHz
  EXPECT_EQ(c->rows.size(), BuiltinChip("v6e")->rows.size());
  for (const ChipRow& row : c->rows) {
    EXPECT_FALSE(row.source.empty()) << row.name;
    EXPECT_NE(row.kind, "measured") << row.name;  // nobody has published measurements of it
  }
}

TEST(ChipTest, UnknownChipIsNull) {
  EXPECT_EQ(BuiltinChip("v99"), nullptr);
  EXPECT_FALSE(BuiltinChipNames().empty());
}

TEST(ChipTest, WhatIfEditsParse) {
  EXPECT_EQ(CodesOf(Edited("matmul = 192 ", "matmul = 100 ")), "");
}

TEST(ChipTest, EachErrorIsReported) {
  EXPECT_EQ(CodesOf(Edited("mxu_size = 256 ", "mxu_size = 192 ")).substr(0, 5), "E0654");
  EXPECT_EQ(CodesOf(Edited("mxu_size = 256 ", "mxu_size = 128 ")), "");
  EXPECT_EQ(CodesOf(Edited("\nvsel = 1 ", "\nvsel = one")).substr(0, 5), "E0654");
  EXPECT_EQ(CodesOf(Edited("\nvsel = 1 ", "\nvsel = 1.5 ")).substr(0, 5), "E0654");
  EXPECT_EQ(CodesOf(Edited("\nvsel = 1 ", "\nvsel = 1e99 ")).substr(0, 5), "E0654");
  EXPECT_EQ(CodesOf(Edited("\nvsel = 1 ", "\nvsell = 1 ")).substr(0, 5), "E0651");
  EXPECT_EQ(CodesOf(Edited("[latency]", "[latencies]")).substr(0, 5), "E0651");
  EXPECT_EQ(CodesOf(Edited("\nvsel = 1 ", "\nvcmp = 1 ")).substr(0, 5), "E0652");
  EXPECT_EQ(CodesOf(Edited("\nvsel = 1 ", "\n# ")), "E0653@0 ");
  EXPECT_EQ(
      CodesOf(Edited("vsel = 1                       measured", "vsel = 1 guessed")).substr(0, 5),
      "E0650");
  EXPECT_EQ(CodesOf(Edited("[latency]", "[latency")).substr(0, 5), "E0650");
  EXPECT_NE(CodesOf(""), "");
}

TEST(ChipTest, HintNamesTheNearest) {
  DiagSink diags;
  ParseChip(std::make_shared<const Source>(Source{"t.chip", Edited("\nvsel = 1 ", "\nvsell = 1 ")}),
            &diags);
  ASSERT_FALSE(diags.diags().empty());
  EXPECT_EQ(diags.diags()[0].hint, "did you mean 'vsel'?");
}

}  // namespace
}  // namespace tpuc
