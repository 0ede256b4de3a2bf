// What a run of a kernel on literals keeps (kernel_run.h): where in the grid it is, what windows
// and scratch hold, the values of the body, and what of them is undefined. Values live for one grid
// point; windows and scratch persist, a window until its block index changes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/copy_tracker.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/kernel.h"
#include "backend/kernel/scalar.h"
#include "backend/kernel/undefined.h"
#include "src/eval/evaluator.h"
#include "src/eval/strided.h"
#include "src/ir/literal.h"

namespace tpuc::kernel {

// The window of an operand, or a scratch buffer.
struct RunWindow {
  std::vector<int64_t> index;  // of the block it holds; empty: none yet
  Literal block;
  const Literal* view = nullptr;  // the whole array, where the window is that
  bool dirty = false;
  std::set<std::vector<int64_t>> written;  // blocks of an output, where undefined ones are followed
};

class KernelRun {
 public:
  KernelRun(const Kernel& k, const std::vector<Literal*>& arrays, const EvalOptions& options,
            bool follow_undefined, DiagCode* code, Loc* loc, std::string* error)
      : k_(k),
        arrays_(arrays),
        options_(options),
        code_(code),
        loc_(loc),
        error_(error),
        windows_(k.refs.size()),
        values_(k.nodes.size()),
        seen_(k.nodes.size(), nullptr),
        prefetched_(k.refs.size(), nullptr),
        visited_(k.refs.size()) {
    follow_ = follow_undefined;
    held_.resize(k.refs.size());
    marks_.resize(k.nodes.size());
    for (size_t r = 0; r < k.refs.size(); ++r) {
      if (k.refs[r].role == Ref::Role::kPrefetch) {
        prefetched_[r] = arrays[r];
      } else if (k.refs[r].space == Ref::Space::kSmem) {
        prefetched_[r] = &windows_[r].block;
      }
    }
  }

  bool RunGrid();

 private:
  bool Fail(std::string what, const Node* node = nullptr, DiagCode code = DiagCode::kKernelRun) {
    *code_ = code;
    *loc_ = node != nullptr && node->loc.line > 0 ? node->loc
            : moving_ >= 0                        ? k_.refs[moving_].loc
                                                  : k_.loc;
    *error_ = absl::StrCat("kernel ", k_.name);
    if (!point_.empty()) absl::StrAppend(error_, " at ", PointText());
    if (node != nullptr && !node->place.empty()) absl::StrAppend(error_, ", ", node->place);
    absl::StrAppend(error_, ": ", what);
    return false;
  }
  ExprValues Values() const {
    return {k_.params, point_, k_.grid, extents_, prefetched_, k_.blocks, operands_};
  }

  // ---- run_windows.cc: the grid and its windows
  bool SetExtents(const std::vector<GridAxis>& grid);
  bool Advance(size_t first);
  bool Visit(size_t r);
  bool MoveWindow(size_t r);
  bool CopyBlock(size_t r, bool to_array);
  bool WriteBack(size_t r);
  bool AllWritten(size_t r);

  // ---- run_marks.cc: undefined contents
  void MarkAll(size_t r, std::string way);
  void MarkEdges(size_t r, const Dims& extent, const View& block);
  UndefinedPtr LoadMarks(const Node& n, const Dims& size, const View& block, const View& value);
  void StoreMarks(const Node& n, const UndefinedPtr& marks, const Dims& size, const View& value,
                  const View& block);
  void MoveMarks(int source, int target, const std::string& way, const Dims& size, const View& from,
                 const View& to);
  bool Defined(size_t r, const Dims& extent, const View& block, const View& array);
  std::string PointText() const {
    std::string text;
    for (size_t a = 0; a < point_.size(); ++a) {
      absl::StrAppend(&text, a == 0 ? "" : ", ", axis_names_[a], "=", point_[a]);
    }
    return text;
  }

  // ---- kernel_run.cc: the body
  bool RunRegion(const Region& region);
  bool RunNode(NodeId id);
  bool RunHlo(NodeId id, const Node& n);
  bool RowsInside(const Node& n);
  bool Place(int ref, const std::vector<Slice>& slices, const Node& n, MemoryBox* box);
  bool Check(const CopyTrouble& trouble, const Node& n, absl::string_view what);
  bool RunCopy(const Node& n);
  bool RunSlice(NodeId id, const Node& n, bool store);
  bool StoreMasked(const Node& n, const Dims& size, const View& block);
  bool RunFor(const Node& n);
  bool RunWhile(const Node& n);
  bool RunPipeline(const Node& n);
  bool TouchArray(size_t r, const Dims& start, const Dims& extent, bool store);
  // An array in HBM: an operand, or scratch.
  Literal* HbmOf(int r) {
    return k_.refs[r].role == Ref::Role::kScratch ? &windows_[r].block : arrays_[r];
  }
  // What a window is a window of.
  int ArrayOf(size_t r) const {
    return k_.refs[r].window_of >= 0 ? k_.refs[r].window_of : static_cast<int>(r);
  }
  void SetScalar(NodeId id, int64_t value) {
    values_[id] = ScalarOf(Type::kS32, value);
    seen_[id] = &values_[id];
  }

  const Kernel& k_;
  const std::vector<Literal*>& arrays_;
  const EvalOptions& options_;
  DiagCode* code_;
  Loc* loc_;
  std::string* error_;
  std::vector<RunWindow> windows_;
  std::vector<Literal> values_;
  std::vector<const Literal*> seen_;  // the value of a node: its own, or a window
  std::vector<int64_t> point_, previous_, loops_, extents_;
  std::vector<std::string> axis_names_;     // of the grid and of the pipelines around
  int moving_ = -1;                         // the window that was moved last, outside bodies
  std::vector<int64_t> operands_;           // of the pipeline around
  std::vector<const Literal*> prefetched_;  // by ref
  // Blocks of outputs whose index maps are known at run time only.
  std::vector<absl::flat_hash_set<std::vector<int64_t>>> visited_;
  CopyTracker copies_;
  // Undefined contents: of blocks and arrays in HBM by ref, of values by node. Empty where not
  // asked.
  bool follow_ = false;
  std::vector<Undefined> held_;
  std::vector<UndefinedPtr> marks_;
};

}  // namespace tpuc::kernel
