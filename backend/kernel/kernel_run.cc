// The grid loop and the body of one kernel on literals (kernel_run.h). Values live for one grid
// point; windows and scratch persist, a window until its block index changes.
#include "backend/kernel/kernel_run.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/scalar.h"
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
};

class Run {
 public:
  Run(const Kernel& k, const std::vector<Literal*>& arrays, const EvalOptions& options,
      std::string* error)
      : k_(k),
        arrays_(arrays),
        options_(options),
        error_(error),
        windows_(k.refs.size()),
        values_(k.nodes.size()),
        seen_(k.nodes.size(), nullptr),
        point_(k.grid.size(), 0),
        prefetched_(k.refs.size(), nullptr),
        visited_(k.refs.size()) {
    for (size_t r = 0; r < k.refs.size(); ++r) {
      if (k.refs[r].role == Ref::Role::kPrefetch) prefetched_[r] = arrays[r];
    }
  }

  bool RunGrid();

 private:
  bool Fail(std::string what, const Node* node = nullptr) {
    *error_ = absl::StrCat("kernel ", k_.name);
    for (size_t a = 0; a < point_.size(); ++a) {
      absl::StrAppend(error_, a == 0 ? " at " : ", ", k_.grid[a].name, "=", point_[a]);
    }
    if (node != nullptr && !node->place.empty()) absl::StrAppend(error_, ", ", node->place);
    absl::StrAppend(error_, ": ", what);
    return false;
  }
  ExprValues Values() const {
    return {k_.params, point_, k_.grid, extents_, prefetched_, k_.blocks};
  }
  bool SetExtents();
  bool Advance();
  bool Visit(size_t r);
  bool MoveWindow(size_t r);
  bool CopyBlock(size_t r, bool to_array);
  bool WriteBack(size_t r);
  bool RunRegion(const Region& region);
  bool RunNode(NodeId id);
  bool RunHlo(NodeId id, const Node& n);
  bool RunSlice(NodeId id, const Node& n, bool store);
  bool RunFor(const Node& n);
  bool RunWhile(const Node& n);
  void SetScalar(NodeId id, int64_t value) {
    values_[id] = ScalarOf(Type::kS32, value);
    seen_[id] = &values_[id];
  }

  const Kernel& k_;
  const std::vector<Literal*>& arrays_;
  const EvalOptions& options_;
  std::string* error_;
  std::vector<Window> windows_;
  std::vector<Literal> values_;
  std::vector<const Literal*> seen_;  // the value of a node: its own, or a window
  std::vector<int64_t> point_, loops_, extents_;
  std::vector<const Literal*> prefetched_;  // by ref
  // Blocks of outputs whose index maps are known at run time only.
  std::vector<absl::flat_hash_set<std::vector<int64_t>>> visited_;
};

// Sizes of the grid in this run.
bool Run::SetExtents() {
  for (const GridAxis& a : k_.grid) extents_.push_back(a.extent);
  for (size_t a = 0; a < k_.grid.size(); ++a) {
    if (k_.grid[a].most.empty()) continue;
    const std::optional<int64_t> v = EvaluateExpr(k_.grid[a].size, Values());
    if (!v || *v < 0 || *v > k_.grid[a].extent) {
      return Fail(absl::StrCat("grid axis ", k_.grid[a].name,
                               v ? absl::StrCat(" has size ", *v, ", at most ", k_.grid[a].extent)
                                 : std::string(" has no size: an element outside its array")));
    }
    extents_[a] = *v;
  }
  return true;
}

// A block of an output may be visited at consecutive points only (PS-3.4). Checked here where the
// index map could not be tried before.
bool Run::Visit(size_t r) {
  const Ref& ref = k_.refs[r];
  if (std::all_of(ref.index.begin(), ref.index.end(),
                  [&](const Expr& e) { return KnownBeforeRun(k_, e); })) {
    return true;
  }
  if (visited_[r].insert(windows_[r].index).second) return true;
  return Fail(absl::StrCat("block (", absl::StrJoin(windows_[r].index, ", "), ") of output ",
                           ref.name, " is visited again after other blocks (PS-3.4)"));
}

// The last axis is the fastest (PS-1.1).
bool Run::Advance() {
  for (size_t a = point_.size(); a-- > 0;) {
    if (++point_[a] < extents_[a]) return true;
    point_[a] = 0;
  }
  return false;
}

