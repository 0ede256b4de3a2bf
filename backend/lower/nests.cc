// Large regions: see nests.h. One loop nest after another, in the order of nest_plan.cc. Dots have
// their own nests (nest_dot.cc), reductions over more than the lanes of a few registers too
// (nest_reduce.cc).
#include "backend/lower/nests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

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
  const AtSource source(&b_, info[item.node].source);
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

void Lowering::LowerNests(const kernel::Region& region) {
  auto keep_before = std::exchange(keep_, {});
  auto companion_before = std::exchange(companion_, {});
  auto flows_before = std::exchange(flows_, {});
  auto cost_before = std::exchange(cost_, {});
  ChooseKept(region);
  expanded_.clear();
  std::vector<NestItem> items;
  for (NodeId id : region.nodes) {
    const Node& n = node(id);
    if (IsOrdered(id)) {
      if (info[id].to_scalar) {
        keep_[id] = 1;
        Expand(id, info[id].natural, &items);
      }
      std::vector<NodeId> used = OuterValues(id);
      for (NodeId o : used) {
        if (info[o].flexible || info[o].scalar) continue;
        if (n.kind != Node::Kind::kHlo && node(o).kind == Node::Kind::kLoad && info[o].stable)
          continue;
        keep_[o] = 1;
        Expand(o, info[o].natural, &items);
      }
      items.push_back({NestItem::Kind::kControl, id, {}});
    } else if (n.kind == Node::Kind::kStore) {
      Expand(n.operands[0], LayoutOfStore(n), &items);
      items.push_back({NestItem::Kind::kStore, id, LayoutOfStore(n)});
    }
  }
  // A load that a store overwrites while a later item still wants it is kept first.
  for (size_t i = 0; i < items.size() && !failed_; ++i) {
    if (items[i].done) continue;
    size_t head = i, after = i + 1;
    if (items[i].kind == NestItem::Kind::kValue && companion_[items[i].node] >= 0) {
      // Runs in the nest of a product, which then comes first.
      for (size_t j = i + 1; j < items.size(); ++j) {
        const NestItem& d = items[j];
        const bool it = d.kind == NestItem::Kind::kValue && d.node == companion_[items[i].node];
        if (!it || d.done || !MayPrecede(items, i, j)) continue;
        head = j;
        after = i;
      }
    }
    NestItem& seed = items[head];
    seed.done = true;
    if (seed.kind == NestItem::Kind::kControl) {
      LowerOrdered(region, seed.node);
      continue;
    }
    if (seed.kind == NestItem::Kind::kStore) ForceLoads(region, seed.node);
    if (seed.kind == NestItem::Kind::kValue && info[seed.node].ready) continue;
    std::vector<NestItem> nest = {seed};
    if (RowWise(seed) || Streams(seed)) {
      std::vector<int64_t> space = RowSpace(seed);
      std::vector<char> members(k.nodes.size(), 0);
      if (seed.kind == NestItem::Kind::kValue) members[seed.node] = 1;
      for (size_t j = after; j < items.size(); ++j) {
        NestItem& c = items[j];
        if (c.done || !RowWise(c) || RowSpace(c) != space) continue;
        if (c.kind == NestItem::Kind::kStore && !info[ValueOf(c)].flexible &&
            HasLaterLoad(region, c.node, items))
          continue;
        // Everything it needs is ready or of this nest, at the same row.
        bool ok = SameRow(ValueOf(c), c.layout, members) && MayJoin(c, nest);
        for (size_t m = after; m < j && ok; ++m) {
          if (items[m].done) continue;
          if (Conflicts(items[m], c)) ok = false;
          std::vector<char> one(k.nodes.size(), 0);
          if (items[m].kind == NestItem::Kind::kValue || items[m].kind == NestItem::Kind::kCopy) {
            one[items[m].node] = 1;
          }
          // A kept value of its own may as well be computed here.
          bool own = items[m].node == ValueOf(c) && items[m].kind == NestItem::Kind::kValue &&
                     !NeedsMemory(items[m].node);
          if (!own && ReachesMember(ValueOf(c), one)) ok = false;
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
      if (!StoreInPlace(seed, &items)) AddInPlace(seed, &items);
    }
    EmitNest(nest, items);
    if (!items[i].done) {  // it could not be in the product's nest
      companion_[items[i].node] = -1;
      --i;
    }
  }
  keep_ = std::move(keep_before);
  companion_ = std::move(companion_before);
  flows_ = std::move(flows_before);
  cost_ = std::move(cost_before);
}

void Lowering::EmitNest(const std::vector<NestItem>& nest, const std::vector<NestItem>& items) {
  const NestItem& seed = nest[0];
  NodeId v = ValueOf(seed);
  for (const NestItem& item : nest) {
    // A value whose users are all here needs no place.
    const bool passes =
        item.kind == NestItem::Kind::kValue &&
        (node(item.node).op == Op::kDot ? Streams(item) : nest.size() > 1 && RowWise(item));
    if (passes && UsersWithin(item.node, nest, items)) continue;
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
  if (value && node(v).op == Op::kDot && FlowNest(nest)) {
    EmitFlowNest(nest);
  } else if (value && node(v).op == Op::kDot) {
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
    space.inner = 2 * space.unroll;
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
      space.inner = 32;
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
      for (const kernel::RefView& v : other.views) {
        if (refs[v.ref].storage == refs[s.ref].storage) all = false;
      }
    }
    if (!all) continue;
    info[value.node].view = refs[s.ref].view;
    info[value.node].mat = true;
    item.done = true;
    return true;
  }
  return false;
}

// acc[:] = acc[:] + product, where nothing else uses the product: its passes add to acc itself.
bool Lowering::AddInPlace(const NestItem& value, std::vector<NestItem>* items) {
  const NodeId dot = value.node;
  NestItem* next = nullptr;
  for (NestItem& item : *items) {
    if (item.done) continue;
    next = &item;
    break;
  }
  if (next == nullptr || next->kind != NestItem::Kind::kStore || info[dot].uses != 1) return false;
  const Node& s = node(next->node);
  const Node& sum = node(s.operands[0]);
  const MemForm& form = refs[s.ref].view.form;
  const bool plain = s.operands.size() == 1 && next->layout == value.layout &&
                     type(dot) == Type::kF32 && form.type == Type::kF32 && !form.flat &&
                     form.packing == 1 && form.tile_sub == kSublanes && form.dims == dims(dot) &&
                     sum.kind == Node::Kind::kHlo && sum.op == Op::kAdd &&
                     info[s.operands[0]].uses == 1;
  if (!plain || (sum.operands[0] != dot && sum.operands[1] != dot)) return false;
  const Node& x = node(sum.operands[sum.operands[0] == dot ? 1 : 0]);
  if (x.kind != Node::Kind::kLoad || x.ref != s.ref || x.shape.dims != form.dims) return false;
  for (const Node* n : {&s, &x}) {
    for (const kernel::Slice& slice : n->slices) {
      if (slice.start_node >= 0 || slice.start != 0) return false;
    }
  }
  // What it multiplies must not be read from there.
  if (DependsOnLoadOf(dot, refs[s.ref].storage)) return false;
  info[dot].view = refs[s.ref].view;
  info[dot].mat = true;
  adds_to_place_ = dot;
  next->done = true;
  return true;
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
  int64_t rows = std::max<int64_t>(1, 32 / std::max<int64_t>(1, tiles));
  if (latency) rows = std::max<int64_t>(rows, shared ? 2 : 4);
  return std::min<int64_t>(rows, 32);
}

void Lowering::Materialize(NodeId id) {
  keep_.resize(k.nodes.size(), 0);
  companion_.resize(k.nodes.size(), -1);
  flows_.resize(k.nodes.size(), 0);
  cost_.resize(k.nodes.size(), 0);
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
