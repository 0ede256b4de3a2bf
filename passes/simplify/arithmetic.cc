// Rules on sums, products, quotients and elementary functions: one a line, most common first.
// A rule holds for every value, NaN and signed zeros included, unless its name says `~`: then it
// moves results by no more than the last bits (less than the oracle's limits).
//
// x/64 -> x*0.015625;  x + -0.0 -> x (but not x + 0.0: -0.0 + 0.0 is 0.0)
#include <cmath>

#include "passes/simplify/match.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
I* B(I* i) { return i->operands[1]; }
bool Has(const I* i, Op op) { return i->op == op; }

// c + x -> x + c: so that other rules look for constants on the right only.
I* ConstantRight(Rewriter& r, I* i) {
  return IsSplat(A(i)) && !IsSplat(B(i)) ? r.MakeLike(*i, {B(i), A(i)}) : nullptr;
}

// (x op c1) op c2 -> x op (c1 op c2), for integers; the inner one is folded later.
I* JoinConstants(Rewriter& r, I* i) {
  I* inner = A(i);
  if (!IsIntegerArray(i) || inner->op != i->op || !IsSplat(B(i)) || !IsSplat(B(inner))) {
    return nullptr;
  }
  Shape scalar = ArrayShape(i->shape.type, {});
  I* c1 = r.SplatLiteral(*SplatOf(B(inner)), {});
  I* c2 = r.SplatLiteral(*SplatOf(B(i)), {});
  I* joined = r.Make(i->op, scalar, {c1, c2});
  if (!i->shape.dims.empty()) joined = r.Broadcast(joined, i->shape.dims, {});
  return r.MakeLike(*i, {A(inner), joined});
}

// A negation that takes nothing away: f8e8m0fnu has no negative values, and -x is NaN.
bool Negates(const I* x) { return Has(x, Op::kNegate) && x->shape.type != Type::kF8E8M0FNU; }

I* Unary(Rewriter& r, I* like, Op op, I* x) { return r.Make(op, like->shape, {x}); }
I* Binary(Rewriter& r, I* like, Op op, I* x, I* y) { return r.Make(op, like->shape, {x, y}); }
I* SplatLike(Rewriter& r, I* like, double v) {
  return r.Splat(like->shape.type, like->shape.dims, v);
}

I* DivideByPowerOfTwo(Rewriter& r, I* i) {
  if (!IsExactReciprocal(B(i))) return nullptr;
  return Binary(r, i, Op::kMultiply, A(i), SplatLike(r, i, 1 / *SplatValue(B(i))));
}

// Other constants: one rounding more, half a unit in the last place. The chip divides by a
// reciprocal anyway. Narrow types would round the reciprocal to too few bits.
I* DivideByConstant(Rewriter& r, I* i) {
  std::optional<double> v = SplatValue(B(i));
  if (i->shape.type != Type::kF32 || !v || !std::isnormal(static_cast<float>(*v)) ||
      IsSplat(A(i))) {
    return nullptr;
  }
  float reciprocal = static_cast<float>(1 / *v);
  if (!std::isnormal(reciprocal)) return nullptr;
  return Binary(r, i, Op::kMultiply, A(i), SplatLike(r, i, reciprocal));
}

// 1/(1+exp(-x))
I* Logistic(Rewriter& r, I* i) {
  if (!IsSplat(A(i), 1) || !Has(B(i), Op::kAdd)) return nullptr;
  I* sum = B(i);
  I* exp = IsSplat(B(sum), 1) ? A(sum) : IsSplat(A(sum), 1) ? B(sum) : nullptr;
  if (!exp || !Has(exp, Op::kExponential) || !Negates(A(exp))) return nullptr;
  return Unary(r, i, Op::kLogistic, A(A(exp)));
}