// Between the array and the window: the part of the block that lies in the array.
bool Run::CopyBlock(size_t r, bool to_array) {
  const Ref& ref = k_.refs[r];
  Window& w = windows_[r];
  Dims extent, block_dims(ref.block.begin(), ref.block.end());
  View array_view, block_view;
  array_view.strides = RowMajorStrides(ref.shape.dims);
  block_view.strides = RowMajorStrides(block_dims);
  bool whole = true;
  for (size_t d = 0; d < ref.block.size(); ++d) {
    int64_t start = 0;
    const int64_t unit = ref.element_index ? 1 : ref.block[d];
    if (__builtin_mul_overflow(w.index[d], unit, &start) || start < 0 ||
        start >= ref.shape.dims[d]) {
      return Fail(absl::StrCat(unit == 1 ? "index " : "block ", w.index[d], " of dimension ", d,
                               " of ", ref.name, " lies outside the array of ", ref.shape.dims[d],
                               " elements"));
    }
    extent.push_back(std::min(ref.block[d], ref.shape.dims[d] - start));
    whole &= extent.back() == ref.block[d];
    array_view.offset += start * array_view.strides[d];
  }
  const int64_t bytes = LiteralBytesOf(ref.shape.type);
  if (to_array) {
    CopyStrided(extent, w.block.bytes(), block_view, arrays_[r]->bytes(), array_view, bytes);
    return true;
  }
  if (!whole) FillPoison(&w.block);  // past the edge
  CopyStrided(extent, arrays_[r]->bytes(), array_view, w.block.bytes(), block_view, bytes);
  return true;
}

bool Run::WriteBack(size_t r) {
  Window& w = windows_[r];
  if (w.index.empty() && !k_.refs[r].block.empty()) return true;
  if (!w.dirty) return true;
  w.dirty = false;
  return CopyBlock(r, true);
}

bool Run::MoveWindow(size_t r) {
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
  if (out && !first && !WriteBack(r)) return false;
  w.index = std::move(index);
  if (out && !Visit(r)) return false;
  const bool whole = std::equal(ref.block.begin(), ref.block.end(), ref.shape.dims.begin()) &&
                     std::all_of(w.index.begin(), w.index.end(), [](int64_t i) { return i == 0; });
  if (!out && whole && ref.BlockShape().dims == arrays_[r]->shape().dims) {
    w.view = arrays_[r];
    return true;
  }
  w.view = nullptr;
  if (first || w.block.byte_size() == 0) w.block = Literal(ref.BlockShape());
  if (out) w.dirty = true;  // every visited block is written back (PS-3.2)
  if (out && ref.alias < 0) {
    FillPoison(&w.block);
    return true;
  }
  return CopyBlock(r, false);
}

bool Run::RunSlice(NodeId id, const Node& n, bool store) {
  const Ref& ref = k_.refs[n.ref];
  Window& w = windows_[n.ref];
  const Shape block = ref.BlockShape();
  View block_view, value_view;
  Dims size;
  bool whole = true;
  block_view.strides = RowMajorStrides(block.dims);
  for (size_t d = 0; d < n.slices.size(); ++d) {
    const Slice& s = n.slices[d];
    int64_t start = s.start;
    if (s.start_node >= 0) start = ElementAsInt(Type::kS32, seen_[s.start_node]->bytes(), 0);
    if (start < 0 || start > block.dims[d] - s.size) {
      return Fail(absl::StrCat("slice [", start, ":+", s.size, "] of dimension ", d, " of ",
                               ref.name, " (", block.dims[d], " elements)"),
                  &n);
    }
    whole &= s.size == block.dims[d];
    size.push_back(s.size);
    block_view.offset += start * block_view.strides[d];
  }
  value_view.strides = RowMajorStrides(size);
  const int64_t bytes = LiteralBytesOf(block.type);
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
    result = EvaluateOp(n.op, n.shape, operands, n.attrs, options_, &error);
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
    case Node::Kind::kPipeline:
      break;
  }
  return true;
}

bool Run::RunRegion(const Region& region) {
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
    } else if (ref.role == Ref::Role::kOut) {
      if (ref.alias >= 0) {
        std::copy_n(arrays_[ref.alias]->bytes(), arrays_[r]->byte_size(), arrays_[r]->bytes());
      } else {
        FillPoison(arrays_[r]);
      }
    }
  }
  if (!SetExtents()) return false;
  if (std::count(extents_.begin(), extents_.end(), 0) > 0) return true;
  do {
    for (size_t r = 0; r < k_.refs.size(); ++r) {
      if (k_.refs[r].IsWindow() && !MoveWindow(r)) return false;
    }
    if (!RunRegion(k_.body)) return false;
  } while (Advance());
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    const bool window = k_.refs[r].space == Ref::Space::kWindow;
    if (window && k_.refs[r].role == Ref::Role::kOut && !WriteBack(r)) return false;
  }
  return true;
}

}  // namespace

bool RunKernel(const Kernel& kernel, const std::vector<Literal*>& arrays,
               const EvalOptions& options, std::string* error) {
  return Run(kernel, arrays, options, error).RunGrid();
}

}  // namespace tpuc::kernel
