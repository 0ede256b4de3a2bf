// The table of passes, read top to bottom, with what holds after each group; and the loop over it.
#include "passes/pipeline.h"

#include <algorithm>

#include "passes/algebraic_simplifier.h"
#include "passes/buffer_assignment.h"
#include "passes/call_inliner.h"
#include "passes/constant_folding.h"
#include "passes/copy_insertion.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/degenerate_dims.h"
#include "passes/fusion.h"
#include "passes/layout_assignment.h"
#include "passes/memory_space_assignment.h"
#include "passes/multi_output_fusion.h"
#include "passes/rematerialisation.h"
#include "passes/replicate_statistics.h"
#include "passes/scheduling.h"
#include "passes/tuple_simplifier.h"
#include "passes/zero_sized.h"
#include "src/diag/check.h"

namespace tpuc {
namespace {

template <typename T>
std::unique_ptr<Pass> New() {
  return std::make_unique<T>();
}

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const PassRow& row : PassTable()) names.emplace_back(row.name);
  return names;
}

bool CheckName(const std::string& name, DiagSink* diags) {
  if (IsPass(name)) return true;
  Diag& diag = diags->Add(DiagCode::kUnknownPass, absl::StrCat("no pass is called '", name, "'"));
  std::string nearest = NearestName(name, PassNames());
  diag.hint = nearest.empty() ? "`tpuc list passes` prints their names"
                              : absl::StrCat("did you mean '", nearest, "'?");
  return false;
}

// The rows to run, in order.
std::vector<const PassRow*> Chosen(const PipelineOptions& options) {
  std::vector<const PassRow*> rows;
  if (options.all) {
    for (const PassRow& row : PassTable()) rows.push_back(&row);
  } else {
    for (const std::string& name : options.passes) {
      auto it = std::find_if(PassTable().begin(), PassTable().end(),
                             [&](const PassRow& row) { return row.name == name; });
      rows.push_back(&*it);
    }
  }
  for (const std::string& name : options.disabled) {
    rows.erase(std::remove_if(rows.begin(), rows.end(),
                              [&](const PassRow* row) { return row->name == name; }),
               rows.end());
  }
  if (!options.stop_after.empty()) {
    auto last = std::find_if(rows.rbegin(), rows.rend(),
                             [&](const PassRow* row) { return row->name == options.stop_after; });
    if (last != rows.rend()) rows.erase(last.base(), rows.end());
  }
  return rows;
}

}  // namespace

const std::vector<PassRow>& PassTable() {
  static const auto* table = new std::vector<PassRow>{
      {"call-inliner", New<CallInliner>, "replaces each call by the body it calls"},
      {"tuple-simplifier", New<TupleSimplifier>, "reads of a tuple just made read its element"},
      // No call is left; tuples stand only at the root and around loops and custom calls.
      {"zero-sized", New<ZeroSized>, "removes work on arrays without elements"},
      {"constant-folding", New<ConstantFolding>, "evaluates small operations on constants"},
      {"cse", New<Cse>, "computes equal expressions once"},
      {"dce", New<Dce>, "drops what no result needs"},
      {"simplify", New<AlgebraicSimplifier>, "algebraic rules: x/64 is x*0.015625, no-op moves go"},
      {"degenerate-dims", New<DegenerateDims>, "element-wise work on [16,1] moves to [16]"},
      // What these uncover: constants of constants, equal expressions.
      {"simplify", New<AlgebraicSimplifier>, "again, for what the rows above uncovered"},
      {"constant-folding", New<ConstantFolding>, "again"},
      {"cse", New<Cse>, "again"},
      {"dce", New<Dce>, "again"},
      // The program is in its normal form; its arrays have no place or order yet.
      {"layout", New<LayoutAssignment>, "order of dimensions and tiles of every array"},
      // Every array has a tiled layout. From here on the entry is made of kernels.
      {"fusion", New<Fusion>, "kernels: what is computed where it is used, and what is stored"},
      {"multi-output-fusion", New<MultiOutputFusion>, "kernels that yield several results"},
      {"dce", New<Dce>, "again"},
      {"replicate-statistics", New<ReplicateStatistics>,
       "f32[16] between kernels as f32[16,128], if --replicate-statistics asks for it"},
      {"copy-insertion", New<CopyInsertion>, "results that are parameters or constants are copied"},
      {"schedule", New<Scheduling>, "the order of kernels: smallest peak memory"},
      // Instructions stand in the order in which they run.
      {"rematerialisation", New<Rematerialisation>,
       "what does not fit HBM is computed again where it is next read"},
      {"memory", New<MemorySpaceAssignment>,
       "what lives in VMEM, and the copies that bring it there"},
      {"buffers", New<BufferAssignmentPass>, "an address for every buffer"},
  };
  return *table;
}

bool IsPass(absl::string_view name) {
  return std::any_of(PassTable().begin(), PassTable().end(),
                     [&](const PassRow& row) { return row.name == name; });
}

bool RunPipeline(Module* module, const Chip& chip, const PipelineOptions& options,
                 const PassObserver& observer, BufferAssignment* buffers, DiagSink* diags) {
  bool known = true;
  for (const std::string& name : options.passes) known &= CheckName(name, diags);
  for (const std::string& name : options.disabled) known &= CheckName(name, diags);
  if (!options.stop_after.empty()) known &= CheckName(options.stop_after, diags);
  if (!known) return false;

  std::string remarks;
  PassContext context;
  context.chip = &chip;
  context.diags = diags;
  context.buffers = buffers;
  context.replicate_statistics = options.replicate_statistics;
  context.operand_in_vmem = options.operand_in_vmem;
  context.result_in_vmem = options.result_in_vmem;
  if (options.want_remarks) context.remarks = &remarks;
  context.steps = options.steps;

  if (options.verify_each && !options.verify_each("", *module)) return false;
  for (const PassRow* row : Chosen(options)) {
    SetCurrentStage(absl::StrCat("pass ", row->name));
    remarks.clear();
    int errors = diags->errors();
    bool changed = row->make()->Run(module, &context);
    if (observer) observer(row->name, *module, changed, remarks);
    if (diags->errors() > errors) return false;
    if (changed && options.verify_each && !options.verify_each(row->name, *module)) return false;
  }
  return true;
}

}  // namespace tpuc
