// The plan of large regions: which values need a place in memory, in which layouts, before a loop
// nest can use them (Expand), and which items may run in one nest, row by row.
//
//   o[:] = transpose(x) + y   ->  items: copy of x in {0, 1}; store o
//
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "backend/lower/nests.h"
#include "src/ir/op_table.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kInlineLanes = 16;  // lane tiles of a reduction done within a row
constexpr int kDear = 4;              // cost from which a value with two users is kept

bool Moved(const Node& n) {
  return n.op == Op::kReverse || n.op == Op::kPad || n.op == Op::kConcatenate;
}

}  // namespace

// The operands that evaluating `id` in `layout` asks for.
std::vector<Request> Lowering::Requests(NodeId id, VLayout layout) {
  const Node& n = node(id);
  std::vector<Request> r;
  if (n.kind != Node::Kind::kHlo) return r;
  auto through = [&](const std::vector<int>& operand_dim) {
    VLayout want;
    if (layout.sub >= 0) want.sub = static_cast<int8_t>(operand_dim[layout.sub]);
    if (layout.lane >= 0) want.lane = static_cast<int8_t>(operand_dim[layout.lane]);
    return want;
  };
  switch (n.op) {
    case Op::kConstant:
    case Op::kIota:
      return r;
    case Op::kBroadcast: {
      const Ints& map = n.IntsAttr(AttrId::kDimensions);
      std::vector<int> operand_dim(n.shape.dims.size(), -1);
      for (size_t o = 0; o < dims(n.operands[0]).size() && o < map.size(); ++o) {
        if (dims(n.operands[0])[o] == n.shape.dims[map[o]])
          operand_dim[map[o]] = static_cast<int>(o);
      }
      r.push_back({n.operands[0], through(operand_dim)});
      return r;
    }
    case Op::kReshape:
    case Op::kBitcast: {
      std::vector<int> operand_dim;
      if (DegenerateReshape(n, &operand_dim)) {
        VLayout want = through(operand_dim);
        if (!info[n.operands[0]].flexible) {
          VLayout have = info[n.operands[0]].natural;
          auto kept = [&](int o) {
            return std::find(operand_dim.begin(), operand_dim.end(), o) != operand_dim.end();
          };
          if (want.sub < 0 && have.sub >= 0 && !kept(have.sub)) want.sub = have.sub;
          if (want.lane < 0 && have.lane >= 0 && !kept(have.lane)) want.lane = have.lane;
        }
        r.push_back({n.operands[0], want});
      } else {
        r.push_back({n.operands[0], RowsLayout(n.operands[0])});
      }
      return r;
    }
    case Op::kTranspose: {
      const Ints& perm = n.IntsAttr(AttrId::kDimensions);
      r.push_back({n.operands[0], through(std::vector<int>(perm.begin(), perm.end()))});
      return r;
    }
    case Op::kReduce:
      r.push_back({n.operands[0], OperandLayout(n.operands[0])});
      if (n.operands.size() > 1) r.push_back({n.operands[1], {-1, -1}});
      return r;
    case Op::kDot: {
      DotPlan p;
      if (!PlanDot(id, &p)) return r;
      r.push_back({p.lhs, p.lhs_layout});
      r.push_back({p.rhs, p.rhs_layout});
      return r;
    }
    default:
      for (NodeId o : n.operands) {
        bool splat = dims(o).empty() && !n.shape.dims.empty();
        r.push_back({o, splat ? VLayout{-1, -1} : layout});
      }
      return r;
  }
}

// Whether the node must be in memory before its users run.
bool Lowering::NeedsMemory(NodeId id) const {
  const Node& n = node(id);
  if (n.kind != Node::Kind::kHlo || info[id].scalar || info[id].flexible) return false;
  if (n.op == Op::kDot || n.op == Op::kReduce) return true;
  std::vector<int> operand_dim;
  if (n.op == Op::kReshape || n.op == Op::kBitcast) return !DegenerateReshape(n, &operand_dim);
  if (n.op == Op::kSlice) return StridedInTile(id);
  return Moved(n);
}

