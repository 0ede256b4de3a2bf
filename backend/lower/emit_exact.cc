// Functions whose arguments need exact work before any approximation: sine, cosine and tangent of
// any f32, remainders of any two, powers.
//
//   sin 1e22:  x = m 2^e; the bits of 2/pi that matter for it, times m: quadrant and fraction
#include <limits>

#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallest = std::numeric_limits<float>::min();  // what is smaller counts as 0

// 2 / pi, its binary digits behind two zeros, after a word of zeros.
constexpr uint32_t kTwoOverPi[] = {0x00000000, 0x28be60db, 0x9391054a, 0x7f09d5f4,
                                   0x7d4d3770, 0x36d8a566, 0x4f10e410, 0x00000000};

}  // namespace

// x = q pi/2 + r, |r| <= pi/4 (Payne and Hanek): m 2^e times 2/pi in 2.62 fixed point, from the 96
// bits of 2/pi that start where e says. |x| < 1/2 stays as it is.
std::pair<Operand, Operand> Lowering::QuarterTurns(Operand x) {
  Operand bits = Abs(x);
  Operand m = V(Opcode::kVor, V(Opcode::kVshll, bits, Imm(8)), Imm(0x80000000));
  Operand e = V(Opcode::kVsubS32, V(Opcode::kVshrl, bits, Imm(23)), Imm(126));
  Operand from[4];  // e >= 32, 64, 96, 128
  for (int i = 0; i < 4; ++i) from[i] = b_.Op(Opcode::kVcmpGeS32, {e, Imm(32 * (i + 1))});
  Operand word[4];
  for (int w = 0; w < 4; ++w) {
    auto at = [&](int i) { return Imm(static_cast<int32_t>(kTwoOverPi[i])); };
    word[w] = at(w);
    for (int i = 0; i < 4; ++i) word[w] = Vsel(from[i], at(w + i + 1), b_.AsReg(word[w]));
  }
  Operand left = V(Opcode::kVand, e, Imm(31)), right = V(Opcode::kVsubS32, Imm(32), left);
  auto join = [&](Operand high, Operand low) {
    return V(Opcode::kVor, V(Opcode::kVshll, high, left), V(Opcode::kVshrl, low, right));
  };
  Operand high = join(word[0], word[1]), mid = join(word[1], word[2]), low = join(word[2], word[3]);
  Operand carry = V(Opcode::kVmulhU32, m, low);
  Operand p0 = V(Opcode::kVaddS32, V(Opcode::kVmulU32, m, mid), carry);
  Operand more = Vsel(b_.Op(Opcode::kVcmpLtU32, {p0, carry}), b_.AsReg(Imm(1)), Imm(0));
  Operand p1 = V(Opcode::kVaddS32, V(Opcode::kVmulhU32, m, mid), V(Opcode::kVmulU32, m, high));
  p1 = V(Opcode::kVaddS32, p1, more);
  // The fraction as a signed number, its sign carried into the quadrant.
  Operand f = V(Opcode::kVor, V(Opcode::kVshll, p1, Imm(2)), V(Opcode::kVshrl, p0, Imm(30)));
  Operand q = V(Opcode::kVaddS32, V(Opcode::kVshrl, p1, Imm(30)), V(Opcode::kVshrl, f, Imm(31)));
  constexpr double kQuarter = 1.57079632679489662;
  Operand r = Mul(V(Opcode::kVcvtS32F32, f), F32(static_cast<float>(kQuarter * 0x1p-32)));
  Operand rest = V(Opcode::kVcvtU32F32, V(Opcode::kVshll, p0, Imm(2)));
  r = Add(r, Mul(rest, F32(static_cast<float>(kQuarter * 0x1p-64))));
  Operand negative = b_.Op(Opcode::kVcmpLtS32, {x, Imm(0)});
  r = V(Opcode::kVxor, r, V(Opcode::kVand, x, Imm(0x80000000)));
  q = Vsel(negative, V(Opcode::kVsubS32, Imm(0), q), q);
  Operand small = Less(bits, F32(0.5f));
  return {Vsel(small, Imm(0), q), Vsel(small, x, r)};
}

