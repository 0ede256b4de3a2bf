// See permute.h.
#include "backend/kernel/permute.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/scalar.h"

namespace tpuc::kernel {
namespace {

constexpr int64_t kLargest = 40000;  // of which i * c fits 31 bits; larger axes run backwards

uint64_t SplitMix(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct Order {
  int64_t factor = 1, offset = 0, extent = 1;
};

Order MakeOrder(int64_t extent, uint64_t seed) {
  Order o;
  o.extent = extent;
  if (extent > kLargest) return o;
  uint64_t state = seed;
  do {
    o.factor = 1 + static_cast<int64_t>(SplitMix(&state) % static_cast<uint64_t>(extent));
    o.offset = static_cast<int64_t>(SplitMix(&state) % static_cast<uint64_t>(extent));
  } while (std::gcd(o.factor, extent) != 1 || (o.factor % extent == 1 && o.offset == 0));
  return o;
}

class Permuter {
 public:
  Permuter(Kernel* k, uint64_t seed, int only) : k_(*k), orders_(k->grid.size()) {
    for (int a : PermutableAxes(k_)) {
      if (only < 0 || a == only) orders_[a] = MakeOrder(k_.grid[a].extent, seed * 1000003 + a);
    }
  }

  void Run() {
    for (Ref& ref : k_.refs) {
      for (Expr& e : ref.index) e = Mapped(e);
    }
    for (Pipeline& p : k_.pipelines) {
      for (GridAxis& a : p.grid) a.size = Mapped(a.size);
    }
    Walk(&k_.body);  // setup has no grid point
  }

 private:
  Expr Mapped(const Expr& e) const {
    if (e.kind == Expr::Kind::kAxis && e.value < static_cast<int64_t>(orders_.size()) &&
        orders_[e.value].extent > 1) {
      const Order& o = orders_[e.value];
      if (o.extent > kLargest) {
        return MakeExpr(Expr::Kind::kSub, {Expr::Const(o.extent - 1), e});
      }
      Expr sum = MakeExpr(Expr::Kind::kAdd, {MakeExpr(Expr::Kind::kMul, {e, Expr::Const(o.factor)}),
                                             Expr::Const(o.offset)});
      return MakeExpr(Expr::Kind::kMod, {std::move(sum), Expr::Const(o.extent)});
    }
    Expr mapped = e;
    for (Expr& a : mapped.args) a = Mapped(a);
    return mapped;
  }

  NodeId Add(Node n, Region* out) {
    n.shape = Shape::Array(Type::kS32, {});
    k_.nodes.push_back(std::move(n));
    out->nodes.push_back(static_cast<NodeId>(k_.nodes.size()) - 1);
    return out->nodes.back();
  }
  NodeId Constant(int64_t value, Region* out) {
    Node n;
    n.op = Op::kConstant;
    n.literal = std::make_shared<Literal>(ScalarOf(Type::kS32, value));
    return Add(std::move(n), out);
  }
  NodeId Binary(Op op, NodeId a, NodeId b, Region* out) {
    Node n;
    n.op = op;
    n.operands = {a, b};
    return Add(std::move(n), out);
  }

  void Walk(Region* region) {
    const std::vector<NodeId> old = std::move(region->nodes);
    region->nodes.clear();
    for (NodeId id : old) {
      for (size_t r = 0; r < k_.nodes[id].regions.size(); ++r) {
        Region inner = std::move(k_.nodes[id].regions[r]);
        Walk(&inner);
        k_.nodes[id].regions[r] = std::move(inner);
      }
      const int axis = k_.nodes[id].axis;
      const bool mapped = k_.nodes[id].kind == Node::Kind::kAxis && axis >= 0 &&
                          k_.nodes[id].pipeline < 0 && axis < static_cast<int>(orders_.size()) &&
                          orders_[axis].extent > 1;
      if (mapped) {  // the node itself becomes the last operation
        const Order o = orders_[axis];
        Node index;
        index.kind = Node::Kind::kAxis;
        index.axis = axis;
        const NodeId i = Add(std::move(index), region);
        NodeId a = i, b = -1;
        Op op = Op::kRemainder;
        if (o.extent > kLargest) {
          a = Constant(o.extent - 1, region);
          b = i;
          op = Op::kSubtract;
        } else {
          a = Binary(Op::kMultiply, i, Constant(o.factor, region), region);
          a = Binary(Op::kAdd, a, Constant(o.offset, region), region);
          b = Constant(o.extent, region);
        }
        Node& n = k_.nodes[id];
        n.kind = Node::Kind::kHlo;
        n.op = op;
        n.axis = -1;
        n.operands = {a, b};
      }
      region->nodes.push_back(id);
    }
  }

  Kernel& k_;
  std::vector<Order> orders_;
};

}  // namespace

std::vector<int> PermutableAxes(const Kernel& kernel) {
  std::vector<int> axes;
  for (size_t a = 0; a < kernel.grid.size(); ++a) {
    const GridAxis& axis = kernel.grid[a];
    if (axis.parallel && axis.extent > 1 && axis.most.empty()) axes.push_back(static_cast<int>(a));
  }
  return axes;
}

void PermuteParallel(Kernel* kernel, uint64_t seed, int only) {
  Permuter(kernel, seed, only).Run();
}

std::string PointOfElement(const Kernel& kernel, int r, const std::vector<int64_t>& element) {
  const Ref& ref = kernel.refs[r];
  if (ref.space != Ref::Space::kWindow || ref.index.size() != element.size()) return "";
  constexpr int64_t kMostPoints = 1 << 20;
  const int64_t steps = std::min(kernel.GridSteps(), kMostPoints);
  std::vector<int64_t> point(kernel.grid.size(), 0);
  for (int64_t s = 0; s < steps; ++s) {
    int64_t rest = s;
    for (size_t a = point.size(); a-- > 0;) {
      point[a] = rest % kernel.grid[a].extent;
      rest /= kernel.grid[a].extent;
    }
    bool inside = true;
    for (size_t d = 0; d < element.size() && inside; ++d) {
      const auto i = EvaluateExpr(ref.index[d], {kernel.params, point, kernel.grid});
      const int64_t start = i ? *i * (ref.element_index ? 1 : ref.block[d]) : -1;
      inside = i && element[d] >= start && element[d] < start + ref.block[d];
    }
    if (!inside) continue;
    std::string text;
    for (size_t a = 0; a < point.size(); ++a) {
      absl::StrAppend(&text, a > 0 ? ", " : "", kernel.grid[a].name, "=", point[a]);
    }
    return text;
  }
  return "";
}

}  // namespace tpuc::kernel
