// Speed of compiling and of the interpreter, on the examples.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

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

// Bundles issued a second (items_per_second) of an example; argument 1: cycles without values.
void Interpret(benchmark::State& state, const char* name) {
  auto compiled = CompileExample(Example(name));
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
BENCHMARK_CAPTURE(Interpret, mini_attention, "mini_attention.hlo")->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(Interpret, softmax, "03_softmax.hlo")->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(Interpret, matmul_kernel, "kernels/matmul.tk")->Arg(0)->Arg(1);

}  // namespace
}  // namespace tpuc
