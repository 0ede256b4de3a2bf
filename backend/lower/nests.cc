// Large regions: see nests.h. Planning (what to keep, what to compute together), then one loop nest
// after another. Dots have their own nests (nest_dot.cc), reductions over more than the lanes of a
// few registers too (nest_reduce.cc).
#include "backend/lower/nests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

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
        r.push_back({n.operands[0], OperandLayout(n.operands[0])});
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
bool Lowering::NeedsMemory(NodeId id) {
  const Node& n = node(id);
  if (n.kind != Node::Kind::kHlo || info[id].scalar || info[id].flexible) return false;
  if (n.op == Op::kDot || n.op == Op::kReduce) return true;
  std::vector<int> operand_dim;
  if (n.op == Op::kReshape || n.op == Op::kBitcast) return !DegenerateReshape(n, &operand_dim);
  if (n.op == Op::kSlice) return StridedInTile(id);
  return Moved(n);
}

bool Lowering::StridedInTile(NodeId id) {
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
               !DotDrives({NestItem::Kind::kValue, id, layout});
  bool rows =
      n.kind == Node::Kind::kHlo && NeedsMemory(id) && n.op != Op::kDot && n.op != Op::kReduce;
  if ((again || rows) && !n.operands.empty()) {
    NodeId x = n.operands[0];
    bool direct = again && node(x).kind == Node::Kind::kLoad;
    if (!direct && !info[x].ready && !info[x].flexible && !info[x].scalar) {
      bool have = false;
      for (const NestItem& i2 : *items) have |= i2.kind == NestItem::Kind::kValue && i2.node == x;
      if (!have && n.op != Op::kConcatenate && n.op != Op::kPad) {
        items->push_back({NestItem::Kind::kValue, x, info[x].natural});
      }
    }
  }
  bool is_load = n.kind == Node::Kind::kLoad;
  bool rows_from_lanes = !serves && want.lane < 0 && want.sub >= 0;
  bool keep = !serves && !is_load;
  if ((keep || NeedsMemory(id) || keep_[id]) && !i.flexible &&
      !planned(NestItem::Kind::kValue, layout)) {
    items->push_back({NestItem::Kind::kValue, id, i.natural});
  }
  if (serves) return;
  // Relayouts that no loop body can do by itself become copies.
  bool size1 = (want.sub >= 0 && n.shape.dims[want.sub] == 1) ||
               (want.lane >= 0 && n.shape.dims[want.lane] == 1) ||
               (i.natural.sub >= 0 && n.shape.dims[i.natural.sub] == 1) ||
               (i.natural.lane >= 0 && n.shape.dims[i.natural.lane] == 1);
  if (rows_from_lanes || size1) return;
  if (is_load && refs[n.ref].view.form.flat) return;
  if (planned(NestItem::Kind::kCopy, want)) return;
  VLayout from = LastHop(i.natural, want);
  if (from != i.natural) Expand(id, from, items);
  items->push_back({NestItem::Kind::kCopy, id, want});
}

// Values with several users in different nests that are dearer to compute than to load.
void Lowering::ChooseKept(const kernel::Region& region) {
  keep_.assign(k.nodes.size(), 0);
  std::vector<std::vector<int>> reach(k.nodes.size());
  std::vector<int> cost(k.nodes.size(), 0);
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
      case Op::kPower:
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
    std::vector<int> mine = root ? std::vector<int>{id} : reach[id];
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    if (!root && mine.size() > 1 && cost[id] >= kDear && !info[id].flexible && !info[id].scalar &&
        n.kind == Node::Kind::kHlo) {
      keep_[id] = 1;
      mine = {id};
    }
    for (NodeId o : n.operands) reach[o].insert(reach[o].end(), mine.begin(), mine.end());
  }
}

// ---- rows ----

// The tile extents of everything but the lane dimension, in order, without those of one tile.
std::vector<int64_t> Lowering::RowSpace(const NestItem& item) {
  const Dims& d = dims(ValueOf(item));
  std::vector<int64_t> e;
  for (int i = 0; i < static_cast<int>(d.size()); ++i) {
    if (i == item.layout.lane) continue;
    int64_t n = TileExtent(d, item.layout, i);
    if (n > 1) e.push_back(n);
  }
  return e;
}

NodeId Lowering::ValueOf(const NestItem& item) {
  return item.kind == NestItem::Kind::kStore ? node(item.node).operands[0] : item.node;
}

