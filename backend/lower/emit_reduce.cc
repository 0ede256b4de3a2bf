// Reductions: over leading dimensions and tiles by VALU operations, inside a register over lanes by
// the cross-lane unit and over sublanes by three rotations. The result is replicated along what was
// reduced, so that broadcasting it back costs nothing.
//
//   f32[16,64] -> f32[16] over dim 1:  vsel (lanes >= 64 to 0); vadd.xlane; vpop: {sub 0, lane -1}
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

Operand Lowering::Combine(Op reducer, Type t, Operand a, Operand b, NodeId id) {
  return Binary(reducer, t, a, b, id);
}

Operand Lowering::MaskTile(Operand v, const Dims& dims, VLayout layout, const Coords& at, bool sub,
                           bool lane, Operand fill) {
  Operand mask;
  bool have = false;
  int64_t sub_to = kSublanes, lane_to = kLanes;
  auto dynamic = [&](Reg ids, const Coord& c, int64_t n, int64_t unit) {
    Operand left = b_.Ssub(Imm(n), b_.Smul(CoordScalar(c), Imm(unit)));
    Operand m = b_.Op(Opcode::kVcmpLtS32, {ids, b_.Op(Opcode::kVstv, {left})});
    mask = have ? Operand(b_.Op(Opcode::kVmand, {mask, m})) : m;
    have = true;
  };
  if (layout.dense()) {
    int64_t n = dims[layout.lane], unit = kSublanes * kLanes;
    if (n % unit == 0) return v;
    const Coord& c = at[layout.lane];
    if (c.is_const() && (c.c + 1) * unit <= n) return v;
    dynamic(LaneSeq(), c, n, unit);
  } else {
    auto one = [&](int d, int64_t unit, int64_t* to, bool is_lane) {
      if (d < 0 || dims[d] % unit == 0) return;
      const Coord& c = at[d];
      if (c.is_const()) {
        *to = std::min(unit, dims[d] - c.c * unit);
      } else {
        dynamic(is_lane ? LaneIds() : SublaneIds(), c, dims[d], unit);
      }
    };
    if (sub) one(layout.sub, kSublanes, &sub_to, false);
    if (lane) one(layout.lane, kLanes, &lane_to, true);
    if (sub_to < kSublanes || lane_to < kLanes) {
      Operand m = MaskOf(0, sub_to, 0, lane_to);
      mask = have ? Operand(b_.Op(Opcode::kVmand, {mask, m})) : m;
      have = true;
    }
  }
  if (!have) return v;
  bool is_mask = !v.is_imm() && v.reg.cls == RegClass::kMask;
  if (is_mask) {
    Operand f = ToMask(fill);
    Operand yes = b_.Op(Opcode::kVmand, {mask, v});
    Operand no = b_.Op(Opcode::kVmand, {b_.Op(Opcode::kVmneg, {mask}), f});
    return b_.Op(Opcode::kVmor, {yes, no});
  }
  return Vsel(mask, v, fill);
}

namespace {

bool Extremum(Op r) { return r == Op::kMaximum || r == Op::kMinimum; }

}  // namespace

// Over all 128 lanes of each sublane, to all lanes.
Operand Lowering::ReduceLanes(Op reducer, Type t, Operand v, NodeId id) {
  if (t == Type::kPred) {
    bool any = reducer == Op::kOr || reducer == Op::kMaximum || reducer == Op::kAdd;
    Operand x = Vsel(ToMask(v), F32(1), F32(0));
    if (reducer == Op::kXor) {
      Operand sum = V(Opcode::kVcvtF32S32, b_.Xlane(Opcode::kVaddXlane, x));
      return ToMask(V(Opcode::kVand, sum, Imm(1)));
    }
    Operand r = b_.Xlane(any ? Opcode::kVmaxXlane : Opcode::kVminXlane, x);
    return b_.Op(Opcode::kVcmpNeF32, {r, F32(0)});
  }
  if (IsFloat(t) && reducer == Op::kAdd) return b_.Xlane(Opcode::kVaddXlane, v);
  if (IsFloat(t) && Extremum(reducer)) {
    return b_.Xlane(reducer == Op::kMaximum ? Opcode::kVmaxXlane : Opcode::kVminXlane, v);
  }
  if (reducer == Op::kAdd) {
    // Sums of 16-bit halves are exact in f32.
    Operand high = V(Opcode::kVshra, v, Imm(16)), low = V(Opcode::kVand, v, Imm(0xffff));
    Operand h = b_.Xlane(Opcode::kVaddXlane, V(Opcode::kVcvtS32F32, high));
    Operand l = b_.Xlane(Opcode::kVaddXlane, V(Opcode::kVcvtS32F32, low));
    Operand hi = V(Opcode::kVshll, V(Opcode::kVcvtF32S32, h), Imm(16));
    return V(Opcode::kVaddS32, hi, V(Opcode::kVcvtF32S32, l));
  }
  if (Extremum(reducer)) {
    // The best high half, then the best low half among its holders.
    bool u = ClassOf(t) == TypeClass::kUnsigned, max = reducer == Op::kMaximum;
    Opcode x = max ? Opcode::kVmaxXlane : Opcode::kVminXlane;
    Operand high = V(u ? Opcode::kVshrl : Opcode::kVshra, v, Imm(16));
    Operand low = V(Opcode::kVcvtS32F32, V(Opcode::kVand, v, Imm(0xffff)));
    Operand h = V(Opcode::kVcvtF32S32, b_.Xlane(x, V(Opcode::kVcvtS32F32, high)));
    Operand mine = b_.Op(Opcode::kVcmpEqS32, {high, h});
    Operand l = b_.Xlane(x, Vsel(mine, low, max ? F32(-1) : F32(65536)));
    return V(Opcode::kVor, V(Opcode::kVshll, h, Imm(16)), V(Opcode::kVcvtF32S32, l));
  }
  for (int n = 64; n >= 1; n /= 2) {  // any other reducer: rotate and combine
    v = Combine(reducer, t, v, b_.Permute(Opcode::kVrotLane, v, Imm(n)), id);
  }
  return v;
}

