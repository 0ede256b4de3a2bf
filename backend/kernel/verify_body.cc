// Bodies (verify_body.h): a walk in program order that knows which values are computed and visible.
#include "backend/kernel/verify_body.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/node_shape.h"
#include "backend/kernel/points.h"
#include "backend/kernel/scalar_facts.h"
#include "backend/kernel/verify_copies.h"
#include "src/ir/tiling.h"

namespace tpuc::kernel {
namespace {

class BodyVerifier {
 public:
  BodyVerifier(const Kernel& k, std::shared_ptr<const Source> source, DiagSink* diags)
      : k_(k),
        source_(std::move(source)),
        diags_(diags),
        visible_(k.nodes.size(), false),
        placed_(k.nodes.size(), false) {}

  bool Run() {
    in_setup_ = true;
    VerifyRegion(k_.setup);
    in_setup_ = false;
    VerifyRegion(k_.body);
    return ok_;
  }

 private:
  void Error(DiagCode code, const Node& n, std::string message, std::string hint = "") {
    ok_ = false;
    std::string where = n.hlo.empty() ? n.name : n.hlo;
    Diag& d = diags_->Add(code, n.loc.line > 0 ? source_ : nullptr, n.loc,
                          absl::StrCat("kernel ", k_.name, ": ", std::move(message)));
    if (!where.empty()) d.notes.push_back({n.loc, absl::StrCat("in the statement of ", where)});
    if (!in_setup_) NoteFirstPoint(k_, &d);
    d.hint = std::move(hint);
  }
  void VerifyRegion(const Region& region);
  bool VerifyOperands(const Node& n);
  void VerifyNode(const Node& n);
  void VerifySlices(const Node& n);
  void VerifyStart(const Node& n, size_t d, const Shape& block);
  void VerifyControl(NodeId id, const Node& n);
  void VerifyWhile(const Node& n);
  void VerifyPipeline(const Node& n);
  // Of the grid, or of a pipeline around.
  void VerifyUnread(const Node& n, int r);
  bool AxisVisible(const Node& n) const {
    int64_t first = 0, size = static_cast<int64_t>(k_.grid.size());
    if (n.pipeline >= 0) {
      if (std::find(pipelines_.begin(), pipelines_.end(), n.pipeline) == pipelines_.end()) {
        return false;
      }
      first = k_.pipelines[n.pipeline].first_axis;
      size = static_cast<int64_t>(k_.pipelines[n.pipeline].grid.size());
    }
    return !in_setup_ && n.axis >= first && n.axis < first + size;
  }
  // Windows of the grid outside setup, those of a pipeline in its body.
  bool RefVisible(int r) const {
    const Ref& ref = k_.refs[r];
    if (ref.window_of >= 0) {
      return std::find(pipelines_.begin(), pipelines_.end(), ref.pipeline) != pipelines_.end();
    }
    return !in_setup_ || !ref.IsWindow();
  }

