// From a region of the body to instructions: small regions as one block in which every value is a
// register; large ones as nests (nests.cc). Also conditionals and counted loops of the body, and
// the order of loads and stores of one buffer.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

void Lowering::LowerRegion(const kernel::Region& region) {
  bool whole_before = whole;
  size_t base_before = region_base_;
  region_base_ = scopes.size();
  auto stored_before = stored;  // copies made here are no copies outside
  auto done_before = copies_done;
  const size_t temporaries_before = temporaries_.size();
  whole = options.strips == Strips::kWhole || Work(region) <= kWholeWork;
  if (whole) {
    LowerWhole(region);
  } else {
    WaitForAll();
    LowerNests(region);
  }
  // Nothing that a region computes is used outside it.
  for (size_t i = temporaries_before; i < temporaries_.size(); ++i) {
    free_temporaries_.push_back(temporaries_[i]);
  }
  temporaries_.resize(temporaries_before);
  whole = whole_before;
  region_base_ = base_before;
  stored = std::move(stored_before);
  copies_done = std::move(done_before);
}

// Registers computed by the region, reductions and dots by their operands.
int64_t Lowering::Work(const kernel::Region& region) const {
  int64_t total = 0;
  for (NodeId id : region.nodes) {
    const Node& n = node(id);
    for (const kernel::Region& r : n.regions) {
      int64_t w = Work(r);
      total += w;
    }
    if (n.kind == Node::Kind::kStore && !IsOrdered(id))
      total += TileCount(dims(n.operands[0]), LayoutOfStore(n));
    if (n.kind != Node::Kind::kHlo && n.kind != Node::Kind::kLoad) continue;
    if (info[id].scalar || n.op == Op::kConstant) continue;
    VLayout l = info[id].flexible ? DefaultVLayout(n.shape.rank()) : info[id].natural;
    int64_t tiles = TileCount(n.shape.dims, l);
    if (n.op == Op::kDot && n.kind == Node::Kind::kHlo) {
      int64_t k = dims(n.operands[0])[n.IntsAttr(AttrId::kLhsContractingDims).empty()
                                          ? 0
                                          : n.IntsAttr(AttrId::kLhsContractingDims)[0]];
      tiles *= 2 + 2 * CeilDiv(k, chip.mxu_size);
      tiles += TileCount(dims(n.operands[1]),
                         DefaultVLayout(static_cast<int>(dims(n.operands[1]).size())));
    }
    if (n.kind == Node::Kind::kHlo && n.op != Op::kDot && n.op != Op::kReduce && NeedsMemory(id)) {
      tiles = std::max(tiles, MovedRuns(id));
    }
    total += tiles;
  }
  return total;
}

void Lowering::LowerWhole(const kernel::Region& region) {
  for (NodeId id : region.nodes) {
    if (failed_) return;
    if (IsOrdered(id)) {
      LowerOrdered(region, id);
    } else if (node(id).kind == Node::Kind::kStore) {
      ForceLoads(region, id);
      EmitStoreWhole(id);
    }
  }
}

void Lowering::EmitStoreWhole(NodeId store) {
  const Node& n = node(store);
  NodeId value = n.operands[0];
  VLayout layout = LayoutOfStore(n);
  Space space = SpaceOf(dims(value), layout);
  space.flat_limit = 1 << 20;
  if (DependsOnLoadOf(value, refs[n.ref].storage)) {
    // All registers before any store: the value may read what the store overwrites.
    ForTiles(space, [&](const Coords& at) { Get(value, layout, at); });
  }
  ForTiles(space, [&](const Coords& at) { EmitStoreTile(store, at); });
}

bool Lowering::AnyBelow(NodeId id, const std::function<bool(NodeId)>& found) const {
  // Each node once: a value may be used by many.
  std::vector<char> seen(k.nodes.size(), 0);
  std::vector<NodeId> stack = {id};
  seen[id] = 1;
  while (!stack.empty()) {
    NodeId x = stack.back();
    stack.pop_back();
    if (info[x].ready) continue;
    if (found(x)) return true;
    for (NodeId o : node(x).operands) {
      if (!seen[o]) {
        seen[o] = 1;
        stack.push_back(o);
      }
    }
  }
  return false;
}

bool Lowering::DependsOnLoadOf(NodeId id, int storage) const {
  return AnyBelow(id, [&](NodeId x) {
    return node(x).kind == Node::Kind::kLoad && refs[node(x).ref].storage == storage;
  });
}

namespace {

void StoredIn(const kernel::Kernel& k, NodeId id, std::vector<int>* refs) {
  const Node& n = k.nodes[id];
  if (n.kind == Node::Kind::kStore) refs->push_back(n.ref);
  if (n.kind == Node::Kind::kCopyStart) refs->push_back(n.views[1].ref);
  for (const kernel::Region& r : n.regions) {
    for (NodeId o : r.nodes) StoredIn(k, o, refs);
  }
}

void UsedIn(const kernel::Kernel& k, const kernel::Region& region, std::vector<NodeId>* used) {
  for (NodeId id : region.nodes) {
    for (NodeId o : k.nodes[id].operands) used->push_back(o);
    for (const kernel::Slice& s : k.nodes[id].slices) {
      if (s.start_node >= 0) used->push_back(s.start_node);
    }
    for (const kernel::RefView& v : k.nodes[id].views) {
      for (const kernel::Slice& s : v.slices) {
        if (s.start_node >= 0) used->push_back(s.start_node);
      }
    }
    for (const kernel::Region& r : k.nodes[id].regions) UsedIn(k, r, used);
  }
}

}  // namespace

