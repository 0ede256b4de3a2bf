// Every pass on every program of the compile list: the value does not move, the second run of a pass
// changes nothing, and the shape of the result is what its bar says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

TEST(Show, Program) {
  const char* path = std::getenv("SHOW");
  if (!path) GTEST_SKIP() << "SHOW=file prints a program after every pass";
  DiagSink diags;
  std::unique_ptr<Module> module = ParseText(ReadText(path), &diags);
  ASSERT_TRUE(module) << diags.Render();
  PipelineOptions options;
  options.want_remarks = true;
  BufferAssignment buffers;
  const char* only = std::getenv("AFTER");
  RunPipeline(
      module.get(), *BuiltinChip("v6e"), options,
      [&](absl::string_view pass, const Module& m, bool changed, absl::string_view remarks) {
        if (!changed || (only && pass != only)) return;
        std::cout << "// ---- " << pass << "\n" << remarks << PrintHlo(m) << "\n";
      },
      &buffers, &diags);
  std::cout << diags.Render();
  for (const AssignedBuffer& b : buffers.buffers) {
    std::cout << (b.memory_space == 1 ? "vmem " : "hbm ") << b.offset << " " << b.bytes << " "
              << b.instruction->name << "." << b.leaf << " [" << b.from << "," << b.to << "]\n";
  }
}

}  // namespace
}  // namespace tpuc
