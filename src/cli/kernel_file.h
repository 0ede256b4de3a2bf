// Kernel files as commands read them: parameters from --set, arrays of masks from files beside the
// kernel's.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"

namespace tpuc::cli {

// Null after errors. `set` and `words` as ParseKernels has them.
std::unique_ptr<kernel::Program> ReadKernels(
    std::shared_ptr<const Source> source, const std::vector<std::pair<std::string, int64_t>>& set,
    const std::vector<std::pair<std::string, std::string>>& words, DiagSink* diags);

// `file` beside the file that names it, where it does not begin with "/".
std::string PathBeside(const Source* source, const std::string& file);

}  // namespace tpuc::cli
