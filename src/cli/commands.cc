// Which command an argument list means: the first argument, if it is a command's name; otherwise a
// file to compile.
#include "src/cli/commands.h"

#include <csignal>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/cli/version.h"
#include "src/io/file.h"

namespace tpuc::cli {
namespace {

struct Command {
  const char* name;
  const char* purpose;
  int (*run)(const Args&);  // null: planned
};

constexpr Command kCommands[] = {
    {"run", "compile if need be and execute: values and cycles", RunCommand},
    {"opt", "HLO to HLO: passes, or parse, verify and print", OptCommand},
    {"diff", "compare arrays or texts", DiffCommand},
    {"list", "the tables: chips, passes, ops, isa, diags", ListCommand},
    {"explain", "what a diagnostic means", ExplainCommand},
    {"sweep", "many runs: options and parameters, one JSON line a point", SweepCommand},
    {"report", "a page about one run", nullptr},
    {"mask", "the block map of a kernel's masks", MaskCommand},
};

std::string Usage() {
  std::string text =
      "usage: tpuc FILE.hlo|FILE.tk [-o bundles.txt] [options]   compile\n"
      "       tpuc COMMAND ...\n\ncommands:\n";
  for (const Command& c : kCommands) {
    absl::StrAppend(&text, "  ", c.name, std::string(10 - std::string(c.name).size(), ' '),
                    c.purpose, c.run ? "" : " (not built yet)", "\n");
  }
  return text +
         "\ntpuc COMMAND --help lists a command's options; tpuc compile --help those of "
         "compiling.\n";
}

int Unknown(const std::string& word) {
  DiagSink diags;
  std::vector<std::string> names;
  for (const Command& c : kCommands) names.push_back(c.name);
  Diag& d =
      diags.Add(DiagCode::kUsage, absl::StrCat("'", word, "' is neither a command nor a file"));
  std::string nearest = NearestName(word, names);
  d.hint = nearest.empty() ? "tpuc --help lists the commands"
                           : absl::StrCat("did you mean 'tpuc ", nearest, "'?");
  Console console;
  console.SetColor("auto");
  return console.Finish(diags);
}

}  // namespace

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `tpuc ... | head` ends quietly
  Args args(argv + 1, argv + argc);
  if (args.empty()) {
    std::fputs(Usage().c_str(), stderr);
    return kCommandLine;
  }
  const std::string first = args[0];
  if (first == "--help" || first == "-h" || first == "help") {
    PrintResult(Usage());
    return kDone;
  }
  if (first == "--version") {
    PrintResult(absl::StrCat("tpuc ", kVersion, "\n"));
    return kDone;
  }
  Args rest(args.begin() + 1, args.end());
  if (first == "compile") return CompileCommand(rest);
  for (const Command& c : kCommands) {
    if (first != c.name) continue;
    if (c.run) return c.run(rest);
    DiagSink diags;
    NotBuilt(absl::StrCat("'tpuc ", c.name, "'"), &diags);
    Console console;
    console.SetColor("auto");
    return console.Finish(diags);
  }
  // A word that looks like no path and names no file is a mistyped command.
  bool path = first[0] == '-' || absl::StrContains(first, '.') || absl::StrContains(first, '/');
  if (!path && !FileExists(first)) return Unknown(first);
  return CompileCommand(args);
}

}  // namespace tpuc::cli
