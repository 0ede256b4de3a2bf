// Elementwise operations on one register. Every type is computed in 32-bit lanes: bf16 as f32
// rounded after each operation, narrow integers sign- or zero-extended, pred in mask registers.
//
//   a / b    ->  vrcp b; vpop.eup; vmul a
//   bf16 add ->  vadd.f32; vpack.c.bf16; vunpack.c.l.bf16
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

bool IsMask(const Operand& v) { return !v.is_imm() && v.reg.cls == RegClass::kMask; }

bool IsUnsigned(Type t) { return ClassOf(t) == TypeClass::kUnsigned; }

bool Supported(Type t) {
  switch (t) {
    case Type::kF32:
    case Type::kBF16:
    case Type::kS32:
    case Type::kU32:
    case Type::kS16:
    case Type::kU16:
    case Type::kS8:
    case Type::kU8:
    case Type::kS4:
    case Type::kU4:
    case Type::kPred:
      return true;
    default:
      return NarrowFormat(t) != nullptr;
  }
}

}  // namespace

Operand Lowering::Vsel(Operand mask, Operand a, Operand b) {
  return b_.Op(Opcode::kVsel, {mask, a, b});
}

// What follows an operation of a type narrower than the lane it was computed in.
Operand Lowering::RoundTo(Type type, Operand v) {
  if (type == Type::kBF16) {
    Reg r = b_.AsReg(v);
    return b_.Op(Opcode::kVunpackLBf16, {b_.Op(Opcode::kVpackBf16, {r, r})});
  }
  if (NarrowFormat(type) != nullptr) return RoundNarrow(*NarrowFormat(type), v);
  if (!IsInteger(type) || BitsOf(type) >= 32) return v;
  const int bits = BitsOf(type);
  if (IsUnsigned(type)) return V(Opcode::kVand, v, Imm((int64_t{1} << bits) - 1));
  return V(Opcode::kVshra, V(Opcode::kVshll, v, Imm(32 - bits)), Imm(32 - bits));
}

Operand Lowering::EvalElementwise(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  if (!Supported(n.shape.type)) {
    Fail(id, absl::StrCat("elements of type ", TypeName(n.shape.type)));
    return Imm(0);
  }
  std::vector<Operand> args;
  for (NodeId o : n.operands) {
    bool splat = dims(o).empty() && !n.shape.dims.empty();
    // What is no operation on elements of one place has no other lowering yet.
    if (!splat && dims(o) != n.shape.dims) {
      Fail(id, "not compiled to bundles yet");
      return Imm(0);
    }
    if (!Supported(type(o))) {
      Fail(id, absl::StrCat("an operand of type ", TypeName(type(o))));
      return Imm(0);
    }
    args.push_back(splat ? Get(o, {-1, -1}, {}) : Get(o, layout, at));
    if (failed_) return Imm(0);
  }
  Type t = n.shape.type;
  switch (n.op) {
    case Op::kConvert:
      return EvalConvert(args[0], type(n.operands[0]), t, id);
    case Op::kBitcastConvert:
      if (BitsOf(type(n.operands[0])) != BitsOf(t) || t == Type::kPred) break;
      if (const num::FloatFormat* from = NarrowFormat(type(n.operands[0]))) {
        args[0] = EncodeNarrow(*from, args[0]);
      }
      if (const num::FloatFormat* to = NarrowFormat(t)) {
        return DecodeNarrow(*to, V(Opcode::kVand, args[0], Imm((int64_t{1} << BitsOf(t)) - 1)));
      }
      if (t == Type::kBF16) return V(Opcode::kVshll, args[0], Imm(16));
      if (type(n.operands[0]) == Type::kBF16) {
        return V(t == Type::kS16 ? Opcode::kVshra : Opcode::kVshrl, args[0], Imm(16));
      }
      if (BitsOf(t) < 32) return RoundTo(t, args[0]);
      return args[0];
    case Op::kReducePrecision: {
      int64_t exponent = std::get<int64_t>(*n.Find(AttrId::kExponentBits));
      int64_t mantissa = std::get<int64_t>(*n.Find(AttrId::kMantissaBits));
      if (exponent < 1 || mantissa < 0) {
        Fail(id, absl::StrCat("to ", exponent, " exponent and ", mantissa, " mantissa bits"));
        return Imm(0);
      }
      // As wide a range as the type's own takes nothing away.
      bool narrower =
          t == Type::kF32 || t == Type::kBF16 || exponent < NarrowFormat(t)->exponent_bits;
      return RoundTo(t, ReducePrecision(args[0], narrower ? exponent : 8, mantissa));
    }
    case Op::kCompare:
      return Compare(n, args[0], args[1], id);
    case Op::kSelect: {
      Operand m = ToMask(args[0]);
      if (t != Type::kPred) return Vsel(m, args[1], args[2]);
      Operand yes = b_.Op(Opcode::kVmand, {m, ToMask(args[1])});
      Operand no = b_.Op(Opcode::kVmand, {b_.Op(Opcode::kVmneg, {m}), ToMask(args[2])});
      return b_.Op(Opcode::kVmor, {yes, no});
    }
    case Op::kClamp:
      return Binary(Op::kMinimum, t, Binary(Op::kMaximum, t, args[1], args[0], id), args[2], id);
    default:
      break;
  }
  Operand r;
  if (args.size() == 1) {
    r = Unary(n, args[0], id);
  } else if (args.size() == 2) {
    r = Binary(n.op, t, args[0], args[1], id);
  } else {
    Fail(id, "not lowered");
    return Imm(0);
  }
  switch (n.op) {  // results that need no rounding
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kAbs:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      if (IsFloat(t) || n.op == Op::kMaximum || n.op == Op::kMinimum) return r;
      break;
    case Op::kIsFinite:
      return r;
    default:
      break;
  }
  return RoundTo(t, r);
}

