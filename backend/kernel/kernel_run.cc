// The grid loop and the body of one kernel on literals (kernel_run.h). Values live for one grid
// point; windows and scratch persist, a window until its block index changes.
#include "backend/kernel/kernel_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/copy_tracker.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/points.h"
#include "backend/kernel/scalar.h"
#include "backend/kernel/undefined.h"
#include "backend/kernel/verify_copies.h"
#include "backend/kernel/windows.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"

namespace tpuc::kernel {
namespace {

constexpr int64_t kMostTrips = 100'000'000;  // of a while

struct Window {
  std::vector<int64_t> index;  // of the block it holds; empty: none yet
  Literal block;
  const Literal* view = nullptr;  // the whole array, where the window is that
  bool dirty = false;
  std::set<std::vector<int64_t>> written;  // blocks of an output, where undefined ones are followed
};

class Run {
 public:
  Run(const Kernel& k, const std::vector<Literal*>& arrays, const EvalOptions& options,
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
  bool SetExtents(const std::vector<GridAxis>& grid);
  bool Advance(size_t first);
  bool Visit(size_t r);
  bool MoveWindow(size_t r);
  bool CopyBlock(size_t r, bool to_array);
  // ---- undefined contents
  void MarkAll(size_t r, std::string way);
  void MarkEdges(size_t r, const Dims& extent, const View& block);
  UndefinedPtr LoadMarks(const Node& n, const Dims& size, const View& block, const View& value);
  void StoreMarks(const Node& n, const UndefinedPtr& marks, const Dims& size, const View& value,
                  const View& block);
  bool StoreMasked(const Node& n, const Dims& size, const View& block);
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
  bool WriteBack(size_t r);
  bool AllWritten(size_t r);
  bool RunRegion(const Region& region);
  bool RunNode(NodeId id);
  bool RunHlo(NodeId id, const Node& n);
  bool RowsInside(const Node& n);
  bool Place(int ref, const std::vector<Slice>& slices, const Node& n, MemoryBox* box);
  bool Check(const CopyTrouble& trouble, const Node& n, absl::string_view what);
  bool RunCopy(const Node& n);
  bool RunSlice(NodeId id, const Node& n, bool store);
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
  std::vector<Window> windows_;
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

// Sizes of the grid in this run.
bool Run::SetExtents(const std::vector<GridAxis>& grid) {
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
bool Run::Visit(size_t r) {
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
bool Run::Advance(size_t first) {
  previous_ = point_;
  for (size_t a = point_.size(); a-- > first;) {
    if (++point_[a] < extents_[a]) return true;
    point_[a] = 0;
  }
  return false;
}

// Between the array and the window: the part of the block that lies in the array.
bool Run::CopyBlock(size_t r, bool to_array) {
  const Ref& ref = k_.refs[r];
  Window& w = windows_[r];
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

bool Run::WriteBack(size_t r) {
  moving_ = static_cast<int>(r);  // failures name its declaration
  Window& w = windows_[r];
  if (w.index.empty() && !k_.refs[r].block.empty()) return true;
  if (!w.dirty) return true;
  w.dirty = false;
  if (follow_) w.written.insert(w.index);
  return CopyBlock(r, true);
}

// Of a grid whose extents or index maps are known at run time only; else the verifier has said it.
bool Run::AllWritten(size_t r) {
  const Ref& ref = k_.refs[r];
  const int64_t seen = static_cast<int64_t>(windows_[r].written.size()), all = BlocksOf(ref);
  if (!follow_ || ref.alias >= 0 || ref.element_index || seen >= all) return true;
  return Fail(absl::StrCat("the grid writes ", seen, " of the ", all, " blocks of ", ref.name),
              nullptr, DiagCode::kOutputNotWritten);
}

bool Run::MoveWindow(size_t r) {
  moving_ = static_cast<int>(r);
  const Ref& ref = k_.refs[r];
  Window& w = windows_[r];
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

void Run::MarkAll(size_t r, std::string way) {
  const Shape& shape =
      k_.refs[r].space == Ref::Space::kHbm ? k_.refs[r].shape : k_.refs[r].BlockShape();
  held_[r].marks = Literal(Shape::Array(Type::kPred, shape.dims));
  std::fill_n(held_[r].marks.bytes(), held_[r].marks.byte_size(), uint8_t{1});
  held_[r].way = std::move(way);
}

// All elements of an input's window but the `extent` that lie in the array.
void Run::MarkEdges(size_t r, const Dims& extent, const View& block) {
  const Ref& ref = k_.refs[r];
  if (std::equal(extent.begin(), extent.end(), ref.block.begin(), ref.block.end())) {
    held_[r] = {};
    return;
  }
  MarkAll(r, absl::StrCat("the edge of ", ref.name, " ", ToString(ref.shape, false), " at ",
                          PointText()));
  View zero;
  zero.strides.assign(extent.size(), 0);
  const uint8_t defined = 0;
  CopyStrided(extent, &defined, zero, held_[r].marks.bytes(), block, 1);
}

UndefinedPtr Run::LoadMarks(const Node& n, const Dims& size, const View& block, const View& value) {
  const Undefined& held = held_[n.ref];
  if (held.marks.byte_size() == 0) return nullptr;
  Undefined loaded;
  loaded.marks = Literal(Shape::Array(Type::kPred, n.shape.dims));
  CopyStrided(size, held.marks.bytes(), block, loaded.marks.bytes(), value, 1);
  if (!AnyMarked(loaded.marks)) return nullptr;
  loaded.way = Onward(held.way, absl::StrCat("load of ", k_.refs[n.ref].name, " (", n.place, ")"));
  return std::make_shared<const Undefined>(std::move(loaded));
}

void Run::StoreMarks(const Node& n, const UndefinedPtr& marks, const Dims& size, const View& value,
                     const View& block) {
  Undefined& held = held_[n.ref];
  if (marks == nullptr && held.marks.byte_size() == 0) return;
  if (held.marks.byte_size() == 0) {
    MarkAll(n.ref, "");
    std::fill_n(held.marks.bytes(), held.marks.byte_size(), uint8_t{0});
  }
  if (marks == nullptr) {
    View zero;
    zero.strides.assign(size.size(), 0);
    const uint8_t defined = 0;
    CopyStrided(size, &defined, zero, held.marks.bytes(), block, 1);
    if (!AnyMarked(held.marks)) held = {};
    return;
  }
  CopyStrided(size, marks->marks.bytes(), value, held.marks.bytes(), block, 1);
  held.way = Onward(marks->way, absl::StrCat("store to ", k_.refs[n.ref].name, " (", n.place, ")"));
}

// Of a copy.
void Run::MoveMarks(int source, int target, const std::string& way, const Dims& size,
                    const View& from, const View& to) {
  const Undefined& have = held_[source];
  Undefined& held = held_[target];
  if (have.marks.byte_size() == 0 && held.marks.byte_size() == 0) return;
  if (held.marks.byte_size() == 0) {
    MarkAll(target, "");
    std::fill_n(held.marks.bytes(), held.marks.byte_size(), uint8_t{0});
  }
  if (have.marks.byte_size() == 0) {
    View zero;
    zero.strides.assign(size.size(), 0);
    const uint8_t defined = 0;
    CopyStrided(size, &defined, zero, held.marks.bytes(), to, 1);
  } else {
    CopyStrided(size, have.marks.bytes(), from, held.marks.bytes(), to, 1);
    if (AnyMarked(have.marks)) {
      held.way = Onward(have.way, way);
    }
  }
  if (!AnyMarked(held.marks)) held = {};
}

// What a result takes from a block, or from itself in HBM.
bool Run::Defined(size_t r, const Dims& extent, const View& block, const View& array) {
  const Undefined& held = held_[r];
  if (held.marks.byte_size() == 0) return true;
  Literal part(Shape::Array(Type::kPred, extent));
  View plain;
  plain.strides = RowMajorStrides(extent);
  CopyStrided(extent, held.marks.bytes(), block, part.bytes(), plain, 1);
  if (!AnyMarked(part)) return true;
  int64_t at = 0;
  while (part.bytes()[at] == 0) ++at;
  std::vector<int64_t> index(extent.size());
  int64_t rest = array.offset;
  for (size_t d = 0; d < extent.size(); ++d) {
    const int64_t start = array.strides[d] > 0 ? rest / array.strides[d] : 0;
    if (array.strides[d] > 0) rest %= array.strides[d];
    index[d] = start + at / plain.strides[d];
    at %= plain.strides[d];
  }
  return Fail(absl::StrCat("undefined contents reach element [", absl::StrJoin(index, ","), "] of ",
                           k_.refs[r].name, ": ", held.way),
              nullptr, DiagCode::kUndefinedResult);
}

// Where a slice of a block lies: elements from `box->start` on, of which `box->size` are spanned.
bool Run::Place(int r, const std::vector<Slice>& slices, const Node& n, MemoryBox* box) {
  const Ref& ref = k_.refs[r];
  const Shape block = ref.BlockShape();
  box->ref = r;
  for (size_t d = 0; d < slices.size(); ++d) {
    const Slice& s = slices[d];
    int64_t start = s.start;
    if (s.start_node >= 0) start = ElementAsInt(Type::kS32, seen_[s.start_node]->bytes(), 0);
    if (start < 0 || start > block.dims[d] - s.size) {
      return Fail(absl::StrCat("slice [", start, ":+", s.size, "] of dimension ", d, " of ",
                               ref.name, " (", block.dims[d], " elements)"),
                  &n);
    }
    if (start % s.multiple_of != 0) {
      return Fail(absl::StrCat("multiple_of: the start ", start, " of dimension ", d, " of ",
                               ref.name, " is not a multiple of ", s.multiple_of),
                  &n, DiagCode::kBrokenPromise);
    }
    box->start.push_back(start);
    box->size.push_back(s.size);
  }
  return true;
}

bool Run::Check(const CopyTrouble& trouble, const Node& n, absl::string_view what) {
  if (trouble.message.empty()) return true;
  return Fail(absl::StrCat(std::string(what), what.empty() ? "" : " ", trouble.message), &n,
              trouble.code);
}

bool Run::RunCopy(const Node& n) {
  std::vector<MemoryBox> boxes(n.views.size());
  for (size_t v = 0; v < n.views.size(); ++v) {
    if (!Place(n.views[v].ref, n.views[v].slices, n, &boxes[v])) return false;
  }
  const MemoryBox& flag = boxes.back();
  const Ref& flags = k_.refs[flag.ref];
  int64_t element = 0;
  for (size_t d = 0; d < flag.start.size(); ++d) {
    element = element * flags.shape.dims[d] + flag.start[d];
  }
  const CopyTracker::Semaphore semaphore{flag.ref, element};
  const std::string name = absl::StrCat(flags.name, "[", element, "]");
  if (n.kind == Node::Kind::kSignal || n.kind == Node::Kind::kWait) {
    const int64_t count = ElementAsInt(Type::kS32, seen_[n.operands[0]]->bytes(), 0);
    if (n.kind == Node::Kind::kWait) return Check(copies_.Wait(semaphore, count, name), n, "");
    copies_.Signal(semaphore, count, n.place);
    return true;
  }
  const int64_t bytes = CopyBytes(k_, n);
  if (n.kind == Node::Kind::kCopyWait) {
    return Check(copies_.WaitCopy(semaphore, bytes, name), n, "");
  }
  if (!Check(copies_.Start(boxes[0], boxes[1], semaphore, bytes, n.place), n, "")) return false;
  View views[2];
  Dims extents[2];
  uint8_t* memory[2];
  for (int side = 0; side < 2; ++side) {
    const RefView& view = n.views[side];
    const Ref& ref = k_.refs[view.ref];
    Window& w = windows_[view.ref];
    const bool hbm = ref.space == Ref::Space::kHbm;
    memory[side] = hbm                 ? HbmOf(view.ref)->bytes()
                   : w.view != nullptr ? const_cast<uint8_t*>(w.view->bytes())  // a source
                                       : w.block.bytes();
    const Dims strides = RowMajorStrides(ref.BlockShape().dims);
    for (size_t d = 0; d < view.slices.size(); ++d) {
      views[side].offset += boxes[side].start[d] * strides[d];
      if (view.dropped[d]) continue;
      extents[side].push_back(view.slices[d].size);
      views[side].strides.push_back(strides[d]);
    }
  }
  CopyStrided(extents[0], memory[0], views[0], memory[1], views[1],
              LiteralBytesOf(k_.refs[n.views[0].ref].shape.type));
  if (follow_) {
    const int target = n.views[1].ref;
    MoveMarks(n.views[0].ref, target,
              absl::StrCat("copy to ", k_.refs[target].name, " (", n.place, ")"), extents[0],
              views[0], views[1]);
  }
  return true;
}

bool Run::RunSlice(NodeId id, const Node& n, bool store) {
  const Ref& ref = k_.refs[n.ref];
  Window& w = windows_[n.ref];
  const Shape block = ref.BlockShape();
  View block_view, value_view;
  Dims size;
  bool whole = true;
  block_view.strides = RowMajorStrides(block.dims);
  MemoryBox box;
  if (!Place(n.ref, n.slices, n, &box)) return false;
  if (!copies_.idle() && !Check(copies_.Touch(box, store), n, ref.name)) return false;
  for (size_t d = 0; d < n.slices.size(); ++d) {
    whole &= n.slices[d].size == block.dims[d];
    size.push_back(n.slices[d].size);
    block_view.offset += box.start[d] * block_view.strides[d];
  }
  value_view.strides = RowMajorStrides(size);
  const int64_t bytes = LiteralBytesOf(block.type);
  if (store && n.operands.size() > 1) return StoreMasked(n, size, block_view);
  if (follow_ && store) StoreMarks(n, marks_[n.operands[0]], size, value_view, block_view);
  if (follow_ && !store) marks_[id] = LoadMarks(n, size, block_view, value_view);
  if (store) {
    CopyStrided(size, seen_[n.operands[0]]->bytes(), value_view, w.block.bytes(), block_view,
                bytes);
    return true;
  }
  const Literal* window = w.view != nullptr ? w.view : &w.block;
  if (whole && ref.role == Ref::Role::kIn && n.shape.dims == window->shape().dims) {
    seen_[id] = window;
    return true;
  }
  values_[id] = Literal(n.shape);
  seen_[id] = &values_[id];
  CopyStrided(size, window->bytes(), block_view, values_[id].bytes(), value_view, bytes);
  return true;
}

// Elements whose mask is false stay, and what they hold stays undefined where it was.
bool Run::StoreMasked(const Node& n, const Dims& size, const View& block) {
  const View plain{0, RowMajorStrides(size)};
  const Shape shape = Shape::Array(k_.refs[n.ref].shape.type, size);
  const int64_t bytes = LiteralBytesOf(shape.type);
  Literal mixed(shape);
  uint8_t* memory = windows_[n.ref].block.bytes();
  CopyStrided(size, memory, block, mixed.bytes(), plain, bytes);
  const uint8_t* mask = seen_[n.operands[1]]->bytes();
  const uint8_t* value = seen_[n.operands[0]]->bytes();
  for (int64_t i = 0; i < mixed.size(); ++i) {
    if (mask[i] != 0) std::copy_n(value + i * bytes, bytes, mixed.bytes() + i * bytes);
  }
  if (follow_) {
    const UndefinedPtr marks[2] = {marks_[n.operands[0]], marks_[n.operands[1]]};
    const Undefined& held = held_[n.ref];
    if (marks[0] != nullptr || marks[1] != nullptr || held.marks.byte_size() > 0) {
      Undefined all;
      all.marks = Literal(Shape::Array(Type::kPred, size));
      std::fill_n(all.marks.bytes(), all.marks.byte_size(), uint8_t{0});
      if (held.marks.byte_size() > 0) {
        CopyStrided(size, held.marks.bytes(), block, all.marks.bytes(), plain, 1);
      }
      for (int64_t i = 0; i < mixed.size(); ++i) {
        uint8_t& mark = all.marks.bytes()[i];
        if (mask[i] != 0) mark = marks[0] != nullptr ? marks[0]->marks.bytes()[i] : 0;
        if (marks[1] != nullptr) mark |= marks[1]->marks.bytes()[i];
      }
      all.way = marks[0] != nullptr   ? marks[0]->way
                : marks[1] != nullptr ? marks[1]->way
                                      : held.way;
      StoreMarks(n, std::make_shared<const Undefined>(std::move(all)), size, plain, block);
    }
  }
  CopyStrided(size, mixed.bytes(), plain, memory, block, bytes);
  return true;
}

// HLO would take the nearest row for one outside; a kernel's author is told.
bool Run::RowsInside(const Node& n) {
  const Ints& axis = n.IntsAttr(AttrId::kStartIndexMap);
  const Literal& rows = *seen_[n.operands[1]];
  if (axis.size() != 1 || rows.shape().type != Type::kS32) return true;
  const int64_t size = k_.nodes[n.operands[0]].shape.dims[axis[0]];
  for (int64_t i = 0; i < rows.size(); ++i) {
    const int64_t row = ElementAsInt(Type::kS32, rows.bytes(), i);
    if (row >= 0 && row < size) continue;
    return Fail(absl::StrCat("take: index ", row, " at ", i, ", of dimension ", axis[0], " (", size,
                             " elements)"),
                &n);
  }
  return true;
}

bool Run::RunHlo(NodeId id, const Node& n) {
  if (n.op == Op::kConstant) {
    if (n.literal->elided()) return Fail("a constant without data ({...})", &n);
    seen_[id] = n.literal.get();
    return true;
  }
  std::string error;
  std::optional<Literal> result;
  if (n.op == Op::kReduce) {
    const Literal& operand = *seen_[n.operands[0]];
    result =
        EvaluateReduce(n.reducer, n.shape, operand, IdentityOf(n.reducer, operand.shape().type),
                       n.IntsAttr(AttrId::kDimensions), &error);
  } else {
    std::vector<const Literal*> operands;
    for (NodeId o : n.operands) operands.push_back(seen_[o]);
    if (n.op == Op::kGather && !RowsInside(n)) return false;
    result = EvaluateOp(n.op, n.shape, operands, n.attrs, options_, &error);
  }
  if (follow_ && result) {
    std::vector<const Literal*> operands;
    std::vector<UndefinedPtr> marks;
    for (NodeId o : n.operands) {
      operands.push_back(seen_[o]);
      marks.push_back(marks_[o]);
    }
    marks_[id] = ResultOf(n, operands, marks, options_);
  }
  if (!result) return Fail(std::move(error), &n);
  values_[id] = *std::move(result);
  seen_[id] = &values_[id];
  return true;
}

bool Run::RunFor(const Node& n) {
  int64_t lower = n.lower, upper = n.upper;
  if (n.operands.size() == 2) {
    lower = ElementAsInt(Type::kS32, seen_[n.operands[0]]->bytes(), 0);
    upper = ElementAsInt(Type::kS32, seen_[n.operands[1]]->bytes(), 0);
  }
  loops_.push_back(0);
  for (int64_t i = lower; i < upper; ++i) {
    loops_.back() = i;
    if (!RunRegion(n.regions[0])) return false;
  }
  loops_.pop_back();
  return true;
}

bool Run::RunWhile(const Node& n) {
  for (int64_t trip = 0; trip < kMostTrips; ++trip) {
    if (!RunRegion(n.regions[0])) return false;
    if (seen_[n.operands[0]]->bytes()[0] == 0) return true;
    if (!RunRegion(n.regions[1])) return false;
  }
  return Fail(absl::StrCat("a while still runs after ", kMostTrips, " trips"), &n);
}

// A window of a pipeline moves while explicit copies may be under way.
bool Run::TouchArray(size_t r, const Dims& start, const Dims& extent, bool store) {
  if (copies_.idle()) return true;
  MemoryBox box;
  box.ref = ArrayOf(r);
  box.start.assign(start.begin(), start.end());
  box.size.assign(extent.begin(), extent.end());
  const CopyTrouble trouble = copies_.Touch(box, store);
  if (trouble.message.empty()) return true;
  return Fail(
      absl::StrCat(k_.refs[box.ref].name, ", by window ", k_.refs[r].name, ": ", trouble.message),
      nullptr, trouble.code);
}

bool Run::RunPipeline(const Node& n) {
  const Pipeline& p = k_.pipelines[n.pipeline];
  const size_t first = point_.size();
  std::vector<int64_t> operands;
  for (NodeId o : n.operands) {
    operands.push_back(ElementAsInt(Type::kS32, seen_[o]->bytes(), 0));
  }
  std::swap(operands, operands_);
  if (!SetExtents(p.grid)) return false;
  for (int w : p.windows) {
    windows_[w] = {};
    visited_[w].clear();
    held_[w] = {};
  }
  if (std::count(extents_.begin() + first, extents_.end(), 0) == 0) {
    do {
      for (int w : p.windows) {
        if (!MoveWindow(w)) return false;
      }
      if (!RunRegion(n.regions[0])) return false;
    } while (Advance(first));
    point_ = previous_;
    for (int w : p.windows) {
      if (k_.refs[w].role == Ref::Role::kOut && !WriteBack(w)) return false;
    }
  }
  point_.resize(first);
  extents_.resize(first);
  axis_names_.resize(first);
  operands_ = std::move(operands);
  return true;
}

bool Run::RunNode(NodeId id) {
  const Node& n = k_.nodes[id];
  switch (n.kind) {
    case Node::Kind::kHlo:
      return RunHlo(id, n);
    case Node::Kind::kLoad:
      return RunSlice(id, n, false);
    case Node::Kind::kStore:
      return RunSlice(id, n, true);
    case Node::Kind::kAxis:
      SetScalar(id, point_[n.axis]);
      return true;
    case Node::Kind::kNumAxis:
      SetScalar(id, extents_[n.axis]);
      return true;
    case Node::Kind::kLoopIndex:
      SetScalar(id, loops_[loops_.size() - 1 - n.axis]);
      return true;
    case Node::Kind::kWhen:
      if (seen_[n.operands[0]]->bytes()[0] != 0) return RunRegion(n.regions[0]);
      return n.regions.size() < 2 || RunRegion(n.regions[1]);
    case Node::Kind::kFor:
      return RunFor(n);
    case Node::Kind::kWhile:
      return RunWhile(n);
    case Node::Kind::kCopyStart:
    case Node::Kind::kCopyWait:
    case Node::Kind::kSignal:
    case Node::Kind::kWait:
      return RunCopy(n);
    case Node::Kind::kPipeline:
      return RunPipeline(n);
  }
  return true;
}

bool Run::RunRegion(const Region& region) {
  moving_ = -1;
  return std::all_of(region.nodes.begin(), region.nodes.end(),
                     [&](NodeId id) { return RunNode(id); });
}

bool Run::RunGrid() {
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    const Ref& ref = k_.refs[r];
    if (ref.role == Ref::Role::kPrefetch) {
      windows_[r].view = arrays_[r];
    } else if (ref.role == Ref::Role::kScratch) {
      windows_[r].block = Literal(ref.BlockShape());
      FillPoison(&windows_[r].block);
      if (follow_ && ref.space != Ref::Space::kSemaphore) {
        MarkAll(r, absl::StrCat("scratch ", ref.name, ", never written"));
      }
    } else if (ref.role == Ref::Role::kOut && ref.window_of < 0) {
      if (ref.alias >= 0) {
        std::copy_n(arrays_[ref.alias]->bytes(), arrays_[r]->byte_size(), arrays_[r]->bytes());
      } else {
        FillPoison(arrays_[r]);
        if (follow_ && ref.space == Ref::Space::kHbm) {
          MarkAll(r, absl::StrCat("output ", ref.name, " in HBM, never written"));
        }
      }
    }
  }
  if (!RunRegion(k_.setup) || !SetExtents(k_.grid)) return false;
  bool more = std::count(extents_.begin(), extents_.end(), 0) == 0;
  for (; more; more = Advance(0)) {
    for (size_t r = 0; r < k_.refs.size(); ++r) {
      if (k_.refs[r].IsWindow() && !MoveWindow(r)) return false;
    }
    if (!RunRegion(k_.body)) return false;
  }
  std::vector<std::string> names;
  for (const Ref& ref : k_.refs) names.push_back(ref.name);
  point_ = previous_;
  moving_ = -1;
  const CopyTrouble left = copies_.Finish(names);
  if (!left.message.empty()) return Fail(left.message, nullptr, left.code);
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    if (k_.refs[r].window_of >= 0) continue;
    const bool window = k_.refs[r].space == Ref::Space::kWindow;
    if (follow_ && !window && k_.refs[r].role == Ref::Role::kOut) {
      moving_ = static_cast<int>(r);
      const View all{0, RowMajorStrides(k_.refs[r].shape.dims)};
      if (!Defined(r, k_.refs[r].shape.dims, all, all)) return false;
    }
    if (!window || k_.refs[r].role != Ref::Role::kOut) continue;
    if (!WriteBack(r) || !AllWritten(r)) return false;
  }
  return true;
}

}  // namespace

bool RunKernel(const Kernel& kernel, const std::vector<Literal*>& arrays,
               const EvalOptions& options, bool follow_undefined, DiagCode* code, Loc* loc,
               std::string* error) {
  return Run(kernel, arrays, options, follow_undefined, code, loc, error).RunGrid();
}

}  // namespace tpuc::kernel
