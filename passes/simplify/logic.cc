// Rules on and, or, xor, not, shifts, compare, select and clamp: one a line.
//
// select(true, x, y) -> x;  not(x == y) -> x != y;  compare(x, x) only for integers (NaN != NaN)
#include "passes/simplify/match.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
I* B(I* i) { return i->operands[1]; }
I* C(I* i) { return i->operands[2]; }
bool Has(const I* i, Op op) { return i->op == op; }
bool IsPred(const I* i) { return i->shape.type == Type::kPred; }

I* ConstantRight(Rewriter& r, I* i) {
  return IsSplat(A(i)) && !IsSplat(B(i)) ? r.MakeLike(*i, {B(i), A(i)}) : nullptr;
}
I* SplatLike(Rewriter& r, I* like, double v) {
  return r.Splat(like->shape.type, like->shape.dims, v);
}

absl::string_view Direction(const I* i) { return i->StringAttr(AttrId::kDirection); }

// The direction that holds for (b, a) when `direction` holds for (a, b).
std::string Swapped(absl::string_view direction) {
  if (direction == "LT") return "GT";
  if (direction == "GT") return "LT";
  if (direction == "LE") return "GE";
  if (direction == "GE") return "LE";
  return std::string(direction);
}
std::string Inverse(absl::string_view direction) {
  if (direction == "EQ") return "NE";
  if (direction == "NE") return "EQ";
  if (direction == "LT") return "GE";
  if (direction == "GE") return "LT";
  if (direction == "GT") return "LE";
  return "GT";
}

I* WithDirection(Rewriter& r, I* compare, std::string direction, I* a, I* b) {
  I* made = r.MakeLike(*compare, {a, b});
  made->Set(AttrId::kDirection, std::move(direction));
  return made;
}

I* CompareConstantRight(Rewriter& r, I* i) {
  if (!IsSplat(A(i)) || IsSplat(B(i))) return nullptr;
  return WithDirection(r, i, Swapped(Direction(i)), B(i), A(i));
}

I* CompareWithItself(Rewriter& r, I* i) {
  if (A(i) != B(i) || !(IsIntegerArray(A(i)) || IsPred(A(i)))) return nullptr;
  absl::string_view d = Direction(i);
  return SplatLike(r, i, d == "EQ" || d == "LE" || d == "GE");
}

// x < 0 is false and x >= 0 true for unsigned x.
I* CompareUnsignedZero(Rewriter& r, I* i) {
  if (ClassOf(A(i)->shape.type) != TypeClass::kUnsigned || !IsSplat(B(i), 0)) return nullptr;
  if (Direction(i) == "LT") return SplatLike(r, i, 0);
  return Direction(i) == "GE" ? SplatLike(r, i, 1) : nullptr;
}

// Comparisons of truth values with a constant.
I* ComparePred(Rewriter& r, I* i) {
  if (!IsPred(A(i)) || !IsSplat(B(i))) return nullptr;
  bool value = IsSplat(B(i), 1);
  absl::string_view d = Direction(i);
  if (d == (value ? "EQ" : "NE")) return A(i);
  if (d == (value ? "NE" : "EQ")) return r.Make(Op::kNot, i->shape, {A(i)});
  return nullptr;
}

I* NotCompare(Rewriter& r, I* i) {
  I* compare = A(i);
  if (!Has(compare, Op::kCompare)) return nullptr;
  absl::string_view d = Direction(compare);
  bool exact = d == "EQ" || d == "NE" || IsIntegerArray(A(compare)) || IsPred(A(compare));
  return exact ? WithDirection(r, compare, Inverse(d), A(compare), B(compare)) : nullptr;
}

I* SelectConstant(Rewriter&, I* i) {
  if (!IsSplat(A(i))) return nullptr;
  return IsSplat(A(i), 1) ? B(i) : C(i);
}

I* SelectNot(Rewriter& r, I* i) {
  return Has(A(i), Op::kNot) ? r.MakeLike(*i, {A(A(i)), C(i), B(i)}) : nullptr;
}

