// Values of the scalar core: grid indices, loop counters and integer arithmetic on them, as scalar
// registers and predicates.
//
//   i * 8 + 3  ->  %s4 = sshll.u32 %s0, 3; %s5 = sadd.s32 %s4, 3
#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {
constexpr int kCoordKey = -6, kScalarKey = -1000;  // helper keys of the memo
}  // namespace

Reg Lowering::SecondCounter(int loop) {
  LoopVar& l = loops[loop];
  if (l.second.valid()) return l.second;
  l.second = f->New(RegClass::kScalar);
  const int here = b_.block();
  for (const Scope& s : scopes) {
    if (s.loop != loop) continue;
    b_.SetBlock(s.preheader);
    b_.Into(l.second, Opcode::kSmov, {Imm(0)});
  }
  b_.SetBlock(here);
  return l.second;
}

Operand Lowering::CoordScalar(const Coord& at) {
  if (at.is_const()) return Imm(at.c);
  if (at.loop == late_loop_) {
    return b_.Sadd(b_.Smul(SecondCounter(at.loop), Imm(at.scale)), Imm(at.c));
  }
  Key key{kCoordKey, {}, {at}};
  if (const Operand* v = Recall(key)) return *v;
  return Invariant({at}, true, [&] {
    Operand s = b_.Sadd(b_.Smul(loops[at.loop].counter, Imm(at.scale)), Imm(at.c));
    Remember(key, s);
    return s;
  });
}

Operand Lowering::Scalar(NodeId id) {
  const Node& n = node(id);
  Key key{kScalarKey - id, {}, {}};
  if (const Operand* v = Recall(key)) return *v;
  if (TooDeep(id)) return Imm(0);
  ++nesting_;
  Operand r = EvalScalar(n, id);
  --nesting_;
  Remember(key, r);
  return r;
}

Operand Lowering::EvalScalar(const Node& n, NodeId id) {
  switch (n.kind) {
    case Node::Kind::kAxis:
      return axes[n.axis];
    case Node::Kind::kNumAxis:
      return extents[n.axis];
    case Node::Kind::kLoopIndex:
      return loop_index[id];
    case Node::Kind::kLoad:
      return info[id].scalar ? LoadScalarWord(n) : ScalarOfVector(id);
    default:
      break;
  }
  if (info[id].to_scalar) return ScalarOfVector(id);
  if (n.shape.type == Type::kPred && n.op != Op::kConstant) {
    return b_.Select(Predicate(id), Imm(1), Imm(0));
  }
  auto arg = [&](int i) { return Scalar(n.operands[i]); };
  auto flip = [&](Operand v, Operand zero_or_one) {  // -v where the flag is set
    return b_.Select(b_.Op(Opcode::kScmpNe, {zero_or_one, Imm(0)}), b_.Ssub(Imm(0), v), v);
  };
  switch (n.op) {
    case Op::kConstant:
      return EvalConstantScalar(n);
    case Op::kConvert:
    case Op::kCopy:
    case Op::kReshape:
    case Op::kBitcast:
      return arg(0);
    case Op::kAdd:
      return b_.Sadd(arg(0), arg(1));
    case Op::kSubtract:
      return b_.Ssub(arg(0), arg(1));
    case Op::kMultiply:
      return b_.Smul(arg(0), arg(1));
    case Op::kMaximum:
      return b_.Smax(arg(0), arg(1));
    case Op::kMinimum:
      return b_.Smin(arg(0), arg(1));
    case Op::kNegate:
      return b_.Ssub(Imm(0), arg(0));
    case Op::kAbs: {
      const Operand a = arg(0);
      return b_.Smax(a, b_.Ssub(Imm(0), a));
    }
    case Op::kShiftLeft:
      return b_.Op(Opcode::kSshll, {arg(0), arg(1)});
    case Op::kShiftRightArithmetic:
      return b_.Op(Opcode::kSshra, {arg(0), arg(1)});
    case Op::kShiftRightLogical:
      return b_.Op(Opcode::kSshrl, {arg(0), arg(1)});
    case Op::kAnd:
      return b_.Op(Opcode::kSand, {arg(0), arg(1)});
    case Op::kOr:
      return b_.Op(Opcode::kSor, {arg(0), arg(1)});
    case Op::kXor:
      return b_.Op(Opcode::kSxor, {arg(0), arg(1)});
    case Op::kDivide:
    case Op::kRemainder: {
      Operand a = arg(0), b = arg(1);
      bool div = n.op == Op::kDivide;
      if (n.shape.type == Type::kU32 || NonNegative(n.operands[0])) {
        if (b.is_imm() ? b.imm > 0 : n.shape.type == Type::kU32) {
          return div ? b_.Sdiv(a, b) : b_.Srem(a, b);
        }
      }
      Operand sa = b_.Op(Opcode::kSshrl, {a, Imm(31)}), sb = b_.Op(Opcode::kSshrl, {b, Imm(31)});
      Operand ua = flip(a, sa), ub = flip(b, sb);
      if (!div) return flip(b_.Op(Opcode::kSrem, {ua, ub}), sa);
      return flip(b_.Op(Opcode::kSdiv, {ua, ub}), b_.Op(Opcode::kSxor, {sa, sb}));
    }
    case Op::kSelect:
      return b_.Select(Predicate(n.operands[0]), arg(1), arg(2));
    default:
      Fail(id, "on the scalar core");
      return Imm(0);
  }
}

