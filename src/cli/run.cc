// tpuc run: executes a program, compiled if need be, on the interpreter, or by the reference
// evaluator; results to --output or, as text, to standard output.
#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/report/stats.h"
#include "backend/tlp/flops.h"
#include "grammar/hlo/printer.h"
#include "src/cli/check.h"
#include "src/cli/commands.h"
#include "src/cli/execute.h"
#include "src/cli/flags.h"
#include "src/cli/inputs.h"
#include "src/cli/modules.h"
#include "src/cli/permute.h"
#include "src/cli/reference.h"
#include "src/io/file.h"

namespace tpuc::cli {
namespace {

struct RunFlags {
  CompileFlags compile;
  ExecuteOptions execute;
  std::string file, output, numbers = "ieee", stats, trace;
  std::vector<std::string> inputs;
  uint64_t seed = 0;
  bool interpret = false, reference = false, check = false, json = false;
  Tolerance tolerance;
  bool tolerance_given = false, chip_given = false;
  int64_t max_steps = 0;  // 0: no limit

  void AddTo(CLI::App* app) {
    app->add_option("FILE", file, "file.hlo, file.tk, bundles.txt, or - for standard input")
        ->required();
    app->add_flag("--interpret", interpret, "compile and run the bundles (default)");
    app->add_flag("--reference", reference, "run by the reference evaluator");
    app->add_option("--numbers", numbers, "of --reference: ieee, or chip: dots round as the MXU")
        ->check(CLI::IsMember({"ieee", "chip"}));
    app->add_option("--input", inputs, "a.npz (in0, in1 ... or by name) or one .npy each in order")
        ->allow_extra_args(false);
    app->add_option("--output", output,
                    "r.npz for the results (out0, out1 ...); - is standard output");
    app->add_option("--seed", seed, "of inputs that are not given")->check(CLI::Range(0, 255));
    app->add_flag("--check", check,
                  "compare with the evaluator in chip numbers; exit 3 if different");
    auto limit = [&](const char* name, double* to) {
      app->add_option(name, *to, "limit of --check, in place of the oracle's")
          ->check(CLI::NonNegativeNumber);
    };
    limit("--rtol", &tolerance.rtol);
    limit("--atol", &tolerance.atol);
    app->add_option("--max-ulp", tolerance.max_ulp, "limit of --check")
        ->check(CLI::NonNegativeNumber);
    app->add_flag("--stats{text}", stats, "cycles, kernels, memory: a table, or --stats=json");
    app->add_flag("--json", json, "statistics as one JSON object on standard output");
    app->add_flag("--timing-only", execute.timing_only, "cycles without values");
    app->add_flag("--warm", execute.warm, "leave the cross-program copy out");
    app->add_option("--max-cycles", execute.max_cycles, "stop a run after so many cycles")
        ->check(CLI::PositiveNumber);
    app->add_option("--max-steps", max_steps, "of --reference: stop a run after so many steps")
        ->check(CLI::PositiveNumber);
    app->add_option_function<uint64_t>(
        "--permute-parallel", [this](uint64_t v) { execute.permute_parallel = v; },
        "run again with parallel grid axes in an order made from this seed, and compare");
    app->add_option("--simd", execute.simd, "avx512, avx2 or scalar; same bytes in all")
        ->check(CLI::IsMember({"avx512", "avx2", "scalar"}));
    app->add_option("--trace", trace, "t.json: Chrome trace of the run");
    compile.AddTo(app);
  }

