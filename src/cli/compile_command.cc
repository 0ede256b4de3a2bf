// tpuc FILE -o bundles.txt: compiles HLO or a kernel file; --stop-after writes an earlier level.
#include <CLI/CLI.hpp>

#include "backend/report/stats.h"
#include "grammar/bundle/printer.h"
#include "src/cli/commands.h"
#include "src/cli/flags.h"
#include "src/cli/modules.h"
#include "src/io/file.h"

namespace tpuc::cli {

int CompileCommand(const Args& args) {
  CLI::App app("Compiles HLO text or a kernel file to bundles.", "FILE");
  CompileFlags flags;
  std::string file, output;
  bool json = false;
  app.add_option("FILE", file, "file.hlo, file.tk, or - for standard input")->required();
  app.add_option("-o", output, "where the bundles go; - (default) is standard output");
  app.add_flag("--json", json, "statistics as one JSON object; bundles only to -o");
  flags.AddTo(&app);
  Console console;
  int exit_code;
  if (!ParseArguments(&app, args, &console, &exit_code)) return exit_code;
  DiagSink diags;
  if (!flags.Resolve(&diags) || !CheckOutput(output, {file}, &diags)) return console.Finish(diags);
  if (json && output == "-") {
    diags.Add(DiagCode::kUsage, "with --json standard output holds the object; name a file by -o");
    return console.Finish(diags);
  }
  auto source = ReadSource(file, &diags);
  if (!source) return console.Finish(diags);
  if (KindOf(*source) == InputKind::kBundles) {
    diags.Add(DiagCode::kUsage, "the file is compiled already").hint = "tpuc run runs it";
    return console.Finish(diags);
  }
  flags.options.talk = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  auto compiled = Compile(source, flags.options, &diags);
  if (!compiled) return console.Finish(diags);
  if (json && compiled->program) {
    PrintResult(StatsJson(*compiled->program, nullptr, nullptr));
  }
  if (!json || !output.empty()) {
    WriteFile(output.empty() ? "-" : output,
              compiled->program ? bundle::PrintBundles(*compiled->program) : compiled->text,
              &diags);
  }
  return console.Finish(diags);
}

}  // namespace tpuc::cli
