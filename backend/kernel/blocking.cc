// Rewriting to blocks (blocking.h). Nodes are made anew in three groups: what every step computes,
// the gathering of sums, and what the last step makes of them.
#include "backend/kernel/blocking.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/scalar.h"
#include "backend/kernel/windows.h"
#include "src/diag/check.h"

namespace tpuc::kernel {
namespace {

bool Contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Nodes that use one of `roots`, however far; the roots themselves not.
std::vector<bool> Users(const Kernel& k, const std::vector<NodeId>& roots) {
  std::vector<bool> root(k.nodes.size()), below(k.nodes.size());
  for (NodeId r : roots) root[r] = true;
  for (size_t id = 0; id < k.nodes.size(); ++id) {  // operands come before users
    for (NodeId o : k.nodes[id].operands) below[id] = below[id] || below[o] || root[o];
  }
  return below;
}

std::vector<NodeId> ReducersOf(const DimClasses& classes, const std::vector<int>& reduced) {
  std::vector<NodeId> all;
  for (int c : reduced) {
    const auto& r = classes.classes[c].reducers;
    all.insert(all.end(), r.begin(), r.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Whether sums of this type can gather.
bool Gathers(const Node& n) {
  const Type t = n.shape.type;
  if (t != Type::kF32 && t != Type::kBF16 && t != Type::kS32 && t != Type::kU32) return false;
  if (n.op == Op::kDot) return true;
  switch (n.reducer) {
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kMaximum:
    case Op::kMinimum:
      return true;
    default:
      return false;
  }
}

class Rewriter {
 public:
  Rewriter(const Kernel& k, const DimClasses& classes, const Blocking& blocking)
      : k_(k), classes_(classes), blocking_(blocking), axis_of_(classes.classes.size(), -1) {
    for (size_t a = 0; a < blocking.size(); ++a) {
      axis_of_[blocking[a].cls] = static_cast<int>(a);
      if (blocking[a].reduced) reduced_.push_back(blocking[a].cls);
    }
  }
  Kernel Run();

 private:
  using Memo = std::map<NodeId, NodeId>;  // old node -> new one in this region

  const CutAxis* CutOf(int cls) const {
    return axis_of_[cls] < 0 ? nullptr : &blocking_[axis_of_[cls]];
  }
  bool Squeezed(int cls) const { return CutOf(cls) != nullptr && CutOf(cls)->squeeze; }
  int64_t BlockOf(int cls) const {
    return CutOf(cls) != nullptr ? CutOf(cls)->block : classes_.classes[cls].extent;
  }
  Expr BlockExpr(int cls) const {
    return CutOf(cls) != nullptr && !Squeezed(cls) ? Expr::Param(param_of_[axis_of_[cls]])
                                                   : Expr::Const(BlockOf(cls));
  }
  // New number of dimension d of a value whose dimensions have these classes.
  int64_t Kept(const std::vector<int>& of, int64_t d) const {
    int64_t n = 0;
    for (int64_t e = 0; e < d; ++e) n += !Squeezed(of[e]);
    return n;
  }
  Ints Remap(const Ints& dims, const std::vector<int>& of) const {
    Ints out;
    for (int64_t d : dims) {
      if (!Squeezed(of[d])) out.push_back(Kept(of, d));
    }
    return out;
  }

  void MakeGrid();
  void MakeRefs();
  void SetDims(const std::vector<int>& of, const Shape& old, Node* n) const;
  void RemapAttrs(NodeId old, Node* n) const;
  NodeId Append(Node n, Region* region);
  NodeId Hlo(Op op, Type type, const Node& like, std::vector<NodeId> operands,
             std::vector<Attr> attrs, Region* region);
  NodeId AxisNode(int axis, Node::Kind kind, Region* region);
  NodeId ScalarNode(Literal value, Region* region);
  NodeId Offset(int axis, Region* region);
  NodeId Stretch(NodeId scalar, const Node& like, Region* region);
  NodeId Counted(NodeId old, Node n, Region* region);
  NodeId Masked(NodeId reducer, NodeId old_operand, NodeId value, Region* region);
  NodeId Emit(NodeId old, Memo* memo, Region* region);
  void EmitAll(const std::vector<bool>& wanted, Memo* memo, Region* region);
  std::vector<bool> Needed(const std::vector<NodeId>& roots, bool past_reducers) const;
  NodeId WhenNode(bool last, Region body, Region* region);
  void Gather(const std::vector<NodeId>& reducers, Memo* memo, Region* region);

  const Kernel& k_;
  const DimClasses& classes_;
  const Blocking& blocking_;
  std::vector<int> axis_of_, param_of_, reduced_;
  Kernel out_;
  struct Total {
    int ref = -1;         // where it gathers
    bool direct = false;  // in an output
  };
  std::map<NodeId, Total> totals_;
  std::map<std::pair<Region*, std::string>, NodeId> masks_;
};

void Rewriter::MakeGrid() {
  static constexpr const char* kNames[] = {"i", "j", "k", "l", "m", "n"};
  absl::flat_hash_set<std::string> taken;
  for (const Ref& r : k_.refs) taken.insert(r.name);
  const auto unique = [&](std::string name) {
    const std::string base = name;
    for (int n = 1; !taken.insert(name).second; ++n) name = absl::StrCat(base, "_", n);
    return name;
  };
  for (size_t a = 0; a < blocking_.size(); ++a) {
    const CutAxis& cut = blocking_[a];
    const int64_t extent = classes_.classes[cut.cls].extent;
    GridAxis axis;
    axis.name = unique(a < 6 ? kNames[a] : absl::StrCat("i", a));
    axis.extent = (extent + cut.block - 1) / cut.block;
    param_of_.push_back(-1);
    if (cut.squeeze) {
      axis.size = Expr::Const(extent);
    } else {
      param_of_.back() = static_cast<int>(out_.params.size());
      out_.params.push_back({unique(absl::StrCat("b", out_.params.size())), cut.block});
      axis.size = MakeExpr(Expr::Kind::kCdiv, {Expr::Const(extent), Expr::Param(param_of_.back())});
      if (cut.reduced && extent % cut.block == 0) {
        Assert divides;
        divides.lhs =
            MakeExpr(Expr::Kind::kMod, {Expr::Const(extent), Expr::Param(param_of_.back())});
        divides.rhs = Expr::Const(0);
        divides.cmp = "==";
        divides.message = "sums over it have no mask";
        out_.asserts.push_back(std::move(divides));
      }
    }
    out_.grid.push_back(std::move(axis));
  }
}

void Rewriter::MakeRefs() {
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    Ref ref = k_.refs[r];
    const std::vector<int>& of = classes_.of_ref[r];
    bool cut = false;
    for (size_t d = 0; d < of.size(); ++d) cut |= CutOf(of[d]) != nullptr;
    if (cut) {
      ref.squeezed.assign(of.size(), false);
      bool any = false;
      for (size_t d = 0; d < of.size(); ++d) {
        ref.block[d] = BlockOf(of[d]);
        ref.block_exprs.push_back(BlockExpr(of[d]));
        ref.squeezed[d] = Squeezed(of[d]);
        any |= ref.squeezed[d];
        if (CutOf(of[d]) != nullptr) ref.index[d] = Expr::Axis(axis_of_[of[d]]);
      }
      if (!any) ref.squeezed.clear();
    }
    out_.refs.push_back(std::move(ref));
  }
}

void Rewriter::SetDims(const std::vector<int>& of, const Shape& old, Node* n) const {
  n->shape.dims.clear();
  n->dim_exprs.clear();
  bool cut = false;
  for (size_t d = 0; d < of.size(); ++d) {
    if (Squeezed(of[d])) continue;
    n->shape.dims.push_back(BlockOf(of[d]));
    n->dim_exprs.push_back(BlockExpr(of[d]));
    cut |= CutOf(of[d]) != nullptr;
  }
  const bool states = n->kind == Node::Kind::kHlo &&
                      (n->op == Op::kBroadcast || n->op == Op::kReshape || n->op == Op::kIota);
  if (!cut || !states) n->dim_exprs.clear();
}

void Rewriter::RemapAttrs(NodeId old, Node* n) const {
  const std::vector<int>& mine = classes_.of_node[old];
  const auto of = [&](int operand) -> const std::vector<int>& {
    return classes_.of_node[k_.nodes[old].operands[operand]];
  };
  std::vector<Attr> attrs;
  for (Attr a : n->attrs) {
    switch (a.id) {
      case AttrId::kLhsBatchDims:
      case AttrId::kLhsContractingDims:
        a.value = Remap(std::get<Ints>(a.value), of(0));
        break;
      case AttrId::kRhsBatchDims:
      case AttrId::kRhsContractingDims:
        a.value = Remap(std::get<Ints>(a.value), of(1));
        break;
      case AttrId::kIotaDimension:
        a.value = Kept(mine, std::get<int64_t>(a.value));
        break;
      case AttrId::kDimensions: {
        const Ints dims = std::get<Ints>(a.value);
        if (n->op == Op::kReduce) {
          a.value = Remap(dims, of(0));
        } else if (n->op == Op::kTranspose) {
          Ints kept;
          for (int64_t d : dims) {
            if (!Squeezed(of(0)[d])) kept.push_back(Kept(of(0), d));
          }
          a.value = kept;
        } else {  // broadcast, reverse, concatenate: dimensions of the result
          a.value = Remap(dims, mine);
        }
        break;
      }
      case AttrId::kSlice: {
        auto slices = std::get<std::vector<SliceDim>>(a.value);
        std::vector<SliceDim> kept;
        for (size_t d = 0; d < slices.size(); ++d) {
          if (Squeezed(mine[d])) continue;
          if (CutOf(mine[d]) != nullptr) slices[d] = {0, BlockOf(mine[d]), 1};
          kept.push_back(slices[d]);
        }
        a.value = kept;
        break;
      }
      case AttrId::kPadding: {
        const auto pads = std::get<std::vector<PadDim>>(a.value);
        std::vector<PadDim> kept;
        for (size_t d = 0; d < pads.size(); ++d) {
          if (!Squeezed(mine[d])) kept.push_back(pads[d]);
        }
        a.value = kept;
        break;
      }
      default:
        break;
    }
    const bool batch = a.id == AttrId::kLhsBatchDims || a.id == AttrId::kRhsBatchDims;
    if (batch && std::get<Ints>(a.value).empty()) continue;
    attrs.push_back(std::move(a));
  }
  n->attrs = std::move(attrs);
}

NodeId Rewriter::Append(Node n, Region* region) {
  const NodeId id = static_cast<NodeId>(out_.nodes.size());
  out_.nodes.push_back(std::move(n));
  region->nodes.push_back(id);
  return id;
}

// A node of the shape (and place in the source) of `like`.
NodeId Rewriter::Hlo(Op op, Type type, const Node& like, std::vector<NodeId> operands,
                     std::vector<Attr> attrs, Region* region) {
  Node n;
  n.op = op;
  n.shape = Shape::Array(type, like.shape.dims);
  if (op == Op::kBroadcast || op == Op::kIota) n.dim_exprs = like.dim_exprs;
  n.operands = std::move(operands);
  n.attrs = std::move(attrs);
  n.op_name = like.op_name;
  n.place = like.place;
  n.loc = like.loc;
  return Append(std::move(n), region);
}

NodeId Rewriter::AxisNode(int axis, Node::Kind kind, Region* region) {
  Node n;
  n.kind = kind;
  n.axis = axis;
  n.shape = Shape::Array(Type::kS32, {});
  return Append(std::move(n), region);
}

NodeId Rewriter::ScalarNode(Literal value, Region* region) {
  Node n;
  n.op = Op::kConstant;
  n.shape = value.shape();
  n.literal = std::make_shared<Literal>(std::move(value));
  return Append(std::move(n), region);
}

// The first element of this step's block: axis * block.
NodeId Rewriter::Offset(int axis, Region* region) {
  const NodeId at = AxisNode(axis, Node::Kind::kAxis, region);
  const CutAxis& cut = blocking_[axis];
  if (cut.squeeze) return at;
  const NodeId block = ScalarNode(ScalarOf(Type::kS32, cut.block), region);
  out_.nodes[block].value_expr = {Expr::Param(param_of_[axis])};
  Node scalar;
  return Hlo(Op::kMultiply, Type::kS32, scalar, {at, block}, {}, region);
}

NodeId Rewriter::Stretch(NodeId scalar, const Node& like, Region* region) {
  if (like.shape.dims.empty()) return scalar;
  return Hlo(Op::kBroadcast, out_.nodes[scalar].shape.type, like, {scalar},
             {{AttrId::kDimensions, Ints{}}}, region);
}

// An iota along a cut dimension counts from the block's first element.
NodeId Rewriter::Counted(NodeId old, Node n, Region* region) {
  const Node& was = k_.nodes[old];
  const int64_t d = std::get<int64_t>(*was.Find(AttrId::kIotaDimension));
  const int cls = classes_.of_node[old][d];
  const Type type = n.shape.type;
  const std::string name = std::move(n.name);
  n.name.clear();
  NodeId id;
  if (Squeezed(cls)) {
    id = Stretch(Offset(axis_of_[cls], region), n, region);
  } else {
    n.shape.type = Type::kS32;
    const Node like = n;
    id = Append(std::move(n), region);
    const NodeId first = Stretch(Offset(axis_of_[cls], region), like, region);
    id = Hlo(Op::kAdd, Type::kS32, like, {id, first}, {}, region);
  }
  if (type != Type::kS32) {
    const Node like = out_.nodes[id];
    id = Hlo(Op::kConvert, type, like, {id}, {}, region);
  }
  out_.nodes[id].name = name;
  out_.nodes[id].hlo = was.hlo;
  return id;
}

// Elements past the edge of cut summed dimensions become the sum's identity.
NodeId Rewriter::Masked(NodeId reducer, NodeId old_operand, NodeId value, Region* region) {
  const Node& r = k_.nodes[reducer];
  const std::vector<int>& of = classes_.of_node[old_operand];
  for (size_t d = 0; d < of.size(); ++d) {
    const CutAxis* cut = CutOf(of[d]);
    const int64_t extent = classes_.classes[of[d]].extent;
    if (cut == nullptr || !cut->reduced || extent % cut->block == 0) continue;
    const std::vector<NodeId>& reducers = classes_.classes[of[d]].reducers;
    if (std::find(reducers.begin(), reducers.end(), reducer) == reducers.end()) continue;
    Node like;
    SetDims(of, k_.nodes[old_operand].shape, &like);
    const Node& v = k_.nodes[old_operand];
    for (int c : of) {
      if (!Squeezed(c)) like.dim_exprs.push_back(BlockExpr(c));
    }
    like.op_name = v.op_name;
    like.place = v.place;
    const int64_t along = Kept(of, static_cast<int64_t>(d));
    // iota < N - k * b: one comparison an element
    const NodeId n = ScalarNode(ScalarOf(Type::kS32, extent), region);
    const NodeId first = Offset(axis_of_[of[d]], region);
    Node scalar;
    const NodeId left = Hlo(Op::kSubtract, Type::kS32, scalar, {n, first}, {}, region);
    const NodeId count =
        Hlo(Op::kIota, Type::kS32, like, {}, {{AttrId::kIotaDimension, along}}, region);
    const NodeId limit = Stretch(left, like, region);
    const NodeId inside = Hlo(Op::kCompare, Type::kPred, like, {count, limit},
                              {{AttrId::kDirection, std::string("LT")}}, region);
    const Type type = v.shape.type;
    const Literal identity = r.op == Op::kDot ? ScalarOf(type, 0.0) : IdentityOf(r.reducer, type);
    const NodeId fill = Stretch(ScalarNode(identity, region), like, region);
    value = Hlo(Op::kSelect, type, like, {inside, value, fill}, {}, region);
  }
  return value;
}

NodeId Rewriter::Emit(NodeId old, Memo* memo, Region* region) {
  const Node& was = k_.nodes[old];
  Node n = was;
  const bool reduces = totals_.count(old) > 0;
  for (NodeId& o : n.operands) {
    o = memo->at(o);
  }
  if (reduces) {
    for (size_t i = 0; i < n.operands.size(); ++i) {
      n.operands[i] = Masked(old, was.operands[i], n.operands[i], region);
    }
  }
  if (n.kind == Node::Kind::kStore) {
    const std::vector<int>& of = classes_.of_ref[n.ref];
    n.slices.clear();
    for (int c : of) {
      if (Squeezed(c)) continue;
      Slice s;
      s.size = BlockOf(c);
      n.slices.push_back(s);
    }
    return Append(std::move(n), region);
  }
  const std::vector<int>& of = classes_.of_node[old];
  SetDims(of, was.shape, &n);
  if (n.kind == Node::Kind::kLoad) {
    n.slices.clear();
    for (int64_t size : n.shape.dims) {
      Slice s;
      s.size = size;
      n.slices.push_back(s);
    }
    return Append(std::move(n), region);
  }
  if (n.op == Op::kIota && !of.empty()) {
    const int cls = of[std::get<int64_t>(*was.Find(AttrId::kIotaDimension))];
    if (CutOf(cls) != nullptr) return Counted(old, std::move(n), region);
  }
  RemapAttrs(old, &n);
  // bf16 sums gather in f32
  if (reduces && n.shape.type == Type::kBF16 && n.op == Op::kDot) n.shape.type = Type::kF32;
  return Append(std::move(n), region);
}

void Rewriter::EmitAll(const std::vector<bool>& wanted, Memo* memo, Region* region) {
  for (size_t id = 0; id < k_.nodes.size(); ++id) {
    const NodeId old = static_cast<NodeId>(id);
    if (wanted[id] && memo->count(old) == 0) (*memo)[old] = Emit(old, memo, region);
  }
}

// The roots and everything they are computed from; `past_reducers`: also from gathered sums.
std::vector<bool> Rewriter::Needed(const std::vector<NodeId>& roots, bool past_reducers) const {
  std::vector<bool> needed(k_.nodes.size());
  for (NodeId r : roots) needed[r] = true;
  for (size_t id = k_.nodes.size(); id-- > 0;) {
    if (!needed[id]) continue;
    if (!past_reducers && totals_.count(static_cast<NodeId>(id)) > 0) continue;
    for (NodeId o : k_.nodes[id].operands) needed[o] = true;
  }
  return needed;
}

// when <the first or last of the steps that gather> { body }
NodeId Rewriter::WhenNode(bool last, Region body, Region* region) {
  Node scalar;
  NodeId sum = -1, wanted = -1;
  for (size_t a = 0; a < blocking_.size(); ++a) {
    if (!blocking_[a].reduced) continue;
    const int axis = static_cast<int>(a);
    const NodeId at = AxisNode(axis, Node::Kind::kAxis, region);
    sum = sum < 0 ? at : Hlo(Op::kAdd, Type::kS32, scalar, {sum, at}, {}, region);
    if (!last) continue;
    const NodeId count = AxisNode(axis, Node::Kind::kNumAxis, region);
    const NodeId one = ScalarNode(ScalarOf(Type::kS32, int64_t{1}), region);
    const NodeId end = Hlo(Op::kSubtract, Type::kS32, scalar, {count, one}, {}, region);
    wanted = wanted < 0 ? end : Hlo(Op::kAdd, Type::kS32, scalar, {wanted, end}, {}, region);
  }
  if (!last) wanted = ScalarNode(ScalarOf(Type::kS32, int64_t{0}), region);
  Node n;
  n.kind = Node::Kind::kWhen;
  n.shape = Shape::Tuple({});
  n.operands = {Hlo(Op::kCompare, Type::kPred, scalar, {sum, wanted},
                    {{AttrId::kDirection, std::string("EQ")}}, region)};
  n.regions.push_back(std::move(body));
  return Append(std::move(n), region);
}

// Where each sum gathers, and the statements that do it.
void Rewriter::Gather(const std::vector<NodeId>& reducers, Memo* memo, Region* region) {
  struct Sum {
    NodeId node, value;
  };
  const auto access = [&](Node::Kind kind, int ref, const Node& like) {
    Node n;
    n.kind = kind;
    n.ref = ref;
    n.op_name = like.op_name;
    n.place = like.place;
    n.loc = like.loc;
    n.shape = kind == Node::Kind::kLoad ? out_.refs[ref].BlockShape() : Shape::Tuple({});
    for (int64_t size : out_.refs[ref].BlockShape().dims) {
      Slice s;
      s.size = size;
      n.slices.push_back(s);
    }
    return n;
  };
  std::vector<Sum> sums;
  for (NodeId r : reducers) {
    NodeId value = memo->at(r);
    const int ref = totals_.at(r).ref;
    const Type type = out_.refs[ref].shape.type;
    if (out_.nodes[value].shape.type != type) {
      const Node like = out_.nodes[value];
      value = Hlo(Op::kConvert, type, like, {value}, {}, region);
    }
    sums.push_back({r, value});
  }
  Region first;
  for (const Sum& s : sums) {
    const Node& was = k_.nodes[s.node];
    const int ref = totals_.at(s.node).ref;
    const Type type = out_.refs[ref].shape.type;
    Node like = out_.nodes[s.value];
    const Literal identity =
        was.op == Op::kDot ? ScalarOf(type, 0.0) : IdentityOf(was.reducer, type);
    like.dim_exprs.clear();
    for (int c : classes_.of_node[s.node]) {
      if (!Squeezed(c)) like.dim_exprs.push_back(BlockExpr(c));
    }
    const NodeId start = Stretch(ScalarNode(identity, &first), like, &first);
    Node store = access(Node::Kind::kStore, ref, was);
    store.operands = {start};
    Append(std::move(store), &first);
  }
  WhenNode(false, std::move(first), region);
  for (const Sum& s : sums) {
    const Node& was = k_.nodes[s.node];
    const int ref = totals_.at(s.node).ref;
    const NodeId before = Append(access(Node::Kind::kLoad, ref, was), region);
    const Node like = out_.nodes[s.value];
    const Op op = was.op == Op::kDot ? Op::kAdd : was.reducer;
    const NodeId after = Hlo(op, out_.refs[ref].shape.type, like, {before, s.value}, {}, region);
    Node store = access(Node::Kind::kStore, ref, was);
    store.operands = {after};
    store.hlo = was.hlo;
    Append(std::move(store), region);
  }
}

Kernel Rewriter::Run() {
  out_.name = k_.name;
  out_.ops = k_.ops;
  out_.op_names = k_.op_names;
  out_.loc = k_.loc;
  MakeGrid();
  MakeRefs();
  const std::vector<NodeId> reducers = ReducersOf(classes_, reduced_);
  const std::vector<bool> after = Users(k_, reducers);
  std::vector<NodeId> every_step = reducers, at_end;
  std::vector<std::vector<NodeId>> users(k_.nodes.size());
  for (size_t id = 0; id < k_.nodes.size(); ++id) {
    for (NodeId o : k_.nodes[id].operands) users[o].push_back(static_cast<NodeId>(id));
    if (k_.nodes[id].kind != Node::Kind::kStore) continue;
    (after[id] ? at_end : every_step).push_back(static_cast<NodeId>(id));
  }
  absl::flat_hash_set<std::string> names;
  for (const Ref& r : out_.refs) names.insert(r.name);
  for (NodeId r : reducers) {
    const Node& n = k_.nodes[r];
    Total total;
    const Node* user = users[r].size() == 1 ? &k_.nodes[users[r][0]] : nullptr;
    if (user != nullptr && user->kind == Node::Kind::kStore && n.shape.type != Type::kBF16) {
      total.ref = user->ref;
      total.direct = true;
      at_end.erase(std::find(at_end.begin(), at_end.end(), users[r][0]));
    } else {
      Ref scratch;
      scratch.name = "acc";
      for (int i = 1; !names.insert(scratch.name).second; ++i)
        scratch.name = absl::StrCat("acc", i);
      scratch.role = Ref::Role::kScratch;
      Node dims;
      SetDims(classes_.of_node[r], n.shape, &dims);
      const Type type = n.shape.type == Type::kBF16 ? Type::kF32 : n.shape.type;
      scratch.shape = WithDeviceLayout(Shape::Array(type, dims.shape.dims));
      scratch.shape.layout->memory_space = 1;
      scratch.block.assign(dims.shape.dims.begin(), dims.shape.dims.end());
      for (int c : classes_.of_node[r]) {
        if (Squeezed(c)) continue;
        scratch.block_exprs.push_back(BlockExpr(c));
        scratch.dim_exprs.push_back(BlockExpr(c));
      }
      total.ref = static_cast<int>(out_.refs.size());
      out_.refs.push_back(std::move(scratch));
    }
    totals_[r] = total;
  }
  Memo memo;
  EmitAll(Needed(every_step, true), &memo, &out_.body);
  if (!reducers.empty()) Gather(reducers, &memo, &out_.body);
  if (!at_end.empty()) {
    Region last;
    Memo inside;
    for (NodeId r : reducers) {
      if (totals_.at(r).direct) continue;
      Node load;
      load.kind = Node::Kind::kLoad;
      load.ref = totals_.at(r).ref;
      load.shape = out_.refs[load.ref].BlockShape();
      for (int64_t size : load.shape.dims) {
        Slice s;
        s.size = size;
        load.slices.push_back(s);
      }
      NodeId id = Append(std::move(load), &last);
      const Type type = k_.nodes[r].shape.type;
      if (out_.nodes[id].shape.type != type) {
        const Node like = out_.nodes[id];
        id = Hlo(Op::kConvert, type, like, {id}, {}, &last);
      }
      inside[r] = id;
    }
    EmitAll(Needed(at_end, false), &inside, &last);
    WhenNode(true, std::move(last), &out_.body);
  }
  return std::move(out_);
}

}  // namespace

bool MayGather(const Kernel& kernel, const DimClasses& classes, const std::vector<int>& reduced) {
  const std::vector<NodeId> reducers = ReducersOf(classes, reduced);
  for (NodeId r : reducers) {
    if (!Gathers(kernel.nodes[r])) return false;
    for (int c : reduced) {
      const auto& of = classes.classes[c].reducers;
      if (std::find(of.begin(), of.end(), r) == of.end()) return false;
    }
    // A value that keeps a dimension of the class it is summed over (softmax of a softmax).
    for (int c : classes.of_node[r]) {
      if (Contains(reduced, c)) return false;
    }
  }
  const std::vector<bool> after = Users(kernel, reducers);
  for (NodeId r : reducers) {
    if (after[r]) return false;
  }
  for (size_t id = 0; id < kernel.nodes.size(); ++id) {
    if (!after[id] || kernel.nodes[id].kind == Node::Kind::kStore) continue;
    for (int c : classes.of_node[id]) {
      if (Contains(reduced, c)) return false;
    }
  }
  return true;
}

Kernel ApplyBlocking(const Kernel& kernel, const DimClasses& classes, const Blocking& blocking) {
  return Rewriter(kernel, classes, blocking).Run();
}

}  // namespace tpuc::kernel
