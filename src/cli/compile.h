// The road from one input text to bundles, and every stop on it: HLO, passes, kernels, LLO, bundles.
//
//   Source src = ...;  CompileOptions options;  options.chip = BuiltinChip("v6e");
//   if (auto done = Compile(src, options, &diags)) Run(*done->program, ...);
//
// The input is recognised by its text: bundles.txt, LLO, a kernel file or HLO; the road starts at
// its level.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "backend/kernel/kernel.h"
#include "backend/llo/llo.h"
#include "src/cli/modules.h"
#include "src/diag/diag.h"
#include "src/ir/hlo.h"

namespace tpuc {

struct CompileOptions {
  const Chip* chip = nullptr;
  int opt_level = 2;
  std::string strips = "auto";           // auto | whole
  cli::Elided elided = cli::Elided::kError;
  bool replicate_statistics = false;     // passes/replicate_statistics.h
  std::string stop_after;                // a pass, or hlo | kernel | llo | bundles; "": bundles
  std::vector<std::string> print_after;  // passes, hlo | windows | strips | kernel | llo | bundles, or "all"
  std::vector<std::string> disable_passes;
  bool print_changed = false;            // after each pass that changed the module
  bool verify_each = false;              // evaluate after each pass
  bool time_passes = false;
  std::string dump_to;                   // directory
  std::string dump_pass_re;              // RE2: only passes that it matches; "": all
  std::vector<std::pair<std::string, int64_t>> set;  // kernel parameters
  std::vector<std::pair<std::string, std::string>> set_words;  // those that are types
  int64_t vmem_limit = 0;                // bytes a kernel may use; 0: the chip's default
  // Parallel grid axes in an order made from this seed: of all kernels, or of one axis of one.
  std::optional<uint64_t> permute_parallel;
  int permute_kernel = -1, permute_axis = -1;
  uint64_t seed = 0;                     // of the inputs that verify_each makes
  // Gets what print_after, print_changed and time_passes say, also before an error; may be null.
  std::function<void(const std::string&)> talk;
};

enum class InputKind : uint8_t { kHlo, kKernel, kLlo, kBundles };
InputKind KindOf(const Source& source);

// What has been made; null where the road did not start or had stopped before.
struct Compiled {
  InputKind kind = InputKind::kHlo;
  std::unique_ptr<Module> input;         // as parsed and verified
  std::unique_ptr<Module> module;        // after the passes
  std::unique_ptr<kernel::Program> kernels;
  std::unique_ptr<llo::Program> llo;
  std::unique_ptr<isa::Program> program;
  // Of the level it stopped after; "" if it did not stop. The text of bundles is left to
  // bundle::PrintBundles, since `run` does not want it.
  std::string text;
  std::string talk;
};

// Nothing where an error was added to `diags`.
std::optional<Compiled> Compile(std::shared_ptr<const Source> source,
                                const CompileOptions& options, DiagSink* diags);

}  // namespace tpuc