// The dimension along which the value is an iota, or one plus a scalar; -1: none.
int Lowering::CountedAlong(NodeId id) const {
  const Node& n = node(id);
  if (n.kind != Node::Kind::kHlo || n.shape.type != Type::kS32 || info[id].scalar) return -1;
  if (n.op == Op::kIota) {
    const AttrValue* a = n.Find(AttrId::kIotaDimension);
    return a == nullptr ? 0 : static_cast<int>(std::get<int64_t>(*a));
  }
  if (n.op != Op::kAdd) return -1;
  auto splat = [&](NodeId o) {
    const Node& x = node(o);
    return x.shape.dims.empty() ||
           (x.kind == Node::Kind::kHlo && x.op == Op::kBroadcast && dims(x.operands[0]).empty());
  };
  for (int side = 0; side < 2; ++side) {
    const NodeId o = n.operands[side];
    if (splat(n.operands[1 - side]) && dims(o) == n.shape.dims) {
      const int d = CountedAlong(o);
      if (d >= 0) return d;
    }
  }
  return -1;
}

Operand Lowering::EvalIota(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  Type t = n.shape.type;
  const AttrValue* a = n.Find(AttrId::kIotaDimension);
  int d = a == nullptr ? 0 : static_cast<int>(std::get<int64_t>(*a));
  int64_t unit = TileUnit(layout, d);
  const int late_before = late_loop_;
  late_loop_ = late_iota_;
  Operand base = b_.Smul(CoordScalar(at[d]), Imm(unit));
  late_loop_ = late_before;
  Operand v;
  if (layout.dense() && d == layout.lane) {
    v = LaneSeq();
  } else if (d == layout.lane) {
    v = LaneIds();
  } else if (d == layout.sub) {
    v = SublaneIds();
  }
  if (v.is_imm()) {
    v = base.is_imm() ? base : Operand(b_.Op(Opcode::kVstv, {base}));
  } else if (!base.is_imm()) {
    v = V(Opcode::kVaddS32, v, b_.Op(Opcode::kVstv, {base}));
  } else if (base.imm != 0) {
    v = V(Opcode::kVaddS32, v, base);
  }
  return EvalConvert(v, Type::kS32, t, id);
}

Operand Lowering::EvalConvert(Operand v, Type from, Type to, NodeId id) {
  if (from == to) return v;
  if (!Supported(to) || !Supported(from)) {
    Fail(id, absl::StrCat("conversion from ", TypeName(from), " to ", TypeName(to)));
    return Imm(0);
  }
  if (to == Type::kPred) {
    if (IsFloat(from)) return b_.Op(Opcode::kVcmpNeF32, {b_.AsReg(v), F32(0)});
    return b_.Op(Opcode::kVcmpNeS32, {b_.AsReg(v), Imm(0)});
  }
  if (from == Type::kPred) {
    Operand one = IsFloat(to) ? F32(1) : Imm(1);
    return Vsel(ToMask(v), one, Imm(0));
  }
  if (IsFloat(from) && IsFloat(to)) return RoundTo(to, v);
  if (IsFloat(from)) {
    Operand i = V(IsUnsigned(to) && BitsOf(to) == 32 ? Opcode::kVcvtF32U32 : Opcode::kVcvtF32S32,
                  b_.AsReg(v));
    if (BitsOf(to) == 32) return i;
    // XLA saturates at the type's own bounds.
    int64_t bits = BitsOf(to);
    int64_t low = IsUnsigned(to) ? 0 : -(int64_t{1} << (bits - 1));
    int64_t high = IsUnsigned(to) ? (int64_t{1} << bits) - 1 : (int64_t{1} << (bits - 1)) - 1;
    return V(Opcode::kVminS32, V(Opcode::kVmaxS32, i, Imm(low)), Imm(high));
  }
  if (IsFloat(to)) {
    Operand x = V(from == Type::kU32 ? Opcode::kVcvtU32F32 : Opcode::kVcvtS32F32, b_.AsReg(v));
    return RoundTo(to, x);
  }
  return BitsOf(to) < 32 ? RoundTo(to, v) : v;
}

