// See lower.h: the order of the steps.
#include "backend/lower/lower.h"

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "backend/lower/rewrite.h"

namespace tpuc {

namespace lower {

bool Lowering::Run() {
  f->name = k.name;
  f->grid_steps = k.GridSteps();
  f->info.op_names = k.op_names;
  f->info.ops = k.ops;
  f->info.grid_steps = f->grid_steps;
  if (!SetUpRefs()) return false;
  InferLayouts();
  if (failed_) return false;
  loop_index.assign(k.nodes.size(), Imm(0));
  PushScope(-1);
  if (f->grid_steps == 0) {
    NewBlock("entry", 1, false);
  } else if (f->grid_steps == 1) {
    EmitOneStep();
  } else {
    EmitGridLoop();
  }
  f->info.vmem_bytes = (next_row - options.first_row) * 512;
  return !failed_;
}

}  // namespace lower

bool LowerKernel(const kernel::Kernel& kernel, const Chip& chip, const LowerOptions& options,
                 llo::Function* function, std::vector<isa::SourceEntry>* sources, DiagSink* diags) {
  kernel::Kernel body = kernel;
  lower::RewriteBody(&body);
  lower::Lowering lowering(body, chip, options, function, sources, diags);
  return lowering.Run();
}

}  // namespace tpuc
