// Conditions over the parameters of kernels, as `tpuc sweep --where` takes them, in the syntax of
// .tk expressions; and the values that a file's parameters have.
//
//   KernelParameters(matmul.tk, {{"bm", 256}})    -> M = 500, N = 300, K = 200, bm = 256, ...
//   EvaluateConstraint("M % bm == 0 & bm < 512")  -> false
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/types/span.h"
#include "src/diag/diag.h"

namespace tpuc {

using ParameterValues = absl::btree_map<std::string, int64_t>;

// Parameters of all kernels of a .tk text that are integers, `set` in place of their defaults.
// Nothing and diagnostics where the text is no kernel file.
std::optional<ParameterValues> KernelParameters(
    std::shared_ptr<const Source> source, absl::Span<const std::pair<std::string, int64_t>> set,
    DiagSink* diags);

// A condition with integer arithmetic, comparisons (1 or 0), & | !, cdiv, min and max. Nothing and
// E0501, E0500 for an unknown name, an error of syntax, a division by zero or an overflow.
std::optional<bool> EvaluateConstraint(const std::string& text, const ParameterValues& values,
                                       DiagSink* diags);

}  // namespace tpuc
