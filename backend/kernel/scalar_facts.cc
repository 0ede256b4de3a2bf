// Ranges and divisors of scalar nodes (scalar_facts.h), by intervals over the operations that index
// arithmetic is made of; anything else is unknown.
#include "backend/kernel/scalar_facts.h"

#include <algorithm>
#include <numeric>

#include "src/ir/native.h"

namespace tpuc::kernel {
namespace {

constexpr int kMaxDepth = 64;
// Values are s32: within this no 64-bit sum or product of two overflows.
constexpr int64_t kLimit = int64_t{1} << 31;

ScalarFacts Known(int64_t least, int64_t most, int64_t divisor) {
  ScalarFacts f;
  f.bounded = least >= -kLimit && most < kLimit && least <= most;
  f.least = least;
  f.most = most;
  f.divisor = divisor;
  return f;
}

ScalarFacts Combine(Op op, const ScalarFacts& a, const ScalarFacts& b) {
  const bool both = a.bounded && b.bounded;
  ScalarFacts f;
  switch (op) {
    case Op::kAdd:
      if (both) f = Known(a.least + b.least, a.most + b.most, 1);
      f.divisor = std::gcd(a.divisor, b.divisor);
      return f;
    case Op::kSubtract:
      if (both) f = Known(a.least - b.most, a.most - b.least, 1);
      f.divisor = std::gcd(a.divisor, b.divisor);
      return f;
    case Op::kMultiply: {
      if (both) {
        const auto [lo, hi] =
            std::minmax({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
        f = Known(lo, hi, 1);
      }
      // A product that may wrap around is known modulo powers of two only; such starts are refused
      // for their range anyway.
      f.divisor = a.divisor < kLimit && b.divisor < kLimit ? a.divisor * b.divisor : 1;
      return f;
    }
    case Op::kDivide:
      if (both && b.least == b.most && b.least > 0 && a.least >= 0) {
        f = Known(a.least / b.least, a.most / b.least, 1);
        if (a.divisor % b.least == 0) f.divisor = a.divisor / b.least;
      }
      return f;
    case Op::kRemainder:
      if (both && b.least == b.most && b.least > 0 && a.least >= 0) {
        f = Known(0, std::min(a.most, b.least - 1), std::gcd(a.divisor, b.least));
      }
      return f;
    case Op::kMinimum:
      if (both) f = Known(std::min(a.least, b.least), std::min(a.most, b.most), 1);
      f.divisor = std::gcd(a.divisor, b.divisor);
      return f;
    case Op::kMaximum:
      if (both) f = Known(std::max(a.least, b.least), std::max(a.most, b.most), 1);
      f.divisor = std::gcd(a.divisor, b.divisor);
      return f;
    default:
      return f;
  }
}

// Of any element of a table.
ScalarFacts FactsOfElements(const Literal& table) {
  const Type type = table.shape().type;
  if (table.elided() || table.size() == 0) return {};
  int64_t least = INT64_MAX, most = INT64_MIN, divisor = 0;
  for (int64_t i = 0; i < table.size(); ++i) {
    const int64_t v = ElementAsInt(type, table.bytes(), i);
    least = std::min(least, v);
    most = std::max(most, v);
    divisor = std::gcd(divisor, v);
  }
  return Known(least, most, divisor);
}

bool Holds(const Kernel& k, const Region& region, NodeId id) {
  if (std::find(region.nodes.begin(), region.nodes.end(), id) != region.nodes.end()) return true;
  return std::any_of(region.nodes.begin(), region.nodes.end(), [&](NodeId o) {
    const std::vector<Region>& inner = k.nodes[o].regions;
    return std::any_of(inner.begin(), inner.end(),
                       [&](const Region& r) { return Holds(k, r, id); });
  });
}

// Which of the loops around a use is the innermost around the node itself; -1: none.
int InnermostLoopOf(const Kernel& k, NodeId id, const std::vector<NodeId>& loops) {
  for (int at = static_cast<int>(loops.size()) - 1; at >= 0; --at) {
    const std::vector<Region>& body = k.nodes[loops[at]].regions;
    if (std::any_of(body.begin(), body.end(), [&](const Region& r) { return Holds(k, r, id); })) {
      return at;
    }
  }
  return -1;
}

ScalarFacts Facts(const Kernel& k, NodeId id, const std::vector<NodeId>& loops, int depth) {
  const Node& n = k.nodes[id];
  if (depth > kMaxDepth || !n.shape.IsScalar()) return {};
  switch (n.kind) {
    case Node::Kind::kAxis:
      return Known(0, k.AxisOf(n).extent - 1, k.AxisOf(n).extent == 1 ? 0 : 1);
    case Node::Kind::kNumAxis: {
      const GridAxis& axis = k.AxisOf(n);
      if (!axis.most.empty()) return Known(0, axis.extent, 1);
      return Known(axis.extent, axis.extent, axis.extent);
    }
    case Node::Kind::kLoopIndex: {
      const int at = InnermostLoopOf(k, id, loops) - n.axis;
      if (at < 0 || at >= static_cast<int>(loops.size())) return {};
      const Node& loop = k.nodes[loops[at]];
      if (loop.operands.size() != 2) return Known(loop.lower, loop.upper - 1, 1);
      // Bounds may be values of loops around it.
      const std::vector<NodeId> around(loops.begin(), loops.begin() + at);
      const ScalarFacts lower = Facts(k, loop.operands[0], around, depth + 1);
      const ScalarFacts upper = Facts(k, loop.operands[1], around, depth + 1);
      if (!lower.bounded || !upper.bounded) return {};
      return Known(lower.least, upper.most - 1, 1);
    }
    case Node::Kind::kLoad: {
      const Ref& ref = k.refs[n.ref];
      if (!ref.InSmem() || ref.constant == nullptr || !IsInteger(ref.shape.type)) return {};
      return FactsOfElements(*ref.constant);
    }
    case Node::Kind::kHlo:
      break;
    default:
      return {};
  }
  if (n.op == Op::kConstant && n.literal != nullptr && !n.literal->elided() &&
      IsInteger(n.shape.type)) {
    const int64_t v = ElementAsInt(n.shape.type, n.literal->bytes(), 0);
    return Known(v, v, v == INT64_MIN ? 1 : std::abs(v));
  }
  if (n.operands.size() != 2) return {};
  return Combine(n.op, Facts(k, n.operands[0], loops, depth + 1),
                 Facts(k, n.operands[1], loops, depth + 1));
}

}  // namespace

ScalarFacts FactsOf(const Kernel& kernel, NodeId node, const std::vector<NodeId>& loops) {
  return Facts(kernel, node, loops, 0);
}

}  // namespace tpuc::kernel