// Unsigned x/2^k and x%2^k.
int UnsignedShift(const I* x, const I* c) {
  std::optional<double> v = SplatValue(c);
  if (ClassOf(x->shape.type) != TypeClass::kUnsigned || !v || *v < 1) return -1;
  int exponent;
  return std::frexp(*v, &exponent) == 0.5 && exponent <= 32 ? exponent - 1 : -1;
}
I* UnsignedDivide(Rewriter& r, I* i) {
  int k = UnsignedShift(i, B(i));
  return k < 0 ? nullptr : Binary(r, i, Op::kShiftRightLogical, A(i), SplatLike(r, i, k));
}
I* UnsignedRemainder(Rewriter& r, I* i) {
  int k = UnsignedShift(i, B(i));
  return k < 0 ? nullptr : Binary(r, i, Op::kAnd, A(i), SplatLike(r, i, std::ldexp(1.0, k) - 1));
}

I* Cube(Rewriter& r, I* i) {
  if (!IsSplat(B(i), 3)) return nullptr;
  return Binary(r, i, Op::kMultiply, Binary(r, i, Op::kMultiply, A(i), A(i)), A(i));
}

bool IsZeroInteger(const I* i, const I* c) { return IsIntegerArray(i) && IsSplat(c, 0); }

}  // namespace

