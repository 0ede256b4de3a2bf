// Every module of the corpus (XLA's own tests and benchmarks) parses, and print(parse(.)) is a
// fixpoint. The verifier passes those that XLA itself accepts.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "gtest/gtest.h"
#include "src/ir/verifier.h"

namespace tpuc {
namespace {

namespace fs = std::filesystem;

// Modules that XLA's verifier rejects too (oracle/corpus/INDEX.tsv: xla-cpu-cannot), or whose
// header contradicts the entry; by file and part.
bool IsWrong(const std::string& name) {
  for (const char* wrong : {
           "transforms/tests/operand_upcaster.hlo.0",    // dot written with too few dimensions
           "hlo_to_mhlo/tests/layouts_and_names.hlo.1",  // entry layout of another type
           "builder/tests/math_next_after.hlo.1",        // entry layout of another type
           "tests/generate_hlo_test_checks_test_input.hlo.4",   // call of another shape
           "tests/generate_hlo_test_checks_test_output.hlo.4",  // the same
           "tools/print_indexing_test.hlo.0",                   // fusion of another shape
           "tests/data/invalid_concat.hlo.0",                   // as the name says
           "tests/rewrite_bf16_conv_to_onednn.hlo.1",           // convolution of another shape
       }) {
    if (absl::EndsWith(name, wrong)) return true;
  }
  return false;
}

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void RoundTrip(const std::vector<fs::path>& files, int* modules) {
  for (const fs::path& path : files) {
    auto whole = std::make_shared<Source>(Source{path.string(), Read(path)});
    int part = 0;
    for (const auto& source : SplitModules(whole)) {
      std::string name = absl::StrCat(path.string(), ".", part++);
      ++*modules;
      DiagSink diags;
      auto module = ParseHlo(source, &diags);
      ASSERT_TRUE(module) << name << "\n" << diags.Render();
      EXPECT_EQ(VerifyHlo(*module, &diags), !IsWrong(name)) << name << "\n" << diags.Render();
      std::string printed = PrintHlo(*module);
      DiagSink again;
      auto reread = ParseHlo(std::make_shared<Source>(Source{"printed", printed}), &again);
      ASSERT_TRUE(reread) << name << "\n" << again.Render();
      EXPECT_EQ(PrintHlo(*reread), printed) << name;
      EXPECT_EQ(PrintHlo(*Clone(*module)), printed) << name;
    }
  }
}

std::vector<fs::path> HloFiles(const std::string& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".hlo") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Corpus, Xla) {
  auto files = HloFiles(std::string(TPUC_SOURCE_DIR) + "/../shared/corpus/xla");
  if (files.empty()) GTEST_SKIP() << "../shared/corpus is not here";
  int modules = 0;
  RoundTrip(files, &modules);
  EXPECT_EQ(files.size(), 465u);
  EXPECT_EQ(modules, 757);
}

TEST(Corpus, OraclePrograms) {
  auto files = HloFiles(std::string(TPUC_SOURCE_DIR) + "/../shared/oracle/programs");
  if (files.empty()) GTEST_SKIP() << "../shared/oracle is not here";
  int modules = 0;
  RoundTrip(files, &modules);
  EXPECT_EQ(modules, 230);
}

}  // namespace
}  // namespace tpuc
