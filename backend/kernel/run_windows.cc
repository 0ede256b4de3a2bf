// The grid of a run, and its windows: what moves where, and when (run_state.h).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/points.h"
#include "backend/kernel/run_state.h"
#include "backend/kernel/windows.h"

namespace tpuc::kernel {

// Sizes of the grid in this run.
bool KernelRun::SetExtents(const std::vector<GridAxis>& grid) {
  for (const GridAxis& axis : grid) {
    int64_t extent = axis.extent;
    if (!axis.most.empty()) {
      const std::optional<int64_t> v = EvaluateExpr(axis.size, Values());
      if (!v || *v < 0 || *v > extent) {
        return Fail(absl::StrCat("grid axis ", axis.name,
                                 v ? absl::StrCat(" has size ", *v, ", at most ", extent)
                                   : std::string(" has no size: an element outside its array")));
      }
      extent = *v;
    }
    extents_.push_back(extent);
  }
  for (const GridAxis& axis : grid) {
    point_.push_back(0);
    axis_names_.push_back(axis.name);
  }
  return true;
}

// A block of an output may be visited at consecutive points only (PS-3.4). Checked here where the
// index map could not be tried before.
bool KernelRun::Visit(size_t r) {
  const Ref& ref = k_.refs[r];
  const std::vector<GridAxis> axes = k_.AxesIn(ref.pipeline);
  if (std::all_of(ref.index.begin(), ref.index.end(),
                  [&](const Expr& e) { return KnownBeforeRun(k_, e); }) &&
      std::all_of(axes.begin(), axes.end(), [](const GridAxis& a) { return a.most.empty(); })) {
    return true;
  }
  if (visited_[r].insert(windows_[r].index).second) return true;
  return Fail(absl::StrCat("block (", absl::StrJoin(windows_[r].index, ", "), ") of output ",
                           ref.name, " is visited again after other blocks (PS-3.4)"));
}

// The last axis is the fastest (PS-1.1).
bool KernelRun::Advance(size_t first) {
  previous_ = point_;
  for (size_t a = point_.size(); a-- > first;) {
    if (++point_[a] < extents_[a]) return true;
    point_[a] = 0;
  }
  return false;
}

// Between the array and the window: the part of the block that lies in the array.
bool KernelRun::CopyBlock(size_t r, bool to_array) {
  const Ref& ref = k_.refs[r];
  RunWindow& w = windows_[r];
  const int array = ArrayOf(r);
  Dims begin, extent, block_dims(ref.block.begin(), ref.block.end());
  View array_view, block_view;
  array_view.strides = RowMajorStrides(ref.shape.dims);
  block_view.strides = RowMajorStrides(block_dims);
  bool whole = true;
  for (size_t d = 0; d < ref.block.size(); ++d) {
    int64_t start = 0;
    const int64_t unit = ref.element_index ? 1 : ref.block[d];
    if (ref.element_index && w.index[d] % ElementUnit(ref, static_cast<int>(d)) != 0) {
      return Fail(absl::StrCat("element ", w.index[d], " of dimension ", d, " of ", ref.name,
                               " is not a multiple of ", ElementUnit(ref, static_cast<int>(d))));
    }
    const int64_t pad = ref.low_pad.empty() ? 0 : ref.low_pad[d];
    if (__builtin_mul_overflow(w.index[d], unit, &start) || start < -pad ||
        start >= ref.shape.dims[d]) {
      return Fail(absl::StrCat(unit == 1 ? "index " : "block ", w.index[d], " of dimension ", d,
                               " of ", ref.name, " lies outside the array of ", ref.shape.dims[d],
                               " elements"));
    }
    const int64_t before = std::max<int64_t>(0, -start);  // the array
    begin.push_back(start + before);
    extent.push_back(std::min(ref.block[d] - before, ref.shape.dims[d] - begin.back()));
    whole &= extent.back() == ref.block[d];
    array_view.offset += begin.back() * array_view.strides[d];
    block_view.offset += before * block_view.strides[d];
  }
  const int64_t bytes = LiteralBytesOf(ref.shape.type);
  const bool nested = ref.window_of >= 0;
  if (nested && !TouchArray(r, begin, extent, to_array)) return false;
  const auto move_marks = [&](int from, int to, const View& from_view, const View& to_view) {
    MoveMarks(from, to, absl::StrCat("window ", ref.name, " at ", PointText()), extent, from_view,
              to_view);
  };
  uint8_t* memory = HbmOf(array)->bytes();
  if (to_array) {
    if (follow_ && nested) {
      move_marks(static_cast<int>(r), array, block_view, array_view);
    } else if (follow_ && !Defined(r, extent, block_view, array_view)) {
      return false;
    }
    CopyStrided(extent, w.block.bytes(), block_view, memory, array_view, bytes);
    return true;
  }
  if (!whole) FillPoison(&w.block);  // past the edge
  if (follow_) MarkEdges(r, extent, block_view);
  if (follow_ && nested) move_marks(array, static_cast<int>(r), array_view, block_view);
  CopyStrided(extent, memory, array_view, w.block.bytes(), block_view, bytes);
  return true;
}

bool KernelRun::WriteBack(size_t r) {
  moving_ = static_cast<int>(r);  // failures name its declaration
  RunWindow& w = windows_[r];
  if (w.index.empty() && !k_.refs[r].block.empty()) return true;
  if (!w.dirty) return true;
  w.dirty = false;
  if (follow_) w.written.insert(w.index);
  return CopyBlock(r, true);
}

// Of a grid whose extents or index maps are known at run time only; else the verifier has said it.
bool KernelRun::AllWritten(size_t r) {
  const Ref& ref = k_.refs[r];
  const int64_t seen = static_cast<int64_t>(windows_[r].written.size()), all = BlocksOf(ref);
  if (!follow_ || ref.alias >= 0 || ref.element_index || seen >= all) return true;
  return Fail(absl::StrCat("the grid writes ", seen, " of the ", all, " blocks of ", ref.name),
              nullptr, DiagCode::kOutputNotWritten);
}

bool KernelRun::MoveWindow(size_t r) {
  moving_ = static_cast<int>(r);
  const Ref& ref = k_.refs[r];
  RunWindow& w = windows_[r];
  std::vector<int64_t> index;
  for (const Expr& e : ref.index) {
    const std::optional<int64_t> i = EvaluateExpr(e, Values());
    if (!i) {
      return Fail(absl::StrCat("the index map of ", ref.name, " has no value",
                               UsesPrefetch(e) ? ": an element outside its array" : ""));
    }
    index.push_back(*i);
  }
  const bool first = w.block.byte_size() == 0 && w.view == nullptr;
  if (!first && index == w.index) return true;
  const bool out = ref.role == Ref::Role::kOut;
  if (out && !first) {
    std::swap(point_, previous_);  // the block is the point's before
    if (!WriteBack(r)) return false;
    std::swap(point_, previous_);
  }
  w.index = std::move(index);
  if (out && !Visit(r)) return false;
  const bool whole = std::equal(ref.block.begin(), ref.block.end(), ref.shape.dims.begin()) &&
                     std::all_of(w.index.begin(), w.index.end(), [](int64_t i) { return i == 0; });
  if (!out && whole && ref.window_of < 0 && ref.BlockShape().dims == arrays_[r]->shape().dims) {
    held_[r] = {};
    w.view = arrays_[r];
    return true;
  }
  w.view = nullptr;
  if (first || w.block.byte_size() == 0) w.block = Literal(ref.BlockShape());
  if (out) w.dirty = true;  // every visited block is written back (PS-3.2)
  if (out && ref.alias < 0) {
    FillPoison(&w.block);
    if (follow_) {
      MarkAll(r, absl::StrCat("block (", absl::StrJoin(w.index, ", "), ") of output ", ref.name,
                              ", undefined at its first visit"));
    }
    return true;
  }
  return CopyBlock(r, false);
}

}  // namespace tpuc::kernel