bool Lowering::StridedInTile(NodeId id) const {
  const Node& n = node(id);
  const auto& slices = std::get<std::vector<SliceDim>>(*n.Find(AttrId::kSlice));
  VLayout l = info[id].natural;
  for (int d = 0; d < static_cast<int>(slices.size()); ++d) {
    if (slices[d].stride != 1 && (d == l.sub || d == l.lane)) return true;
  }
  return false;
}

// Appends to `items` what `want` of the node needs in memory first, then, if it needs a place
// itself, the node.
void Lowering::Expand(NodeId id, VLayout want, std::vector<NestItem>* items) {
  if (failed_ || info[id].scalar) return;
  NodeInfo& i = info[id];
  const Node& n = node(id);
  bool serves = i.flexible || Serves(i.natural, want, n.shape.dims);
  VLayout layout = serves && i.flexible ? want : i.natural;
  auto planned = [&](NestItem::Kind kind, VLayout l) {
    for (const NestItem& x : *items) {
      if (x.kind == kind && x.node == id && (kind == NestItem::Kind::kValue || x.layout == l)) {
        return true;
      }
    }
    return kind == NestItem::Kind::kValue ? i.ready : stored.count({id, l.sub, l.lane}) > 0;
  };
  if (!planned(NestItem::Kind::kValue, layout) &&
      expanded_.insert({id, layout.sub, layout.lane}).second) {
    for (const Request& r : Requests(id, layout)) Expand(r.node, r.layout, items);
  }
  // What moves through memory reads its operand there; a product of several passes reads rows
  // often.
  bool again = n.kind == Node::Kind::kHlo && n.op == Op::kDot &&
               !DotDrives({NestItem::Kind::kValue, id, layout}) && !(flows_[id] && FlowsOverK(id));
  bool rows =
      n.kind == Node::Kind::kHlo && NeedsMemory(id) && n.op != Op::kDot && n.op != Op::kReduce;
  if ((again || rows) && !n.operands.empty()) {
    NodeId x = n.operands[0];
    bool reshape = n.op == Op::kReshape || n.op == Op::kBitcast;
    bool direct = (again && node(x).kind == Node::Kind::kLoad) ||
                  (rows && (WholeLoad(x) || (reshape && RowsLayout(x) != OperandLayout(x))));
    if (!direct && !info[x].ready && !info[x].flexible && !info[x].scalar) {
      bool have = false;
      for (const NestItem& i2 : *items) have |= i2.kind == NestItem::Kind::kValue && i2.node == x;
      if (!have && n.op != Op::kConcatenate && n.op != Op::kPad) {
        items->push_back({NestItem::Kind::kValue, x, info[x].natural});
      }
    }
  }
  Hop hop;
  bool direct = false;  // reads its step's operand from the load's own memory
  if (!serves) {
    hop = LastHop(id, want);
    bool from_memory = hop.kind == Hop::Kind::kMemory || hop.kind == Hop::Kind::kLanesToRows ||
                       hop.kind == Hop::Kind::kLaneToAll;
    direct = n.kind == Node::Kind::kLoad && (!from_memory || ReadableAs(id, want));
  }
  if (((!serves && !direct) || NeedsMemory(id) || keep_[id]) && !i.flexible &&
      !planned(NestItem::Kind::kValue, layout)) {
    items->push_back({NestItem::Kind::kValue, id, i.natural});
  }
  if (serves || hop.kind == Hop::Kind::kReplicate) return;
  if (hop.kind == Hop::Kind::kAs) {
    Expand(id, hop.from, items);
    return;
  }
  if (planned(NestItem::Kind::kCopy, want)) return;
  // Loop bodies can take single rows from lanes; all else becomes a copy.
  if (hop.kind == Hop::Kind::kLanesToRows && i.natural.lane == want.sub) return;
  if (hop.kind == Hop::Kind::kLaneToAll) {
    if (i.natural.lane != hop.from.lane) Expand(id, hop.from, items);
    return;
  }
  if (hop.kind == Hop::Kind::kMemory && n.kind == Node::Kind::kLoad && direct &&
      refs[n.ref].view.form.flat) {
    return;
  }
  if (hop.from != i.natural) {
    Expand(id, hop.from, items);
    bool stays = hop.kind == Hop::Kind::kMemory || hop.kind == Hop::Kind::kLanesToRows;
    if (stays && !planned(NestItem::Kind::kCopy, hop.from)) {
      items->push_back({NestItem::Kind::kCopy, id, hop.from});
    }
    if (hop.kind == Hop::Kind::kLanesToRows) return;
  }
  items->push_back({NestItem::Kind::kCopy, id, want});
}