absl::Span<const RuleRow> ArithmeticRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"c+x -> x+c",             Op::kAdd,       ConstantRight},
    {"x+0 -> x (integer)",     Op::kAdd,       [](Rewriter&, I* i) { return IsZeroInteger(i, B(i)) ? A(i) : nullptr; }},
    {"x+(-0.0) -> x",          Op::kAdd,       [](Rewriter&, I* i) { return IsFloatArray(i) && IsNegativeZero(B(i)) ? A(i) : nullptr; }},
    {"x+(-y) -> x-y",          Op::kAdd,       [](Rewriter& r, I* i) { return Negates(B(i)) ? Binary(r, i, Op::kSubtract, A(i), A(B(i))) : nullptr; }},
    {"(-x)+y -> y-x",          Op::kAdd,       [](Rewriter& r, I* i) { return Negates(A(i)) ? Binary(r, i, Op::kSubtract, B(i), A(A(i))) : nullptr; }},
    {"(x+c)+d -> x+(c+d)",     Op::kAdd,       JoinConstants},

    {"x-0 -> x",               Op::kSubtract,  [](Rewriter&, I* i) { return IsPositiveZero(B(i)) ? A(i) : nullptr; }},
    {"x-(-y) -> x+y",          Op::kSubtract,  [](Rewriter& r, I* i) { return Negates(B(i)) ? Binary(r, i, Op::kAdd, A(i), A(B(i))) : nullptr; }},
    {"x-x -> 0 (integer)",     Op::kSubtract,  [](Rewriter& r, I* i) { return IsIntegerArray(i) && A(i) == B(i) && !IsSplat(A(i)) ? SplatLike(r, i, 0) : nullptr; }},

    {"c*x -> x*c",             Op::kMultiply,  ConstantRight},
    {"x*1 -> x",               Op::kMultiply,  [](Rewriter&, I* i) { return IsSplat(B(i), 1) ? A(i) : nullptr; }},
    {"x*(-1) -> -x",           Op::kMultiply,  [](Rewriter& r, I* i) { return IsSplat(B(i), -1) ? Unary(r, i, Op::kNegate, A(i)) : nullptr; }},
    {"x*0 -> 0 (integer)",     Op::kMultiply,  [](Rewriter& r, I* i) { return IsZeroInteger(i, B(i)) ? SplatLike(r, i, 0) : nullptr; }},
    {"(-x)*(-y) -> x*y",       Op::kMultiply,  [](Rewriter& r, I* i) { return Negates(A(i)) && Negates(B(i)) ? Binary(r, i, Op::kMultiply, A(A(i)), A(B(i))) : nullptr; }},
    {"(x*c)*d -> x*(c*d)",     Op::kMultiply,  JoinConstants},

    {"x/1 -> x",               Op::kDivide,    [](Rewriter&, I* i) { return IsSplat(B(i), 1) ? A(i) : nullptr; }},
    {"x/(-1) -> -x",           Op::kDivide,    [](Rewriter& r, I* i) { return IsFloatArray(i) && IsSplat(B(i), -1) ? Unary(r, i, Op::kNegate, A(i)) : nullptr; }},
    {"x/2^k -> x*2^-k",        Op::kDivide,    DivideByPowerOfTwo},
    {"x/c ~ x*(1/c)",          Op::kDivide,    DivideByConstant},
    {"x/2^k -> x>>k (unsigned)", Op::kDivide,  UnsignedDivide},
    {"1/(1+exp(-x)) ~ logistic(x)", Op::kDivide, Logistic},
    {"1/sqrt(x) ~ rsqrt(x)",   Op::kDivide,    [](Rewriter& r, I* i) { return IsSplat(A(i), 1) && Has(B(i), Op::kSqrt) ? Unary(r, i, Op::kRsqrt, A(B(i))) : nullptr; }},
    {"x%2^k -> x&(2^k-1) (unsigned)", Op::kRemainder, UnsignedRemainder},

    {"x^1 -> x",               Op::kPower,     [](Rewriter&, I* i) { return IsSplat(B(i), 1) ? A(i) : nullptr; }},
    {"x^2 ~ x*x",              Op::kPower,     [](Rewriter& r, I* i) { return IsSplat(B(i), 2) ? Binary(r, i, Op::kMultiply, A(i), A(i)) : nullptr; }},
    {"x^3 ~ x*x*x",            Op::kPower,     Cube},
    {"x^0 -> 1",               Op::kPower,     [](Rewriter& r, I* i) { return IsSplat(B(i), 0) ? SplatLike(r, i, 1) : nullptr; }},
    {"x^-1 ~ 1/x",             Op::kPower,     [](Rewriter& r, I* i) { return IsFloatArray(i) && IsSplat(B(i), -1) ? Binary(r, i, Op::kDivide, SplatLike(r, i, 1), A(i)) : nullptr; }},

    {"-(-x) -> x",             Op::kNegate,    [](Rewriter&, I* i) { return Negates(A(i)) ? A(A(i)) : nullptr; }},
    {"abs(abs(x)) -> abs(x)",  Op::kAbs,       [](Rewriter&, I* i) { return Has(A(i), Op::kAbs) ? A(i) : nullptr; }},
    {"abs(-x) -> abs(x)",      Op::kAbs,       [](Rewriter& r, I* i) { return Negates(A(i)) && IsFloatArray(i) ? Unary(r, i, Op::kAbs, A(A(i))) : nullptr; }},
    {"abs(x*x) -> x*x",        Op::kAbs,       [](Rewriter&, I* i) { return Has(A(i), Op::kMultiply) && A(A(i)) == B(A(i)) && IsFloatArray(A(i)) ? A(i) : nullptr; }},

    {"max(x,x) -> x",          Op::kMaximum,   [](Rewriter&, I* i) { return A(i) == B(i) ? A(i) : nullptr; }},
    {"max(c,x) -> max(x,c)",   Op::kMaximum,   ConstantRight},
    {"max(x,-inf) -> x",       Op::kMaximum,   [](Rewriter&, I* i) { return IsFloatArray(i) && IsIdentityOf(Op::kMaximum, B(i)) ? A(i) : nullptr; }},
    {"max(max(x,c),d) -> max(x,max(c,d))", Op::kMaximum, JoinConstants},
    {"max(max(x,y),y) -> max(x,y)", Op::kMaximum, [](Rewriter&, I* i) { return Has(A(i), Op::kMaximum) && (A(A(i)) == B(i) || B(A(i)) == B(i)) ? A(i) : nullptr; }},
    {"min(x,x) -> x",          Op::kMinimum,   [](Rewriter&, I* i) { return A(i) == B(i) ? A(i) : nullptr; }},
    {"min(c,x) -> min(x,c)",   Op::kMinimum,   ConstantRight},
    {"min(x,inf) -> x",        Op::kMinimum,   [](Rewriter&, I* i) { return IsFloatArray(i) && IsIdentityOf(Op::kMinimum, B(i)) ? A(i) : nullptr; }},
    {"min(min(x,c),d) -> min(x,min(c,d))", Op::kMinimum, JoinConstants},
    {"min(min(x,y),y) -> min(x,y)", Op::kMinimum, [](Rewriter&, I* i) { return Has(A(i), Op::kMinimum) && (A(A(i)) == B(i) || B(A(i)) == B(i)) ? A(i) : nullptr; }},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