bool Lowering::NonNegative(NodeId id, int levels) const {
  if (levels == 0) return false;
  const Node& n = node(id);
  switch (n.kind) {
    case Node::Kind::kAxis:
    case Node::Kind::kNumAxis:
      return true;
    case Node::Kind::kLoopIndex:
      return loop_negative[id] == 0;
    case Node::Kind::kHlo:
      break;
    default:
      return false;
  }
  if (!info[id].scalar && n.op != Op::kConstant) return false;
  switch (n.op) {
    case Op::kConstant:
      return EvalConstantScalar(n).imm >= 0;
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kMinimum:
      return NonNegative(n.operands[0], levels - 1) && NonNegative(n.operands[1], levels - 1);
    default:
      return false;
  }
}

Operand Lowering::EvalConstantScalar(const Node& n) const {
  const uint8_t* p = n.literal->bytes();
  switch (n.shape.type) {
    case Type::kS8:
    case Type::kS4:
      return Imm(*reinterpret_cast<const int8_t*>(p));
    case Type::kU8:
    case Type::kU4:
    case Type::kPred:
      return Imm(*p);
    case Type::kS16:
      return Imm(*reinterpret_cast<const int16_t*>(p));
    case Type::kU16:
      return Imm(*reinterpret_cast<const uint16_t*>(p));
    default:
      return Imm(*reinterpret_cast<const int32_t*>(p));
  }
}

Reg Lowering::Predicate(NodeId id) {
  const Node& n = node(id);
  auto make = [&](Opcode op, int a, int b) -> Reg {
    return b_.Op(op, {b_.AsScalar(Scalar(n.operands[a])), Scalar(n.operands[b])});
  };
  auto from_scalar = [&](Operand s) -> Reg {
    return b_.Op(Opcode::kScmpNe, {b_.AsScalar(s), Imm(0)});
  };
  if (n.kind != Node::Kind::kHlo || info[id].to_scalar) return from_scalar(Scalar(id));
  switch (n.op) {
    case Op::kConstant:
      return from_scalar(EvalConstantScalar(n));
    case Op::kCompare: {
      absl::string_view d = n.StringAttr(AttrId::kDirection);
      if (d == "EQ") return make(Opcode::kScmpEq, 0, 1);
      if (d == "NE") return make(Opcode::kScmpNe, 0, 1);
      if (d == "LT") return make(Opcode::kScmpLt, 0, 1);
      if (d == "LE") return make(Opcode::kScmpLe, 0, 1);
      if (d == "GT") return make(Opcode::kScmpGt, 0, 1);
      return make(Opcode::kScmpGe, 0, 1);
    }
    case Op::kAnd:
      return b_.Op(Opcode::kPand, {Predicate(n.operands[0]), Predicate(n.operands[1])});
    case Op::kOr:
      return b_.Op(Opcode::kPor, {Predicate(n.operands[0]), Predicate(n.operands[1])});
    case Op::kNot:
      return b_.Op(Opcode::kPneg, {Predicate(n.operands[0])});
    default:
      return from_scalar(Scalar(n.operands.empty() ? id : n.operands[0]));
  }
}

}  // namespace tpuc::lower
