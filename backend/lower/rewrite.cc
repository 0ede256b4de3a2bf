// See rewrite.h.
#include "backend/lower/rewrite.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace tpuc::lower {

namespace {

using kernel::Node;
using kernel::NodeId;

constexpr int64_t kFewRows = 32;

// Inserts nodes before one node of a region.
class Rewriter {
 public:
  explicit Rewriter(kernel::Kernel* k) : k_(*k) {}

  void Walk(kernel::Region* region) {
    std::vector<NodeId> old = std::move(region->nodes);
    region->nodes.clear();
    for (NodeId id : old) {
      out_ = region;
      like_ = id;
      if (k_.nodes[id].kind == Node::Kind::kHlo) {
        if (k_.nodes[id].op == Op::kDot) Dot(id);
        if (k_.nodes[id].op == Op::kReduce) Extreme(id);
      }
      region->nodes.push_back(id);
      // Regions of a node may not grow the node vector while it is referred to.
      for (size_t r = 0; r < k_.nodes[id].regions.size(); ++r) {
        kernel::Region inner = k_.nodes[id].regions[r];
        Walk(&inner);
        k_.nodes[id].regions[r] = std::move(inner);
      }
    }
  }

 private:
  NodeId Add(Op op, Type type, Dims dims, std::vector<NodeId> operands,
             std::vector<Attr> attrs = {}) {
    Node n;
    const Node& like = k_.nodes[like_];
    n.hlo = like.hlo;
    n.op_name = like.op_name;
    n.place = like.place;
    n.loc = like.loc;
    n.op = op;
    n.shape = Shape::Array(type, std::move(dims));
    n.operands = std::move(operands);
    n.attrs = std::move(attrs);
    k_.nodes.push_back(std::move(n));
    NodeId id = static_cast<NodeId>(k_.nodes.size()) - 1;
    out_->nodes.push_back(id);
    return id;
  }

  // Copies first: the node vector may move while arguments refer into it.
  NodeId Same(Op op, std::vector<NodeId> operands) {
    Shape s = k_.nodes[operands[0]].shape;
    return Add(op, s.type, s.dims, std::move(operands));
  }

  NodeId Convert(NodeId x, Type to) {
    Dims d = k_.nodes[x].shape.dims;
    return Add(Op::kConvert, to, d, {x});
  }

  NodeId Constant(float v) {
    NodeId id = Add(Op::kConstant, Type::kF32, {}, {});
    auto l = std::make_shared<Literal>(k_.nodes[id].shape);
    l->data<float>()[0] = v;
    k_.nodes[id].literal = std::move(l);
    return id;
  }

  NodeId Reduce(Op reducer, NodeId x, const Ints& over, Dims dims) {
    float inf = std::numeric_limits<float>::infinity();
    NodeId init = Constant(reducer == Op::kAdd ? 0 : reducer == Op::kMaximum ? -inf : inf);
    NodeId id =
        Add(Op::kReduce, Type::kF32, std::move(dims), {x, init}, {{AttrId::kDimensions, over}});
    k_.nodes[id].reducer = reducer;
    return id;
  }

  // The node becomes `op` of these operands.
  void Become(NodeId id, Op op, std::vector<NodeId> operands, std::vector<Attr> attrs = {}) {
    Node& n = k_.nodes[id];
    n.op = op;
    n.operands = std::move(operands);
    n.attrs = std::move(attrs);
  }

  static std::vector<Attr> Without(const std::vector<Attr>& attrs, AttrId id) {
    std::vector<Attr> r;
    for (const Attr& a : attrs) {
      if (a.id != id) r.push_back(a);
    }
    return r;
  }

  int Passes(const Node& n) const {
    int passes = 1;
    const AttrValue* a = n.Find(AttrId::kOperandPrecision);
    const auto* words = a == nullptr ? nullptr : std::get_if<std::vector<std::string>>(a);
    if (words == nullptr) return passes;
    for (const std::string& w : *words) {
      if (w == "high") passes = std::max(passes, 3);
      if (w == "highest") passes = std::max(passes, 6);
    }
    return passes;
  }

