// Row blocking by demands (row_block.h). Each value is asked for either whole or as a block of rows
// along one of its dimensions; a demand on a result says what is asked of the operands. A value
// asked for in two ways refuses the dimension.
#include "backend/kernel/row_block.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tpuc::kernel {
namespace {

constexpr int kUnknown = -2, kWhole = -1;

class Demands {
 public:
  explicit Demands(const Kernel& kernel)
      : kernel_(&kernel),
        of_node_(kernel.nodes.size(), kUnknown),
        of_ref_(kernel.refs.size(), kUnknown) {}

  // Asks for an output cut along dimension d, and for everything that follows from it.
  bool Cut(const Node& store, int d) {
    if (!SetRef(store.ref, d)) return false;
    work_.clear();
    if (!Ask(store.operands[0], d)) return false;
    while (!work_.empty()) {
      const NodeId id = work_.back();
      work_.pop_back();
      if (!Propagate(kernel_->nodes[id], of_node_[id])) return false;
    }
    return true;
  }
  int of_ref(int ref) const { return of_ref_[ref]; }
  int of_node(NodeId id) const { return of_node_[id]; }

 private:
  bool SetRef(int ref, int d) {
    if (of_ref_[ref] != kUnknown && of_ref_[ref] != d) return false;
    of_ref_[ref] = d;
    return true;
  }
  bool Ask(NodeId id, int d) {
    if (of_node_[id] == d) return true;
    if (of_node_[id] != kUnknown) return false;
    of_node_[id] = d;
    work_.push_back(id);
    return true;
  }
  bool AskAll(const Node& n, int d) {
    return std::all_of(n.operands.begin(), n.operands.end(), [&](NodeId o) { return Ask(o, d); });
  }
  bool Propagate(const Node& n, int d);
  bool PropagateMove(const Node& n, int d);
  bool PropagateDot(const Node& n, int d);