  bool Check(CLI::App* app, DiagSink* diags) {
    tolerance_given = app->count("--rtol") + app->count("--atol") + app->count("--max-ulp") > 0;
    chip_given = app->count("--chip") > 0;
    auto usage = [&](const char* text) { diags->Add(DiagCode::kUsage, text); };
    if (interpret && reference) usage("--interpret and --reference exclude each other");
    if (!reference && app->count("--numbers")) usage("--numbers needs --reference");
    if (!reference && max_steps) usage("--max-steps needs --reference (bundles: --max-cycles)");
    if (!stats.empty() && stats != "text" && stats != "json") {
      CheckName("form of --stats", stats, {"text", "json"}, diags);
    }
    json |= stats == "json";
    if (json && output == "-") usage("--json and --output - both want standard output");
    if (reference && (check || !stats.empty() || execute.timing_only)) {
      usage("--check, --stats and --timing-only are about bundles, not --reference");
    }
    if (execute.timing_only && (check || !output.empty())) {
      usage("--timing-only has no values to write or check");
    }
    if (execute.permute_parallel && (reference || execute.timing_only)) {
      usage("--permute-parallel compares the values of bundles");
    }
    if (reference && !trace.empty()) usage("--trace is about bundles, not --reference");
    if (trace == "-" && (json || output == "-")) usage("two results for standard output");
    std::vector<std::string> read = inputs;
    read.push_back(file);
    CheckOutput(output, read, diags);
    CheckOutput(trace, read, diags);
    return !diags->has_errors();
  }
};

// The evaluator on HLO or kernels. `inputs` null: reads or makes them.
std::optional<ReferenceRun> Reference(std::shared_ptr<const Source> source, const RunFlags& flags,
                                      Numbers numbers, const std::vector<Literal>* inputs,
                                      DiagSink* diags) {
  ReferenceOptions options{numbers, flags.compile.options.set};
  options.set_words = flags.compile.options.set_words;
  options.inputs = flags.inputs;
  options.seed = flags.seed;
  options.max_steps = flags.max_steps;
  options.elided = flags.compile.options.elided;
  return RunReference(source, options, inputs, diags);
}

// Results as HLO literals; of large ones the first elements.
std::string ResultText(const std::vector<Literal>& results) {
  constexpr int64_t kShown = 64, kOfLarge = 8;
  std::string out;
  for (size_t i = 0; i < results.size(); ++i) {
    const Literal& r = results[i];
    std::string shape = ToString(r.shape(), /*with_layout=*/false);
    if (r.size() <= kShown) {
      absl::StrAppend(&out, "out", i, " = ", shape, " ", PrintLiteral(r), "\n");
      continue;
    }
    Literal head(Shape::Array(r.shape().type, {kOfLarge}));
    std::copy_n(r.bytes(), head.byte_size(), head.bytes());
    absl::StrAppend(&out, "out", i, " = ", shape, " starts with ", PrintLiteral(head), "\n");
  }
  return out;
}

bool GiveResults(const std::vector<Literal>& results, const RunFlags& flags, bool quiet,
                 DiagSink* diags) {
  if (flags.output.empty()) {
    if (!quiet) PrintResult(ResultText(results));
    return true;
  }
  NpzFile arrays;
  for (size_t i = 0; i < results.size(); ++i) {
    arrays.entries.push_back({absl::StrCat("out", i), ArrayFromLiteral(results[i])});
  }
  return WriteOutputs(arrays, flags.output, diags);
}

int RunEvaluator(std::shared_ptr<const Source> source, const RunFlags& flags,
                 const Console& console, DiagSink* diags) {
  if (KindOf(*source) == InputKind::kBundles || KindOf(*source) == InputKind::kLlo) {
    diags->Add(DiagCode::kUsage, "--reference runs HLO and kernel files, not bundles");
    return console.Finish(*diags);
  }
  Numbers numbers = flags.numbers == "chip" ? Numbers::kChip : Numbers::kIeee;
  auto run = Reference(source, flags, numbers, nullptr, diags);
  if (run) GiveResults(run->outputs, flags, flags.json, diags);
  if (run && flags.json && !diags->has_errors()) {
    const bool filled = flags.compile.options.elided == Elided::kXla;
    PrintResult(absl::StrCat("{\n \"options\": \"--reference",
                             filled ? " --elided-constants=xla" : "",
                             "\",\n \"schema\": \"tpuc.stats/1\"\n}\n"));
  }
  return console.Finish(*diags);
}

// Undefined contents are followed by the block evaluator: where a kernel's text is small enough
// that this costs no more than the run itself. --check does so always.
bool FollowsUndefined(const Compiled& compiled, const RunFlags& flags) {
  constexpr int64_t kFlops = 200'000'000, kElements = 4'000'000, kSteps = 2048;
  if (compiled.kind != InputKind::kKernel || flags.execute.timing_only) return false;
  int64_t flops = 0, elements = 0;
  for (const kernel::Kernel& k : compiled.kernels->kernels) {
    if (k.GridSteps() > kSteps) return false;
    flops += KernelFlops(k);
    for (const kernel::Ref& r : k.refs) elements += std::min(r.shape.ElementCount(), kElements);
  }
  return flops <= kFlops && elements <= kElements;
}

int RunBundles(std::shared_ptr<const Source> source, RunFlags& flags, const Console& console,
               DiagSink* diags) {
  InputKind kind = KindOf(*source);
  if (flags.check && (kind == InputKind::kBundles || kind == InputKind::kLlo)) {
    diags->Add(DiagCode::kUsage, "--check needs the HLO or kernel text that the bundles came from");
    return console.Finish(*diags);
  }
  CompileOptions& options = flags.compile.options;
  options.talk = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  options.seed = flags.seed;
  auto compiled = Compile(source, options, diags);
  if (!compiled) return console.Finish(*diags);
  if (!compiled->program) {  // stopped earlier, as asked
    PrintResult(compiled->text);
    return console.Finish(*diags);
  }
  const isa::Program& program = *compiled->program;
  if (compiled->kind != InputKind::kBundles || flags.chip_given) flags.execute.chip = options.chip;
  auto ports = InputPorts(program, diags);
  if (!ports) return console.Finish(*diags);
  std::vector<Literal> inputs;
  auto read = flags.execute.timing_only
                  ? ReadDecidingInputs(*ports, flags.inputs, flags.seed, diags)
                  : ReadInputs(*ports, flags.inputs, flags.seed, diags);
  if (!read) return console.Finish(*diags);
  inputs = std::move(*read);
  flags.execute.spans = !flags.stats.empty() && !flags.json;
  flags.execute.trace = !flags.trace.empty();
  auto done = Execute(program, inputs, flags.execute, diags);
  if (!done) return console.Finish(*diags);
  if (flags.execute.permute_parallel &&
      !CheckPermuted(source, options, flags.execute, inputs, *compiled, done->outputs, diags)) {
    return console.Finish(*diags);
  }
  if (flags.execute.trace && !WriteFile(flags.trace, done->trace, diags)) {
    return console.Finish(*diags);
  }
  std::optional<CheckResult> check;
  std::string wrong;
  if (!flags.check && FollowsUndefined(*compiled, flags) &&
      !Reference(source, flags, Numbers::kChip, &inputs, diags)) {
    return console.Finish(*diags);
  }
  if (flags.check) {
    auto expected = Reference(source, flags, Numbers::kChip, &inputs, diags);
    if (!expected) return console.Finish(*diags);
    CheckLimits limits{flags.tolerance_given, flags.tolerance, expected->dots, false};
    check = CheckResults(expected->outputs, done->outputs, limits, &wrong);
  }
  if (flags.json) {
    PrintResult(StatsJson(program, &done->stats, check ? &*check : nullptr));
  } else if (!flags.stats.empty()) {
    PrintResult(StatsText(program, &done->stats, check ? &*check : nullptr, &done->chip));
  }
  bool quiet = flags.json || !flags.stats.empty() || flags.check || flags.execute.timing_only;
  if (flags.execute.timing_only && !flags.json && flags.stats.empty()) {
    PrintResult(absl::StrCat(done->stats.cycles, " cycles\n"));
  }
  if (!flags.execute.timing_only) GiveResults(done->outputs, flags, quiet, diags);
  if (check && !flags.json && flags.stats.empty()) {
    std::fprintf(stderr, "check: %s, max abs error %.3g, rms %.3g of scale\n",
                 check->ok ? "ok" : "FAILED", check->max_abs, check->rms);
  }
  std::fputs(wrong.c_str(), stderr);
  int code = console.Finish(*diags);
  return code == kDone && check && !check->ok ? kDifferent : code;
}

}  // namespace

int RunCommand(const Args& args) {
  CLI::App app("Runs a program: values and cycles.", "run");
  RunFlags flags;
  flags.AddTo(&app);
  Console console;
  int exit_code;
  if (!ParseArguments(&app, args, &console, &exit_code)) return exit_code;
  DiagSink diags;
  if (!flags.Check(&app, &diags) || !flags.compile.Resolve(&diags)) return console.Finish(diags);
  auto source = ReadSource(flags.file, &diags);
  if (!source) return console.Finish(diags);
  return flags.reference ? RunEvaluator(source, flags, console, &diags)
                         : RunBundles(source, flags, console, &diags);
}

}  // namespace tpuc::cli