  void Dot(NodeId id) {
    NarrowFloats(id);
    if (k_.nodes[id].op != Op::kDot || SplitContraction(id)) return;
    Integers(id);
    if (MergeFree(id)) return;
    SwapOperands(id);
    Precision(id);
  }

  // Several free dimensions on both sides: those of the left operand become one.
  bool MergeFree(NodeId id) {
    const Node& n = k_.nodes[id];
    if (n.op != Op::kDot) return false;
    Ints lb = n.IntsAttr(AttrId::kLhsBatchDims), lc = n.IntsAttr(AttrId::kLhsContractingDims);
    const Dims from = k_.nodes[n.operands[0]].shape.dims;
    int64_t batch = static_cast<int64_t>(lb.size());
    int64_t rf = k_.nodes[n.operands[1]].shape.rank() - batch - static_cast<int64_t>(lc.size());
    Ints perm = lb;
    Dims d, merged;
    for (int64_t b : lb) d.push_back(from[b]);
    merged = d;
    int64_t rows = 1, lf = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i) {
      bool other = std::find(lb.begin(), lb.end(), i) != lb.end() ||
                   std::find(lc.begin(), lc.end(), i) != lc.end();
      if (other) continue;
      perm.push_back(i);
      d.push_back(from[i]);
      rows *= from[i];
      ++lf;
    }
    if (rf < 2 || lf < 2 || lc.size() != 1) return false;
    perm.push_back(lc[0]);
    d.push_back(from[lc[0]]);
    merged.push_back(rows);
    merged.push_back(from[lc[0]]);
    Type type = k_.nodes[n.operands[0]].shape.type, to = n.shape.type;
    NodeId b = n.operands[1];
    std::vector<Attr> attrs = Without(n.attrs, AttrId::kLhsBatchDims);
    attrs = Without(attrs, AttrId::kLhsContractingDims);
    Ints in_order;
    for (int64_t i = 0; i < batch; ++i) in_order.push_back(i);
    attrs.push_back({AttrId::kLhsBatchDims, in_order});
    attrs.push_back({AttrId::kLhsContractingDims, Ints{batch + 1}});
    Dims result(n.shape.dims.begin(), n.shape.dims.begin() + batch);
    result.push_back(rows);
    result.insert(result.end(), n.shape.dims.begin() + batch + lf, n.shape.dims.end());
    NodeId t = Add(Op::kTranspose, type, d, {n.operands[0]}, {{AttrId::kDimensions, perm}});
    NodeId r = Add(Op::kReshape, type, merged, {t});
    NodeId dot = Add(Op::kDot, to, result, {r, b}, attrs);
    SwapOperands(dot);
    Precision(dot);
    Become(id, Op::kReshape, {dot});
    return true;
  }

  void Precision(NodeId id) {
    int passes = Passes(k_.nodes[id]);
    std::vector<Attr> attrs = Without(k_.nodes[id].attrs, AttrId::kOperandPrecision);
    if (k_.nodes[id].op != Op::kDot) return;
    k_.nodes[id].attrs = attrs;
    NodeId a = k_.nodes[id].operands[0], b = k_.nodes[id].operands[1];
    bool f32 = k_.nodes[a].shape.type == Type::kF32 && k_.nodes[b].shape.type == Type::kF32;
    if (passes == 1 || !f32 || k_.nodes[id].shape.type != Type::kF32) return;
    auto parts = [&](NodeId x, int count) {
      std::vector<NodeId> p = {x};
      NodeId rest = x;
      for (int i = 1; i < count; ++i) {
        NodeId high = Convert(Convert(rest, Type::kBF16), Type::kF32);
        p[i - 1] = high;
        rest = Same(Op::kSubtract, {rest, high});
        p.push_back(rest);
      }
      return p;
    };
    int count = passes == 6 ? 3 : 2;
    std::vector<NodeId> pa = parts(a, count), pb = parts(b, count);
    Dims d = k_.nodes[id].shape.dims;
    NodeId sum = -1;
    for (int order = count - 1; order >= 0; --order) {
      for (int i = 0; i <= order; ++i) {
        NodeId product = Add(Op::kDot, Type::kF32, d, {pa[i], pb[order - i]}, attrs);
        if (order == 0) {
          Become(id, Op::kAdd, {sum, product});
        } else {
          sum = sum < 0 ? product : Same(Op::kAdd, {sum, product});
        }
      }
    }
  }

