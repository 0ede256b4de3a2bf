// Robustness: every module of the oracle and of the XLA corpus goes through the whole pipeline
// without a diagnostic and comes out as a module that verifies, whatever its operations are; a
// second run of a pass finds nothing to do. Values are the business of oracle_test.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

std::vector<std::string> FilesUnder(const std::string& dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir, error)) {
    std::string extension = entry.path().extension().string();
    if (extension == ".hlo" || extension == ".txt") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "" or what went wrong.
std::string Problem(std::shared_ptr<const Source> source) {
  DiagSink parse;
  std::unique_ptr<Module> module = ParseHlo(source, &parse);
  if (!module || !VerifyHlo(*module, &parse)) return "";  // the parser's tests see to that
  DiagSink diags;
  BufferAssignment buffers;
  PassContext context;
  context.chip = BuiltinChip("v6e");
  context.diags = &diags;
  context.buffers = &buffers;
  for (const PassRow& row : PassTable()) {
    bool changed = row.make()->Run(module.get(), &context);
    if (diags.has_errors()) {
      // Programs larger than the chip's memory are refused, by name.
      bool memory = diags.Render().find("E100") != std::string::npos;
      return memory ? "" : absl::StrCat(row.name, ": ", diags.Render());
    }
    if (!changed) continue;
    if (!VerifyHlo(*module, &diags)) return absl::StrCat(row.name, ": ", diags.Render());
    std::string once = PrintHlo(*module);
    if (row.make()->Run(module.get(), &context) || PrintHlo(*module) != once) {
      return absl::StrCat(row.name, " finds more to do in a second run");
    }
  }
  return "";
}

void CheckAll(const std::string& dir) {
  std::vector<std::string> files = FilesUnder(dir);
  if (files.empty()) GTEST_SKIP() << "nothing under " << dir;
  int modules = 0;
  for (const std::string& file : files) {
    if (std::filesystem::file_size(file) > (1 << 20)) continue;
    auto source = std::make_shared<Source>();
    source->name = file;
    source->text = ReadText(file);
    for (const auto& part : SplitModules(source)) {
      if (std::getenv("VERBOSE")) std::cerr << file << std::endl;
      EXPECT_EQ(Problem(part), "") << file;
      ++modules;
    }
  }
  std::cout << modules << " modules\n";
}

TEST(Corpus, Oracle) { CheckAll(OracleDir()); }
TEST(Corpus, Xla) { CheckAll(std::string(TPUC_SOURCE_DIR) + "/../shared/corpus/xla"); }

}  // namespace
}  // namespace tpuc