// The product or reduction that needs no place in memory if `id`, which is as large, has one: all
// else that needs it is on the way from it to `id`. -1: none.
NodeId Lowering::KeptInstead(NodeId id) {
  NodeId x = id;
  for (bool more = true; more;) {
    more = false;
    NodeId next = -1;
    for (NodeId o : node(x).operands) {
      if (node(o).kind != Node::Kind::kHlo || info[o].ready || info[o].scalar) continue;
      const bool from_memory = AnyBelow(o, [&](NodeId y) { return NeedsMemory(y); });
      if (!from_memory) continue;
      if (next >= 0 || info[o].uses > 1) return -1;
      next = o;
    }
    if (next < 0) return -1;
    if (NeedsMemory(next)) {
      DotFlow flow;
      const bool streams =
          node(next).op == Op::kDot ? PlanFlow(next, &flow) && !flow.over_k : LaneReduce(next);
      const bool as_large =
          TileCount(dims(id), info[id].natural) <= TileCount(dims(next), info[next].natural);
      return streams && as_large ? next : -1;
    }
    const Node& n = node(next);
    const bool plain = InfoOf(n.op).op_class == OpClass::kElementwise || n.op == Op::kBroadcast;
    if (!plain) return -1;
    x = next;
    more = true;
  }
  return -1;
}

// Values with several users in different nests that are dearer to compute than to load.
void Lowering::ChooseKept(const kernel::Region& region) {
  keep_.assign(k.nodes.size(), 0);
  companion_.assign(k.nodes.size(), -1);
  flows_.assign(k.nodes.size(), 0);
  cost_.assign(k.nodes.size(), 0);
  std::vector<std::vector<int>> reach(k.nodes.size());
  std::vector<int>& cost = cost_;
  for (NodeId id : region.nodes) {
    const Node& n = node(id);
    if (n.kind != Node::Kind::kHlo || info[id].ready) continue;
    int c = 1;
    switch (n.op) {
      case Op::kConstant:
      case Op::kIota:
      case Op::kBroadcast:
      case Op::kReshape:
      case Op::kTranspose:
        c = 0;
        break;
      case Op::kExponential:
      case Op::kDivide:
      case Op::kSqrt:
      case Op::kTanh:
      case Op::kLog:
      case Op::kLogistic:
      case Op::kRsqrt:
        c = 3;
        break;
      case Op::kPower: {
        const Node& base = node(n.operands[0]);
        const Node& value = base.op == Op::kBroadcast ? node(base.operands[0]) : base;
        c = value.kind == Node::Kind::kHlo && value.op == Op::kConstant ? 3 : 12;  // of two: exp2
        break;
      }
      case Op::kSine:
      case Op::kCosine:
        c = 12;
        break;
      default:
        break;
    }
    if (NeedsMemory(id)) {
      cost[id] = 0;
      continue;
    }
    for (NodeId o : n.operands) c += cost[o];
    cost[id] = std::min(c, 1000);
  }
  for (auto it = region.nodes.rbegin(); it != region.nodes.rend(); ++it) {
    NodeId id = *it;
    const Node& n = node(id);
    bool root = n.kind == Node::Kind::kStore || NeedsMemory(id);
    std::vector<int> users = reach[id];
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    std::vector<int> mine = root ? std::vector<int>{id} : users;
    DotFlow flow;
    if (n.kind == Node::Kind::kHlo && n.op == Op::kDot && PlanFlow(id, &flow) && !flow.over_k) {
      // Rows of the result are reduced as they come, pass by pass.
      for (NodeId r : users) flows_[id] |= LaneReduce(r);
    }
    if (!root && mine.size() > 1 && !info[id].flexible && !info[id].scalar &&
        n.kind == Node::Kind::kHlo) {
      const NodeId dot = cost[id] >= kDear ? FlowsInto(id, mine) : -1;
      if (dot >= 0) {
        flows_[dot] = 1;
        for (NodeId r : mine) {
          if (r != dot) companion_[r] = dot;
        }
      } else if (const NodeId instead = KeptInstead(id); instead >= 0 || cost[id] >= kDear) {
        keep_[id] = 1;
        mine = {id};
        if (instead >= 0) flows_[instead] = node(instead).op == Op::kDot;
      }
    }
    for (NodeId o : n.operands) reach[o].insert(reach[o].end(), mine.begin(), mine.end());
  }
}

