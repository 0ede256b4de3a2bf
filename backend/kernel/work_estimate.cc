// See work_estimate.h. Counts follow the lowering: four vector ALU slots, one EUP, a cross-lane
// operation every four cycles on each unit, a matmul of eight rows every four cycles on each MXU.
#include "backend/kernel/work_estimate.h"

#include <algorithm>
#include <cmath>

#include "src/ir/op_table.h"

namespace tpuc::kernel {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::pair<double, double> CountOf(Op op) {  // VALU, EUP operations a register
  switch (op) {
    case Op::kExponential:
    case Op::kLog:
    case Op::kDivide:
      return {1, 1};
    case Op::kRsqrt:
    case Op::kTanh:
      return {0, 1};
    case Op::kSqrt:
      return {6, 1};
    case Op::kLogistic:
      return {3, 2};
    case Op::kCopy:
    case Op::kReshape:
    case Op::kBitcast:
    case Op::kBitcastConvert:
      return {0, 0};
    default:
      return {static_cast<double>(std::clamp(InfoOf(op).flops, 1, 30)), 0};
  }
}

bool Contains(const Ints& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

}  // namespace

double WorkEstimate::Registers(const std::vector<int>& of, const std::vector<int64_t>& block) {
  double n = 1;
  const size_t rank = of.size();
  if (rank == 1) return static_cast<double>(CeilDiv(block[of[0]], 1024));
  for (size_t d = 0; d < rank; ++d) {
    const int64_t unit = d + 1 == rank ? 128 : d + 2 == rank ? 8 : 1;
    n *= static_cast<double>(CeilDiv(block[of[d]], unit));
  }
  return n;
}

double WorkEstimate::Product(const std::vector<int>& of, const std::vector<int64_t>& block) {
  double n = 1;
  for (int c : of) n *= static_cast<double>(block[c]);
  return n;
}

WorkEstimate::WorkEstimate(const Kernel& k, const Chip& chip) : chip_(chip) {
  const DimClasses classes = FindDimClasses(k);
  for (size_t id = 0; id < k.nodes.size(); ++id) {
    const Node& n = k.nodes[id];
    const std::vector<int>& of = classes.of_node[id];
    if (n.kind != Node::Kind::kHlo || n.shape.rank() == 0) {
      if (n.kind == Node::Kind::kHlo && n.op == Op::kReduce) {
        items_.push_back({classes.of_node[n.operands[0]], 1, 0, 0, true});
      }
      continue;
    }
    switch (n.op) {
      case Op::kConstant:
      case Op::kBroadcast:
      case Op::kIota:
        continue;
      case Op::kReduce: {
        const std::vector<int>& from = classes.of_node[n.operands[0]];
        const bool lanes =
            Contains(n.IntsAttr(AttrId::kDimensions), static_cast<int64_t>(from.size()) - 1);
        items_.push_back({from, 1, 0, 0, lanes});
        sums_.push_back({of, lanes});
        continue;
      }
      case Op::kTranspose:
        items_.push_back({of, 1, 0, 1, false});
        continue;
      case Op::kDot:
        break;
      default: {
        const auto [valu, eup] = CountOf(n.op);
        items_.push_back({of, valu, eup, 0, false});
        continue;
      }
    }
    Dot dot;
    dot.result = of;
    const NodeId l = n.operands[0], r = n.operands[1];
    dot.lhs = classes.of_node[l];
    dot.rhs = classes.of_node[r];
    dot.keeps_lhs = k.nodes[l].kind != Node::Kind::kLoad;
    const Node& right = k.nodes[r];
    const bool widened = right.op == Op::kConvert && right.kind == Node::Kind::kHlo &&
                         k.nodes[right.operands[0]].kind == Node::Kind::kLoad;
    dot.keeps_rhs = right.kind != Node::Kind::kLoad && !widened;
    const Ints& lb = n.IntsAttr(AttrId::kLhsBatchDims);
    const Ints& lc = n.IntsAttr(AttrId::kLhsContractingDims);
    const Ints& rb = n.IntsAttr(AttrId::kRhsBatchDims);
    const Ints& rc = n.IntsAttr(AttrId::kRhsContractingDims);
    for (size_t d = 0; d < dot.lhs.size(); ++d) {
      const int64_t at = static_cast<int64_t>(d);
      (Contains(lb, at) ? dot.batch : Contains(lc, at) ? dot.k : dot.m).push_back(dot.lhs[d]);
    }
    for (size_t d = 0; d < dot.rhs.size(); ++d) {
      const int64_t at = static_cast<int64_t>(d);
      if (!Contains(rb, at) && !Contains(rc, at)) dot.n.push_back(dot.rhs[d]);
    }
    dot.transposed = Contains(rc, static_cast<int64_t>(dot.rhs.size()) - 1);
    dots_.push_back(std::move(dot));
  }
}

double WorkEstimate::Cycles(const std::vector<int64_t>& block) const {
  double valu = 0, eup = 0, xlu = 0, mxu = 0, latency = 30;
  for (const Item& i : items_) {
    const double registers = Registers(i.of, block);
    valu += registers * (i.valu + i.eup);  // an EUP start takes a VALU slot
    eup += registers * i.eup;
    xlu += registers * i.xlu * 8;
    if (i.xlu > 0) latency = std::max<double>(latency, chip_.latency(LatencyKey::kXpose));
    if (i.lanes_summed && !i.of.empty()) {
      const double lanes = static_cast<double>(CeilDiv(block[i.of.back()], 128));
      xlu += registers / lanes;
      latency = std::max<double>(latency, chip_.latency(LatencyKey::kXlane));
    }
  }
  const int mxus = std::max(1, chip_.mxus);
  for (const Dot& d : dots_) {
    const double m = Product(d.m, block), n = Product(d.n, block), k = Product(d.k, block);
    const double rows = std::max(1.0, m / 8);
    // A pass takes as long with half of the array; two row groups share one of two tiles a side
    // where K and N allow.
    const double side = std::max(1, chip_.mxu_size);
    const double sets = std::ceil(n / side) * std::ceil(k / side);
    const double small = n <= 128 && k <= 128 ? 1.0 / chip_.mxu_tiles() : 1;
    const double matmul = rows * sets * small * chip_.interval(IntervalKey::kMatmulF32);
    const int64_t push =
        chip_.interval(d.transposed ? IntervalKey::kPushF32Xpose : IntervalKey::kPushF32);
    const double weights = sets * (side / 8) * small * static_cast<double>(push);
    mxu += Product(d.batch, block) * (matmul + weights) / mxus;  // they overlap in part
    // Sums over several passes are loaded, added and stored.
    valu += Registers(d.result, block) * std::max(0.0, k / side - 1);
    latency += chip_.latency(LatencyKey::kMatmul) + 64 * std::max(1.0, k / side);
  }
  valu /= std::max(1, chip_.valu);
  xlu = xlu * chip_.interval(IntervalKey::kXlu) / std::max(1, chip_.xlus);
  // The other units' work hides behind the busiest one's, but not all of it.
  const double most = std::max({valu, eup, xlu, mxu});
  return most + 0.2 * (valu + eup + xlu + mxu - most) + latency;
}

int64_t WorkEstimate::TemporaryBytes(const std::vector<int64_t>& block) const {
  double bytes = 0;
  for (const Dot& d : dots_) {
    bytes += Registers(d.result, block) * 4096;
    if (d.keeps_lhs) bytes += Registers(d.lhs, block) * 4096;
    if (d.keeps_rhs) bytes += Registers(d.rhs, block) * 4096;
  }
  for (const auto& [of, lanes] : sums_) {
    // Sums over lanes lie one row of registers each, alike in all lanes, before they are packed.
    const double rows = lanes ? Product(of, block) / 8 : Registers(of, block);
    bytes += (std::max(1.0, rows) + Registers(of, block)) * 4096;
  }
  return static_cast<int64_t>(std::min(bytes, 9e18)) + (256 << 10);
}

int64_t WorkEstimate::GatherBytes(const std::vector<int64_t>& block) const {
  double bytes = 0;
  for (const Dot& d : dots_) bytes += Registers(d.result, block) * 4096;
  for (const auto& sum : sums_) bytes += Registers(sum.first, block) * 4096;
  return static_cast<int64_t>(std::min(bytes, 9e18));
}

}  // namespace tpuc::kernel