  const Kernel* kernel_;
  std::vector<int> of_node_, of_ref_;
  std::vector<NodeId> work_;
};

int64_t IntOf(const Node& n, AttrId id) {
  const AttrValue* v = n.Find(id);
  const int64_t* i = v == nullptr ? nullptr : std::get_if<int64_t>(v);
  return i == nullptr ? 0 : *i;
}

bool Contains(const Ints& ints, int64_t value) {
  return std::find(ints.begin(), ints.end(), value) != ints.end();
}

// Result dimensions: batch, then the free ones of the left side, then of the right.
bool Demands::PropagateDot(const Node& n, int d) {
  const Ints& lhs_batch = n.IntsAttr(AttrId::kLhsBatchDims);
  const Ints& rhs_batch = n.IntsAttr(AttrId::kRhsBatchDims);
  const int batch = static_cast<int>(lhs_batch.size());
  if (d < batch) {
    return Ask(n.operands[0], static_cast<int>(lhs_batch[d])) &&
           Ask(n.operands[1], static_cast<int>(rhs_batch[d]));
  }
  int position = batch;
  const Ints& contracting = n.IntsAttr(AttrId::kLhsContractingDims);
  for (int e = 0; e < kernel_->nodes[n.operands[0]].shape.rank(); ++e) {
    if (Contains(lhs_batch, e) || Contains(contracting, e)) continue;
    if (position++ == d) return Ask(n.operands[0], e) && Ask(n.operands[1], kWhole);
  }
  return false;  // a dimension of the right side: weights are not cut
}

bool Demands::PropagateMove(const Node& n, int d) {
  const Shape& from = kernel_->nodes[n.operands[0]].shape;
  switch (n.op) {
    case Op::kBroadcast: {
      const Ints& dims = n.IntsAttr(AttrId::kDimensions);
      for (size_t e = 0; e < dims.size(); ++e) {
        if (dims[e] == d) return Ask(n.operands[0], static_cast<int>(e));
      }
      return Ask(n.operands[0], kWhole);
    }
    case Op::kTranspose:
      return Ask(n.operands[0], static_cast<int>(n.IntsAttr(AttrId::kDimensions)[d]));
    case Op::kReshape: {
      // Dimension e of the operand runs with d if as many elements stand before both, and sizes
      // agree.
      int64_t before = 1;
      for (int e = 0; e < d; ++e) before *= n.shape.dims[e];
      int64_t seen = 1;
      for (int e = 0; e < from.rank(); seen *= from.dims[e], ++e) {
        if (seen == before && from.dims[e] == n.shape.dims[d]) return Ask(n.operands[0], e);
      }
      return false;
    }
    case Op::kReverse:
      return !Contains(n.IntsAttr(AttrId::kDimensions), d) && Ask(n.operands[0], d);
    case Op::kConcatenate:
      return !Contains(n.IntsAttr(AttrId::kDimensions), d) && AskAll(n, d);
    case Op::kSlice:
      return from.dims[d] == n.shape.dims[d] && Ask(n.operands[0], d);
    case Op::kPad: {
      const auto* pads = std::get_if<std::vector<PadDim>>(n.Find(AttrId::kPadding));
      const PadDim& p = (*pads)[d];
      return p.low == 0 && p.high == 0 && p.interior == 0 && Ask(n.operands[0], d) &&
             Ask(n.operands[1], kWhole);
    }
    default:
      return false;
  }
}

bool Demands::Propagate(const Node& n, int d) {
  if (n.kind == Node::Kind::kLoad) return SetRef(n.ref, d);
  if (n.kind != Node::Kind::kHlo) return false;
  if (d == kWhole) return AskAll(n, kWhole);
  switch (n.op) {
    case Op::kDot:
      return PropagateDot(n, d);
    case Op::kReduce: {
      const Ints& dims = n.IntsAttr(AttrId::kDimensions);
      int kept = 0;
      for (int e = 0; e < kernel_->nodes[n.operands[0]].shape.rank(); ++e) {
        if (!Contains(dims, e) && kept++ == d) return Ask(n.operands[0], e);
      }
      return false;
    }
    case Op::kIota:  // its values would depend on the grid index
      return IntOf(n, AttrId::kIotaDimension) != d;
    case Op::kBroadcast:
    case Op::kTranspose:
    case Op::kReshape:
    case Op::kReverse:
    case Op::kConcatenate:
    case Op::kSlice:
    case Op::kPad:
      return PropagateMove(n, d);
    case Op::kConstant:
    case Op::kGather:
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
    case Op::kRng:
      return false;
    default:  // elementwise: every operand has the result's dimensions
      return std::all_of(n.operands.begin(), n.operands.end(), [&](NodeId o) {
        return kernel_->nodes[o].shape.dims == n.shape.dims && Ask(o, d);
      });
  }
}

// Cuts output `k` and the following ones along dimensions of `rows` elements; the demands, or
// nothing.
std::optional<Demands> CutAll(const Kernel& kernel, const std::vector<NodeId>& stores, int first) {
  const Node& store = kernel.nodes[stores[0]];
  Demands demands(kernel);
  if (!demands.Cut(store, first)) return std::nullopt;
  const int64_t rows = kernel.refs[store.ref].block[first];
  for (size_t s = 1; s < stores.size(); ++s) {
    const Node& other = kernel.nodes[stores[s]];
    const std::vector<int64_t>& block = kernel.refs[other.ref].block;
    std::optional<Demands> next;
    for (size_t d = 0; d < block.size() && !next; ++d) {
      if (block[d] != rows) continue;
      Demands trial = demands;
      if (trial.Cut(other, static_cast<int>(d))) next = std::move(trial);
    }
    if (!next) return std::nullopt;
    demands = *std::move(next);
  }
  return demands;
}

std::vector<Expr> ConstExprs(absl::Span<const int64_t> dims) {
  std::vector<Expr> exprs;
  for (int64_t d : dims) exprs.push_back(Expr::Const(d));
  return exprs;
}

void Apply(const Demands& demands, int64_t rows, Kernel* kernel) {
  kernel->params.push_back({"b0", rows});
  GridAxis axis;
  axis.name = "i";
  axis.size.kind = Expr::Kind::kCdiv;
  axis.size.args = {Expr::Const(rows), Expr::Param(0)};
  axis.extent = 1;
  kernel->grid.push_back(std::move(axis));
  for (size_t r = 0; r < kernel->refs.size(); ++r) {
    Ref& ref = kernel->refs[r];
    const int d = demands.of_ref(static_cast<int>(r));
    if (d < 0) continue;
    ref.block_exprs = ConstExprs(ref.block);
    ref.block_exprs[d] = Expr::Param(0);
    ref.index[d] = Expr::Axis(0);
  }
  for (size_t id = 0; id < kernel->nodes.size(); ++id) {
    Node& n = kernel->nodes[id];
    const int d = demands.of_node(static_cast<NodeId>(id));
    const bool states_dims = n.kind == Node::Kind::kHlo &&
                             (n.op == Op::kBroadcast || n.op == Op::kReshape || n.op == Op::kIota);
    if (d < 0 || !states_dims) continue;
    n.dim_exprs = ConstExprs(n.shape.dims);
    n.dim_exprs[d] = Expr::Param(0);
  }
}

}  // namespace

bool AddRowBlock(Kernel* kernel) {
  std::vector<NodeId> stores;
  for (NodeId id : kernel->body.nodes) {
    if (kernel->nodes[id].kind == Node::Kind::kStore) stores.push_back(id);
  }
  if (stores.empty() || !kernel->grid.empty() || !kernel->params.empty()) return false;
  const Ref& first = kernel->refs[kernel->nodes[stores[0]].ref];
  for (size_t d = 0; d < first.block.size(); ++d) {
    const int64_t rows = first.block[d];
    if (rows < 2) continue;
    std::optional<Demands> demands = CutAll(*kernel, stores, static_cast<int>(d));
    if (!demands) continue;
    Apply(*demands, rows, kernel);
    return true;
  }
  return false;
}

}  // namespace tpuc::kernel
