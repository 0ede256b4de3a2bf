// The kernel files that an HLO module calls (src/ir/kernel_call.h): read once, checked against the
// calls' operands and results, run by the block evaluator where the module is evaluated.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/kernel/from_hlo.h"
#include "backend/kernel/kernel.h"
#include "passes/pipeline.h"
#include "src/diag/diag.h"
#include "src/eval/evaluator.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Reads the file of every call, relative to the module's own. Nothing and diagnostics at the call:
// E0300 no file, E0106 a backend_config that names none or ports that differ; at the kernel: what
// its file does wrong for `chip` (null: only what is wrong on any).
std::optional<KernelFiles> LoadKernelCalls(const Module& module, const Chip* chip, DiagSink* diags);

// Options of an evaluation that runs the files' kernels. `files` must outlive it.
EvalOptions EvalWith(const KernelFiles& files, Numbers numbers = Numbers::kIeee);

// Lets memory-space assignment place operands and results of the calls. `files` must outlive it.
void PlaceKernelCalls(const KernelFiles& files, PipelineOptions* pipeline);

}  // namespace tpuc
