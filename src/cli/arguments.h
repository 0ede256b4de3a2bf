// Parsing a sub-command's arguments with CLI11: errors become diagnostics with the nearest known
// name, never exceptions.
#pragma once

#include <string>
#include <vector>

#include "src/cli/console.h"

namespace CLI {
class App;
}

namespace tpuc::cli {

using Args = std::vector<std::string>;

// True: parsed, go on. False: *exit_code says how to leave; help or errors have been printed.
// Every app gets --color, --diagnostics and --help.
bool ParseArguments(CLI::App* app, const Args& args, Console* console, int* exit_code);

// A word that must be one of `known`: E0401 with the nearest name and the list otherwise.
bool CheckName(absl::string_view what, const std::string& word,
               const std::vector<std::string>& known, DiagSink* diags);
// A flag or command that is planned and not there: E0402.
void NotBuilt(absl::string_view what, DiagSink* diags);

}  // namespace tpuc::cli
