// Block evaluator: runs a kernel::Program on literals, grid point by grid point, as Pallas defines
// it. Windows are cut from the arrays, the body runs on block values with the reference evaluator's
// operations, outputs are written back clipped to the array.
//
// What is undefined on the machine is made visible: elements past an array's edge, scratch and
// first visits of output blocks read as NaN or the smallest integer (pallas-semantics PS-2.4,
// PS-3.4).
#pragma once

#include <optional>
#include <vector>

#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"
#include "src/eval/evaluator.h"
#include "src/ir/literal.h"

namespace tpuc {

// inputs: one a port of program.inputs, in order, with its logical dimensions. Results: one a port
// of program.outputs. Nothing on error. follow_undefined: undefined contents that reach a result
// are an error that names their way (E0520).
std::optional<std::vector<Literal>> EvaluateKernels(const kernel::Program& program,
                                                    std::vector<Literal> inputs,
                                                    const EvalOptions& options, DiagSink* diags,
                                                    bool follow_undefined = false);

}  // namespace tpuc
