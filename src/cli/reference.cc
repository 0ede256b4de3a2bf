#include "src/cli/reference.h"

#include "backend/kernel/block_eval.h"
#include "src/cli/compile.h"
#include "src/cli/inputs.h"
#include "src/cli/kernel_calls.h"
#include "src/cli/kernel_file.h"
#include "src/cli/modules.h"
#include "src/eval/runnable.h"

namespace tpuc::cli {
namespace {

void AppendLeaves(Literal literal, std::vector<Literal>* leaves) {
  if (literal.shape().IsTuple()) {
    for (Literal& e : literal.elements()) AppendLeaves(std::move(e), leaves);
  } else if (literal.shape().IsArray()) {
    leaves->push_back(std::move(literal));
  }
}

std::optional<std::vector<Literal>> InputsOf(const std::vector<InputPort>& ports,
                                             const ReferenceOptions& options,
                                             const std::vector<Literal>* inputs, DiagSink* diags) {
  if (inputs) return *inputs;
  return ReadInputs(ports, options.inputs, options.seed, diags);
}

std::optional<ReferenceRun> RunKernels(std::shared_ptr<const Source> source,
                                       const ReferenceOptions& options,
                                       const std::vector<Literal>* inputs, DiagSink* diags) {
  auto program = cli::ReadKernels(source, options.set, options.set_words, diags);
  if (!program) return std::nullopt;
  std::vector<InputPort> ports;
  for (const kernel::Port& p : program->inputs) ports.push_back({p.name, p.shape});
  auto read = InputsOf(ports, options, inputs, diags);
  if (!read) return std::nullopt;
  ReferenceRun run;
  for (const kernel::Kernel& k : program->kernels) {
    for (const kernel::Node& n : k.nodes) run.dots += n.op == Op::kDot;
  }
  auto outputs = EvaluateKernels(*program, std::move(*read), {options.numbers}, diags, true);
  if (!outputs) return std::nullopt;
  run.outputs = std::move(*outputs);
  return run;
}

}  // namespace

std::optional<ReferenceRun> RunReference(std::shared_ptr<const Source> source,
                                         const ReferenceOptions& options,
                                         const std::vector<Literal>* inputs, DiagSink* diags) {
  if (KindOf(*source) == InputKind::kKernel) return RunKernels(source, options, inputs, diags);
  auto module = ReadModule(source, options.elided, diags);
  if (!module) return std::nullopt;
  ReferenceRun run;
  for (const auto& c : module->computations) {
    for (const auto& i : c->instructions) {
      run.dots += i->op == Op::kDot || i->op == Op::kConvolution;
    }
  }
  std::vector<InputPort> ports;
  for (const Instruction* p : module->entry->Parameters()) ports.push_back({p->name, p->shape});
  auto files = LoadKernelCalls(*module, nullptr, diags);
  if (!files) return std::nullopt;
  EvalOptions eval = EvalWith(*files, options.numbers);
  if (!CanRunAll(*module, eval, diags)) return std::nullopt;
  auto read = InputsOf(ports, options, inputs, diags);
  if (!read) return std::nullopt;
  int64_t steps = options.max_steps;
  if (steps > 0) eval.work = &steps;
  auto result = Evaluate(*module, std::move(*read), eval, diags);
  if (!result) return std::nullopt;
  AppendLeaves(std::move(*result), &run.outputs);
  return run;
}

}  // namespace tpuc::cli
