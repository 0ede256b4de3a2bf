// Speed of HLO text: parse and print, in instructions a second (items_per_second).
//
//   make bench
//   TPUC_BENCH_HLO=a.hlo:b.hlo make bench      these files instead of a made one
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "src/io/file.h"

namespace tpuc {
namespace {

// A chain of element-wise operations with metadata, as JAX prints it.
std::shared_ptr<const Source> Chain(int n) {
  std::string text = "HloModule chain\n\nENTRY %main (p0: f32[128,128]) -> f32[128,128] {\n";
  absl::StrAppend(&text, "  %v.0 = f32[128,128]{1,0} parameter(0)\n");
  for (int i = 1; i < n; ++i) {
    absl::StrAppend(
        &text, i + 1 == n ? "  ROOT %v." : "  %v.", i, " = f32[128,128]{1,0} multiply(%v.", i - 1,
        ", %v.", i / 2, "), metadata={op_type=\"mul\" op_name=\"jit(step)/jit(main)/layers_",
        i % 48, "/mlp/mul\" source_file=\"model/layers.py\" source_line=", 100 + i % 900, "}\n");
  }
  return std::make_shared<Source>(Source{"chain", text + "}\n"});
}

int64_t Instructions(const Module& module) {
  int64_t n = 0;
  for (const auto& c : module.computations) n += static_cast<int64_t>(c->instructions.size());
  return n;
}

void Parse(benchmark::State& state, std::shared_ptr<const Source> source) {
  int64_t n = 0;
  for (auto _ : state) {
    DiagSink diags;
    auto module = ParseHlo(source, &diags);
    if (!module) {
      state.SkipWithError("the text does not parse");
      return;
    }
    n += Instructions(*module);
  }
  state.SetItemsProcessed(n);
}

void Print(benchmark::State& state, std::shared_ptr<const Source> source) {
  DiagSink diags;
  auto module = ParseHlo(source, &diags);
  if (!module) {
    state.SkipWithError("the text does not parse");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(PrintHlo(*module));
  state.SetItemsProcessed(state.iterations() * Instructions(*module));
}

void Add(const std::string& name, std::shared_ptr<const Source> source) {
  for (auto [what, run] : {std::pair{"parse ", &Parse}, std::pair{"print ", &Print}}) {
    benchmark::RegisterBenchmark((what + name).c_str(), run, source)->Unit(benchmark::kMillisecond);
  }
}

// Before benchmark_main runs what is registered.
const bool kRegistered = [] {
  const char* files = std::getenv("TPUC_BENCH_HLO");
  if (files == nullptr) {
    Add("chain of 10^5", Chain(100'000));
    return true;
  }
  for (absl::string_view path : absl::StrSplit(files, ':', absl::SkipEmpty())) {
    DiagSink diags;
    auto source = std::make_shared<Source>(Source{std::string(path), ""});
    if (ReadFile(source->name, &source->text, &diags)) Add(source->name, source);
  }
  return true;
}();

}  // namespace
}  // namespace tpuc
