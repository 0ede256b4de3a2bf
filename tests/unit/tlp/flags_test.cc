// Each copy between its start and its done holds a sync flag; the chip has so many.
#include <gtest/gtest.h>

#include "backend/tlp/tlp.h"

namespace tpuc {
namespace {

kernel::Program Copies(int count) {
  kernel::Program p;
  Shape shape = Shape::Array(Type::kF32, {8, 128});
  shape.layout = DefaultLayout(2);
  shape.layout->tiles.push_back(Tile{{8, 128}});
  for (int i = 0; i < 2 * count; ++i) {
    kernel::Buffer b;
    b.name = "b";
    b.shape = shape;
    if (i % 2 == 1) b.shape.layout->memory_space = 1;
    p.buffers.push_back(b);
  }
  for (int done = 0; done < 2; ++done) {
    for (int i = 0; i < count; ++i) {
      kernel::Step s;
      s.kind = done ? kernel::Step::Kind::kCopyDone : kernel::Step::Kind::kCopyStart;
      s.operands = {2 * i, 2 * i + 1};
      s.copy = i;
      p.steps.push_back(s);
    }
  }
  return p;
}

TEST(Tlp, CopiesUnderWayAreLimitedByFlags) {
  const Chip& chip = *BuiltinChip("v6e");
  DiagSink diags;
  llo::Program out;
  KernelRegion region;
  EXPECT_TRUE(EmitProgram(Copies(chip.sync_flags - 64), chip, {}, &out, &region, &diags));
  llo::Program more;
  EXPECT_FALSE(EmitProgram(Copies(chip.sync_flags), chip, {}, &more, &region, &diags));
  ASSERT_EQ(diags.errors(), 1);
  EXPECT_EQ(diags.diags()[0].code, DiagCode::kOutOfSyncFlags);
}

TEST(Tlp, HbmIsFinite) {
  const Chip& chip = *BuiltinChip("v6e");
  kernel::Program p = Copies(1);
  p.buffers[0].shape.dims = {chip.hbm_bytes / 512, 256};
  DiagSink diags;
  llo::Program out;
  KernelRegion region;
  EXPECT_FALSE(EmitProgram(p, chip, {}, &out, &region, &diags));
  ASSERT_EQ(diags.errors(), 1);
  EXPECT_EQ(diags.diags()[0].code, DiagCode::kHbmFull);
  EXPECT_NE(diags.Render().find("largest: b f32["), std::string::npos);
}

}  // namespace
}  // namespace tpuc
