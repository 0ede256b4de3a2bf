// The grid loop and the body of one kernel on literals (kernel_run.h).
#include "backend/kernel/kernel_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/run_state.h"
#include "backend/kernel/verify_copies.h"
#include "src/ir/native.h"

namespace tpuc::kernel {

constexpr int64_t kMostTrips = 100'000'000;  // of a while

// Where a slice of a block lies: elements from `box->start` on, of which `box->size` are spanned.
bool KernelRun::Place(int r, const std::vector<Slice>& slices, const Node& n, MemoryBox* box) {
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

bool KernelRun::Check(const CopyTrouble& trouble, const Node& n, absl::string_view what) {
  if (trouble.message.empty()) return true;
  return Fail(absl::StrCat(std::string(what), what.empty() ? "" : " ", trouble.message), &n,
              trouble.code);
}

bool KernelRun::RunCopy(const Node& n) {
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
    RunWindow& w = windows_[view.ref];
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

bool KernelRun::RunSlice(NodeId id, const Node& n, bool store) {
  const Ref& ref = k_.refs[n.ref];
  RunWindow& w = windows_[n.ref];
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
bool KernelRun::StoreMasked(const Node& n, const Dims& size, const View& block) {
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
bool KernelRun::RowsInside(const Node& n) {
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

bool KernelRun::RunHlo(NodeId id, const Node& n) {
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

bool KernelRun::RunFor(const Node& n) {
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

bool KernelRun::RunWhile(const Node& n) {
  for (int64_t trip = 0; trip < kMostTrips; ++trip) {
    if (!RunRegion(n.regions[0])) return false;
    if (seen_[n.operands[0]]->bytes()[0] == 0) return true;
    if (!RunRegion(n.regions[1])) return false;
  }
  return Fail(absl::StrCat("a while still runs after ", kMostTrips, " trips"), &n);
}

// A window of a pipeline moves while explicit copies may be under way.
bool KernelRun::TouchArray(size_t r, const Dims& start, const Dims& extent, bool store) {
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

bool KernelRun::RunPipeline(const Node& n) {
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

bool KernelRun::RunNode(NodeId id) {
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

bool KernelRun::RunRegion(const Region& region) {
  moving_ = -1;
  return std::all_of(region.nodes.begin(), region.nodes.end(),
                     [&](NodeId id) { return RunNode(id); });
}

bool KernelRun::RunGrid() {
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

bool RunKernel(const Kernel& kernel, const std::vector<Literal*>& arrays,
               const EvalOptions& options, bool follow_undefined, DiagCode* code, Loc* loc,
               std::string* error) {
  return KernelRun(kernel, arrays, options, follow_undefined, code, loc, error).RunGrid();
}

}  // namespace tpuc::kernel