// ---- what may run together ----

// Whether evaluating `id` in `layout` at a row reaches memory-bound node `target` only at that row.
bool Lowering::SameRow(NodeId id, VLayout layout, const std::vector<char>& members) {
  std::set<std::tuple<NodeId, int, int>> seen;
  return SameRowFrom(id, layout, members, &seen);
}

bool Lowering::SameRowFrom(NodeId id, VLayout layout, const std::vector<char>& members,
                           std::set<std::tuple<NodeId, int, int>>* seen) {
  if (info[id].scalar || info[id].ready) return true;
  if (!seen->insert({id, layout.sub, layout.lane}).second) return true;
  const Node& n = node(id);
  bool serves = info[id].flexible || Serves(info[id].natural, layout, n.shape.dims);
  if (!serves) return !ReachesMember(id, members);
  if (!info[id].flexible) layout = info[id].natural;
  bool moves = n.op == Op::kSlice || n.op == Op::kTranspose || Moved(n) || n.op == Op::kDot;
  if (n.kind == Node::Kind::kHlo && n.op == Op::kReduce) {
    for (int64_t d : n.IntsAttr(AttrId::kDimensions)) {
      VLayout from = OperandLayout(n.operands[0]);
      if (d != from.lane && TileExtent(dims(n.operands[0]), from, static_cast<int>(d)) > 1)
        moves = true;
      if (d == from.sub) moves = true;
    }
  }
  if (n.op == Op::kBroadcast && n.kind == Node::Kind::kHlo) {
    // New leading or sublane dimensions repeat rows.
    const Ints& map = n.IntsAttr(AttrId::kDimensions);
    for (int d = 0; d < n.shape.rank(); ++d) {
      if (d == layout.lane || n.shape.dims[d] == 1) continue;
      if (std::find(map.begin(), map.end(), d) == map.end() &&
          ReachesMember(n.operands[0], members)) {
        return false;
      }
    }
  }
  for (const Request& r : Requests(id, layout)) {
    if (moves ? ReachesMember(r.node, members) : !SameRowFrom(r.node, r.layout, members, seen)) {
      return false;
    }
  }
  return true;
}

bool Lowering::ReachesMember(NodeId id, const std::vector<char>& members) {
  return AnyBelow(id, [&](NodeId x) { return members[x] != 0; });
}

// Whether the order of two items matters for memory.
bool Lowering::Conflicts(const NestItem& a, const NestItem& b) {
  auto storage_of = [&](const NestItem& x) {
    return x.kind == NestItem::Kind::kStore ? refs[node(x.node).ref].storage : -1;
  };
  int sa = storage_of(a), sb = storage_of(b);
  if (a.kind == NestItem::Kind::kControl || b.kind == NestItem::Kind::kControl) return true;
  if (sa >= 0 && sa == sb) return true;
  if (sa >= 0 && DependsOnLoadOf(ValueOf(b), sa)) return true;
  return sb >= 0 && DependsOnLoadOf(ValueOf(a), sb);
}

bool Lowering::RowWise(const NestItem& item) {
  if (item.kind == NestItem::Kind::kCopy || item.kind == NestItem::Kind::kControl) return false;
  NodeId v = ValueOf(item);
  if (item.layout.dense()) return false;
  if (item.layout.lane >= 0 && TileExtent(dims(v), item.layout, item.layout.lane) > kInlineLanes) {
    return false;
  }
  if (item.kind == NestItem::Kind::kValue) {
    const Node& n = node(v);
    if (n.op == Op::kDot || Moved(n)) return false;
    if (n.op == Op::kReduce && !InlineReduce(v)) return false;
    if (NeedsMemory(v) && n.op != Op::kReduce) return false;
  }
  return true;
}