  // Narrow floats are exact in bf16 (f8), or in the sum of two (f16).
  void NarrowFloats(NodeId id) {
    std::vector<NodeId> operands = k_.nodes[id].operands;
    Type to = k_.nodes[id].shape.type;
    bool half = false, changed = to != Type::kF32 && to != Type::kBF16;
    for (NodeId& x : operands) {
      Type t = k_.nodes[x].shape.type;
      if (t == Type::kF32 || t == Type::kBF16) continue;
      if (!IsFloat(t) || BitsOf(t) > 16) return;
      half |= t == Type::kF16;
      x = Convert(x, Type::kF32);
      changed = true;
    }
    if (!changed || !IsFloat(to) || BitsOf(to) > 32) return;
    std::vector<Attr> attrs = Without(k_.nodes[id].attrs, AttrId::kOperandPrecision);
    if (half) {
      const int passes = Passes(k_.nodes[id]);
      for (size_t i = 0; i < operands.size(); ++i) {
        NodeId& x = operands[i];
        // In one pass the other operand is bf16, as with any other partner.
        const bool wide = k_.nodes[k_.nodes[id].operands[i]].shape.type == Type::kF32;
        if (wide && passes == 1) x = Convert(x, Type::kBF16);
        if (k_.nodes[x].shape.type == Type::kBF16) x = Convert(x, Type::kF32);
      }
      const std::string words = passes > 3 ? "highest" : "high";
      attrs.push_back({AttrId::kOperandPrecision, std::vector<std::string>{words, words}});
    }
    if (to == Type::kF32) return Become(id, Op::kDot, operands, attrs);
    NodeId dot = Add(Op::kDot, Type::kF32, k_.nodes[id].shape.dims, operands, attrs);
    Dot(dot);
    Become(id, Op::kConvert, {dot});
  }

  // Integers of 8 and 4 bits are exact in bf16, sums of so many products in f32: parts of the
  // contracted dimension are summed as integers.
  void Integers(NodeId id) {
    NodeId a = k_.nodes[id].operands[0], b = k_.nodes[id].operands[1];
    Type ta = k_.nodes[a].shape.type, tb = k_.nodes[b].shape.type, to = k_.nodes[id].shape.type;
    auto small = [](Type t) { return IsInteger(t) && BitsOf(t) <= 8; };
    const Ints& lc = k_.nodes[id].IntsAttr(AttrId::kLhsContractingDims);
    if (!small(ta) || !small(tb) || !IsInteger(to) || lc.size() != 1) return;
    int64_t at_a = lc[0], at_b = k_.nodes[id].IntsAttr(AttrId::kRhsContractingDims)[0];
    int64_t k = k_.nodes[a].shape.dims[at_a];
    int64_t step = ta == Type::kU8 && tb == Type::kU8 ? 256 : ta == tb ? 1024 : 512;
    std::vector<Attr> attrs = k_.nodes[id].attrs;
    Dims d = k_.nodes[id].shape.dims;
    NodeId fa = Convert(a, Type::kF32), fb = Convert(b, Type::kF32), sum = -1;
    for (int64_t from = 0; from < k; from += step) {
      int64_t upto = std::min(k, from + step);
      NodeId dot = Add(Op::kDot, Type::kF32, d,
                       {Part(fa, at_a, from, upto), Part(fb, at_b, from, upto)}, attrs);
      SwapOperands(dot);
      bool last = upto == k;
      if (last && sum < 0) return Become(id, Op::kConvert, {dot});
      NodeId part = Convert(dot, to);
      if (last) return Become(id, Op::kAdd, {sum, part});
      sum = sum < 0 ? part : Same(Op::kAdd, {sum, part});
    }
  }

