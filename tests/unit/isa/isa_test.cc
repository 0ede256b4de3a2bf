// The instruction table: mnemonics are unique and go both ways; a few rows as isa.def's text says.
#include "backend/isa/isa.h"

#include <gtest/gtest.h>

#include <set>

namespace tpuc::isa {
namespace {

TEST(IsaTest, MnemonicsAreUniqueAndGoBothWays) {
  std::set<absl::string_view> seen;
  for (int i = 0; i < kOpcodeCount; ++i) {
    auto op = static_cast<Opcode>(i);
    const OpInfo& info = Info(op);
    EXPECT_EQ(info.op, op);
    EXPECT_TRUE(seen.insert(info.mnemonic).second) << info.mnemonic;
    EXPECT_EQ(FromMnemonic(info.mnemonic), op);
  }
  EXPECT_FALSE(FromMnemonic("vfrobnicate").has_value());
}

TEST(IsaTest, RowsSayWhatTheTableSays) {
  const OpInfo& store = Info(Opcode::kVstMsk);
  EXPECT_EQ(store.slot, Slot::kStore);
  EXPECT_TRUE(store.has_memory);
  EXPECT_EQ(store.sources, "mv");
  EXPECT_EQ(store.dest, RegClass::kNone);
  const OpInfo& reduce = Info(Opcode::kVaddXlane);
  EXPECT_EQ(reduce.unit, Unit::kXlu);
  EXPECT_EQ(reduce.dest, RegClass::kToken);
  EXPECT_EQ(reduce.latency, LatencyKey::kXlane);
}

TEST(IsaTest, F32OperandHoldsTheBits) {
  EXPECT_EQ(Operand::F32(1.0f).imm, 0x3f800000);
  EXPECT_TRUE(Operand::F32(-0.0f).is_imm());
  EXPECT_EQ(ClassLetter(RegClass::kMask), 'm');
  EXPECT_EQ(ClassLetter(RegClass::kNone), '-');
}

}  // namespace
}  // namespace tpuc::isa
