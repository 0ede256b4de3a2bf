// Rules on conversions and copies: one a line.
//
// convert(convert(bf16 x to f32) to bf16) -> x, because the first step loses nothing
#include "passes/simplify/match.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
bool Has(const I* i, Op op) { return i->op == op; }

struct FloatWidths {
  int exponent = 0, mantissa = 0;
};
// Only the IEEE-like types whose values nest.
FloatWidths WidthsOf(Type type) {
  switch (type) {
    case Type::kF64:
      return {11, 52};
    case Type::kF32:
      return {8, 23};
    case Type::kBF16:
      return {8, 7};
    case Type::kF16:
      return {5, 10};
    default:
      return {};
  }
}

// Every value of `from` is a value of `to`.
bool Lossless(Type from, Type to) {
  if (from == to) return true;
  TypeClass f = ClassOf(from), t = ClassOf(to);
  if (f == TypeClass::kFloat && t == TypeClass::kFloat) {
    FloatWidths a = WidthsOf(from), b = WidthsOf(to);
    return a.exponent > 0 && a.exponent <= b.exponent && a.mantissa <= b.mantissa;
  }
  int value_bits = f == TypeClass::kBool ? 1 : BitsOf(from) - (f == TypeClass::kSigned ? 1 : 0);
  if (f != TypeClass::kBool && f != TypeClass::kSigned && f != TypeClass::kUnsigned) return false;
  if (t == TypeClass::kFloat) return value_bits <= WidthsOf(to).mantissa + 1 && to != Type::kF16;
  if (t == TypeClass::kSigned) return value_bits <= BitsOf(to) - 1;
  if (t == TypeClass::kUnsigned) return f != TypeClass::kSigned && value_bits <= BitsOf(to);
  return false;
}

I* JoinConverts(Rewriter& r, I* i) {
  I* inner = A(i);
  if (!Has(inner, Op::kConvert)) return nullptr;
  I* x = A(inner);
  if (!Lossless(x->shape.type, inner->shape.type) || i->shape.type == Type::kPred) return nullptr;
  // What an integer type cannot hold becomes its nearest value from a float, and wraps from another
  // integer.
  const bool clamps =
      IsFloat(inner->shape.type) && !IsFloat(x->shape.type) && !IsFloat(i->shape.type);
  if (clamps && !Lossless(x->shape.type, i->shape.type)) return nullptr;
  return r.MakeLike(*i, {x});
}

I* SamePrecision(Rewriter&, I* i) {
  FloatWidths w = WidthsOf(i->shape.type);
  bool all = w.exponent > 0 && i->IntAttr(AttrId::kExponentBits) >= w.exponent &&
             i->IntAttr(AttrId::kMantissaBits) >= w.mantissa;
  return all ? A(i) : nullptr;
}

// Before layouts are assigned a copy moves nothing.
bool Plain(const Shape& s) {
  return s.IsArray() && (!s.layout || (s.layout->tiles.empty() && s.layout->memory_space == 0));
}

I* JoinBitcastConverts(Rewriter& r, I* i) {
  I* inner = A(i);
  if (!Has(inner, Op::kBitcastConvert) || A(inner)->shape.dims != i->shape.dims) return nullptr;
  if (A(inner)->shape.type == i->shape.type) return A(inner);
  return inner->shape.dims == i->shape.dims ? r.MakeLike(*i, {A(inner)}) : nullptr;
}

}  // namespace

absl::Span<const RuleRow> ConvertRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"convert(x) to its type -> x",      Op::kConvert,         [](Rewriter&, I* i) { return A(i)->shape.type == i->shape.type ? A(i) : nullptr; }},
    {"convert(convert(x)) -> convert(x)", Op::kConvert,        JoinConverts},
    {"bitcast-convert(x) to its type -> x", Op::kBitcastConvert, [](Rewriter&, I* i) { return A(i)->shape.type == i->shape.type && A(i)->shape.dims == i->shape.dims ? A(i) : nullptr; }},
    {"bitcast-convert twice -> once",    Op::kBitcastConvert,  JoinBitcastConverts},
    {"reduce-precision to no less -> x", Op::kReducePrecision, SamePrecision},
    {"copy(x) -> x",                     Op::kCopy,            [](Rewriter&, I* i) { return Plain(i->shape) && Plain(A(i)->shape) ? A(i) : nullptr; }},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
