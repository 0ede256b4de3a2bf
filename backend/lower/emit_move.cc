// Shape operations in registers: broadcasts, reshapes that add or drop dimensions of size 1,
// transposes, slices, concatenation, padding, reversal.
//
//   slice [3:19]:  vrot.slane of two registers and one vsel
//
// Movement that fits none of these goes through memory (emit_rows.cc).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

namespace {

constexpr int kRotateKey = -8;

bool IsMask(const Operand& v) { return !v.is_imm() && v.reg.cls == RegClass::kMask; }

}  // namespace

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
  if (lane && (info[x].alike >> have.lane & 1)) lane = false;
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
    if (info[n.operands[0]].alike >> d & 1) {
      c[d] = Coord::Const(0);
      continue;
    }
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
