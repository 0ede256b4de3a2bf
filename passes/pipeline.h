// The pass pipeline: the table of all passes in their order, and the loop that runs them.
//
//   RunPipeline(&module, *BuiltinChip("v6e"), {.stop_after = "fusion"}, print, &buffers, &diags)
//
// Any pass can be named, skipped, watched and stopped after by the name in the table. A name that
// stands in the table more than once means every place where it stands; stopping is after the last.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "passes/pass.h"

namespace tpuc {

struct PassRow {
  absl::string_view name;
  std::unique_ptr<Pass> (*make)();
  absl::string_view purpose;  // one line, `tpuc list passes`
};
const std::vector<PassRow>& PassTable();

// True for a name of the table.
bool IsPass(absl::string_view name);

struct PipelineOptions {
  // false: only `passes`, in the order given (none: the module is left as it is).
  bool all = true;
  std::vector<std::string> passes;
  std::vector<std::string> disabled;
  std::string stop_after;  // empty: run to the end
  bool want_remarks = false;
  bool replicate_statistics = false;
  // PassContext's of these names.
  std::function<bool(const Instruction& call, int64_t operand)> operand_in_vmem;
  std::function<bool(const Instruction& call, int64_t leaf)> result_in_vmem;
  int64_t* steps = nullptr;  // gets the count of PassContext::steps
  // Called after each pass that changed something, and once before the first ("" as pass); false
  // stops the pipeline. Whoever sets it has reported the reason.
  std::function<bool(absl::string_view pass, const Module& module)> verify_each;
};

using PassObserver = std::function<void(absl::string_view pass, const Module& module, bool changed,
                                        absl::string_view remarks)>;

// Runs the passes. false where one reported an error, `verify_each` said stop, or an option names
// no pass of the table (a diagnostic). `observer` may be null; it is called after every pass that
// ran. `buffers` is filled by the last two passes; its instructions are those of `module`.
bool RunPipeline(Module* module, const Chip& chip, const PipelineOptions& options,
                 const PassObserver& observer, BufferAssignment* buffers, DiagSink* diags);

}  // namespace tpuc
