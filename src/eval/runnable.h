// What no run of a program gets past, whatever its inputs: communication with devices or a host
// that are not there, custom calls without a public meaning, constants that were not printed, more
// memory than the host has.
// Looked for before inputs are read or made: a program of many minutes fails at once.
#pragma once

#include "src/eval/evaluator.h"
#include "src/ir/hlo.h"

namespace tpuc {

// The diagnostic of an instruction that the evaluator cannot run.
void AddCannotRun(const Module& module, const Instruction& instruction, absl::string_view what,
                  DiagSink* diags);

// False and a diagnostic at an instruction that the evaluator cannot run for one of those reasons.
bool CanRun(const Module& module, const Instruction& instruction, const EvalOptions& options,
            DiagSink* diags);

// The same for everything that each run of the entry computation comes to: not for the branches of
// a conditional nor the body of a loop, which may never run.
bool CanRunAll(const Module& module, const EvalOptions& options, DiagSink* diags);

}  // namespace tpuc
