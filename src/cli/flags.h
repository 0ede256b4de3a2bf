// The options that compile, run and opt share, and XLA's spellings of them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/cli/compile.h"

namespace CLI {
class App;
}

namespace tpuc::cli {

struct CompileFlags {
  CompileOptions options;  // filled by Resolve
  std::string chip = "v6e";
  std::vector<std::string> set;
  bool print_after_all = false, dump_as_text = false;
  std::unique_ptr<Chip> own_chip;  // of a --chip file

  void AddTo(CLI::App* app);
  // Checks names and ranges, loads the chip. False and diagnostics on error.
  bool Resolve(DiagSink* diags);
};

// --elided-constants, also of commands that take only some of the options above.
void AddElidedOption(CLI::App* app, Elided* elided);

// Every name of the pass table, once.
std::vector<std::string> PassNames();
// bm=64,dtype=bf16 -> pairs; E0400 for anything else.
bool ParseSettings(const std::vector<std::string>& words,
                   std::vector<std::pair<std::string, int64_t>>* set,
                   std::vector<std::pair<std::string, std::string>>* types, DiagSink* diags);
// Bytes with an optional suffix: 4096, 16KiB, 32MiB.
bool ParseBytes(const std::string& text, int64_t* bytes);

// E0403 if `output` is the same file as one of `inputs`.
bool CheckOutput(const std::string& output, const std::vector<std::string>& inputs,
                 DiagSink* diags);

}  // namespace tpuc::cli
