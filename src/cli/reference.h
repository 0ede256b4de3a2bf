// Running a program by the evaluators: HLO by src/eval, kernels by the block evaluator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/cli/modules.h"
#include "src/diag/diag.h"
#include "src/eval/evaluator.h"
#include "src/ir/literal.h"

namespace tpuc::cli {

struct ReferenceOptions {
  Numbers numbers = Numbers::kIeee;
  std::vector<std::pair<std::string, int64_t>> set;            // kernel parameters
  std::vector<std::pair<std::string, std::string>> set_words;  // those that are types
  std::vector<std::string> inputs;                             // files, as --input names them
  uint64_t seed = 0;                                           // of inputs that no file gives
  int64_t max_steps = 0;           // of HLO (src/eval/work.h); 0: no limit
  Elided elided = Elided::kError;  // of HLO
};

struct ReferenceRun {
  std::vector<Literal> outputs;  // array leaves of the result, in order
  int64_t dots = 0;              // dot and convolution instructions of the program
};

// `inputs` null: read or generated as the options say. Nothing and diagnostics on error.
std::optional<ReferenceRun> RunReference(std::shared_ptr<const Source> source,
                                         const ReferenceOptions& options,
                                         const std::vector<Literal>* inputs, DiagSink* diags);

}  // namespace tpuc::cli
