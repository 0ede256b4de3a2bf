// Fuzzes the whole road: a small program is compiled and, if it compiles, run on made-up inputs
// with a limit of cycles. Nothing crashes, and what fails has a diagnostic.
#include <cstdint>
#include <cstdlib>

#include "backend/chip/chip.h"
#include "src/cli/compile.h"
#include "src/cli/execute.h"
#include "src/cli/inputs.h"

namespace {
constexpr size_t kMostText = 20000;
constexpr int64_t kMostBytes = 4 << 20;
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMostText) return 0;
  auto source = std::make_shared<tpuc::Source>(
      tpuc::Source{"fuzz", std::string(reinterpret_cast<const char*>(data), size)});
  tpuc::CompileOptions options;
  options.chip = tpuc::BuiltinChip("v6e");
  tpuc::DiagSink diags;
  auto compiled = tpuc::Compile(source, options, &diags);
  diags.Render();
  if (compiled.has_value() == diags.has_errors()) std::abort();
  if (!compiled || !compiled->program) return 0;
  auto ports = tpuc::cli::InputPorts(*compiled->program, &diags);
  if (!ports) return 0;
  int64_t bytes = 0;
  for (const auto& b : compiled->program->buffers) {
    if (b.bytes > kMostBytes) return 0;
    bytes += b.bytes;
  }
  if (bytes > kMostBytes) return 0;
  auto inputs = tpuc::cli::ReadInputs(*ports, {}, 0, &diags);
  if (!inputs) return 0;
  tpuc::cli::ExecuteOptions run;
  run.max_cycles = 1000000;
  tpuc::DiagSink faults;
  auto done = tpuc::cli::Execute(*compiled->program, *inputs, run, &faults);
  if (done.has_value() == faults.has_errors()) std::abort();
  return 0;
}