// Before `id` writes: loads of the same memory that come earlier and are used later are done now.
void Lowering::ForceLoads(const kernel::Region& region, NodeId id) {
  std::vector<int> written;
  StoredIn(k, id, &written);
  if (written.empty()) return;
  std::vector<NodeId> later;
  kernel::Region rest;
  bool after = false;
  for (NodeId o : region.nodes) {
    if (after) rest.nodes.push_back(o);
    if (o == id) after = true;
  }
  if (node(id).kind != Node::Kind::kStore) rest.nodes.push_back(id);
  UsedIn(k, rest, &later);
  std::vector<char> needed(k.nodes.size(), 0);
  std::function<void(NodeId)> need = [&](NodeId o) {
    if (needed[o]) return;
    needed[o] = 1;
    if (info[o].ready) return;
    for (NodeId x : node(o).operands) need(x);
  };
  for (NodeId o : later) need(o);
  for (NodeId o : region.nodes) {
    if (o == id) break;
    const Node& n = node(o);
    if (n.kind != Node::Kind::kLoad || !needed[o] || info[o].ready) continue;
    bool hit = false;
    for (int r : written) hit |= refs[r].storage == refs[n.ref].storage;
    if (hit) Fix(o);
  }
}

// The value is computed here and now, to registers in a small region, else to a temporary.
void Lowering::Fix(NodeId id) {
  NodeInfo& i = info[id];
  if (i.ready || i.flexible || i.scalar) return;
  if (!whole) {
    Materialize(id);
    return;
  }
  Space space = SpaceOf(dims(id), i.natural);
  space.flat_limit = 1 << 20;
  ForTiles(space, [&](const Coords& at) { Get(id, i.natural, at); });
}

// Values from outside that a nested region uses.
void Lowering::FixUsed(const kernel::Region& region) {
  std::vector<NodeId> used;
  UsedIn(k, region, &used);
  std::vector<char> inside(k.nodes.size(), 0);
  std::function<void(const kernel::Region&)> mark = [&](const kernel::Region& r) {
    for (NodeId id : r.nodes) {
      inside[id] = 1;
      for (const kernel::Region& n : node(id).regions) mark(n);
    }
  };
  mark(region);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (NodeId o : used) {
    if (inside[o] || info[o].to_scalar) continue;
    if (info[o].scalar) {
      if (node(o).kind != Node::Kind::kLoopIndex) Scalar(o);
    } else if (node(o).kind == Node::Kind::kLoad && info[o].stable) {
      continue;
    } else {
      Fix(o);
    }
  }
}

void Lowering::LowerWhen(NodeId id) {
  const Node& n = node(id);
  WaitForAll();
  for (const kernel::Region& r : n.regions) FixUsed(r);
  if (failed_) return;
  Reg p = Predicate(n.operands[0]);
  int64_t trips = f->blocks[b_.block()].trips;
  bool in_grid = f->blocks[b_.block()].in_grid_loop;
  int before = b_.block();
  b_.Branch(-1, p, true);
  auto region = [&](const kernel::Region& r, absl::string_view label) {
    NewBlock(absl::StrCat(label, id), trips, in_grid);
    PushScope(-1);
    LowerRegion(r);
    PopScope();
  };
  region(n.regions[0], "then");
  int after = -1;
  if (n.regions.size() > 1 && !n.regions[1].nodes.empty()) {
    int then_end = b_.block();
    b_.Branch(-1, Reg(), false);
    int first = static_cast<int>(f->blocks.size());
    region(n.regions[1], "else");
    after = NewBlock(absl::StrCat("join", id), trips, in_grid);
    f->blocks[then_end].insts.back().target = after;
    f->blocks[before].insts.back().target = first;
  } else {
    after = NewBlock(absl::StrCat("join", id), trips, in_grid);
    f->blocks[before].insts.back().target = after;
  }
}

// The counter is named in nested regions too, by how many loops outward it counts.
void Lowering::BindLoopIndex(const kernel::Region& region, int outward, Operand index,
                             bool negative) {
  for (NodeId o : region.nodes) {
    const Node& n = node(o);
    if (n.kind == Node::Kind::kLoopIndex && n.axis == outward) {
      loop_index[o] = index;
      loop_negative[o] = negative;
    }
    const int inner = outward + (n.kind == Node::Kind::kFor ? 1 : 0);
    for (const kernel::Region& r : n.regions) BindLoopIndex(r, inner, index, negative);
  }
}

void Lowering::LowerFor(NodeId id) {
  const Node& n = node(id);
  WaitForAll();
  FixUsed(n.regions[0]);
  if (failed_) return;
  int64_t lower = n.lower, upper = n.upper;
  if (n.operands.size() == 2) {
    Operand from = Scalar(n.operands[0]), to = Scalar(n.operands[1]);
    if (!from.is_imm() || !to.is_imm()) return LowerDynamicFor(id, from, to);
    lower = from.imm;
    upper = to.imm;
  }
  EmitLoop(upper - lower, 1, [&](int loop) {
    Operand index = b_.Sadd(loops[loop].counter, Imm(lower));
    BindLoopIndex(n.regions[0], 0, index, lower < 0);
    PushScope(-1);  // nothing of the body may be hoisted: its loads follow its stores
    around_.push_back(id);
    LowerRegion(n.regions[0]);
    around_.pop_back();
    PopScope();
  });
}

}  // namespace tpuc::lower
