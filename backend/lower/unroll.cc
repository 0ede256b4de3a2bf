// See unroll.h. Copies are made from the innermost loop outwards, so that each body is copied with
// its inner loops unrolled already.
#include "backend/lower/unroll.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "backend/kernel/scalar.h"

namespace tpuc::lower {
namespace {

using kernel::Node;
using kernel::NodeId;
using kernel::Region;

class Unroller {
 public:
  explicit Unroller(kernel::Kernel* k) : k_(*k) {}

  void Walk(Region* region) {
    std::vector<NodeId> old = std::move(region->nodes);
    region->nodes.clear();
    for (NodeId id : old) {
      for (size_t r = 0; r < k_.nodes[id].regions.size(); ++r) {
        Region inner = std::move(k_.nodes[id].regions[r]);
        Walk(&inner);
        k_.nodes[id].regions[r] = std::move(inner);
      }
      const Node& n = k_.nodes[id];
      const bool known = n.operands.empty();
      const bool once = known && n.upper - n.lower == 1;
      if (n.kind != Node::Kind::kFor || (n.unroll == 1 && !once) ||
          (known && n.upper <= n.lower)) {
        region->nodes.push_back(id);
      } else if (known) {
        Unroll(id, region);
      } else {
        UnrollAtRunTime(id, region);
      }
    }
  }

 private:
  using Map = absl::flat_hash_map<NodeId, NodeId>;
  // The counter of a copy: `base` (a node of the loop that stays; -1: none) * scale + constant.
  struct Counter {
    bool stays = false;
    int64_t scale = 1, constant = 0;
    NodeId first = -1;  // a value added to it
  };

  NodeId Add(Node n, Region* out) {
    const NodeId id = static_cast<NodeId>(k_.nodes.size());
    k_.nodes.push_back(std::move(n));
    out->nodes.push_back(id);
    return id;
  }
  NodeId Scalar(Op op, std::vector<NodeId> operands, Region* out) {
    Node n;
    n.op = op;
    n.shape = Shape::Array(Type::kS32, {});
    n.operands = std::move(operands);
    return Add(std::move(n), out);
  }
  NodeId Constant(int64_t value, Region* out) {
    Node n;
    n.op = Op::kConstant;
    n.shape = Shape::Array(Type::kS32, {});
    n.literal = std::make_shared<Literal>(kernel::ScalarOf(Type::kS32, value));
    return Add(std::move(n), out);
  }
  NodeId CounterNode(const Counter& c, int outward, Region* out) {
    if (!c.stays) return Constant(c.constant, out);
    Node index;
    index.kind = Node::Kind::kLoopIndex;
    index.shape = Shape::Array(Type::kS32, {});
    index.axis = outward;
    NodeId id = Add(std::move(index), out);
    id = Scalar(Op::kMultiply, {id, Constant(c.scale, out)}, out);
    id = Scalar(Op::kAdd, {id, Constant(c.constant, out)}, out);
    return c.first < 0 ? id : Scalar(Op::kAdd, {id, c.first}, out);
  }

  // A copy of the region's nodes; loop counters `outward` loops out are the unrolled one's.
  void Copy(const Region& from, const Counter& counter, int outward, Map* map, Region* out) {
    for (NodeId id : from.nodes) {
      if (k_.nodes[id].kind == Node::Kind::kLoopIndex && k_.nodes[id].axis == outward) {
        (*map)[id] = CounterNode(counter, outward, out);
        continue;
      }
      Node n = k_.nodes[id];
      if (n.kind == Node::Kind::kLoopIndex && n.axis > outward && !counter.stays) --n.axis;
      auto mapped = [&](NodeId* o) {
        auto it = map->find(*o);
        if (it != map->end()) *o = it->second;
      };
      for (kernel::Slice& s : n.slices) mapped(&s.start_node);
      for (kernel::RefView& v : n.views) {
        for (kernel::Slice& s : v.slices) mapped(&s.start_node);
      }
      const std::vector<Region> regions = std::move(n.regions);
      n.regions.clear();
      const int inner = outward + (n.kind == Node::Kind::kFor ? 1 : 0);
      for (const Region& r : regions) {
        n.regions.emplace_back();
        Copy(r, counter, inner, map, &n.regions.back());
      }
      for (NodeId& o : n.operands) mapped(&o);
      (*map)[id] = Add(std::move(n), out);
    }
  }

  void Unroll(NodeId id, Region* out) {
    const Node loop = k_.nodes[id];
    const int64_t trips = loop.upper - loop.lower;
    const int64_t copies = loop.unroll == 0 ? trips : std::min(loop.unroll, trips);
    int64_t next = loop.lower;
    if (trips / copies > 1) {
      Node fewer = loop;
      fewer.unroll = 1;
      fewer.lower = 0;
      fewer.upper = trips / copies;
      fewer.regions = {Region()};
      for (int64_t c = 0; c < copies; ++c) {
        Map map;
        Copy(loop.regions[0], {true, copies, loop.lower + c}, 0, &map, &fewer.regions[0]);
      }
      next += trips / copies * copies;
      Add(std::move(fewer), out);
    }
    for (; next < loop.upper; ++next) {
      Map map;
      Copy(loop.regions[0], {false, 1, next}, 0, &map, out);
    }
  }

  // Bounds that are values: a loop of so many copies a trip, and one over the trips left.
  void UnrollAtRunTime(NodeId id, Region* out) {
    const Node loop = k_.nodes[id];
    const NodeId lower = loop.operands[0], upper = loop.operands[1];
    const NodeId zero = Constant(0, out), copies = Constant(loop.unroll, out);
    NodeId trips = Scalar(Op::kSubtract, {upper, lower}, out);
    trips = Scalar(Op::kMaximum, {trips, zero}, out);
    const NodeId rounds = Scalar(Op::kDivide, {trips, copies}, out);
    Node many = loop;
    many.unroll = 1;
    many.operands = {zero, rounds};
    many.regions = {Region()};
    for (int64_t c = 0; c < loop.unroll; ++c) {
      Map map;
      Copy(loop.regions[0], {true, loop.unroll, c, lower}, 0, &map, &many.regions[0]);
    }
    Add(std::move(many), out);
    Node rest = loop;
    rest.unroll = 1;
    const NodeId done = Scalar(Op::kMultiply, {rounds, copies}, out);
    rest.operands = {Scalar(Op::kAdd, {lower, done}, out), upper};
    Add(std::move(rest), out);
  }

  kernel::Kernel& k_;
};

}  // namespace

void UnrollLoops(kernel::Kernel* kernel) {
  for (Region* region : {&kernel->setup, &kernel->body}) {
    Region body = std::move(*region);
    Unroller(kernel).Walk(&body);
    *region = std::move(body);
  }
}

}  // namespace tpuc::lower
