// Data movement between registers: relayouts, broadcasts, reshapes, slices, concatenation, padding.
//
//   f32[16] in lanes -> rows:  vbcast.lane 256 (rows 0-7), 264 (rows 8-15)
//   rows -> lanes:             vsel (lane == sublane + 8g) of each row group, then or-and-rotate
//   slice [3:19]:              vrot.slane of two registers and one vsel
//
// Movement that fits none of these goes through memory (emit_rows.cc).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

namespace {

constexpr int kDiagonalKey = -7, kRotateKey = -8;

bool IsMask(const Operand& v) { return !v.is_imm() && v.reg.cls == RegClass::kMask; }

}  // namespace

// ---- relayouts ----

// One valid row or lane (of a dimension of size 1) to all.
Operand Lowering::Replicate(Operand v, bool sub, bool lane) {
  bool mask = IsMask(v);
  v = ToVector(v);
  if (v.is_imm()) return v;
  if (lane) v = b_.Permute(Opcode::kVbcastLane, v, Imm(0));
  if (sub) {
    v = Vsel(MaskOf(0, 1, 0, kLanes), v, Imm(0));
    for (int n = 4; n >= 1; n /= 2) {
      v = V(Opcode::kVor, v, b_.Op(Opcode::kVrotSlane, {v, Imm(n)}));
    }
  }
  return mask ? ToMask(v) : v;
}

Operand Lowering::Relayout(NodeId id, VLayout have, VLayout want, const Coords& at) {
  const Dims& d = dims(id);
  bool pred = type(id) == Type::kPred;
  auto copy = stored.find({id, want.sub, want.lane});
  if (copy != stored.end() && CopyDone(id, want)) {
    std::vector<Start> none(d.size());
    Operand v = LoadTile(copy->second, none, d, want, at, id);
    ++f->info.temp_loads;
    return pred ? ToMask(v) : v;
  }
  if (node(id).kind == Node::Kind::kLoad && !info[id].ready && want == VLayout{-1, 0} &&
      refs[node(id).ref].view.form.flat && StartsOf(node(id))[0].c % kLanes == 0) {
    return EvalLoad(id, want, at);
  }
  auto size1 = [&](int axis) { return axis >= 0 && d[axis] == 1; };
  // Axes of size 1: ask for the replicated form, or replicate what has one valid element.
  if (size1(want.sub) || size1(want.lane)) {
    VLayout w = want;
    if (size1(want.sub) && want.sub != have.sub) w.sub = -1;
    if (size1(want.lane) && want.lane != have.lane) w.lane = -1;
    if (w != want) return Get(id, w, at);
  }
  if ((size1(have.sub) && want.sub != have.sub) || (size1(have.lane) && want.lane != have.lane)) {
    VLayout h = have;
    bool sub = size1(have.sub) && want.sub != have.sub;
    bool lane = size1(have.lane) && want.lane != have.lane;
    if (sub) h.sub = -1;
    if (lane) h.lane = -1;
    if (h == want || Serves(h, want, d)) {
      return Replicate(Get(id, have, at), sub, lane);
    }
    have = h;
  }
  // The last step, from a layout of its own where one step is not enough.
  VLayout from = LastHop(have, want);
  if (from.sub >= 0 && from.lane < 0 && want.sub < 0 && want.lane == from.sub) {
    return SubToLane(id, from, at, want.lane);
  }
  if (want.lane < 0 && want.sub >= 0 && from.lane == want.sub) {
    return LaneToSub(id, at, want.sub);
  }
  if (want.sub == from.lane && want.lane == from.sub && !from.dense()) {
    return TransposeTile(id, from, want, at);
  }
  // The same lanes, other sublanes: through memory.
  const MemView* view = StoredAs(id, from);
  if (view == nullptr) {
    Fail(id, "a change of register layout inside a loop");
    return Imm(0);
  }
  std::vector<Start> none(d.size());
  Operand v = LoadTile(*view, none, d, want, at, id);
  return pred ? ToMask(v) : v;
}

// The layout from which `want` is one step: rows to lanes, lanes to rows, a transpose, or other
// sublanes under the same lanes. `have` itself where that will do.
VLayout Lowering::LastHop(VLayout have, VLayout want) {
  if (have.lane == want.lane || have.dense()) return have;
  if (want.dense()) return {-1, want.lane};
  if (want.lane < 0) return {-1, want.sub};
  if (have.lane < 0) {
    if (want.sub < 0) return {want.lane, -1};
    return {-1, want.lane};
  }
  if (want.sub == have.lane) return {want.lane, have.lane};
  return {have.lane, want.lane};
}