// which: 0 sine, 1 cosine, 2 tangent.
Operand Lowering::SinCos(Operand x, int which) {
  auto [q, r] = QuarterTurns(x);
  Operand r2 = Mul(r, r);
  Operand s = Mul(r, Poly(r2, {1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0}));
  Operand c = Poly(r2, {-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0});
  Operand odd = b_.Op(Opcode::kVcmpNeS32, {V(Opcode::kVand, q, Imm(1)), Imm(0)});
  Operand v, turn;
  if (which == 2) {
    v = Mul(Vsel(odd, c, s), b_.Eup(Opcode::kVrcp, Vsel(odd, s, c)));
    turn = V(Opcode::kVshll, q, Imm(1));
  } else {
    v = which == 0 ? Vsel(odd, c, s) : Vsel(odd, s, c);
    turn = which == 0 ? q : V(Opcode::kVaddS32, q, Imm(1));
  }
  v = V(Opcode::kVxor, v, V(Opcode::kVshll, V(Opcode::kVand, turn, Imm(2)), Imm(30)));
  return Vsel(Less(Abs(x), F32(kInf)), v, F32(kNan));
}

// a - trunc(a / b) b, exactly: the mantissas as integers, 20 bits of the quotient at a time.
Operand Lowering::Remainder(Operand a, Operand b) {
  constexpr int kStep = 20, kMost = 253;  // bits a step; largest difference of exponents
  Operand x = Abs(a), y = Abs(b);
  auto exponent = [&](Operand v) { return V(Opcode::kVshrl, v, Imm(23)); };
  auto mantissa = [&](Operand v) {
    return V(Opcode::kVor, V(Opcode::kVand, v, Imm(0x7fffff)), Imm(0x800000));
  };
  Operand ey = exponent(y), my = mantissa(y);
  Operand left = V(Opcode::kVsubS32, exponent(x), ey);  // bits to go
  // A little below 1 / my, so that no estimate is too large.
  Operand inverse = Mul(b_.Eup(Opcode::kVrcp, V(Opcode::kVcvtS32F32, my)), F32(0.9999996f));
  Operand r = mantissa(x);
  auto reduce = [&](Operand limit) {
    return Vsel(b_.Op(Opcode::kVcmpGeS32, {r, limit}), V(Opcode::kVsubS32, r, limit), r);
  };
  r = reduce(my);
  for (int done = 0; done < kMost; done += kStep) {
    Operand n = V(Opcode::kVmaxS32, V(Opcode::kVminS32, left, Imm(kStep)), Imm(0));
    left = V(Opcode::kVsubS32, left, n);
    Operand scale = V(Opcode::kVshll, V(Opcode::kVaddS32, n, Imm(127)), Imm(23));  // 2^n
    Operand q = V(Opcode::kVcvtF32S32, Mul(Mul(V(Opcode::kVcvtS32F32, r), inverse), scale));
    r = V(Opcode::kVsubS32, V(Opcode::kVshll, r, n), V(Opcode::kVmulU32, q, my));
    r = reduce(my);
    r = reduce(my);
  }
  Operand value =
      Mul(Mul(V(Opcode::kVcvtS32F32, r), F32(0x1p-23f)), V(Opcode::kVshll, ey, Imm(23)));
  value = Vsel(Less(x, y), x, value);
  auto either = [&](Operand p, Operand o) { return V(Opcode::kVmor, p, o); };
  Operand bad = either(Equal(x, F32(kInf)), Less(y, F32(kSmallest)));
  bad = either(bad, either(IsNan(a), IsNan(b)));
  return Vsel(bad, F32(kNan), CopySign(value, a));
}