Operand Lowering::ReduceInside(Op reducer, Type t, Operand v, bool sub, bool lane, NodeId id) {
  if (sub) {
    bool pred = t == Type::kPred;
    for (int n = 4; n >= 1; n /= 2) {
      Operand x = ToVector(v);
      Operand r = b_.Op(Opcode::kVrotSlane, {b_.AsReg(x), Imm(n)});
      v = Combine(reducer, t, v, pred ? ToMask(r) : r, id);
    }
  }
  return lane ? ReduceLanes(reducer, t, v, id) : v;
}

VLayout Lowering::OperandLayout(NodeId id) const {
  return info[id].flexible ? DefaultVLayout(static_cast<int>(dims(id).size())) : info[id].natural;
}

Operand Lowering::FinishReduce(NodeId id, Operand acc) {
  const AtSource source(&b_, info[id].source);
  const Node& n = node(id);
  NodeId x = n.operands[0];
  VLayout from = OperandLayout(x);
  bool sub = false, lane = false;
  for (int64_t d : n.IntsAttr(AttrId::kDimensions)) {
    sub |= d == from.sub;
    lane |= d == from.lane;
  }
  Type t = n.shape.type;
  Operand r = ReduceInside(n.reducer, t, acc, sub, lane, id);
  // The start value, unless it is the identity.
  if (n.operands.size() == 1)
    return t == Type::kF32 || t == Type::kPred || BitsOf(t) == 32 ? r : RoundTo(t, r);
  const Node& init = node(n.operands[1]);
  Operand identity = Identity(n.reducer, t);
  bool skip = false;
  if (init.kind == Node::Kind::kHlo && init.op == Op::kConstant && t != Type::kPred) {
    Operand c = EvalConstant(n.operands[1]);
    skip = c.is_imm() && identity.is_imm() &&
           (c.imm == identity.imm || (n.reducer == Op::kAdd && IsFloat(t) && c.imm == INT32_MIN));
    // A start below every finite value changes nothing but an empty maximum.
  }
  if (!skip) r = Combine(n.reducer, t, r, Get(n.operands[1], {-1, -1}, {}), id);
  return t == Type::kF32 || t == Type::kPred || BitsOf(t) == 32 ? r : RoundTo(t, r);
}

Operand Lowering::ReducePart(NodeId id, const Coords& operand_at) {
  const Node& n = node(id);
  NodeId x = n.operands[0];
  VLayout from = OperandLayout(x);
  bool sub = false, lane = false;
  for (int64_t d : n.IntsAttr(AttrId::kDimensions)) {
    sub |= d == from.sub;
    lane |= d == from.lane;
  }
  Operand v = Get(x, from, operand_at);
  return MaskTile(v, dims(x), from, operand_at, sub, lane, Identity(n.reducer, n.shape.type));
}

Operand Lowering::EvalReduce(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  if (n.operands.size() > 2) {
    Fail(id, "with several operands");
    return Imm(0);
  }
  NodeId x = n.operands[0];
  VLayout from = OperandLayout(x);
  const Ints& reduced = n.IntsAttr(AttrId::kDimensions);
  int rank = static_cast<int>(dims(x).size());
  Coords base(rank, Coord::Const(0));
  std::vector<int> over;
  int r = 0;
  for (int d = 0; d < rank; ++d) {
    bool is_reduced = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    if (is_reduced) {
      over.push_back(d);
    } else {
      base[d] = at[r++];
    }
  }
  int64_t count = 1;
  for (int d : over) count *= TileExtent(dims(x), from, d);
  std::vector<Operand> parts;
  constexpr int kChains = 4;
  for (int64_t i = 0; i < count; ++i) {
    Coords c = base;
    int64_t rest = i;
    for (int j = static_cast<int>(over.size()) - 1; j >= 0; --j) {
      int64_t extent = TileExtent(dims(x), from, over[j]);
      c[over[j]] = Coord::Const(rest % extent);
      rest /= extent;
    }
    Operand v = ReducePart(id, c);
    if (failed_) return Imm(0);
    if (static_cast<int>(parts.size()) < kChains) {
      parts.push_back(v);
    } else {
      Operand& acc = parts[i % kChains];
      acc = Combine(n.reducer, n.shape.type, acc, v, id);
    }
  }
  if (parts.empty()) {
    return n.operands.size() == 1 ? Identity(n.reducer, n.shape.type)
                                  : Get(n.operands[1], {-1, -1}, {});
  }
  while (parts.size() > 1) {
    std::vector<Operand> next;
    for (size_t i = 0; i < parts.size(); i += 2) {
      next.push_back(i + 1 < parts.size()
                         ? Combine(n.reducer, n.shape.type, parts[i], parts[i + 1], id)
                         : parts[i]);
    }
    parts = next;
  }
  Operand acc = parts[0];
  if (n.shape.type != Type::kPred) acc = b_.AsReg(acc);
  return FinishReduce(id, acc);
}

}  // namespace tpuc::lower