// The value in memory in this layout: a load's own memory, or a temporary.
const MemView* Lowering::StoredAs(NodeId id, VLayout layout) {
  auto it = stored.find({id, layout.sub, layout.lane});
  if (it != stored.end()) return &it->second;
  if (info[id].ready && info[id].natural == layout) return &info[id].view;
  if (InLoop()) return nullptr;
  const Dims& d = dims(id);
  MemForm form = TemporaryForm(d, layout);
  if (type(id) == Type::kPred) form.type = Type::kS32;
  MemView view = NewTemporary(absl::StrCat("relayout.", id), form);
  if (failed_) return nullptr;
  std::vector<Start> none(d.size());
  Space space = SpaceOf(d, layout);
  if (whole) space.flat_limit = 1 << 20;
  ForTiles(space, [&](const Coords& at) {
    StoreTile(view, none, d, layout, at, ToVector(Get(id, layout, at)), id);
    f->info.temp_stores++;
  });
  copies_done.insert({id, layout.sub, layout.lane});
  return &stored.emplace(std::make_tuple(id, int{layout.sub}, int{layout.lane}), view)
              .first->second;
}

bool Lowering::CopyDone(NodeId id, VLayout layout) const {
  return copies_done.count({id, layout.sub, layout.lane}) > 0;
}

// A dimension along lanes (alike in all sublanes) -> along sublanes (alike in all lanes).
Operand Lowering::LaneToSub(NodeId id, const Coords& at, int d) {
  VLayout from{-1, static_cast<int8_t>(d)};
  constexpr int64_t kGroups = kLanes / kSublanes;
  bool pred = type(id) == Type::kPred;
  Coords source = at;
  Operand row, which;
  if (std::optional<Coord> tile = Div(at[d], kGroups)) {
    source[d] = *tile;
    row = ToVector(Get(id, from, source));
    which = Imm(256 + kSublanes * (at[d].c % kGroups));
  } else {
    // Counted by a loop: the row's address and the lane are computed.
    Operand g = CoordScalar(at[d]);
    Operand tile_index = b_.Sdiv(g, Imm(kGroups));
    Operand inside = b_.Srem(g, Imm(kGroups));
    which = b_.Sadd(b_.Smul(inside, Imm(kSublanes)), Imm(256));
    const MemView* view = nullptr;
    std::vector<Start> starts(dims(id).size());
    if (node(id).kind == Node::Kind::kLoad) {
      view = &refs[node(id).ref].view;
      starts = StartsOf(node(id));
      WaitFor(node(id).ref);
    } else {
      view = StoredAs(id, info[id].natural);
    }
    if (view == nullptr || view->form.packing > 1) {
      Fail(id, "rows from lanes inside a loop");
      return Imm(0);
    }
    MemView moved = *view;
    int64_t rows = view->form.flat ? 1 : view->form.tile_rows;
    moved.base = b_.Sadd(b_.Smul(tile_index, Imm(rows)), view->base);
    moved.base_loop = at[d].loop;
    source[d] = Coord::Const(0);
    row = LoadTile(moved, starts, dims(id), from, source, id);
  }
  if (row.is_imm()) return row;
  Operand v = b_.Permute(Opcode::kVbcastLane, row, which);
  return pred ? ToMask(v) : v;
}

// A dimension along sublanes (alike in all lanes) -> along lanes (alike in all sublanes).
Operand Lowering::SubToLane(NodeId id, VLayout have, const Coords& at, int d) {
  constexpr int64_t kGroups = kLanes / kSublanes;
  int64_t groups = CeilDiv(dims(id)[d], kSublanes);
  bool pred = type(id) == Type::kPred;
  Reg diagonal = Kept(kDiagonalKey, [&] {
    return b_.Op(Opcode::kVsubS32, {LaneIds(), SublaneIds()});
  });
  int64_t count = kGroups;
  if (at[d].is_const()) count = std::min(kGroups, groups - at[d].c * kGroups);
  Operand v = Imm(0);
  for (int64_t g = 0; g < count; ++g) {
    Coords source = at;
    source[d] = at[d] * kGroups + g;
    Operand mine = Kept(kDiagonalKey - 100 - static_cast<int>(g), [&] {
      return b_.Op(Opcode::kVcmpEqS32, {diagonal, Imm(kSublanes * g)});
    });
    v = Vsel(mine, ToVector(Get(id, have, source)), v);
  }
  for (int n = 4; n >= 1; n /= 2) {
    v = V(Opcode::kVor, v, b_.Op(Opcode::kVrotSlane, {b_.AsReg(v), Imm(n)}));
  }
  return pred ? ToMask(v) : v;
}