Operand Lowering::Compare(const Node& n, Operand a, Operand b, NodeId id) {
  absl::string_view d = n.StringAttr(AttrId::kDirection);
  Type t = type(n.operands[0]);
  a = ToVector(a);
  b = ToVector(b);
  if (a.is_imm()) a = b_.AsReg(a);
  int which = d == "EQ" ? 0 : d == "NE" ? 1 : d == "LT" ? 2 : d == "LE" ? 3 : d == "GT" ? 4 : 5;
  static constexpr Opcode kF[] = {Opcode::kVcmpEqF32, Opcode::kVcmpNeF32, Opcode::kVcmpLtF32,
                                  Opcode::kVcmpLeF32, Opcode::kVcmpGtF32, Opcode::kVcmpGeF32};
  static constexpr Opcode kI[] = {Opcode::kVcmpEqS32, Opcode::kVcmpNeS32, Opcode::kVcmpLtS32,
                                  Opcode::kVcmpLeS32, Opcode::kVcmpGtS32, Opcode::kVcmpGeS32};
  if (IsFloat(t)) return b_.Op(kF[which], {a, b});
  if (t == Type::kU32 && which >= 2) {
    if (which >= 4) std::swap(a, b);
    bool or_equal = which == 3 || which == 5;
    return b_.Op(or_equal ? Opcode::kVcmpLeU32 : Opcode::kVcmpLtU32, {a, b});
  }
  return b_.Op(kI[which], {a, b});
}

Operand Lowering::Unary(const Node& n, Operand a, NodeId id) {
  Type t = n.shape.type;
  if (IsMask(a)) {
    if (n.op == Op::kNot) return b_.Op(Opcode::kVmneg, {a});
    a = ToVector(a);
  }
  a = b_.AsReg(a);
  Type from = type(n.operands[0]);
  if (n.op == Op::kIsFinite) {
    return b_.Op(Opcode::kVcmpLtS32, {V(Opcode::kVand, a, Imm(0x7fffffff)), Imm(0x7f800000)});
  }
  if (!IsFloat(from)) {
    switch (n.op) {
      case Op::kNegate:
        return V(Opcode::kVsubS32, Imm(0), a);
      case Op::kNot:
        return V(Opcode::kVxor, a, Imm(-1));
      case Op::kAbs:
        return IsUnsigned(t) ? a : V(Opcode::kVmaxS32, a, V(Opcode::kVsubS32, Imm(0), a));
      case Op::kSign:
        if (IsUnsigned(t)) return V(Opcode::kVminU32, a, Imm(1));
        return V(Opcode::kVminS32, V(Opcode::kVmaxS32, a, Imm(-1)), Imm(1));
      case Op::kPopcnt:
      case Op::kCountLeadingZeros: {
        int extra = 32 - BitsOf(t);
        Operand low = extra == 0 ? a : V(Opcode::kVand, a, Imm((int64_t{1} << BitsOf(t)) - 1));
        if (n.op == Op::kPopcnt) return V(Opcode::kVpcnt, low);
        Operand z = V(Opcode::kVclz, low);
        return extra == 0 ? z : V(Opcode::kVsubS32, z, Imm(extra));
      }
      default:
        Fail(id, "of an integer");
        return Imm(0);
    }
  }
  return Math(n.op, a, id);
}