// Emits every lane tile of the item at one row position.
void Lowering::EmitItemRow(const NestItem& item, const Coords& row) {
  const Dims& d = dims(ValueOf(item));
  Coords at(d.size(), Coord::Const(0));
  size_t r = 0;
  for (int i = 0; i < static_cast<int>(d.size()); ++i) {
    if (i == item.layout.lane) continue;
    if (TileExtent(d, item.layout, i) > 1) at[i] = row[r++];
  }
  int64_t lanes = item.layout.lane < 0 ? 1 : TileExtent(d, item.layout, item.layout.lane);
  for (int64_t j = 0; j < lanes; ++j) {
    if (item.layout.lane >= 0) at[item.layout.lane] = Coord::Const(j);
    EmitItemTile(item, at);
  }
}

void Lowering::EmitItemTile(const NestItem& item, const Coords& at) {
  if (failed_) return;
  switch (item.kind) {
    case NestItem::Kind::kStore:
      EmitStoreTile(item.node, at);
      return;
    case NestItem::Kind::kValue:
    case NestItem::Kind::kCopy: {
      Operand v = Get(item.node, item.layout, at);
      if (info[item.node].mat || item.kind == NestItem::Kind::kCopy) {
        const MemView& view = item.kind == NestItem::Kind::kValue
                                  ? info[item.node].view
                                  : stored.at({item.node, item.layout.sub, item.layout.lane});
        std::vector<Start> none(dims(item.node).size());
        StoreTile(view, none, dims(item.node), item.layout, at, ToVector(v), item.node);
        ++f->info.temp_stores;
      }
      return;
    }
    default:
      return;
  }
}

