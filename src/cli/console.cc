#include "src/cli/console.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"

namespace tpuc::cli {

void Console::SetColor(absl::string_view when) {
  auto is_set = [](const char* name) {
    const char* v = std::getenv(name);
    return v != nullptr && *v != '\0' && absl::string_view(v) != "0";
  };
  const char* no_color = std::getenv("NO_COLOR");
  if (when == "always" || when == "never") {
    color = when == "always";
  } else if (no_color != nullptr &&
             *no_color != '\0') {  // no-color.org: any value but the empty one
    color = false;
  } else {
    color = is_set("CLICOLOR_FORCE") || isatty(STDERR_FILENO);
  }
}

void Console::Print(const DiagSink& diags) const {
  std::string text = json_diagnostics ? diags.RenderJson() : diags.Render(color);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int Console::Finish(const DiagSink& diags) const {
  Print(diags);
  return ExitCodeOf(diags);
}

int ExitCodeOf(const DiagSink& diags) {
  for (const Diag& d : diags.diags()) {
    const DiagInfo& info = InfoOf(d.code);
    if (info.severity != Severity::kError) continue;
    if (absl::StartsWith(info.code, "E04")) return kCommandLine;
    // E0200 and E0250 on are faults of the machine; E0201 on are the evaluator's.
    if (info.code == "E0200" || (absl::StartsWith(info.code, "E02") && info.code >= "E0250")) {
      return kProgramAtFault;
    }
    return kInputAtFault;
  }
  return kDone;
}

void PrintResult(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace tpuc::cli
