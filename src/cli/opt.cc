// tpuc opt: HLO to HLO. All passes without --passes, those named with it, none with an empty one
// (parse, verify, print). A file of several modules parted by "// -----" gives several.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "passes/pipeline.h"
#include "src/cli/commands.h"
#include "src/cli/dump.h"
#include "src/cli/flags.h"
#include "src/cli/kernel_calls.h"
#include "src/cli/modules.h"
#include "src/cli/verify_each.h"
#include "src/io/file.h"
#include "src/ir/verifier.h"

namespace tpuc::cli {
namespace {

struct OptFlags {
  CompileFlags compile;
  std::string file, output;
  std::vector<std::string> passes;
  bool all = true, none = false, list_passes = false, split = false;
};

bool CheckPasses(const OptFlags& flags, DiagSink* diags) {
  const CompileOptions& o = flags.compile.options;
  std::vector<std::string> known = PassNames();
  for (const std::string& p : flags.passes) CheckName("pass", p, known, diags);
  if (!o.stop_after.empty() && o.stop_after != "hlo") {
    CheckName("pass", o.stop_after, known, diags);
  }
  known.push_back("all");
  for (const std::string& p : o.print_after) CheckName("pass", p, known, diags);
  return !diags->has_errors();
}

// Runs the passes over one module, and tells on the way what was asked for.
class Optimizer {
 public:
  Optimizer(const OptFlags& flags, DiagSink* diags) : flags_(flags), diags_(diags) {}

  // Parses, verifies and rewrites one module; its text is appended to *out.
  bool Run(std::shared_ptr<const Source> source, std::string* out) {
    auto module = ParseHlo(source, diags_);
    if (!module) return false;
    const bool rewrites = flags_.all || !flags_.passes.empty();
    if (!rewrites) WarnOfBrokenRules(*module);
    if (!TakeElided(flags_.compile.options.elided, module.get(), diags_)) return false;
    if (rewrites && (!VerifyHlo(*module, diags_) || !RunPasses(module.get()))) return false;
    *out += PrintHlo(*module);
    return true;
  }

 private:
  // Reading and printing need none of the verifier's rules.
  void WarnOfBrokenRules(const Module& module) {
    DiagSink broken;
    VerifyHlo(module, &broken);
    for (const Diag& d : broken.diags()) {
      Diag& warning =
          diags_->Add(InfoOf(d.code).severity == Severity::kError ? DiagCode::kRuleBroken : d.code,
                      d.source, d.loc, d.message);
      if (warning.code == DiagCode::kRuleBroken) {
        absl::StrAppend(&warning.message, "; passes and runs refuse it [", InfoOf(d.code).code,
                        "]");
      }
      warning.notes = d.notes;
      warning.hint = d.hint;
    }
  }

  bool RunPasses(Module* module) {
    const CompileOptions& o = flags_.compile.options;
    PipelineOptions options;
    options.all = flags_.all;
    options.passes = flags_.passes;
    options.disabled = o.disable_passes;
    options.stop_after = o.stop_after == "hlo" ? "" : o.stop_after;
    options.replicate_statistics = o.replicate_statistics;
    options.want_remarks = o.print_changed || !o.print_after.empty();
    const auto files = LoadKernelCalls(*module, o.chip, diags_);
    if (!files) return false;
    PlaceKernelCalls(*files, &options);
    std::unique_ptr<VerifyEach> verify;
    if (o.verify_each) {
      verify = std::make_unique<VerifyEach>(*module, o.seed, diags_, EvalWith(*files));
      options.verify_each = [&](absl::string_view pass, const Module& m) {
        return verify->Check(pass, m);
      };
    }
    Dumps dumps(o.dump_to, module->name, o.dump_pass_re);
    if (dumps.enabled()) dumps.AddPass(0, "parse", PrintHlo(*module));
    int number = 0;
    last_ = std::chrono::steady_clock::now();
    auto observe = [&](absl::string_view pass, const Module& m, bool changed,
                       absl::string_view remarks) {
      Observe(pass, m, changed, remarks);
      ++number;
      if (changed && dumps.enabled()) dumps.AddPass(number, std::string(pass), PrintHlo(m));
      last_ = std::chrono::steady_clock::now();
    };
    BufferAssignment buffers;
    bool ok = RunPipeline(module, *o.chip, options, observe, &buffers, diags_) &&
              VerifyHlo(*module, diags_);
    return dumps.Write(diags_) && ok;
  }

  void Observe(absl::string_view pass, const Module& m, bool changed, absl::string_view remarks) {
    const CompileOptions& o = flags_.compile.options;
    std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - last_;
    if (o.time_passes) {
      std::fprintf(stderr, "%9.3f ms  %s\n", time.count(), std::string(pass).c_str());
    }
    bool asked = std::any_of(o.print_after.begin(), o.print_after.end(),
                             [&](const std::string& p) { return p == "all" || p == pass; });
    if (!asked && !(o.print_changed && changed)) return;
    std::string text = absl::StrCat("// after ", pass, changed ? "" : " (unchanged)", "\n");
    for (absl::string_view line : absl::StrSplit(remarks, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&text, "// ", line, "\n");
    }
    text += PrintHlo(m);
    std::fputs(text.c_str(), stderr);
  }

  const OptFlags& flags_;
  DiagSink* diags_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace

int OptCommand(const Args& args) {
  CLI::App app("HLO to HLO: passes, or (--passes=) parse, verify and print.", "opt");
  OptFlags flags;
  app.add_option("FILE", flags.file, "file.hlo, or - for standard input");
  app.add_option("-o", flags.output, "where the HLO goes; - (default) is standard output");
  app.add_option("--passes", flags.passes, "passes to run in this order; empty: none; default: all")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--no-passes", flags.none, "the same as --passes=");
  app.add_flag("--list-passes", flags.list_passes, "print the names and stop");
  app.add_flag("--split-input-file", flags.split, "several modules a file: always taken");
  flags.compile.AddTo(&app);
  Args given;
  for (const std::string& a : args) given.push_back(a == "--passes=" ? "--no-passes" : a);
  Console console;
  int exit_code;
  if (!ParseArguments(&app, given, &console, &exit_code)) return exit_code;
  flags.passes.erase(std::remove(flags.passes.begin(), flags.passes.end(), ""), flags.passes.end());
  flags.all = app.count("--passes") == 0 && !flags.none;
  if (flags.list_passes) return ListCommand({"passes"});
  DiagSink diags;
  if (flags.file.empty()) {
    diags.Add(DiagCode::kUsage, "no file given").hint = "- is standard input";
    return console.Finish(diags);
  }
  if (!CheckPasses(flags, &diags) || !flags.compile.Resolve(&diags) ||
      !CheckOutput(flags.output, {flags.file}, &diags)) {
    return console.Finish(diags);
  }
  auto source = ReadSource(flags.file, &diags);
  if (!source) return console.Finish(diags);
  std::string text;
  bool first = true, ok = true;
  for (const auto& part : SplitModules(source)) {
    if (!first) text += "\n// -----\n\n";
    first = false;
    ok &= Optimizer(flags, &diags).Run(part, &text);
  }
  if (ok) WriteFile(flags.output.empty() ? "-" : flags.output, text, &diags);
  return console.Finish(diags);
}

}  // namespace tpuc::cli
