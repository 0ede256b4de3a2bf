// Dimension classes (dim_classes.h) by union-find over all dimensions of nodes and refs.
#include "backend/kernel/dim_classes.h"

#include <algorithm>
#include <utility>

#include "src/ir/op_table.h"

namespace tpuc::kernel {
namespace {

int64_t IntOf(const Node& n, AttrId id) {
  const AttrValue* v = n.Find(id);
  const int64_t* i = v == nullptr ? nullptr : std::get_if<int64_t>(v);
  return i == nullptr ? 0 : *i;
}

bool Contains(const Ints& ints, int64_t value) {
  return std::find(ints.begin(), ints.end(), value) != ints.end();
}

class Finder {
 public:
  explicit Finder(const Kernel& k) : k_(k) {
    int next = 0;
    for (const Node& n : k.nodes) {
      first_of_node_.push_back(next);
      next += n.shape.rank();
    }
    for (const Ref& r : k.refs) {
      first_of_ref_.push_back(next);
      next += r.shape.rank();
    }
    parent_.resize(next);
    for (int i = 0; i < next; ++i) parent_[i] = i;
    marks_.resize(next);
  }
  DimClasses Run();

 private:
  struct Mark {
    bool whole = false, weights = false, counted = false;
    std::vector<NodeId> reducers;
  };
  int Root(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  const Dims& DimsOf(NodeId id) const { return k_.nodes[id].shape.dims; }
  int At(NodeId id, int d) const { return first_of_node_[id] + d; }
  int AtRef(int ref, int d) const { return first_of_ref_[ref] + d; }
  void Join(int a, int b) {
    a = Root(a);
    b = Root(b);
    if (a == b) return;
    if (b < a) std::swap(a, b);
    parent_[b] = a;
    marks_[a].whole |= marks_[b].whole;
    marks_[a].weights |= marks_[b].weights;
    marks_[a].counted |= marks_[b].counted;
    marks_[a].reducers.insert(marks_[a].reducers.end(), marks_[b].reducers.begin(),
                              marks_[b].reducers.end());
  }
  void JoinDims(NodeId a, int da, NodeId b, int db) {
    if (DimsOf(a)[da] == DimsOf(b)[db]) {
      Join(At(a, da), At(b, db));
    } else {
      Whole(a, da);
      Whole(b, db);
    }
  }
  void Whole(NodeId id, int d) { marks_[Root(At(id, d))].whole = true; }
  void AllWhole(NodeId id) {
    for (int d = 0; d < k_.nodes[id].shape.rank(); ++d) Whole(id, d);
    for (NodeId o : k_.nodes[id].operands) {
      for (int d = 0; d < k_.nodes[o].shape.rank(); ++d) Whole(o, d);
    }
  }
  void Visit(NodeId id);
  void VisitMemory(NodeId id, NodeId value);
  void VisitDot(NodeId id);
  void VisitReduce(NodeId id);
  void VisitReshape(NodeId id);
  void VisitMove(NodeId id);
  void Alike(NodeId id);

  const Kernel& k_;
  std::vector<int> first_of_node_, first_of_ref_, parent_;
  std::vector<Mark> marks_;  // of roots
};

// Operands of the result's dimensions; scalars stretch.
void Finder::Alike(NodeId id) {
  const Node& n = k_.nodes[id];
  for (NodeId o : n.operands) {
    if (DimsOf(o).empty()) continue;
    if (DimsOf(o).size() != n.shape.dims.size()) return AllWhole(id);
    for (int d = 0; d < n.shape.rank(); ++d) JoinDims(id, d, o, d);
  }
}

void Finder::VisitMemory(NodeId id, NodeId value) {
  const Node& n = k_.nodes[id];
  const Ref& ref = k_.refs[n.ref];
  for (int d = 0; d < static_cast<int>(DimsOf(value).size()); ++d) {
    const bool all = n.slices[d].start_node < 0 && n.slices[d].size == ref.shape.dims[d];
    Join(At(value, d), AtRef(n.ref, d));
    if (!all) Whole(value, d);
  }
}

void Finder::VisitDot(NodeId id) {
  const Node& n = k_.nodes[id];
  const Ints& lb = n.IntsAttr(AttrId::kLhsBatchDims);
  const Ints& rb = n.IntsAttr(AttrId::kRhsBatchDims);
  const Ints& lc = n.IntsAttr(AttrId::kLhsContractingDims);
  const Ints& rc = n.IntsAttr(AttrId::kRhsContractingDims);
  const NodeId l = n.operands[0], r = n.operands[1];
  int out = 0;
  for (size_t b = 0; b < lb.size(); ++b, ++out) {
    JoinDims(id, out, l, static_cast<int>(lb[b]));
    JoinDims(id, out, r, static_cast<int>(rb[b]));
  }
  for (int d = 0; d < static_cast<int>(DimsOf(l).size()); ++d) {
    if (!Contains(lb, d) && !Contains(lc, d)) JoinDims(id, out++, l, d);
  }
  for (int d = 0; d < static_cast<int>(DimsOf(r).size()); ++d) {
    if (Contains(rb, d) || Contains(rc, d)) continue;
    marks_[Root(At(r, d))].weights = true;
    JoinDims(id, out++, r, d);
  }
  for (size_t c = 0; c < lc.size(); ++c) {
    JoinDims(l, static_cast<int>(lc[c]), r, static_cast<int>(rc[c]));
    marks_[Root(At(l, static_cast<int>(lc[c])))].reducers.push_back(id);
  }
}

void Finder::VisitReduce(NodeId id) {
  const Node& n = k_.nodes[id];
  const Ints& dims = n.IntsAttr(AttrId::kDimensions);
  const NodeId o = n.operands[0];
  int kept = 0;
  for (int d = 0; d < static_cast<int>(DimsOf(o).size()); ++d) {
    if (Contains(dims, d)) {
      marks_[Root(At(o, d))].reducers.push_back(id);
    } else {
      JoinDims(id, kept++, o, d);
    }
  }
}

// Groups of dimensions with equal products; a group of one on either side (beside ones) runs
// together.
void Finder::VisitReshape(NodeId id) {
  const NodeId o = k_.nodes[id].operands[0];
  const Dims &to = DimsOf(id), &from = DimsOf(o);
  size_t t = 0, f = 0;
  while (t < to.size() || f < from.size()) {
    std::vector<int> ts, fs;
    int64_t tp = 1, fp = 1;
    auto take = [](const Dims& dims, size_t* at, int64_t* product, std::vector<int>* list) {
      if (dims[*at] != 1) list->push_back(static_cast<int>(*at));
      *product *= dims[(*at)++];
    };
    if (t < to.size()) take(to, &t, &tp, &ts);
    if (f < from.size()) take(from, &f, &fp, &fs);
    while (tp != fp) {
      if (tp < fp && t < to.size()) {
        take(to, &t, &tp, &ts);
      } else if (f < from.size()) {
        take(from, &f, &fp, &fs);
      } else {
        break;
      }
    }
    if (ts.size() == 1 && fs.size() == 1 && tp == fp) {
      JoinDims(id, ts[0], o, fs[0]);
    } else {
      for (int d : ts) Whole(id, d);
      for (int d : fs) Whole(o, d);
    }
  }
}

void Finder::VisitMove(NodeId id) {
  const Node& n = k_.nodes[id];
  const Ints& dims = n.IntsAttr(AttrId::kDimensions);
  const NodeId o = n.operands[0];
  switch (n.op) {
    case Op::kBroadcast:
      for (int d = 0; d < static_cast<int>(DimsOf(o).size()); ++d) {
        if (DimsOf(o)[d] == n.shape.dims[dims[d]]) {
          JoinDims(id, static_cast<int>(dims[d]), o, d);
        }
      }
      return;
    case Op::kTranspose:
      for (int d = 0; d < n.shape.rank(); ++d) JoinDims(id, d, o, static_cast<int>(dims[d]));
      return;
    case Op::kReshape:
    case Op::kBitcast:
      return VisitReshape(id);
    case Op::kReverse:
    case Op::kConcatenate:
      for (NodeId x : n.operands) {
        for (int d = 0; d < n.shape.rank(); ++d) {
          if (Contains(dims, d)) {
            Whole(x, d);
            Whole(id, d);
          } else {
            JoinDims(id, d, x, d);
          }
        }
      }
      return;
    default:  // slice, pad: dimensions that keep their elements
      break;
  }
  const auto* slices = std::get_if<std::vector<SliceDim>>(n.Find(AttrId::kSlice));
  const auto* pads = std::get_if<std::vector<PadDim>>(n.Find(AttrId::kPadding));
  for (int d = 0; d < n.shape.rank(); ++d) {
    const bool same =
        DimsOf(o)[d] == n.shape.dims[d] &&
        (slices != nullptr || (pads != nullptr && (*pads)[d].low == 0 && (*pads)[d].high == 0));
    if (same) {
      JoinDims(id, d, o, d);
    } else {
      Whole(id, d);
      Whole(o, d);
    }
  }
}

void Finder::Visit(NodeId id) {
  const Node& n = k_.nodes[id];
  if (n.kind == Node::Kind::kLoad) return VisitMemory(id, id);
  if (n.kind == Node::Kind::kStore) return VisitMemory(id, n.operands[0]);
  if (n.kind != Node::Kind::kHlo) return AllWhole(id);
  switch (n.op) {
    case Op::kDot:
      return VisitDot(id);
    case Op::kReduce:
      if (n.operands.size() != 1) return AllWhole(id);
      return VisitReduce(id);
    case Op::kIota:
      if (n.shape.rank() > 0) {
        marks_[Root(At(id, static_cast<int>(IntOf(n, AttrId::kIotaDimension))))].counted = true;
      }
      return;
    case Op::kBroadcast:
    case Op::kTranspose:
    case Op::kReshape:
    case Op::kBitcast:
    case Op::kReverse:
    case Op::kConcatenate:
    case Op::kSlice:
    case Op::kPad:
      return VisitMove(id);
    case Op::kCopy:
      return Alike(id);
    case Op::kConstant:
      return;
    case Op::kBitcastConvert:
    case Op::kMap:
      return AllWhole(id);
    default:
      if (InfoOf(n.op).op_class == OpClass::kElementwise) return Alike(id);
      return AllWhole(id);
  }
}

DimClasses Finder::Run() {
  for (NodeId id = 0; id < static_cast<NodeId>(k_.nodes.size()); ++id) Visit(id);
  DimClasses result;
  std::vector<int> number(parent_.size(), -1);
  auto class_of = [&](int at, int64_t extent) {
    const int root = Root(at);
    if (number[root] < 0) {
      number[root] = static_cast<int>(result.classes.size());
      const Mark& m = marks_[root];
      DimClass c;
      c.extent = extent;
      c.whole = m.whole;
      c.weights = m.weights;
      c.counted = m.counted;
      c.reducers = m.reducers;
      std::sort(c.reducers.begin(), c.reducers.end());
      c.reducers.erase(std::unique(c.reducers.begin(), c.reducers.end()), c.reducers.end());
      result.classes.push_back(std::move(c));
    }
    return number[root];
  };
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    auto& of = result.of_ref.emplace_back();
    for (int d = 0; d < k_.refs[r].shape.rank(); ++d) {
      of.push_back(class_of(AtRef(static_cast<int>(r), d), k_.refs[r].shape.dims[d]));
    }
  }
  for (NodeId id = 0; id < static_cast<NodeId>(k_.nodes.size()); ++id) {
    auto& of = result.of_node.emplace_back();
    for (int d = 0; d < k_.nodes[id].shape.rank(); ++d) {
      of.push_back(class_of(At(id, d), DimsOf(id)[d]));
    }
  }
  return result;
}

}  // namespace

DimClasses FindDimClasses(const Kernel& kernel) { return Finder(kernel).Run(); }

}  // namespace tpuc::kernel
