// Fuzzes what a user's module goes through before any compiling: parse, verify, evaluate on made-up
// inputs with limits of memory and steps. Nothing crashes or hangs, what fails has a diagnostic,
// and what succeeds has the shape of the root.
#include <cstdint>
#include <cstdlib>

#include "grammar/hlo/parser.h"
#include "src/eval/evaluator.h"
#include "src/eval/inputs.h"
#include "src/ir/verifier.h"

namespace {

constexpr int64_t kMostBytes = 8 << 20, kMostSteps = 2 * 1000 * 1000;

void RunModule(const tpuc::Module& module) {
  int64_t bytes = 0;
  std::vector<tpuc::Literal> inputs;
  for (const tpuc::Instruction* p : module.entry->Parameters()) {
    const int64_t more = p->shape.LiteralBytes();
    if (more > kMostBytes - bytes || p->shape.LeafCount() > 10000) return;
    bytes += more;
    inputs.push_back(tpuc::GenerateInput(p->shape, p->parameter_number, 0));
  }
  int64_t steps = kMostSteps;
  tpuc::EvalOptions options;
  options.memory_limit = kMostBytes;
  options.work = &steps;
  tpuc::DiagSink diags;
  auto result = tpuc::Evaluate(module, std::move(inputs), options, &diags);
  diags.Render();
  if (result.has_value() == diags.has_errors()) std::abort();
  if (result && !tpuc::Compatible(result->shape(), module.entry->root->shape)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tpuc::DiagSink;
  using tpuc::Source;
  auto whole = std::make_shared<Source>(
      Source{"fuzz", std::string(reinterpret_cast<const char*>(data), size)});
  for (const auto& source : tpuc::SplitModules(whole)) {
    DiagSink diags;
    auto module = tpuc::ParseHlo(source, &diags);
    diags.Render();
    if ((module == nullptr) != diags.has_errors()) std::abort();
    if (!module) continue;
    DiagSink verdict;
    const bool ok = tpuc::VerifyHlo(*module, &verdict);
    verdict.Render();
    if (ok == verdict.has_errors()) std::abort();
    if (ok) RunModule(*module);
  }
  return 0;
}