  NodeId Part(NodeId x, int64_t dim, int64_t from, int64_t to) {
    Dims d = k_.nodes[x].shape.dims;
    if (from == 0 && to == d[dim]) return x;
    std::vector<SliceDim> slices;
    for (int64_t i = 0; i < static_cast<int64_t>(d.size()); ++i) {
      SliceDim s;
      s.start = i == dim ? from : 0;
      s.limit = i == dim ? to : d[i];
      s.stride = 1;
      slices.push_back(s);
    }
    d[dim] = to - from;
    return Add(Op::kSlice, k_.nodes[x].shape.type, d, {x}, {{AttrId::kSlice, slices}});
  }

  bool SplitContraction(NodeId id) {
    const Node& n = k_.nodes[id];
    Ints lc = n.IntsAttr(AttrId::kLhsContractingDims), rc = n.IntsAttr(AttrId::kRhsContractingDims);
    if (lc.size() < 2 || n.shape.type != Type::kF32) return false;
    Ints lb = n.IntsAttr(AttrId::kLhsBatchDims), rb = n.IntsAttr(AttrId::kRhsBatchDims);
    std::vector<Attr> attrs = n.attrs;
    for (AttrId a : {AttrId::kLhsContractingDims, AttrId::kRhsContractingDims,
                     AttrId::kLhsBatchDims, AttrId::kRhsBatchDims}) {
      attrs = Without(attrs, a);
    }
    NodeId a = n.operands[0], b = n.operands[1];
    int64_t at = static_cast<int64_t>(lb.size());
    lb.push_back(lc[0]);
    rb.push_back(rc[0]);
    Dims d = n.shape.dims, result = n.shape.dims;
    d.insert(d.begin() + at, k_.nodes[a].shape.dims[lc[0]]);
    lc.erase(lc.begin());
    rc.erase(rc.begin());
    attrs.push_back({AttrId::kLhsBatchDims, lb});
    attrs.push_back({AttrId::kRhsBatchDims, rb});
    attrs.push_back({AttrId::kLhsContractingDims, lc});
    attrs.push_back({AttrId::kRhsContractingDims, rc});
    NodeId dot = Add(Op::kDot, Type::kF32, d, {a, b}, attrs);
    Dot(dot);
    NodeId init = Constant(0);
    Become(id, Op::kReduce, {dot, init}, {{AttrId::kDimensions, Ints{at}}});
    k_.nodes[id].reducer = Op::kAdd;
    return true;
  }

  // [B, M, K] . [B, K, N1, N2] -> transpose of [B, N1, N2, K] . [B, K, M].
  void SwapOperands(NodeId id) {
    const Node& n = k_.nodes[id];
    if (n.op != Op::kDot) return;
    Ints lb = n.IntsAttr(AttrId::kLhsBatchDims), rb = n.IntsAttr(AttrId::kRhsBatchDims);
    Ints lc = n.IntsAttr(AttrId::kLhsContractingDims), rc = n.IntsAttr(AttrId::kRhsContractingDims);
    int64_t batch = static_cast<int64_t>(lb.size());
    int64_t lf = k_.nodes[n.operands[0]].shape.rank() - batch - static_cast<int64_t>(lc.size());
    int64_t rf = k_.nodes[n.operands[1]].shape.rank() - batch - static_cast<int64_t>(rc.size());
    if (rf < 2 || lf > 1) return;
    std::vector<Attr> attrs;
    for (const Attr& a : n.attrs) {
      if (a.id == AttrId::kOperandPrecision) attrs.push_back(a);
    }
    attrs.push_back({AttrId::kLhsBatchDims, rb});
    attrs.push_back({AttrId::kRhsBatchDims, lb});
    attrs.push_back({AttrId::kLhsContractingDims, rc});
    attrs.push_back({AttrId::kRhsContractingDims, lc});
    Type type = n.shape.type;
    std::vector<NodeId> operands = {n.operands[1], n.operands[0]};
    const Dims r = n.shape.dims;
    Dims d(r.begin(), r.begin() + batch);
    d.insert(d.end(), r.begin() + batch + lf, r.end());
    d.insert(d.end(), r.begin() + batch, r.begin() + batch + lf);
    NodeId dot = Add(Op::kDot, type, d, operands, attrs);
    Precision(dot);
    Ints perm;
    for (int64_t i = 0; i < batch; ++i) perm.push_back(i);
    for (int64_t i = 0; i < lf; ++i) perm.push_back(batch + rf + i);
    for (int64_t i = 0; i < rf; ++i) perm.push_back(batch + i);
    Become(id, Op::kTranspose, {dot}, {{AttrId::kDimensions, perm}});
  }

