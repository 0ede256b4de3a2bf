// Every pass on every program of the compile list: the value does not move, the second run of a
// pass changes nothing, and what comes out verifies and has its buffers proved (buffer-assignment
// does).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

std::vector<std::string> CompileList() {
  std::vector<std::string> names;
  auto add = [&](const std::string& dir, const std::string& prefix, const std::string& suffix) {
    std::error_code error;
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(OracleDir() + dir, error)) {
      std::string name = entry.path().filename().string();
      if (name.size() > suffix.size() && name.substr(0, prefix.size()) == prefix &&
          name.substr(name.size() - suffix.size()) == suffix &&
          name.find("dynamic_") == std::string::npos) {  // the evaluator has no dynamic slices yet
        found.push_back(dir + "/" + name);
      }
    }
    std::sort(found.begin(), found.end());
    names.insert(names.end(), found.begin(), found.end());
  };
  add("binary", "", ".hlo");
  add("unary", "", "_f32.hlo");
  add("dot", "mm_", "_f32.hlo");
  add("move", "", ".hlo");
  for (const char* name : {"reduce/sum_axes", "reduce/minmaxprod", "model/softmax_1000",
                           "model/rmsnorm", "model/layernorm", "model/mlp_gelu", "model/swiglu",
                           "model/rope", "model/mini_attention"}) {
    if (std::filesystem::exists(OracleDir() + name + ".hlo")) {
      names.push_back(std::string(name) + ".hlo");
    }
  }
  return names;
}

class Oracle : public testing::TestWithParam<std::string> {};

TEST_P(Oracle, EveryPassKeepsValuesAndIsIdempotent) {
  DiagSink diags;
  std::unique_ptr<Module> module = ParseText(ReadText(OracleDir() + GetParam()), &diags);
  ASSERT_TRUE(module) << diags.Render();
  std::optional<Literal> expected = RunSeeded(*module, &diags);
  ASSERT_TRUE(expected) << diags.Render();

  BufferAssignment buffers;
  PassContext context;
  context.chip = BuiltinChip("v6e");
  context.diags = &diags;
  context.buffers = &buffers;
  for (const PassRow& row : PassTable()) {
    bool changed = row.make()->Run(module.get(), &context);
    ASSERT_FALSE(diags.has_errors()) << row.name << "\n" << diags.Render();
    if (changed) {
      ASSERT_TRUE(VerifyHlo(*module, &diags)) << row.name << "\n"
                                              << diags.Render() << PrintHlo(*module);
      std::optional<Literal> actual = RunSeeded(*module, &diags);
      ASSERT_TRUE(actual) << row.name << "\n" << diags.Render();
      EXPECT_EQ(Compare(*expected, *actual), "") << row.name << "\n" << PrintHlo(*module);
    }
    std::string once = PrintHlo(*module);
    EXPECT_FALSE(row.make()->Run(module.get(), &context)) << row.name;
    EXPECT_EQ(once, PrintHlo(*module)) << "second run of " << row.name;
    // A round trip through text is what `tpuc opt` does with it.
    if (changed) {
      std::unique_ptr<Module> again = ParseText(once, &diags);
      ASSERT_TRUE(again) << row.name << "\n" << diags.Render() << once;
      EXPECT_EQ(once, PrintHlo(*again)) << row.name;
    }
  }
  for (const auto& i : module->entry->instructions) {
    for (int64_t leaf = 0; leaf < i->shape.LeafCount(); ++leaf) {
      bool flag = i->op == Op::kCopyStart && leaf == 2;
      EXPECT_EQ(buffers.Find(i.get(), leaf) != nullptr, !flag) << i->name << " " << leaf;
    }
  }
}

std::string NameOf(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Oracle, testing::ValuesIn(CompileList()), NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Oracle);

TEST(OracleFiles, AreThere) {
  if (CompileList().empty()) GTEST_SKIP() << "no oracle beside the source tree";
  EXPECT_GE(CompileList().size(), 67);
}

// Not a test of anything: SHOW=file.hlo prints the program after every pass (AFTER=pass: after
// one).
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
        if (only && pass != only) return;
        std::cout << "// ---- " << pass << (changed ? "" : " (no change)") << "\n" << remarks;
        if (changed) std::cout << PrintHlo(m) << "\n";
      },
      &buffers, &diags);
  std::cout << diags.Render();
}

}  // namespace
}  // namespace tpuc
