// Stores of one register: sublane and lane masks at the edges of slices, rows that cross tiles,
// packed types; and the layout in which a store wants its value.
//
//   o[3:11] = v, o: f32[16,200]  ->  vst [o + 3] sm:$0x1f; vst [o + 11] sm:$0xe0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

void Lowering::StoreTile(const MemView& whole_view, absl::Span<const Start> whole_starts,
                         const Dims& dims, VLayout layout, const Coords& at, Operand value,
                         NodeId id, const Operand* mask) {
  MemView view = Shift(whole_view, whole_starts);
  const MemForm& form = view.form;
  int rank = static_cast<int>(dims.size());
  std::vector<Start> starts(whole_starts.begin(), whole_starts.end());
  std::vector<std::pair<Coord, int64_t>> terms;
  Operand packed = Pack(form, value);
  std::optional<Operand> chosen;
  auto choose = [&](Operand m) { chosen = chosen ? V(Opcode::kVmand, *chosen, m) : m; };
  if (mask != nullptr) choose(*mask);
  // One element along the lanes, one row of a word that holds several: the value is there in all
  // of them.
  const int lane_dim = form.flat ? (rank == 0 ? -1 : 0) : form.lane;
  const bool one_lane = lane_dim >= 0 && layout.lane < 0 && layout.sub != lane_dim &&
                        dims[lane_dim] == 1 && id >= 0 && node(id).kind == Node::Kind::kStore &&
                        SingleLane(node(id));
  if (one_lane) {
    if (form.flat && form.packing > 1) {
      const Operand row =
          b_.Sadd(b_.Sdiv(starts[0].scalar, Imm(kLanes)), Imm(starts[0].c / kLanes));
      choose(PartMask(form, b_.Srem(row, Imm(form.packing))));
    }
    choose(Equals(LaneIds(), TakeLane(&starts[lane_dim])));
  }
  const bool one_row = form.packing > 1 && form.sub >= 0 && layout.sub < 0 && dims[form.sub] == 1;
  if (one_row) {
    const Start& s = starts[form.sub];
    choose(PartMask(
        form, s.scalar.is_imm() ? Imm(s.c % form.packing) : b_.Srem(s.scalar, Imm(form.packing))));
  }
  // Of `lanes` lanes, and where the masks say so.
  auto put = [&](const isa::MemRef& mem, Operand v, int64_t lanes) {
    std::optional<Operand> where;
    if (lanes < kLanes && !one_lane) where = MaskOf(0, 8, 0, lanes);
    if (chosen) where = where ? V(Opcode::kVmand, *where, *chosen) : *chosen;
    if (where) {
      b_.StoreMasked(mem, *where, v, chosen ? form.packing : 1);
    } else {
      b_.Store(mem, v);
    }
  };
  if (form.flat) {
    int64_t start = rank == 0 ? 0 : starts[0].c;
    bool part = rank == 1 && start + dims[0] < form.dims[0] && dims[0] % kLanes != 0 && !one_lane;
    if (layout.dense()) {
      int64_t step = kSublanes / form.packing, rows = step;
      if (at[0].is_const()) {
        rows = std::min(step, CeilDiv(dims[0], kLanes * form.packing) - at[0].c * step);
      }
      if (start % (kLanes * form.packing) != 0 || part) Fail(id, "a store of part of a row");
      terms.push_back({at[0], step});
      isa::MemRef mem = Address(view, start / (kLanes * form.packing), terms);
      mem.sublane_mask = SublaneMask(0, rows);
      put(mem, packed, kLanes);
      return;
    }
    if (form.packing > 1 && (rank > 0 && dims[0] > kLanes)) {
      Fail(id, "a rank-1 store of a packed type in this layout");
      return;
    }
    const int64_t row = form.packing > 1 ? kLanes * form.packing : kLanes;
    Coord j = rank == 0 ? Coord::Const(0) : at[0] + start / row;
    if (start % kLanes != 0) Fail(id, "a rank-1 store at this offset");
    terms.push_back({j, 1});
    isa::MemRef mem = Address(view, 0, terms);
    mem.sublane_mask = 1;
    int64_t lanes = rank == 0 ? kLanes : std::min(kLanes, dims[0] - at[0].c * kLanes);
    put(mem, packed, part && at[0].is_const() ? lanes : kLanes);
    return;
  }
  for (int d = 0; d < rank; ++d) {
    if (d == form.sub || d == form.lane) continue;
    terms.push_back({at[d] + starts[d].c, form.stride[d]});
  }
  int64_t lanes = kLanes;
  if (form.lane >= 0) {
    int64_t start = starts[form.lane].c;
    terms.push_back({at[form.lane] + start / kLanes, form.tile_rows});
    if (start % kLanes != 0) Fail(id, "a store that starts inside a tile's lanes");
    if (start + dims[form.lane] < form.dims[form.lane] && at[form.lane].is_const()) {
      lanes = std::min(kLanes, dims[form.lane] - at[form.lane].c * kLanes);
    }
  }
  auto store = [&](const isa::MemRef& mem, Operand v) { put(mem, v, lanes); };
  if (form.sub < 0) {
    isa::MemRef mem = Address(view, 0, terms);
    const bool all = whole_view.form.tile_rows >= kSublanes && !whole_view.one_row;
    mem.sublane_mask = all ? 0xff : 1;
    store(mem, packed);
    return;
  }
  if (one_row) {
    const Start& s = starts[form.sub];
    isa::MemRef mem = Address(view, s.scalar.is_imm() ? form.RowOf(s.c) : 0, terms);
    mem.sublane_mask = 1;
    return store(mem, packed);
  }
  int64_t start = starts[form.sub].c;
  const Coord& g = at[form.sub];
  // Rows that this register may write: all, where the slice reaches the array's end.
  bool part = start + dims[form.sub] < form.dims[form.sub] || !starts[form.sub].scalar.is_imm();
  int64_t valid = kSublanes;
  if (part && g.is_const()) valid = std::min(kSublanes, dims[form.sub] - g.c * kSublanes);
  if (form.packing > 1 && valid < kSublanes && valid % form.packing != 0) {
    choose(MaskOf(0, valid, 0, kLanes));
  }
  if (form.tile_sub < kSublanes) {
    int64_t tiles = form.lane_tiles * form.tile_rows;
    terms.push_back({g, form.tile_sub == 1 ? kSublanes * tiles : tiles});
    isa::MemRef mem = Address(view, form.tile_sub == 1 ? start * tiles : start, terms);
    if (form.tile_sub == 1) {
      mem.sublane_stride = static_cast<int32_t>(tiles);
      if (g.is_const()) valid = std::min(valid, dims[form.sub] - g.c * kSublanes);
    } else {
      valid = std::min(valid, form.packing == 1 ? form.tile_rows - start : int64_t{form.tile_rows});
    }
    mem.sublane_mask = SublaneMask(0, valid);
    store(mem, packed);
    return;
  }
  int64_t groups = form.tile_sub / kSublanes, step = kSublanes / form.packing;
  int64_t write = CeilDiv(std::min(valid, kSublanes), form.packing);
  int64_t shift = start % kSublanes;
  if (form.lane_tiles == 1) {
    if (start % form.packing != 0) Fail(id, "a store inside a packed word");
    terms.push_back({g, step});
    isa::MemRef mem = Address(view, start / form.packing, terms);
    if (shift != 0 && g.is_const())
      write = std::min(write, CeilDiv(dims[form.sub] - g.c * kSublanes, form.packing));
    mem.sublane_mask = SublaneMask(0, write);
    store(mem, packed);
    return;
  }
  std::optional<Coord> tile = Div(g + start / kSublanes, groups);
  if (!tile || (shift != 0 && (groups > 1 || form.packing > 1))) {
    Fail(id, "a store at this offset in a loop");
    return;
  }
  terms.push_back({*tile, form.lane_tiles * form.tile_rows});
  isa::MemRef mem = Address(view, ((g.c + start / kSublanes) % groups) * step, terms);
  if (shift == 0) {
    mem.sublane_mask = SublaneMask(0, write);
    store(mem, packed);
    return;
  }
  if (g.is_const()) valid = std::min(valid, dims[form.sub] - g.c * kSublanes);
  isa::MemRef high = mem;
  mem.offset += static_cast<int32_t>(shift);
  mem.sublane_mask = SublaneMask(0, std::min(valid, kSublanes - shift));
  store(mem, packed);
  if (valid <= kSublanes - shift) return;
  high.offset += static_cast<int32_t>(form.lane_tiles * form.tile_rows - (kSublanes - shift));
  high.sublane_mask = SublaneMask(kSublanes - shift, valid);
  store(high, packed);
}

