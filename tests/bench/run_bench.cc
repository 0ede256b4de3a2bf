// Speed of compiling and of the interpreter, on the examples.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backend/interp/interp.h"
#include "src/cli/compile.h"
#include "src/io/file.h"

namespace tpuc {
namespace {

std::shared_ptr<const Source> Example(const char* name) {
  DiagSink diags;
  auto source = std::make_shared<Source>(Source{name, ""});
  ReadFile(std::string(TPUC_SOURCE_DIR) + "/examples/" + name, &source->text, &diags);
  return source;
}

std::optional<Compiled> CompileExample(const std::shared_ptr<const Source>& source) {
  DiagSink diags;
  CompileOptions options;
  options.chip = BuiltinChip("v6e");
  return Compile(source, options, &diags);
}

void CompileMini(benchmark::State& state) {
  auto source = Example("mini_attention.hlo");
  for (auto _ : state) {
    if (!CompileExample(source)) state.SkipWithError("does not compile");
  }
}
BENCHMARK(CompileMini)->Unit(benchmark::kMillisecond);

// Whole compiles of n instructions in a chain, one of eight a product; the last row is the growth.
std::shared_ptr<const Source> Layers(int64_t n) {
  const std::string shape = "f32[128,128]{1,0}";
  std::string text = absl::StrCat("HloModule layers\nENTRY e {\n  v0 = ", shape, " parameter(0)\n");
  for (int64_t i = 1; i < n; ++i) {
    absl::StrAppend(&text, i + 1 == n ? "  ROOT v" : "  v", i, " = ", shape,
                    i % 8 == 0 ? " dot(v" : " add(v", i - 1, ", v", std::max<int64_t>(0, i - 20),
                    i % 8 == 0 ? "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" : ")\n");
  }
  return std::make_shared<Source>(Source{"layers", text + "}\n"});
}

void CompileGrowth(benchmark::State& state) {
  auto source = Layers(state.range(0));
  for (auto _ : state) {
    if (!CompileExample(source)) state.SkipWithError("does not compile");
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(CompileGrowth)
    ->RangeMultiplier(4)
    ->Range(256, 16384)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

// What the second kernel of naive attention does: exp of scores less their row's maximum, summed.
std::shared_ptr<const Source> ExpSum() {
  return std::make_shared<Source>(Source{
      "exp_sum",
      "HloModule exp_sum\n"
      "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
      "ENTRY e {\n  s = f32[8,2048,2048] parameter(0)\n  m = f32[8,2048] parameter(1)\n"
      "  rows = f32[8,2048,2048] broadcast(m), dimensions={0,1}\n"
      "  d = f32[8,2048,2048] subtract(s, rows)\n  x = f32[8,2048,2048] exponential(d)\n"
      "  zero = f32[] constant(0)\n"
      "  ROOT r = f32[8,2048] reduce(x, zero), dimensions={2}, to_apply=add\n}\n"});
}

// Bundles issued a second (items_per_second); argument 1: cycles without values.
void Interpret(benchmark::State& state, const std::shared_ptr<const Source>& source) {
  auto compiled = CompileExample(source);
  if (!compiled || !compiled->program) {
    state.SkipWithError("does not compile");
    return;
  }
  const isa::Program& program = *compiled->program;
  interp::RunOptions options;
  options.timing_only = state.range(0) != 0;
  std::vector<interp::PortData> inputs(program.inputs.size());
  int64_t bundles = 0;
  for (auto _ : state) {
    interp::RunResult r = interp::Run(program, *BuiltinChip("v6e"), inputs, options);
    if (!r.ok) {
      state.SkipWithError("a fault");
      return;
    }
    bundles += r.tlp.bundles;
    for (const interp::KernelRun& k : r.kernels) bundles += k.bundles;
  }
  state.SetItemsProcessed(bundles);
}
BENCHMARK_CAPTURE(Interpret, mini_attention, Example("mini_attention.hlo"))->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(Interpret, softmax, Example("03_softmax.hlo"))->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(Interpret, exp_sum, ExpSum())->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(Interpret, matmul_kernel, Example("kernels/matmul.tk"))->Arg(0)->Arg(1);

}  // namespace
}  // namespace tpuc