// Reserves the temporary of an item.
void Lowering::Reserve(const NestItem& item) {
  if (item.kind != NestItem::Kind::kValue && item.kind != NestItem::Kind::kCopy) return;
  MemForm form = TemporaryForm(dims(item.node), item.layout);
  form.type = type(item.node) == Type::kPred ? Type::kS32 : Type::kF32;
  MemView view = NewTemporary(absl::StrCat("temp.", item.node), form);
  if (item.kind == NestItem::Kind::kValue) {
    info[item.node].view = view;
    info[item.node].mat = true;
  } else {
    stored.emplace(std::make_tuple(item.node, int{item.layout.sub}, int{item.layout.lane}), view);
  }
}

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
    if (moves ? ReachesMember(r.node, members)
              : !SameRowFrom(r.node, r.layout, members, seen)) {
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

void Lowering::LowerNests(const kernel::Region& region) {
  ChooseKept(region);
  expanded_.clear();
  std::vector<NestItem> items;
  for (NodeId id : region.nodes) {
    const Node& n = node(id);
    if (n.kind == Node::Kind::kStore) {
      Expand(n.operands[0], LayoutOfStore(n), &items);
      items.push_back({NestItem::Kind::kStore, id, LayoutOfStore(n)});
    } else if (n.kind == Node::Kind::kWhen || n.kind == Node::Kind::kFor) {
      std::vector<NodeId> used = OuterValues(id);
      for (NodeId o : used) {
        if (info[o].flexible || info[o].scalar) continue;
        if (n.kind != Node::Kind::kHlo && node(o).kind == Node::Kind::kLoad && info[o].stable)
          continue;
        keep_[o] = 1;
        Expand(o, info[o].natural, &items);
      }
      items.push_back({NestItem::Kind::kControl, id, {}});
    }
  }
  // A load that a store overwrites while a later item still wants it is kept first.
  for (size_t i = 0; i < items.size() && !failed_; ++i) {
    if (items[i].done) continue;
    NestItem& seed = items[i];
    seed.done = true;
    if (seed.kind == NestItem::Kind::kControl) {
      ForceLoads(region, seed.node);
      node(seed.node).kind == Node::Kind::kWhen ? LowerWhen(seed.node) : LowerFor(seed.node);
      continue;
    }
    if (seed.kind == NestItem::Kind::kStore) ForceLoads(region, seed.node);
    if (seed.kind == NestItem::Kind::kValue && info[seed.node].ready) continue;
    std::vector<NestItem> nest = {seed};
    if (RowWise(seed) || DotDrives(seed)) {
      std::vector<int64_t> space = RowSpace(seed);
      std::vector<char> members(k.nodes.size(), 0);
      if (seed.kind == NestItem::Kind::kValue) members[seed.node] = 1;
      for (size_t j = i + 1; j < items.size(); ++j) {
        NestItem& c = items[j];
        if (c.done || !RowWise(c) || RowSpace(c) != space) continue;
        if (c.kind == NestItem::Kind::kStore && !info[ValueOf(c)].flexible &&
            HasLaterLoad(region, c.node))
          continue;
        // Everything it needs is ready or of this nest, at the same row.
        bool ok = SameRow(ValueOf(c), c.layout, members);
        for (size_t m = i + 1; m < j && ok; ++m) {
          if (items[m].done) continue;
          if (Conflicts(items[m], c)) ok = false;
          std::vector<char> one(k.nodes.size(), 0);
          if (items[m].kind == NestItem::Kind::kValue || items[m].kind == NestItem::Kind::kCopy) {
            one[items[m].node] = 1;
          }
          if (items[m].node != ValueOf(c) && ReachesMember(ValueOf(c), one)) ok = false;
        }
        for (const NestItem& m : nest)
          ok = ok && !(m.kind == NestItem::Kind::kStore && Conflicts(m, c));
        if (!ok) continue;
        c.done = true;
        if (c.kind == NestItem::Kind::kValue) members[c.node] = 1;
        nest.push_back(c);
      }
    }
    if (nest.size() == 1 && seed.kind == NestItem::Kind::kValue && node(seed.node).op == Op::kDot) {
      StoreInPlace(seed, &items);
    }
    EmitNest(nest, items);
  }
}

bool Lowering::HasLaterLoad(const kernel::Region& region, NodeId store) {
  // Loads before the store whose value someone after it needs: moved by ForceLoads when its turn
  // comes.
  int storage = refs[node(store).ref].storage;
  for (NodeId o : region.nodes) {
    if (o == store) return false;
    if (node(o).kind == Node::Kind::kLoad && refs[node(o).ref].storage == storage &&
        info[o].uses > 1) {
      return true;
    }
  }
  return false;
}

void Lowering::EmitNest(const std::vector<NestItem>& nest, const std::vector<NestItem>& items) {
  const NestItem& seed = nest[0];
  NodeId v = ValueOf(seed);
  for (const NestItem& item : nest) {
    // A dot whose users are all here needs no place.
    if (item.kind == NestItem::Kind::kValue && node(item.node).op == Op::kDot && DotDrives(item) &&
        UsersWithin(item.node, nest, items)) {
      continue;
    }
    bool reshape = item.kind == NestItem::Kind::kValue &&
                   (node(item.node).op == Op::kReshape || node(item.node).op == Op::kBitcast) &&
                   node(item.node).kind == Node::Kind::kHlo && NeedsMemory(item.node);
    if (reshape) continue;  // may share its operand's memory
    if (item.kind == NestItem::Kind::kValue && info[item.node].mat) continue;
    Reserve(item);
  }
  if (failed_) return;
  PushScope(-2);
  bool value = seed.kind == NestItem::Kind::kValue;
  if (value && node(v).op == Op::kDot) {
    EmitDotNest(nest);
  } else if (value && node(v).op == Op::kReduce && !InlineReduce(v)) {
    EmitReduceNest(v);
  } else if (value && NeedsMemory(v) && node(v).op != Op::kReduce) {
    EmitMoveNest(v);
  } else if (RowWise(seed)) {
    Space space;
    space.extents = RowSpace(seed);
    space.steps.assign(space.extents.size(), 1);
    space.peel.assign(space.extents.size(), 0);
    space.unroll = space.flat_limit = RowUnroll(nest);
    ForTiles(space, [&](const Coords& row) {
      for (const NestItem& item : nest) EmitItemRow(item, row);
    });
  } else {
    Space space = SpaceOf(dims(v), seed.layout);
    bool copy = seed.kind == NestItem::Kind::kCopy;
    constexpr int64_t kGroups = kLanes / kSublanes;
    if (seed.layout.lane >= 0 && CeilDiv(dims(v)[seed.layout.lane], kSublanes) % kGroups != 0) {
      space.peel[seed.layout.lane] = 1;  // fewer row groups make up the last lanes
    }
    if (copy && seed.layout.sub >= 0 && !seed.layout.dense()) {
      space.steps[seed.layout.sub] = kGroups;
      space.unroll = space.flat_limit = 4;
    } else {
      space.unroll = space.flat_limit = 8;
    }
    ForTiles(space, [&](const Coords& at) {
      if (!copy || seed.layout.sub < 0 || seed.layout.dense()) {
        EmitItemTile(seed, at);
        return;
      }
      int64_t n = kGroups;
      const Coord& g = at[seed.layout.sub];
      if (g.is_const()) n = std::min(n, space.extents[seed.layout.sub] - g.c);
      for (int64_t j = 0; j < n; ++j) {
        Coords c = at;
        c[seed.layout.sub] = g + j;
        EmitItemTile(seed, c);
      }
    });
  }
  PopScope();
  for (const NestItem& item : nest) {
    if (item.kind == NestItem::Kind::kValue && info[item.node].mat) info[item.node].ready = true;
    if (item.kind == NestItem::Kind::kCopy) {
      copies_done.insert({item.node, item.layout.sub, item.layout.lane});
    }
  }
}

// Whether all that uses the dot is computed in this nest.
bool Lowering::UsersWithin(NodeId dot, const std::vector<NestItem>& nest,
                           const std::vector<NestItem>& items) {
  std::vector<char> one(k.nodes.size(), 0);
  one[dot] = 1;
  for (const NestItem& item : items) {
    if (item.node == dot && item.kind == NestItem::Kind::kValue) continue;
    if (item.kind == NestItem::Kind::kControl) {
      for (NodeId o : OuterValues(item.node)) {
        if (ReachesMember(o, one)) return false;
      }
      continue;
    }
    bool here = false;
    for (const NestItem& x : nest) here |= x.kind == item.kind && x.node == item.node;
    if (!here && !(item.kind == NestItem::Kind::kValue && info[item.node].ready) &&
        ReachesMember(ValueOf(item), one)) {
      return false;
    }
  }
  return true;
}

// A value that a later store only copies to an operand is computed there at once.
bool Lowering::StoreInPlace(const NestItem& value, std::vector<NestItem>* items) {
  for (NestItem& item : *items) {
    if (item.kind != NestItem::Kind::kStore || item.done) continue;
    const Node& s = node(item.node);
    if (s.operands[0] != value.node || item.layout != value.layout) continue;
    const MemForm& form = refs[s.ref].view.form;
    bool all = !form.flat && form.packing == 1 && form.tile_sub == kSublanes &&
               form.dims == dims(value.node);
    for (const kernel::Slice& x : s.slices) all = all && x.start_node < 0 && x.start == 0;
    for (const Node& other : k.nodes) {
      if (&other == &s) continue;
      bool touches = other.kind == Node::Kind::kStore || other.kind == Node::Kind::kLoad;
      if (touches && refs[other.ref].storage == refs[s.ref].storage) all = false;
    }
    if (!all) continue;
    info[value.node].view = refs[s.ref].view;
    info[value.node].mat = true;
    item.done = true;
    return true;
  }
  return false;
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
  return used;
}

// Rows in a loop body: enough to hide latencies, few enough for the registers.
int64_t Lowering::RowUnroll(const std::vector<NestItem>& nest) {
  int64_t tiles = 0;
  bool latency = false, shared = nest.size() > 1;
  for (const NestItem& item : nest) {
    NodeId v = ValueOf(item);
    const Dims& d = dims(v);
    int64_t t = item.layout.lane < 0 ? 1 : TileExtent(d, item.layout, item.layout.lane);
    if (node(v).op == Op::kReduce && node(v).kind == Node::Kind::kHlo && !info[v].ready) {
      VLayout from = OperandLayout(node(v).operands[0]);
      if (from.lane >= 0) t = TileExtent(dims(node(v).operands[0]), from, from.lane);
      latency = true;
    }
    tiles = std::max(tiles, t);
  }
  int64_t rows = std::max<int64_t>(1, (latency ? 64 : 16) / std::max<int64_t>(1, tiles));
  if (latency) rows = std::max<int64_t>(rows, shared ? 4 : 8);
  return std::min<int64_t>(rows, 32);
}

void Lowering::Materialize(NodeId id) {
  keep_.resize(k.nodes.size(), 0);
  keep_[id] = 1;
  std::vector<NestItem> items;
  auto expanded_before = std::exchange(expanded_, {});
  Expand(id, info[id].natural, &items);
  for (NestItem& item : items) {
    if (failed_) break;
    if (item.kind == NestItem::Kind::kValue && info[item.node].ready) continue;
    item.done = true;
    EmitNest({item}, items);
  }
  if (items.empty() && node(id).kind == Node::Kind::kLoad) {
    EmitNest({{NestItem::Kind::kValue, id, info[id].natural}}, items);
  }
  expanded_ = std::move(expanded_before);
}

}  // namespace tpuc::lower