// Sublanes whose row is part `part` of its word.
Operand Lowering::PartMask(const MemForm& form, Operand part) {
  const Operand rows = V(Opcode::kVand, SublaneIds(), Imm(form.packing - 1));
  return Equals(rows, part);
}

Operand Lowering::Equals(Operand v, Operand scalar) {
  if (!scalar.is_imm()) scalar = b_.Op(Opcode::kVstv, {scalar});
  return b_.Op(Opcode::kVcmpEqS32, {v, scalar});
}

VLayout Lowering::LayoutOfStore(const Node& n) const {
  const MemForm& form = refs[n.ref].view.form;
  const Dims& dims = node(n.operands[0]).shape.dims;
  if (form.flat) {
    if (dims.empty() || SingleLane(n)) return {-1, -1};
    const NodeInfo& i = info[n.operands[0]];
    if (form.packing > 1 && dims[0] > kLanes) return {0, 0};
    if (!i.flexible && i.natural.dense()) return {0, 0};
    if (i.flexible && dims[0] > 2 * kLanes) return {0, 0};
    return {-1, 0};
  }
  VLayout l = form.natural();
  const bool row = l.sub >= 0 && form.packing > 1 && dims[l.sub] == 1 && form.dims[l.sub] > 1;
  if (row) l.sub = -1;
  if (SingleLane(n)) l.lane = -1;
  return l;
}

