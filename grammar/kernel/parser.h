// Parser of .tk files (kernel.ebnf): kernels and an optional program that calls them in order. A
// file with one kernel and no program is run alone: the program is implied, with every `in` and
// `out` in HBM. Shapes of values are inferred; parameters are replaced by their values, and kept by
// name where they are printed again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"

namespace tpuc {

// The values of an array that a kernel names by its file, as an array of `shape`; nothing and a
// message otherwise.
using ArrayReader = std::function<std::optional<Literal>(const std::string& file,
                                                         const Shape& shape, std::string* error)>;

// `set` overrides parameters by name ("bm", 64), or of one kernel only ("matmul.bm", 64); a name
// that no kernel has is an error. `words` does so for parameters that are types ("dtype", "bf16")
// or fractions ("scale", "0.125"), and for the files of arrays.
// Null on error.
std::unique_ptr<kernel::Program> ParseKernels(
    std::shared_ptr<const Source> source, absl::Span<const std::pair<std::string, int64_t>> set,
    DiagSink* diags, absl::Span<const std::pair<std::string, std::string>> words = {},
    const ArrayReader& read = {});

}  // namespace tpuc