  const Kernel& k_;
  std::shared_ptr<const Source> source_;
  DiagSink* diags_;
  std::vector<bool> visible_, placed_;
  std::vector<NodeId> loops_;
  std::vector<int> pipelines_;  // around
  bool in_setup_ = false;
  int guards_ = 0;  // conditions around: what a value may be, it need not be here
  bool ok_ = true;
};

void BodyVerifier::VerifyRegion(const Region& region) {
  std::vector<NodeId> defined;
  for (NodeId id : region.nodes) {
    if (id < 0 || id >= static_cast<NodeId>(k_.nodes.size()) || placed_[id]) {
      Error(DiagCode::kKernelBody, Node(),
            absl::StrCat("node ", id, " does not exist or stands twice"));
      return;
    }
    placed_[id] = true;
    const Node& n = k_.nodes[id];
    if (!VerifyOperands(n)) continue;
    if (n.kind == Node::Kind::kWhen || n.kind == Node::Kind::kFor || n.kind == Node::Kind::kWhile) {
      VerifyControl(id, n);
    } else if (n.kind == Node::Kind::kPipeline) {
      VerifyPipeline(n);
    } else if (!n.views.empty() || n.kind == Node::Kind::kCopyStart ||
               n.kind == Node::Kind::kCopyWait) {
      if (n.kind == Node::Kind::kCopyStart && n.views.size() == 3) VerifyUnread(n, n.views[1].ref);
      CopyProblem problem = FindCopyProblem(k_, n, loops_, guards_ > 0);
      if (!problem.message.empty()) {
        Error(problem.code, n, std::move(problem.message), std::move(problem.hint));
      }
    } else {
      VerifyNode(n);
    }
    visible_[id] = true;
    defined.push_back(id);
  }
  for (NodeId id : defined) visible_[id] = false;
}

bool BodyVerifier::VerifyOperands(const Node& n) {
  std::vector<NodeId> used = n.operands;
  for (const Slice& s : n.slices) {
    if (s.start_node >= 0) used.push_back(s.start_node);
  }
  for (const RefView& v : n.views) {
    for (const Slice& s : v.slices) {
      if (s.start_node >= 0) used.push_back(s.start_node);
    }
  }
  if (n.kind == Node::Kind::kWhile) used.clear();  // its condition's region makes its operand
  for (NodeId o : used) {
    if (o >= 0 && o < static_cast<NodeId>(k_.nodes.size()) && visible_[o]) continue;
    Error(DiagCode::kKernelBody, n,
          absl::StrCat("value ", o, " is used where it is not computed yet"),
          "values of a when or for are not seen outside: use scratch");
    return false;
  }
  const bool one = n.kind == Node::Kind::kStore || n.kind == Node::Kind::kWhen ||
                   n.kind == Node::Kind::kWhile || n.kind == Node::Kind::kSignal ||
                   n.kind == Node::Kind::kWait;
  const bool bounds =
      (n.kind == Node::Kind::kFor && n.operands.size() == 2) || n.kind == Node::Kind::kPipeline;
  const bool masked = n.kind == Node::Kind::kStore && n.operands.size() == 2;
  if (n.kind != Node::Kind::kHlo && !bounds && !masked && n.operands.size() != (one ? 1 : 0)) {
    Error(DiagCode::kKernelBody, n, "a statement with the wrong number of operands");
    return false;
  }
  const bool needs_axis = n.kind == Node::Kind::kAxis || n.kind == Node::Kind::kNumAxis;
  const bool bad_axis = needs_axis && !AxisVisible(n);
  const bool bad_loop =
      n.kind == Node::Kind::kLoopIndex && (n.axis < 0 || n.axis >= static_cast<int>(loops_.size()));
  const bool memory = n.kind == Node::Kind::kLoad || n.kind == Node::Kind::kStore;
  const int all = static_cast<int>(k_.refs.size());
  bool bad_ref = memory && (n.ref < 0 || n.ref >= all || !RefVisible(n.ref));
  for (const RefView& v : n.views) bad_ref |= v.ref >= 0 && v.ref < all && !RefVisible(v.ref);
  if (bad_axis || bad_loop || bad_ref) {
    Error(DiagCode::kKernelBody, n, bad_ref ? "no such operand" : "no such grid axis or loop");
    return false;
  }
  return true;
}

void BodyVerifier::VerifyControl(NodeId id, const Node& n) {
  if (n.kind == Node::Kind::kWhen) {
    const Shape& condition = k_.nodes[n.operands[0]].shape;
    if (!condition.IsScalar() || condition.type != Type::kPred || n.regions.empty() ||
        n.regions.size() > 2) {
      Error(DiagCode::kKernelShape, n,
            absl::StrCat("condition of type ", ToString(condition, false), ", not pred[]"));
    }
    ++guards_;
    for (const Region& r : n.regions) VerifyRegion(r);
    --guards_;
    return;
  }
  if (n.kind == Node::Kind::kWhile) return VerifyWhile(n);
  if (n.regions.size() != 1) {
    return Error(DiagCode::kKernelBody, n, "a for statement has one body");
  }
  for (NodeId o : n.operands) {
    const Shape& bound = k_.nodes[o].shape;
    if (bound.IsScalar() && bound.type == Type::kS32) continue;
    Error(DiagCode::kKernelShape, n,
          absl::StrCat("a bound of a for is ", ToString(bound, false), ", not s32[]"));
  }
  loops_.push_back(id);
  VerifyRegion(n.regions[0]);
  loops_.pop_back();
}

// Scalars that index maps and sizes of a grid read may not change while it runs: the pipeline reads
// them ahead.
void BodyVerifier::VerifyUnread(const Node& n, int r) {
  const Ref& ref = k_.refs[r];
  if (in_setup_ || ref.space != Ref::Space::kSmem) return;
  std::vector<int> running = {-1};
  running.insert(running.end(), pipelines_.begin(), pipelines_.end());
  for (int p : running) {
    bool read = false;
    const auto look = [&](const Expr& e) { read |= UsesRef(e, r); };
    for (const GridAxis& a : p < 0 ? k_.grid : k_.pipelines[p].grid) look(a.size);
    for (const Ref& window : k_.refs) {
      if (window.pipeline != p) continue;
      for (const Expr& e : window.index) look(e);
    }
    if (!read) continue;
    return Error(DiagCode::kKernelMemory, n,
                 absl::StrCat(ref.name, " is written while ", p < 0 ? "the grid" : "a pipeline",
                              " that reads it runs: blocks are fetched ahead"),
                 p < 0 ? "write it in setup" : "write it before the pipeline");
  }
}

// What it reads and writes in HBM, and its operands; windows are verify_windows.cc's.
void BodyVerifier::VerifyPipeline(const Node& n) {
  if (n.pipeline < 0 || n.pipeline >= static_cast<int>(k_.pipelines.size()) ||
      n.regions.size() != 1) {
    return Error(DiagCode::kKernelBody, n, "a pipeline statement has one grid and one body");
  }
  for (NodeId o : n.operands) {
    const Shape& s = k_.nodes[o].shape;
    if (s.IsScalar() && s.type == Type::kS32) continue;
    Error(DiagCode::kKernelShape, n,
          absl::StrCat("a size or index map of a pipeline names ", ToString(s, false),
                       ", not s32[]"));
  }
  for (int w : k_.pipelines[n.pipeline].windows) {
    const Ref& out = k_.refs[w];
    if (out.role != Ref::Role::kOut) continue;
    for (int other : k_.pipelines[n.pipeline].windows) {
      if (other == w || k_.refs[other].window_of != out.window_of) continue;
      Error(DiagCode::kKernelMemory, n,
            absl::StrCat("the pipeline writes ", k_.refs[out.window_of].name, " by ", out.name,
                         " and moves it by ", k_.refs[other].name, " too"),
            "blocks are read ahead: what another window writes would be missed");
      break;
    }
  }
  pipelines_.push_back(n.pipeline);
  const std::vector<GridAxis>& grid = k_.pipelines[n.pipeline].grid;
  const bool may_be_empty = std::any_of(
      grid.begin(), grid.end(), [](const GridAxis& a) { return !a.most.empty() || a.extent == 0; });
  guards_ += may_be_empty ? 1 : 0;
  VerifyRegion(n.regions[0]);
  guards_ -= may_be_empty ? 1 : 0;
  pipelines_.pop_back();
}

void BodyVerifier::VerifyWhile(const Node& n) {
  if (n.regions.size() != 2) {
    return Error(DiagCode::kKernelBody, n, "a while statement has a condition and a body");
  }
  VerifyRegion(n.regions[0]);
  const std::vector<NodeId>& made = n.regions[0].nodes;
  const NodeId o = n.operands[0];
  if (std::find(made.begin(), made.end(), o) == made.end()) {
    Error(DiagCode::kKernelBody, n, "the condition of a while is not computed in it");
  } else if (!k_.nodes[o].shape.IsScalar() || k_.nodes[o].shape.type != Type::kPred) {
    Error(DiagCode::kKernelShape, n,
          absl::StrCat("condition of type ", ToString(k_.nodes[o].shape, false), ", not pred[]"));
  }
  ++guards_;
  VerifyRegion(n.regions[1]);
  --guards_;
}

void BodyVerifier::VerifyNode(const Node& n) {
  switch (n.kind) {
    case Node::Kind::kHlo: {
      Shape shape;
      std::string error;
      if (!InferNodeShape(k_, n, &shape, &error)) {
        return Error(DiagCode::kKernelShape, n, std::move(error));
      }
      if (!Compatible(shape, n.shape)) {
        Error(DiagCode::kKernelShape, n,
              absl::StrCat(std::string(OpName(n.op)), " has shape ", ToString(shape, false),
                           ", not ", ToString(n.shape, false)));
      }
      return;
    }
    case Node::Kind::kLoad:
    case Node::Kind::kStore:
      return VerifySlices(n);
    default:
      if (!n.shape.IsScalar() || n.shape.type != Type::kS32) {
        Error(DiagCode::kKernelShape, n, "a grid or loop index is an s32 scalar");
      }
      return;
  }
}

void BodyVerifier::VerifySlices(const Node& n) {
  const Ref& ref = k_.refs[n.ref];
  const Shape block = ref.BlockShape();
  const Shape& value = n.kind == Node::Kind::kLoad ? n.shape : k_.nodes[n.operands[0]].shape;
  const char* what = n.kind == Node::Kind::kLoad ? "load from " : "store to ";
  if (n.kind == Node::Kind::kStore &&
      (ref.role == Ref::Role::kIn || ref.role == Ref::Role::kPrefetch)) {
    return Error(DiagCode::kKernelBody, n,
                 absl::StrCat(ref.name, " is an input: inputs are read only"));
  }
  if (n.kind == Node::Kind::kStore) VerifyUnread(n, n.ref);
  if (ref.space == Ref::Space::kHbm || ref.space == Ref::Space::kSemaphore) {
    return Error(DiagCode::kKernelMemory, n,
                 absl::StrCat(what, ref.name, ", which lies neither in VMEM nor in SMEM"));
  }
  if (n.slices.size() != block.dims.size()) {
    return Error(DiagCode::kKernelSlice, n,
                 absl::StrCat(what, ref.name, ": ", n.slices.size(), " ranges for ",
                              ToString(block, false)));
  }
  Shape slice = Shape::Array(block.type, {});
  const bool smem = ref.InSmem();
  for (const Slice& s : n.slices) {
    if (!smem || s.size != 1) slice.dims.push_back(s.size);
  }
  if (!Compatible(slice, value)) {
    return Error(DiagCode::kKernelShape, n,
                 absl::StrCat(what, ref.name, ": slice ", ToString(slice, false), ", value ",
                              ToString(value, false)));
  }
  if (n.operands.size() > 1) {
    const Shape& mask = k_.nodes[n.operands[1]].shape;
    if (mask.type != Type::kPred || mask.dims != value.dims) {
      return Error(
          DiagCode::kKernelShape, n,
          absl::StrCat("a store of ", ToString(value, false), " where ", ToString(mask, false)));
    }
    if (smem) {
      return Error(DiagCode::kKernelMemory, n,
                   absl::StrCat("a masked store to ", ref.name, ", which lies in SMEM (PS-6.2)"),
                   "when condition { ... } stores where it holds");
    }
  }
  for (size_t d = 0; d < n.slices.size(); ++d) {
    const Slice& s = n.slices[d];
    if (s.start_node >= 0) {
      VerifyStart(n, d, block);
    } else if (s.start < 0 || s.size < 0 || s.start > block.dims[d] - s.size) {
      Error(DiagCode::kKernelSlice, n,
            absl::StrCat(what, ref.name, ": [", s.start, ":", s.start + s.size, "] of dimension ",
                         d, " (", block.dims[d], " elements)"));
    }
  }
}

// A start computed at run time: an s32 scalar, within the block as far as known, and in the last
// two dimensions a multiple of the tile that can be seen (PS-6.4).
void BodyVerifier::VerifyStart(const Node& n, size_t d, const Shape& block) {
  const Ref& ref = k_.refs[n.ref];
  const Slice& s = n.slices[d];
  const Shape& start = k_.nodes[s.start_node].shape;
  if (!start.IsScalar() || start.type != Type::kS32) {
    return Error(DiagCode::kKernelShape, n,
                 absl::StrCat("start of a slice of ", ref.name, " is ", ToString(start, false),
                              ", not s32[]"));
  }
  const ScalarFacts facts = FactsOf(k_, s.start_node, loops_);
  if (s.size > block.dims[d] || !MayBeInside(facts, block.dims[d] - s.size, guards_ > 0)) {
    return Error(DiagCode::kKernelSlice, n,
                 absl::StrCat("slice of dimension ", d, " of ", ref.name, ": starts from ",
                              facts.least, " to ", facts.most, ", ", s.size,
                              " elements, leave the block of ", block.dims[d]));
  }
  if (ref.InSmem()) return;  // words
  const int rank = block.rank();
  const int from_last = rank - 1 - static_cast<int>(d);
  if (from_last > 1) return;
  // One row, or one lane, can be addressed wherever it lies: gathers and scatters.
  if (s.size == 1 && LiteralBytesOf(block.type) <= 4) return;
  const int64_t packing = PackedElements(block.type);
  const int64_t tile = from_last == 1 ? 8 : rank == 1 ? 128 * packing : 128;
  if (StartIsMultiple(k_, s, tile, loops_)) return;
  Error(DiagCode::kAlignment, n,
        absl::StrCat("cannot show that the start in dimension ", d, " of ", ref.name,
                     " is a multiple of ", tile, ": it is known to be one of ", facts.divisor),
        absl::StrCat("make the multiple visible: j * ", tile, ", or promise it: multiple_of(j, ",
                     tile, ")"));
}

}  // namespace

bool VerifyBody(const Kernel& kernel, std::shared_ptr<const Source> source, DiagSink* diags) {
  return BodyVerifier(kernel, std::move(source), diags).Run();
}

}  // namespace tpuc::kernel