void Lowering::EmitStoreTile(NodeId store, const Coords& at) {
  const Node& n = node(store);
  NodeId value = n.operands[0];
  VLayout layout = LayoutOfStore(n);
  // Packing rounds: what is only stored need not be rounded before.
  const bool packs = refs[n.ref].view.form.type == Type::kBF16 && info[value].uses == 1;
  Operand v = Get(packs ? Unrounded(value) : value, layout, at);
  int old_source = b_.source();
  if (info[store].source >= 0) b_.set_source(info[store].source);
  std::optional<Operand> mask;
  if (n.operands.size() > 1) mask = ToMask(Get(n.operands[1], layout, at));
  StoreTile(refs[n.ref].view, StartsOf(n),
            n.shape.IsTuple() ? node(value).shape.dims : n.shape.dims, layout, at, v, store,
            mask ? &*mask : nullptr);
  b_.set_source(old_source);
}

// Value and mask are computed before (LowerOrdered), so that what is stored is not read by them.
void Lowering::StoreWhere(NodeId store) {
  const Node& n = node(store);
  for (NodeId o : n.operands) Fix(o);
  if (failed_) return;
  const VLayout layout = LayoutOfStore(n);
  Space space = SpaceOf(dims(n.operands[0]), layout);
  for (int d = 0; d < static_cast<int>(space.peel.size()); ++d) {
    // The last registers hold less than a register: nothing beyond may be written.
    space.peel[d] |= dims(n.operands[0])[d] % TileUnit(layout, d) != 0;
  }
  if (whole) {
    space.flat_limit = 1 << 20;
    ForTiles(space, [&](const Coords& at) {
      for (NodeId o : n.operands) Get(o, layout, at);
    });
  }
  PushScope(-2);
  ForTiles(space, [&](const Coords& at) { EmitStoreTile(store, at); });
  PopScope();
}

MemView Lowering::NewTemporary(absl::string_view name, const MemForm& form) {
  MemView view;
  view.form = form;
  view.base = Imm(0);
  // What a region before it has left: the same buffer, so that memory keeps its order.
  const int64_t rows = CeilDiv(form.rows, kSublanes) * kSublanes;
  for (size_t i = 0; i < free_temporaries_.size(); ++i) {
    if (free_temporaries_[i].rows != rows) continue;
    temporaries_.push_back(free_temporaries_[i]);
    free_temporaries_.erase(free_temporaries_.begin() + static_cast<std::ptrdiff_t>(i));
    view.buffer = temporaries_.back().buffer;
    view.offset = temporaries_.back().offset;
    return view;
  }
  if (Allocate(name, rows, &view.buffer, &view.offset)) {
    temporaries_.push_back({view.buffer, view.offset, rows});
  }
  return view;
}

}  // namespace tpuc::lower
