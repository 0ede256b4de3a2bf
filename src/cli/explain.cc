// tpuc explain CODE: a diagnostic's paragraph.
#include <CLI/CLI.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/cli/commands.h"

namespace tpuc::cli {
namespace {

std::string Wrap(absl::string_view paragraph, size_t width) {
  std::string out;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(paragraph, ' ', absl::SkipEmpty())) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += '\n';
      column = 0;
    }
    absl::StrAppend(&out, column ? " " : "", word);
    column += word.size() + (column ? 1 : 0);
  }
  return out + "\n";
}

}  // namespace

int ExplainCommand(const Args& args) {
  CLI::App app("Says what a diagnostic means.", "explain");
  std::string code;
  app.add_option("CODE", code, "as printed in brackets after a message: E0104")->required();
  Console console;
  int exit_code;
  if (!ParseArguments(&app, args, &console, &exit_code)) return exit_code;
  std::string upper = absl::AsciiStrToUpper(code);
  std::vector<std::string> codes;
  for (const DiagInfo& info : DiagTable()) codes.push_back(std::string(info.code));
  DiagSink diags;
  if (!CheckName("diagnostic", upper, codes, &diags)) return console.Finish(diags);
  for (const DiagInfo& info : DiagTable()) {
    if (info.code != upper) continue;
    PrintResult(absl::StrCat(info.code, ": ", info.title, "\n\n", Wrap(info.paragraph, 100)));
  }
  return kDone;
}

}  // namespace tpuc::cli
