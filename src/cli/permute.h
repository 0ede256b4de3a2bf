// run --permute-parallel: the program again, with the points of its kernels' parallel grid axes in
// another order. Results that differ are a dependence along a parallel axis: E0522, with the axis,
// the first element that differs and its grid point.
#pragma once

#include <memory>
#include <vector>

#include "src/cli/compile.h"
#include "src/cli/execute.h"
#include "src/ir/literal.h"

namespace tpuc::cli {

// `plain` and `outputs`: of the run in order. False with a diagnostic where the other order differs
// or faults.
bool CheckPermuted(std::shared_ptr<const Source> source, const CompileOptions& options,
                   const ExecuteOptions& execute, const std::vector<Literal>& inputs,
                   const Compiled& plain, const std::vector<Literal>& outputs, DiagSink* diags);

}  // namespace tpuc::cli