  // max_j (x_ij / r_i) and min_j, r a row's value.
  void Extreme(NodeId id) {
    const Node& n = k_.nodes[id];
    if ((n.reducer != Op::kMaximum && n.reducer != Op::kMinimum) || n.shape.type != Type::kF32 ||
        n.shape.rank() != 1 || n.operands.size() > 2 || n.shape.dims[0] > kFewRows) {
      return;
    }
    const Node& scaled = k_.nodes[n.operands[0]];
    if (scaled.kind != Node::Kind::kHlo || scaled.shape.rank() != 2 ||
        scaled.operands.size() != 2 || (scaled.op != Op::kDivide && scaled.op != Op::kMultiply) ||
        n.IntsAttr(AttrId::kDimensions) != Ints{1}) {
      return;
    }
    NodeId x = scaled.operands[0];
    const Node& factor = k_.nodes[scaled.operands[1]];
    if (factor.kind != Node::Kind::kHlo || factor.op != Op::kBroadcast ||
        factor.IntsAttr(AttrId::kDimensions) != Ints{0}) {
      return;
    }
    NodeId r = factor.operands[0];
    if (k_.nodes[r].kind != Node::Kind::kLoad) return;  // already in rows, or soon
    if (n.operands.size() == 2) {  // a start other than the identity stays outside
      const Node& init = k_.nodes[n.operands[1]];
      float start = n.reducer == Op::kMaximum ? -INFINITY : INFINITY;
      if (init.kind != Node::Kind::kHlo || init.op != Op::kConstant ||
          init.literal->data<float>()[0] != start) {
        return;
      }
    }
    bool divide = scaled.op == Op::kDivide;
    Op reducer = n.reducer;
    Dims d = n.shape.dims;
    Ints over = {1};
    NodeId absolute = Same(Op::kAbs, {x});
    NodeId high = Reduce(Op::kMaximum, x, over, d), low = Reduce(Op::kMinimum, x, over, d);
    NodeId least = Reduce(Op::kMinimum, absolute, over, d);
    Op op = divide ? Op::kDivide : Op::kMultiply;
    NodeId a = Same(op, {high, r}), b = Same(op, {low, r});
    NodeId c = Same(Op::kAbs, {Same(op, {least, r})});
    if (reducer == Op::kMaximum) c = Same(Op::kNegate, {c});
    NodeId ends = Same(reducer, {a, b});
    Become(id, reducer, {ends, c});
  }

  kernel::Kernel& k_;
  kernel::Region* out_ = nullptr;
  NodeId like_ = -1;
};

}  // namespace

void RewriteBody(kernel::Kernel* kernel) {
  for (kernel::Region* region : {&kernel->setup, &kernel->body}) {
    kernel::Region body = std::move(*region);
    Rewriter(kernel).Walk(&body);
    *region = std::move(body);
  }
}

}  // namespace tpuc::lower