// 128 x 128 at a time: register (b / 8, a / 128) of the transposed value.
Operand Lowering::TransposeTile(NodeId id, VLayout have, VLayout want, const Coords& at) {
  constexpr int64_t kGroups = kLanes / kSublanes;
  int a = have.sub, b = have.lane;
  bool pred = type(id) == Type::kPred;
  std::optional<Coord> tile = Div(at[b], kGroups);
  if (!tile) {
    Fail(id, "a transpose inside a loop over its rows");
    return Imm(0);
  }
  int64_t wanted = at[b].c % kGroups;
  Coords source = at;
  source[b] = *tile;
  int64_t groups = kGroups;
  if (at[a].is_const())
    groups = std::min(kGroups, CeilDiv(dims(id)[a], kSublanes) - at[a].c * kGroups);
  Reg token;
  for (int64_t g = 0; g < groups; ++g) {
    source[a] = at[a] * kGroups + g;
    Reg v = b_.AsReg(ToVector(Get(id, have, source)));
    if (groups == 1) {
      token = b_.Op(Opcode::kVxposeStartEnd, {v});
    } else if (g == 0) {
      token = b_.Op(Opcode::kVxposeStart, {v});
    } else {
      b_.Op(g + 1 < groups ? Opcode::kVxposeCont : Opcode::kVxposeEnd, {token, v});
    }
  }
  Operand result;
  for (int64_t j = 0; j < kGroups; ++j) {
    Operand v = b_.Op(Opcode::kVpopTrf, {token});
    if (pred) v = ToMask(v);
    Coords c = at;
    c[b].c += j - wanted;
    Remember({id, want, c}, v);
    if (j == wanted) result = v;
  }
  return result;
}

// ---- shape operations ----

Operand Lowering::EvalBroadcast(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  NodeId x = n.operands[0];
  const Ints& map = n.IntsAttr(AttrId::kDimensions);
  VLayout want;
  Coords c(dims(x).size(), Coord::Const(0));
  for (size_t o = 0; o < dims(x).size(); ++o) {
    int d = o < map.size() ? static_cast<int>(map[o]) : static_cast<int>(o);
    bool expands = dims(x)[o] == 1 && n.shape.dims[d] != 1;
    if (expands) continue;
    c[o] = at[d];
    if (layout.sub == d) want.sub = static_cast<int8_t>(o);
    if (layout.lane == d) want.lane = static_cast<int8_t>(o);
  }
  return Get(x, want, c);
}

Operand Lowering::EvalReshape(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  NodeId x = n.operands[0];
  std::vector<int> operand_dim;
  if (n.op == Op::kBitcast && BitsOf(type(x)) != BitsOf(n.shape.type)) {
    Fail(id, "between types of different size");
    return Imm(0);
  }
  if (!DegenerateReshape(n, &operand_dim)) {
    return EvalMoved(id, layout, at);
  }
  VLayout want;
  Coords c(dims(x).size(), Coord::Const(0));
  std::vector<char> kept(dims(x).size(), 0);
  for (size_t d = 0; d < operand_dim.size(); ++d) {
    int o = operand_dim[d];
    if (o < 0) continue;
    kept[o] = 1;
    c[o] = at[d];
    if (layout.sub == static_cast<int>(d)) want.sub = static_cast<int8_t>(o);
    if (layout.lane == static_cast<int>(d)) want.lane = static_cast<int8_t>(o);
  }
  if (info[x].flexible) return Get(x, want, c);
  // A dropped dimension that lies along an axis has one valid element there.
  VLayout have = info[x].natural;
  bool sub = want.sub < 0 && have.sub >= 0 && !kept[have.sub];
  bool lane = want.lane < 0 && have.lane >= 0 && !kept[have.lane];
  if (sub) want.sub = have.sub;
  if (lane) want.lane = have.lane;
  Operand v = Get(x, want, c);
  return sub || lane ? Replicate(v, sub, lane) : v;
}

