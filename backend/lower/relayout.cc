// Changes of register layout, one step at a time (LastHop). A step inside a register or between a
// few; or through memory, whose rows can be read at any stride.
//
//   f32[16] in lanes -> rows:  vbcast.lane 256 (rows 0-7), 264 (rows 8-15)
//   rows -> lanes:             vsel (lane == sublane + 8g) of each row group, then or-and-rotate
//   f32[4,16,128], {1, 2} -> {0, 2}: vld with a sublane stride of 16 rows
//
// In loop nests the plan (nest_plan.cc) has made what a step reads from memory.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

namespace {

constexpr int kDiagonalKey = -7;

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

// How to get from `have` to `want`.
Hop Lowering::LastHop(NodeId id, VLayout want) const {
  const Dims& d = dims(id);
  VLayout natural = info[id].natural, have = natural;
  auto size1 = [&](int axis) { return axis >= 0 && d[axis] == 1; };
  Hop hop;
  hop.kind = Hop::Kind::kAs;
  hop.from = want;
  if (size1(want.sub) && want.sub != have.sub) hop.from.sub = -1;
  if (size1(want.lane) && want.lane != have.lane) hop.from.lane = -1;
  if (hop.from != want) return hop;
  hop.sub = size1(have.sub) && want.sub != have.sub;
  hop.lane = size1(have.lane) && want.lane != have.lane;
  if (hop.sub) have.sub = -1;
  if (hop.lane) have.lane = -1;
  hop.from = natural;
  hop.kind = Hop::Kind::kReplicate;
  if (have != natural && Serves(have, want, d)) return hop;
  hop.kind = Hop::Kind::kMemory;
  // Memory has rows of the same lanes at any stride.
  if (natural.lane == want.lane) return hop;
  hop.from = have;
  if (have.lane == want.lane) return hop;
  if (want.dense()) {
    hop.from = {-1, want.lane};
  } else if (want.lane < 0 && (have.lane == want.sub || have.lane < 0)) {
    hop.from = {-1, want.sub};
    hop.kind = Hop::Kind::kLanesToRows;
  } else if (want.lane < 0) {
    hop.from = {want.sub, have.lane};
    hop.kind = Hop::Kind::kLaneToAll;
  } else if (have.lane < 0) {
    hop.from = want.sub < 0 ? VLayout{want.lane, -1} : VLayout{-1, want.lane};
    if (want.sub < 0) hop.kind = Hop::Kind::kRowsToLanes;
  } else if (want.sub == have.lane) {
    hop.from = {want.lane, have.lane};
    hop.kind = Hop::Kind::kTranspose;
  } else {
    hop.from = {have.lane, want.lane};
    if (have.lane == want.sub) hop.kind = Hop::Kind::kTranspose;
  }
  return hop;
}

Operand Lowering::Relayout(NodeId id, VLayout want, const Coords& at) {
  const Dims& d = dims(id);
  bool pred = type(id) == Type::kPred;
  auto copy = stored.find({id, want.sub, want.lane});
  if (copy != stored.end() && CopyDone(id, want)) {
    std::vector<Start> none(d.size());
    Operand v = LoadTile(copy->second, none, d, want, at, id);
    ++f->info.temp_loads;
    return pred ? ToMask(v) : v;
  }
  Hop hop = LastHop(id, want);
  switch (hop.kind) {
    case Hop::Kind::kAs:
      return Get(id, hop.from, at);
    case Hop::Kind::kReplicate:
      if (hop.lane && (info[id].alike >> info[id].natural.lane & 1)) hop.lane = false;
      return Replicate(Get(id, hop.from, at), hop.sub, hop.lane);
    case Hop::Kind::kRowsToLanes:
      return SubToLane(id, hop.from, at, want.lane);
    case Hop::Kind::kLanesToRows:
      return FromLanes(id, {-1, want.sub}, at, true);
    case Hop::Kind::kLaneToAll:
      return FromLanes(id, hop.from, at, false);
    case Hop::Kind::kTranspose:
      return TransposeTile(id, hop.from, want, at);
    case Hop::Kind::kMemory:
      break;
  }
  MemView view;
  std::vector<Start> starts;
  if (!InMemory(id, hop.from, want, &view, &starts)) {
    Fail(id, "a change of register layout inside a loop");
    return Imm(0);
  }
  Operand v = LoadTile(view, starts, d, want, at, id);
  return pred ? ToMask(v) : v;
}

// Whether registers of another layout can be read straight from a load's own memory.
bool Lowering::ReadableAs(NodeId id, VLayout want) const {
  const Node& n = node(id);
  if (n.kind != Node::Kind::kLoad || info[id].ready) return false;
  const MemForm& form = refs[n.ref].view.form;
  int lane = form.flat ? 0 : form.lane;
  if (lane >= 0 && !n.slices.empty()) {
    const kernel::Slice& s = n.slices[lane];
    if (s.start_node >= 0 || s.start % kLanes != 0) return false;
  }
  // Words that hold several rows: only where the row is known.
  return form.packing == 1 || (whole && !want.dense());
}

// Where the value lies in memory in this layout, to be read as `want`.
bool Lowering::InMemory(NodeId id, VLayout layout, VLayout want, MemView* view,
                        std::vector<Start>* starts) {
  starts->assign(dims(id).size(), {});
  for (Start& s : *starts) s.scalar = Imm(0);
  if (info[id].natural == layout && ReadableAs(id, want)) {
    WaitFor(node(id).ref);
    *view = refs[node(id).ref].view;
    *starts = StartsOf(node(id));
    return true;
  }
  const MemView* place = StoredAs(id, layout);
  if (place != nullptr) *view = *place;
  return place != nullptr;
}

// The value in a temporary of this layout.
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

// A dimension that lies along lanes in `from`: with `rows`, eight of its elements along the
// sublanes (from {-1, d}); else one element, in each sublane, to all lanes (from {c, d}).
Operand Lowering::FromLanes(NodeId id, VLayout from, const Coords& at, bool rows) {
  int d = from.lane;
  int64_t parts = rows ? kLanes / kSublanes : kLanes;  // in a register
  int64_t size = rows ? kSublanes : 1, code = rows ? 256 : 0;
  bool pred = type(id) == Type::kPred;
  Coords source = at;
  Operand row, which;
  if (std::optional<Coord> tile = Div(at[d], parts)) {
    source[d] = *tile;
    row = ToVector(Get(id, from, source));
    which = Imm(code + size * (at[d].c % parts));
  } else {
    // Counted by a loop: the row's address and the lane are computed.
    Operand g = CoordScalar(at[d]);
    Operand tile_index = b_.Sdiv(g, Imm(parts));
    which = b_.Sadd(b_.Smul(b_.Srem(g, Imm(parts)), Imm(size)), Imm(code));
    MemView moved;
    std::vector<Start> starts;
    VLayout lies = info[id].natural.lane == d ? info[id].natural : from;
    if (!InMemory(id, lies, from, &moved, &starts) || moved.form.packing > 1) {
      Fail(id, "rows from lanes inside a loop");
      return Imm(0);
    }
    int64_t step = moved.form.flat ? 1 : moved.form.tile_rows;
    moved.base = b_.Sadd(b_.Smul(tile_index, Imm(step)), moved.base);
    moved.local = true;
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
  std::vector<Reg> pushed;  // all first: nothing else of the unit may come between the pushes
  for (int64_t g = 0; g < groups; ++g) {
    source[a] = at[a] * kGroups + g;
    pushed.push_back(b_.AsReg(ToVector(Get(id, have, source))));
  }
  if (failed_) return Imm(0);
  Reg token;
  for (int64_t g = 0; g < groups; ++g) {
    Reg v = pushed[g];
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

}  // namespace tpuc::lower