Operand Lowering::Binary(Op op, Type t, Operand a, Operand b, NodeId id) {
  if (t == Type::kPred) {
    a = ToMask(a);
    b = ToMask(b);
    switch (op) {
      case Op::kAnd:
      case Op::kMultiply:
      case Op::kMinimum:
        return b_.Op(Opcode::kVmand, {a, b});
      case Op::kOr:
      case Op::kAdd:
      case Op::kMaximum:
        return b_.Op(Opcode::kVmor, {a, b});
      case Op::kXor:
        return b_.Op(Opcode::kVmxor, {a, b});
      default:
        Fail(id, "of pred values");
        return Imm(0);
    }
  }
  if (a.is_imm() && b.is_imm()) a = b_.AsReg(a);
  if (IsFloat(t)) {
    switch (op) {
      case Op::kAdd:
        return Add(a, b);
      case Op::kSubtract:
        return Sub(a, b);
      case Op::kMultiply:
        return Mul(a, b);
      case Op::kMaximum:
        return V(Opcode::kVmaxF32, a, b);
      case Op::kMinimum:
        return V(Opcode::kVminF32, a, b);
      case Op::kDivide:
        return Divide(a, b);
      case Op::kPower:
        if (a.is_imm() && a.imm == F32(2).imm) return b_.Eup(Opcode::kVpow2, b_.AsReg(b));
        return Power(b_.AsReg(a), b_.AsReg(b));
      case Op::kRemainder:
        return Remainder(b_.AsReg(a), b_.AsReg(b));
      case Op::kAtan2:
        return Atan2(b_.AsReg(a), b_.AsReg(b));
      case Op::kAnd:
        return V(Opcode::kVand, a, b);
      case Op::kOr:
        return V(Opcode::kVor, a, b);
      default:
        Fail(id, "not lowered");
        return Imm(0);
    }
  }
  bool u = IsUnsigned(t);
  switch (op) {
    case Op::kAdd:
      return V(Opcode::kVaddS32, a, b);
    case Op::kSubtract:
      return V(Opcode::kVsubS32, a, b);
    case Op::kMultiply:
      return V(Opcode::kVmulU32, a, b);
    case Op::kMaximum:
      return V(u ? Opcode::kVmaxU32 : Opcode::kVmaxS32, a, b);
    case Op::kMinimum:
      return V(u ? Opcode::kVminU32 : Opcode::kVminS32, a, b);
    case Op::kAnd:
      return V(Opcode::kVand, a, b);
    case Op::kOr:
      return V(Opcode::kVor, a, b);
    case Op::kXor:
      return V(Opcode::kVxor, a, b);
    case Op::kDivide:
    case Op::kRemainder:
      return DivRemInt(op, t, b_.AsReg(a), b_.AsReg(b));
    case Op::kPower:
      return PowerInt(t, b_.AsReg(a), b_.AsReg(b));
    case Op::kMulhi:
      if (t == Type::kU32) return V(Opcode::kVmulhU32, a, b);
      break;
    case Op::kShiftLeft:
    case Op::kShiftRightLogical:
    case Op::kShiftRightArithmetic: {
      // By the width or more: 0, or the sign. Narrow values shift in their own width.
      int bits = BitsOf(t);
      Operand x = a;
      if (op == Op::kShiftRightLogical && bits < 32) {
        x = V(Opcode::kVand, a, Imm((int64_t{1} << bits) - 1));
      }
      if (op == Op::kShiftRightArithmetic) {
        if (u && bits < 32) {
          x = V(Opcode::kVshra, V(Opcode::kVshll, a, Imm(32 - bits)), Imm(32 - bits));
        }
        return V(Opcode::kVshra, x, b);
      }
      return V(op == Op::kShiftLeft ? Opcode::kVshll : Opcode::kVshrl, x, b);
    }
    default:
      break;
  }
  Fail(id, "of integers");
  return Imm(0);
}

// The value that leaves the other operand of a reducer as it is.
Operand Lowering::Identity(Op reducer, Type t) {
  bool fl = IsFloat(t), u = IsUnsigned(t);
  int bits = BitsOf(t);
  switch (reducer) {
    case Op::kMultiply:
      return t == Type::kPred ? ToMask(Imm(1)) : fl ? F32(1) : Imm(1);
    case Op::kMaximum:
      if (t == Type::kPred) return ToMask(Imm(0));
      return fl ? F32(-std::numeric_limits<float>::infinity())
                : Imm(u ? 0 : -(int64_t{1} << (bits - 1)));
    case Op::kMinimum:
      if (t == Type::kPred) return ToMask(Imm(1));
      return fl ? F32(std::numeric_limits<float>::infinity())
                : Imm(u ? (int64_t{1} << bits) - 1 : (int64_t{1} << (bits - 1)) - 1);
    case Op::kAnd:
      return t == Type::kPred ? ToMask(Imm(1))
                              : Imm(u && bits < 32 ? (int64_t{1} << bits) - 1 : -1);
    default:
      return t == Type::kPred ? ToMask(Imm(0)) : Imm(0);
  }
}

}  // namespace tpuc::lower