// select(p, true, false) -> p
I* SelectTruth(Rewriter& r, I* i) {
  if (!IsPred(i) || A(i)->shape.dims != i->shape.dims) return nullptr;
  if (IsSplat(B(i), 1) && IsSplat(C(i), 0)) return A(i);
  if (IsSplat(B(i), 0) && IsSplat(C(i), 1)) return r.Make(Op::kNot, i->shape, {A(i)});
  return nullptr;
}

bool SameRange(I* x, I* clamp) { return A(x) == A(clamp) && C(x) == C(clamp); }

}  // namespace

absl::Span<const RuleRow> LogicRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"not(not(x)) -> x",       Op::kNot,       [](Rewriter&, I* i) { return Has(A(i), Op::kNot) ? A(A(i)) : nullptr; }},
    {"not(x==y) -> x!=y",      Op::kNot,       NotCompare},

    {"and(x,x) -> x",          Op::kAnd,       [](Rewriter&, I* i) { return A(i) == B(i) ? A(i) : nullptr; }},
    {"and(c,x) -> and(x,c)",   Op::kAnd,       ConstantRight},
    {"and(x,ones) -> x",       Op::kAnd,       [](Rewriter&, I* i) { return IsAllOnes(B(i)) ? A(i) : nullptr; }},
    {"and(x,0) -> 0",          Op::kAnd,       [](Rewriter&, I* i) { return IsSplat(B(i), 0) ? B(i) : nullptr; }},
    {"or(x,x) -> x",           Op::kOr,        [](Rewriter&, I* i) { return A(i) == B(i) ? A(i) : nullptr; }},
    {"or(c,x) -> or(x,c)",     Op::kOr,        ConstantRight},
    {"or(x,0) -> x",           Op::kOr,        [](Rewriter&, I* i) { return IsSplat(B(i), 0) ? A(i) : nullptr; }},
    {"or(x,ones) -> ones",     Op::kOr,        [](Rewriter&, I* i) { return IsAllOnes(B(i)) ? B(i) : nullptr; }},
    {"xor(c,x) -> xor(x,c)",   Op::kXor,       ConstantRight},
    {"xor(x,0) -> x",          Op::kXor,       [](Rewriter&, I* i) { return IsSplat(B(i), 0) ? A(i) : nullptr; }},
    {"xor(x,x) -> 0",          Op::kXor,       [](Rewriter& r, I* i) { return A(i) == B(i) && !IsSplat(A(i)) ? SplatLike(r, i, 0) : nullptr; }},

    {"x<<0 -> x",              Op::kShiftLeft, [](Rewriter&, I* i) { return IsSplat(B(i), 0) ? A(i) : nullptr; }},
    {"x>>0 -> x",              Op::kShiftRightLogical,    [](Rewriter&, I* i) { return IsSplat(B(i), 0) ? A(i) : nullptr; }},
    {"x>>0 -> x (arithmetic)", Op::kShiftRightArithmetic, [](Rewriter&, I* i) { return IsSplat(B(i), 0) ? A(i) : nullptr; }},

    {"c<x -> x>c",             Op::kCompare,   CompareConstantRight},
    {"x==x -> true (integer)", Op::kCompare,   CompareWithItself},
    {"x<0 -> false (unsigned)", Op::kCompare,  CompareUnsignedZero},
    {"p==true -> p",           Op::kCompare,   ComparePred},

    {"select(p,x,x) -> x",     Op::kSelect,    [](Rewriter&, I* i) { return B(i) == C(i) ? B(i) : nullptr; }},
    {"select(true,x,y) -> x",  Op::kSelect,    SelectConstant},
    {"select(not(p),x,y) -> select(p,y,x)", Op::kSelect, SelectNot},
    {"select(p,true,false) -> p", Op::kSelect, SelectTruth},

    {"clamp(a,clamp(a,x,b),b) -> clamp(a,x,b)", Op::kClamp, [](Rewriter&, I* i) { return Has(B(i), Op::kClamp) && SameRange(B(i), i) ? B(i) : nullptr; }},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