Operand Lowering::EvalTranspose(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  const Ints& perm = n.IntsAttr(AttrId::kDimensions);
  VLayout want{static_cast<int8_t>(layout.sub < 0 ? -1 : perm[layout.sub]),
               static_cast<int8_t>(layout.lane < 0 ? -1 : perm[layout.lane])};
  Coords c(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) c[perm[d]] = at[d];
  return Get(n.operands[0], want, c);
}

Operand Lowering::RotateLanes(Operand v, int64_t n) {
  n = ((n % kLanes) + kLanes) % kLanes;
  bool mask = IsMask(v);
  v = ToVector(v);
  if (n == 0 || v.is_imm()) return mask ? ToMask(v) : v;
  Operand r = b_.Permute(Opcode::kVrotLane, v, Imm(n));
  return mask ? ToMask(r) : r;
}

Operand Lowering::Shifted(NodeId id, VLayout layout, const Coords& at, int64_t sub_shift,
                          int64_t lane_shift) {
  const Dims& d = dims(id);
  bool pred = type(id) == Type::kPred;
  auto exists = [&](int axis, const Coord& c) {
    return axis < 0 || !c.is_const() || (c.c >= 0 && c.c < TileExtent(d, layout, axis));
  };
  auto lanes = [&](const Coords& c) -> std::optional<Operand> {
    if (!exists(layout.sub, layout.sub < 0 ? Coord::Const(0) : c[layout.sub])) return std::nullopt;
    if (lane_shift == 0) {
      if (layout.lane >= 0 && !exists(layout.lane, c[layout.lane])) return std::nullopt;
      return ToVector(Get(id, layout, c));
    }
    std::optional<Operand> parts[2];
    for (int i = 0; i < 2; ++i) {
      Coords p = c;
      p[layout.lane] = c[layout.lane] + i;
      if (!exists(layout.lane, p[layout.lane])) continue;
      if (i == 1 && p[layout.lane].is_const() == false &&
          p[layout.lane].c >= TileExtent(d, layout, layout.lane))
        continue;
      Key key{kRotateKey - id * 200 - static_cast<int>(lane_shift) - 100000, layout, p};
      if (const Operand* known = Recall(key)) {
        parts[i] = *known;
      } else {
        parts[i] = RotateLanes(ToVector(Get(id, layout, p)), -lane_shift);
        Remember(key, *parts[i]);
      }
    }
    if (!parts[0]) return parts[1];
    if (!parts[1]) return parts[0];
    return Vsel(MaskOf(0, kSublanes, 0, kLanes - lane_shift), *parts[0], *parts[1]);
  };
  Operand r;
  if (sub_shift == 0) {
    std::optional<Operand> v = lanes(at);
    r = v ? *v : Imm(0);
  } else {
    std::optional<Operand> parts[2];
    for (int i = 0; i < 2; ++i) {
      Coords p = at;
      p[layout.sub] = at[layout.sub] + i;
      std::optional<Operand> v = lanes(p);
      if (v)
        parts[i] =
            v->is_imm() ? *v : Operand(b_.Op(Opcode::kVrotSlane, {*v, Imm(kSublanes - sub_shift)}));
    }
    if (parts[0] && parts[1]) {
      r = Vsel(MaskOf(0, kSublanes - sub_shift, 0, kLanes), *parts[0], *parts[1]);
    } else {
      r = parts[0] ? *parts[0] : parts[1] ? *parts[1] : Imm(0);
    }
  }
  return pred ? ToMask(r) : r;
}

Operand Lowering::EvalSlice(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  const auto& slices = std::get<std::vector<SliceDim>>(*n.Find(AttrId::kSlice));
  Coords c = at;
  int64_t sub_shift = 0, lane_shift = 0;
  for (int d = 0; d < static_cast<int>(slices.size()); ++d) {
    const SliceDim& s = slices[d];
    int64_t unit = TileUnit(layout, d);
    if (unit == 1) {
      c[d] = at[d] * s.stride + s.start;
      continue;
    }
    if (s.stride != 1) return EvalMoved(id, layout, at);
    c[d] = at[d] + s.start / unit;
    if (d == layout.sub) sub_shift = s.start % unit;
    if (d == layout.lane) lane_shift = s.start % unit;
  }
  if (sub_shift == 0 && lane_shift == 0) return Get(n.operands[0], layout, c);
  return Shifted(n.operands[0], layout, c, sub_shift, lane_shift);
}

namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace

// The part of one operand that falls into a result register: operand element = result element -
// offset in each dimension. False where nothing does.
bool Lowering::PlacePart(NodeId x, VLayout layout, const Coords& at, const Dims& offset,
                         const Dims& size, Operand* value, Operand* mask, bool* all) {
  Coords c = at;
  int64_t shift[2] = {0, 0}, from[2] = {0, 0}, to[2] = {kSublanes, kLanes};
  for (int d = 0; d < static_cast<int>(size.size()); ++d) {
    int64_t unit = TileUnit(layout, d);
    if (offset[d] == 0 && size[d] == dims(x)[d] && !at[d].is_const() && unit == 1) continue;
    if (!at[d].is_const()) {
      if (offset[d] % unit != 0 || size[d] % unit != 0) {
        Fail(x, "a piece at this offset inside a loop");
        return false;
      }
      c[d] = at[d] + -(offset[d] / unit);
      continue;
    }
    int64_t first = at[d].c * unit - offset[d];  // operand element at the register's first place
    if (first + unit <= 0 || first >= size[d]) return false;
    c[d] = Coord::Const(FloorDiv(first, unit));
    if (unit == 1) continue;
    int axis = d == layout.sub ? 0 : 1;
    shift[axis] = first - FloorDiv(first, unit) * unit;
    from[axis] = std::max<int64_t>(0, -first);
    to[axis] = std::min(unit, size[d] - first);
  }
  *value = Shifted(x, layout, c, shift[0], shift[1]);
  *all = from[0] == 0 && from[1] == 0 && to[0] == kSublanes && to[1] == kLanes;
  if (!*all) *mask = MaskOf(from[0], to[0], from[1], to[1]);
  return true;
}

Operand Lowering::EvalConcatOrPad(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  bool pred = n.shape.type == Type::kPred;
  int rank = static_cast<int>(n.shape.dims.size());
  Operand r = Imm(0);
  Dims offset(rank, 0);
  size_t count = n.operands.size();
  int64_t along = -1;
  if (n.op == Op::kPad) {
    const auto& pads = std::get<std::vector<PadDim>>(*n.Find(AttrId::kPadding));
    for (int d = 0; d < rank; ++d) {
      if (pads[d].interior != 0) return EvalMoved(id, layout, at);
      offset[d] = pads[d].low;
    }
    r = ToVector(Get(n.operands[1], {-1, -1}, {}));
    count = 1;
  } else {
    along = n.IntsAttr(AttrId::kDimensions)[0];
  }
  bool first = n.op == Op::kConcatenate;
  for (size_t i = 0; i < count; ++i) {
    NodeId x = n.operands[i];
    Operand v, mask;
    bool all = false;
    if (PlacePart(x, layout, at, offset, dims(x), &v, &mask, &all)) {
      v = ToVector(v);
      r = all || first ? v : Vsel(mask, v, r);
      first = false;
    }
    if (failed_) return Imm(0);
    if (along >= 0) offset[along] += dims(x)[along];
  }
  return pred ? ToMask(r) : r;
}

Operand Lowering::EvalReverse(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  Coords c = at;
  for (int64_t d : n.IntsAttr(AttrId::kDimensions)) {
    if (n.shape.dims[d] == 1) continue;
    if (TileUnit(layout, static_cast<int>(d)) != 1 || !at[d].is_const()) {
      return EvalMoved(id, layout, at);
    }
    c[d] = Coord::Const(n.shape.dims[d] - 1 - at[d].c);
  }
  return Get(n.operands[0], layout, c);
}

// A value that only memory can rearrange.
Operand Lowering::EvalMoved(NodeId id, VLayout layout, const Coords& at) {
  if (!info[id].ready) {
    if (InLoop()) {
      Fail(id, "moved through memory inside a loop");
      return Imm(0);
    }
    MoveRows(id);
  }
  if (failed_) return Imm(0);
  std::vector<Start> none(dims(id).size());
  Operand v = LoadTile(info[id].view, none, dims(id), layout, at, id);
  return type(id) == Type::kPred ? ToMask(v) : v;
}

}  // namespace tpuc::lower
