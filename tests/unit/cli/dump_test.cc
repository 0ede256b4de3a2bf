// Dumped files: XLA's names; a filter on passes leaves the others' names in place.
#include "src/cli/dump.h"

#include <gtest/gtest.h>

#include "src/io/file.h"

namespace tpuc {
namespace {

TEST(Dumps, PassFilter) {
  const std::string dir = ::testing::TempDir() + "dump_test";
  Dumps dumps(dir, "jit_f", "fus.on$");
  for (int i = 0; i < 4; ++i) {
    static const char* const kPasses[] = {"parse", "multi-output-fusion", "fusion-plan", "fusion"};
    dumps.AddPass(i, kPasses[i], kPasses[i]);
  }
  DiagSink diags;
  ASSERT_TRUE(dumps.Write(&diags));
  std::string text;
  ASSERT_TRUE(ReadFile(dir + "/index.json", &text, &diags));
  EXPECT_EQ(text,
            "[\n \"module_0001.jit_f.0001.tpuc.after_multi-output-fusion.before_fusion-plan.txt\",\n"
            " \"module_0001.jit_f.0003.tpuc.after_fusion.txt\"\n]\n");
}

}  // namespace
}  // namespace tpuc