// |a|^b = 2^(b log2 |a|). The exponent is formed in two parts, log2 from the mantissa's own
// logarithm so that its error stays small, and special cases follow IEEE pow.
Operand Lowering::Power(Operand a, Operand b) {
  Operand abs = Abs(a);
  // a = m * 2^e, m in [0.75, 1.5): log2 m is small, e exact.
  Operand bits = V(Opcode::kVaddS32, abs, Imm(0x00400000));
  Operand e = V(Opcode::kVsubS32, V(Opcode::kVshrl, bits, Imm(23)), Imm(127));
  Operand m = V(Opcode::kVsubS32, abs, V(Opcode::kVshll, e, Imm(23)));
  Operand ef = V(Opcode::kVcvtS32F32, e);
  Operand lm = b_.Eup(Opcode::kVlog2, m);
  // b in a high part of 12 bits and the rest: products with e (8 bits) are exact.
  // Beyond 2^40 any power but of 1 is 0 or infinite.
  Operand c = V(Opcode::kVminF32, V(Opcode::kVmaxF32, b, F32(-0x1p40f)), F32(0x1p40f));
  Operand bh = V(Opcode::kVand, c, Imm(0xfffff000));
  Operand bl = Sub(c, bh);
  Operand big = Mul(bh, ef);  // exact
  Operand whole = V(Opcode::kVroundF32, big);
  Operand rest = Add(Sub(big, whole), Add(Mul(bl, ef), Mul(c, lm)));
  // rest may be large where b is: split off its whole part too.
  Operand whole2 = V(Opcode::kVroundF32, rest);
  Operand p = b_.Eup(Opcode::kVpow2, Sub(rest, whole2));
  Operand scale = V(Opcode::kVminF32, V(Opcode::kVmaxF32, Add(whole, whole2), F32(-300)), F32(300));
  Operand half = V(Opcode::kVfloorF32, Mul(scale, F32(0.5f)));
  Operand r = Mul(Mul(p, b_.Eup(Opcode::kVpow2, half)), b_.Eup(Opcode::kVpow2, Sub(scale, half)));
  // |a| 0 or inf, b inf: through the plain form; a = 1 or b = 0: 1.
  Operand plain = b_.Eup(Opcode::kVpow2, Mul(b, b_.Eup(Opcode::kVlog2, abs)));
  Operand odd_case =
      b_.Op(Opcode::kVmor, {Equal(Abs(b), F32(kInf)),
                            b_.Op(Opcode::kVmor, {Equal(abs, F32(0)), Equal(abs, F32(kInf))})});
  r = Vsel(odd_case, plain, r);
  // A negative base: NaN unless b is whole, minus where b is odd.
  Operand is_whole = Equal(V(Opcode::kVfloorF32, b), b);
  Operand h = Mul(b, F32(0.5f));
  Operand odd =
      b_.Op(Opcode::kVmand, {is_whole, b_.Op(Opcode::kVcmpNeF32, {V(Opcode::kVfloorF32, h), h})});
  Operand negative = b_.Op(Opcode::kVcmpLtS32, {a, Imm(0)});
  r = Vsel(b_.Op(Opcode::kVmand, {negative, odd}), V(Opcode::kVxor, r, Imm(0x80000000)), r);
  Operand bad = b_.Op(Opcode::kVmand, {Less(a, F32(0)), b_.Op(Opcode::kVmneg, {is_whole})});
  bad = b_.Op(Opcode::kVmand, {bad, Less(abs, F32(kInf))});
  r = Vsel(bad, F32(kNan), r);
  Operand nan = b_.Op(Opcode::kVmor, {IsNan(a), IsNan(b)});
  r = Vsel(nan, F32(kNan), r);
  // (-1)^(+-inf) = 1.
  Operand unit_inf = b_.Op(Opcode::kVmand, {Equal(abs, F32(1)), Equal(Abs(b), F32(kInf))});
  Operand one =
      b_.Op(Opcode::kVmor, {b_.Op(Opcode::kVmor, {Equal(a, F32(1)), Equal(b, F32(0))}), unit_inf});
  return Vsel(one, F32(1), r);
}

}  // namespace tpuc::lower