// A reduction over lanes alone, of few registers a row.
bool Lowering::InlineReduce(NodeId id) {
  const Node& n = node(id);
  VLayout from = OperandLayout(n.operands[0]);
  int64_t tiles = 1;
  for (int64_t d : n.IntsAttr(AttrId::kDimensions)) {
    if (d == from.sub && dims(n.operands[0])[d] > 1) return false;
    tiles *= TileExtent(dims(n.operands[0]), from, static_cast<int>(d));
  }
  return tiles <= kInlineLanes && !from.dense();
}

// Loads before the store whose value someone outside the nest still needs: moved by ForceLoads when
// its turn comes.
bool Lowering::HasLaterLoad(const kernel::Region& region, NodeId store,
                            const std::vector<NestItem>& items) {
  int storage = refs[node(store).ref].storage;
  for (NodeId o : region.nodes) {
    if (o == store) return false;
    if (node(o).kind != Node::Kind::kLoad || refs[node(o).ref].storage != storage ||
        info[o].uses <= 1) {
      continue;
    }
    for (const NestItem& x : items) {
      if (x.kind == NestItem::Kind::kControl) {
        if (!x.done) return true;
        continue;
      }
      if (x.done || x.node == store) continue;
      if (AnyBelow(ValueOf(x), [&](NodeId y) { return y == o; })) return true;
    }
  }
  return false;
}

// Whether items[item] needs nothing that the ones still to do from `from` on make or must do first.
bool Lowering::MayPrecede(const std::vector<NestItem>& items, size_t from, size_t item) {
  for (size_t m = from; m < item; ++m) {
    if (items[m].done) continue;
    if (Conflicts(items[m], items[item])) return false;
    if (items[m].kind == NestItem::Kind::kStore) continue;
    const NodeId made = items[m].node;
    if (AnyBelow(items[item].node, [&](NodeId x) { return x == made; })) return false;
  }
  return true;
}

// Whether all that uses the value is computed in this nest. What other values of the nest make of
// it is read from their places.
bool Lowering::UsersWithin(NodeId value, const std::vector<NestItem>& nest,
                           const std::vector<NestItem>& items) {
  std::vector<char> made(k.nodes.size(), 0);
  for (const NestItem& x : nest) {
    if (x.kind == NestItem::Kind::kValue && x.node != value) made[x.node] = 1;
  }
  auto reaches = [&](NodeId from) {
    std::vector<char> seen(k.nodes.size(), 0);
    std::vector<NodeId> stack = {from};
    while (!stack.empty()) {
      NodeId x = stack.back();
      stack.pop_back();
      if (x == value) return true;
      if (seen[x] || made[x] || info[x].ready) continue;
      seen[x] = 1;
      for (NodeId o : node(x).operands) stack.push_back(o);
    }
    return false;
  };
  for (const NestItem& item : items) {
    if (item.node == value && item.kind == NestItem::Kind::kValue) continue;
    if (item.kind == NestItem::Kind::kControl) {
      for (NodeId o : OuterValues(item.node)) {
        if (reaches(o)) return false;
      }
      continue;
    }
    bool here = false;
    for (const NestItem& x : nest) here |= x.kind == item.kind && x.node == item.node;
    if (!here && !(item.kind == NestItem::Kind::kValue && info[item.node].ready) &&
        reaches(ValueOf(item))) {
      return false;
    }
  }
  return true;
}

std::vector<NodeId> Lowering::OuterValues(NodeId control) {
  std::vector<NodeId> used;
  std::vector<char> inside(k.nodes.size(), 0);
  std::function<void(const kernel::Region&)> walk = [&](const kernel::Region& r) {
    for (NodeId id : r.nodes) {
      inside[id] = 1;
      for (const kernel::Region& x : node(id).regions) walk(x);
    }
  };
  for (const kernel::Region& r : node(control).regions) walk(r);
  for (NodeId id = 0; id < static_cast<NodeId>(k.nodes.size()); ++id) {
    if (!inside[id]) continue;
    for (NodeId o : node(id).operands) {
      if (!inside[o] && std::find(used.begin(), used.end(), o) == used.end()) used.push_back(o);
    }
  }
  if (node(control).kind == Node::Kind::kStore) {  // a masked one
    for (NodeId o : node(control).operands) {
      if (std::find(used.begin(), used.end(), o) == used.end()) used.push_back(o);
    }
  }
  return used;
}

}  // namespace tpuc::lower
