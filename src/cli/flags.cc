#include "src/cli/flags.h"

#include <re2/re2.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "passes/pipeline.h"
#include "src/cli/arguments.h"
#include "src/cli/modules.h"
#include "src/io/file.h"
#include "src/ir/shape.h"

namespace tpuc::cli {

void AddElidedOption(CLI::App* app, Elided* elided) {
  app->add_option_function<std::string>(
         "--elided-constants",
         [elided](const std::string& word) {
           *elided = word == "xla" ? Elided::kXla : Elided::kError;
         },
         "constants printed as {...}: error (default), or xla: the values XLA's parser gives them")
      ->check(CLI::IsMember({"error", "xla"}));
}

void CompileFlags::AddTo(CLI::App* app) {
  CompileOptions& o = options;
  auto list = [app](const char* names, std::vector<std::string>* to, const char* text) {
    app->add_option(names, *to, text)->delimiter(',')->allow_extra_args(false);
  };
  app->add_option("--chip", chip, "chip name (tpuc list chips) or .chip file");
  list("--set", &set, "kernel parameters: a=1,b=2");
  app->add_option("-O", o.opt_level, "0: one operation a bundle; 2 (default)")
      ->check(CLI::IsMember({0, 2}));
  app->add_option("--strips", o.strips, "auto, or whole: blocks as one value, spills and all")
      ->check(CLI::IsMember({"auto", "whole"}));
  app->add_flag(
      "--replicate-statistics", o.replicate_statistics,
      "keep sums and maxima of rows over all lanes between kernels: faster, 128 x the bytes");
  AddElidedOption(app, &o.elided);
  app->add_option("--stop-after", o.stop_after, "a pass, or hlo, kernel, llo, bundles");
  list("--print-after", &o.print_after, "passes whose result is printed, or all");
  app->add_flag("--print-after-all", print_after_all, "the same as --print-after all");
  app->add_flag("--print-changed", o.print_changed, "print after the passes that change something");
  list("--disable-passes,--xla_disable_hlo_passes", &o.disable_passes, "passes to leave out");
  app->add_flag("--verify-each", o.verify_each, "evaluate after each pass");
  app->add_flag("--time-passes", o.time_passes, "wall time of each pass");
  app->add_option("--dump-to,--xla_dump_to", o.dump_to, "directory for the text of every stage");
  app->add_option("--xla_dump_hlo_pass_re", o.dump_pass_re,
                  "of --dump-to: only passes that this regular expression matches");
  app->add_flag("--xla_dump_hlo_as_text", dump_as_text, "what --dump-to does anyway");
  app->add_option_function<std::string>(
      "--vmem-limit",
      [this](const std::string& text) {
        if (!ParseBytes(text, &options.vmem_limit)) {
          throw CLI::ValidationError("--vmem-limit", "'" + text + "' is no number of bytes");
        }
      },
      "scoped VMEM of one kernel, in bytes (KiB, MiB); default: the chip's");
}

namespace {

// Names of passes and of the levels after them.
bool CheckStages(const CompileOptions& o, DiagSink* diags) {
  std::vector<std::string> passes = PassNames(), stops = passes;
  bool ok = true;
  for (const std::string& p : o.disable_passes) ok &= CheckName("pass", p, passes, diags);
  stops.insert(stops.end(), {"hlo", "kernel", "llo", "bundles"});
  if (!o.stop_after.empty()) ok &= CheckName("stage", o.stop_after, stops, diags);
  stops.insert(stops.end(), {"windows", "strips", "all"});
  for (const std::string& p : o.print_after) ok &= CheckName("stage", p, stops, diags);
  return ok;
}

}  // namespace

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const PassRow& row : PassTable()) {
    std::string name(row.name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

bool CompileFlags::Resolve(DiagSink* diags) {
  bool ok = ParseSettings(set, &options.set, &options.set_words, diags);
  if (!options.dump_pass_re.empty()) {
    const RE2 re(options.dump_pass_re, RE2::Quiet);
    if (!re.ok()) {
      diags->Add(DiagCode::kUsage, absl::StrCat("--xla_dump_hlo_pass_re: ", re.error()));
      ok = false;
    }
  }
  if (print_after_all) options.print_after = {"all"};
  ok &= CheckStages(options, diags);
  options.chip = BuiltinChip(chip);
  if (options.chip) return ok;
  if (!absl::EndsWith(chip, ".chip") && !absl::StrContains(chip, '/') && !FileExists(chip)) {
    CheckName("chip", chip, BuiltinChipNames(), diags);
    return false;
  }
  auto source = ReadSource(chip, diags);
  if (!source) return false;
  own_chip = ParseChip(source, diags);
  options.chip = own_chip.get();
  return ok && own_chip != nullptr;
}

bool ParseSettings(const std::vector<std::string>& words,
                   std::vector<std::pair<std::string, int64_t>>* set,
                   std::vector<std::pair<std::string, std::string>>* types, DiagSink* diags) {
  bool ok = true;
  for (const std::string& word : words) {
    std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    int64_t value = 0;
    double fraction = 0;
    const bool number = absl::SimpleAtod(parts.second, &fraction) && std::isfinite(fraction) &&
                        !absl::SimpleAtoi(parts.second, &value);
    const bool file = absl::EndsWith(parts.second, ".npy") || absl::EndsWith(parts.second, ".npz");
    if (!parts.first.empty() && (TypeFromName(parts.second) || number || file)) {
      types->emplace_back(parts.first, parts.second);
      continue;
    }
    if (parts.first.empty() || !absl::SimpleAtoi(parts.second, &value)) {
      diags->Add(
          DiagCode::kUsage,
          absl::StrCat("--set takes name=number, name=type or name=file.npy, not '", word, "'"));
      ok = false;
      continue;
    }
    set->emplace_back(parts.first, value);
  }
  return ok;
}

bool ParseBytes(const std::string& text, int64_t* bytes) {
  absl::string_view digits = text;
  int64_t unit = 1;
  if (absl::ConsumeSuffix(&digits, "KiB")) unit = 1 << 10;
  if (absl::ConsumeSuffix(&digits, "MiB")) unit = 1 << 20;
  int64_t n = 0;
  return absl::SimpleAtoi(digits, &n) && n > 0 && !__builtin_mul_overflow(n, unit, bytes);
}

bool CheckOutput(const std::string& output, const std::vector<std::string>& inputs,
                 DiagSink* diags) {
  for (const std::string& input : inputs) {
    if (output.empty() || !SameFile(output, input)) continue;
    diags->Add(DiagCode::kWouldOverwrite,
               absl::StrCat("writing '", output, "' would overwrite the input '", input, "'"));
    return false;
  }
  return true;
}

}  // namespace tpuc::cli
