// Mathematical functions from what the machine has: vpow2, vlog2, vrcp, vrsqrt, vtanh within one
// ulp, and f32 arithmetic. Each within 1e-5 of the exact value (oracle README), special values as
// XLA.
//
//   exp x = 2^(x log2 e);  sqrt x = x rsqrt x, and x itself where x + x == x (0, inf)
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

constexpr int kDivisorKey = -20;  // of the memo: -20 to -23
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.69314718055994531f;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
}  // namespace

Operand Lowering::Poly(Operand x, std::initializer_list<double> coefficients) {
  // Horner, highest power first.
  Operand r;
  bool first = true, second = true;
  double lead = 0;
  for (double c : coefficients) {
    if (first) {
      lead = c;
      first = false;
      continue;
    }
    r = second ? Mul(x, F32(static_cast<float>(lead))) : Mul(r, x);
    second = false;
    r = Add(r, F32(static_cast<float>(c)));
  }
  return r;
}

Operand Lowering::Exp(Operand x) { return b_.Eup(Opcode::kVpow2, Mul(x, F32(kLog2E))); }

Operand Lowering::Log(Operand x) { return Mul(b_.Eup(Opcode::kVlog2, x), F32(kLn2)); }

Operand Lowering::Abs(Operand x) { return V(Opcode::kVand, x, Imm(0x7fffffff)); }

Operand Lowering::CopySign(Operand magnitude, Operand sign) {
  return V(Opcode::kVor, magnitude, V(Opcode::kVand, sign, Imm(0x80000000)));
}

Operand Lowering::Less(Operand a, Operand b) { return b_.Op(Opcode::kVcmpLtF32, {b_.AsReg(a), b}); }
Operand Lowering::Equal(Operand a, Operand b) {
  return b_.Op(Opcode::kVcmpEqF32, {b_.AsReg(a), b});
}
Operand Lowering::IsNan(Operand a) { return b_.Op(Opcode::kVcmpNeF32, {a, a}); }

// Taylor near 0, exp elsewhere.
Operand Lowering::Expm1(Operand x) {
  Operand series =
      Mul(x, Poly(x, {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0}));
  Operand direct = Sub(Exp(x), F32(1));
  return Vsel(Less(Abs(x), F32(0.5f)), series, direct);
}

// log(1 + x): the rounding of u = 1 + x is made good by x / (u - 1), which is 1 for large x.
Operand Lowering::Log1p(Operand x) {
  Operand u = Add(x, F32(1));
  Operand d = Sub(u, F32(1));
  Operand l = Log(u);
  Operand r = Mul(l, Mul(x, b_.Eup(Opcode::kVrcp, d)));
  r = Vsel(Less(x, F32(1e8f)), r, l);
  return Vsel(Equal(u, F32(1)), x, r);
}

Operand Lowering::Sqrt(Operand x) {
  Operand r = Mul(x, b_.Eup(Opcode::kVrsqrt, x));
  // 0 and infinity are their own roots; minus infinity has none.
  Operand itself = V(Opcode::kVmand, Equal(Add(x, x), x), V(Opcode::kVcmpGeF32, x, F32(0)));
  return Vsel(itself, x, r);
}

Operand Lowering::Divide(Operand a, Operand b) {
  if (b.is_imm()) {
    float d;
    std::memcpy(&d, &b.imm, 4);
    int e;
    if (std::frexp(d, &e) == 0.5f && e > -120 && e < 120) return Mul(a, F32(1.0f / d));
    b = b_.AsReg(b);
  }
  float numerator = 2;
  if (a.is_imm()) std::memcpy(&numerator, &a.imm, 4);
  if (numerator == 1) return b_.Eup(Opcode::kVrcp, b);
  // What depends on the divisor alone is made once for all that it divides.
  auto once = [&](int what, const std::function<Operand()>& make) {
    Key key{kDivisorKey - what, {}, {Coord::Const(b.reg.id)}};
    if (const Operand* v = Recall(key)) return *v;
    Operand v = make();
    Remember(key, v);
    return v;
  };
  if (std::fabs(numerator) <= 1) {
    return Mul(a, once(0, [&] { return Operand(b_.Eup(Opcode::kVrcp, b)); }));
  }
  // The reciprocal of a divisor from 2^126 on is subnormal, which is zero here: divide a quarter
  // by a quarter.
  Operand big = once(1, [&] {
    float limit = std::ldexp(1.0f, 126);
    return Operand(V(Opcode::kVmor, V(Opcode::kVcmpGeF32, b, F32(limit)),
                     V(Opcode::kVcmpLeF32, b, F32(-limit))));
  });
  Operand scale = once(2, [&] { return Vsel(big, F32(0.25f), F32(1)); });
  Operand reciprocal = once(3, [&] {
    return Operand(b_.Eup(Opcode::kVrcp, b_.AsReg(Vsel(big, Mul(b, F32(0.25f)), b))));
  });
  return Mul(Mul(a, scale), reciprocal);
}

// erf by its Taylor series for |x| < 1/2 and, beyond, 1 - exp(-x^2) times a rational function of
// t = 1/(1 + x/2) (the Chebyshev fit of Numerical Recipes' erfcc form, relative error 1.2e-7).
Operand Lowering::Erfc(Operand x, bool complement) {
  Operand z = Abs(x);
  Operand t = b_.Eup(Opcode::kVrcp, Add(Mul(z, F32(0.5f)), F32(1)));
  Operand p = Poly(t, {0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806,
                       0.09678418, 0.37409196, 1.00002368, -1.26551223});
  Operand zz = Mul(z, z);
  Operand c = Mul(t, Exp(Sub(p, zz)));  // erfc(z)
  Operand x2 = Mul(x, x);
  constexpr double k = 1.12837916709551257;  // 2 / sqrt(pi)
  Operand series = Mul(x, Poly(x2, {k / 9360, -k / 1320, k / 216, -k / 42, k / 10, -k / 3, k}));
  Operand near = Less(z, F32(0.5f));
  Operand negative = Less(x, F32(0));
  if (complement) {
    Operand far = Vsel(negative, Sub(F32(2), c), c);
    return Vsel(near, Sub(F32(1), series), far);
  }
  Operand far = CopySign(Sub(F32(1), c), x);
  return Vsel(near, series, far);
}

// atan of z in [0, 1] by half the angle's tangent and a series; then the octant.
Operand Lowering::Atan2(Operand y, Operand x) {
  Operand ax = Abs(x), ay = Abs(y);
  Operand swap = Less(ax, ay);
  Operand num = V(Opcode::kVminF32, ax, ay), den = V(Opcode::kVmaxF32, ax, ay);
  Operand z = Divide(num, den);
  Operand both_inf = Equal(num, F32(kInf));
  z = Vsel(both_inf, F32(1), z);
  z = Vsel(Equal(den, F32(0)), F32(0), z);
  // atan z = 2 atan(z / (1 + sqrt(1 + z^2)))
  Operand h = Mul(z, b_.Eup(Opcode::kVrcp, Add(F32(1), Sqrt(Add(Mul(z, z), F32(1))))));
  Operand h2 = Mul(h, h);
  Operand p = Poly(h2, {-1.0 / 15, 1.0 / 13, -1.0 / 11, 1.0 / 9, -1.0 / 7, 0.2, -1.0 / 3, 1.0});
  Operand r = Vsel(Less(z, F32(1e-4f)), z, Mul(Mul(h, F32(2)), p));
  r = Vsel(swap, Sub(F32(1.57079632679489662f), r), r);
  r = Vsel(b_.Op(Opcode::kVcmpLtS32, {x, Imm(0)}), Sub(F32(3.14159265358979324f), r), r);
  r = CopySign(r, y);
  return Vsel(b_.Op(Opcode::kVmor, {IsNan(x), IsNan(y)}), F32(kNan), r);
}

Operand Lowering::Math(Op op, Operand a, NodeId id) {
  switch (op) {
    case Op::kAbs:
      return Abs(a);
    case Op::kNegate:
      return V(Opcode::kVxor, a, Imm(0x80000000));
    case Op::kCeil:
      return V(Opcode::kVceilF32, a);
    case Op::kFloor:
      return V(Opcode::kVfloorF32, a);
    case Op::kRoundNearestEven:
      return V(Opcode::kVroundF32, a);
    case Op::kRoundNearestAfz: {
      Operand r = V(Opcode::kVfloorF32, Abs(a));
      Operand d = Sub(Abs(a), r);
      r = Vsel(b_.Op(Opcode::kVcmpGeF32, {d, F32(0.5f)}), Add(r, F32(1)), r);
      return Vsel(IsNan(a), a, CopySign(r, a));
    }
    case Op::kSign: {
      Operand r = Vsel(Less(a, F32(0)), F32(-1), a);
      return Vsel(b_.Op(Opcode::kVcmpGtF32, {a, F32(0)}), F32(1), r);
    }
    case Op::kExponential:
      return Exp(a);
    case Op::kExponentialMinusOne:
      return Expm1(a);
    case Op::kLog:
      return Log(a);
    case Op::kLogPlusOne:
      return Log1p(a);
    case Op::kLogistic:
      return b_.Eup(Opcode::kVrcp, Add(b_.Eup(Opcode::kVpow2, Mul(a, F32(-kLog2E))), F32(1)));
    case Op::kTanh:
      return b_.Eup(Opcode::kVtanh, a);
    case Op::kSqrt:
      return Sqrt(a);
    case Op::kRsqrt:
      return b_.Eup(Opcode::kVrsqrt, a);
    case Op::kCbrt: {
      Operand t = b_.Eup(Opcode::kVpow2, Mul(b_.Eup(Opcode::kVlog2, Abs(a)), F32(1.0f / 3)));
      return CopySign(t, a);
    }
    case Op::kSine:
      return SinCos(a, 0);
    case Op::kCosine:
      return SinCos(a, 1);
    case Op::kTan:
      return SinCos(a, 2);
    case Op::kErf:
      return Erfc(a, false);
    case Op::kSinh: {
      Operand e = Expm1(Abs(a));
      Operand half = Mul(F32(0.5f), Add(e, Mul(e, b_.Eup(Opcode::kVrcp, Add(e, F32(1))))));
      Operand big = Exp(Sub(Abs(a), F32(kLn2)));  // e^x / 2 without overflow
      return CopySign(Vsel(Less(Abs(a), F32(20)), half, big), a);
    }
    case Op::kCosh: {
      Operand x = Sub(Abs(a), F32(kLn2));
      Operand e = Exp(x);
      return Add(e, Mul(F32(0.25f), b_.Eup(Opcode::kVrcp, e)));
    }
    case Op::kAtanh: {
      Operand x = Abs(a);
      Operand r = Mul(F32(0.5f), Log1p(Mul(Add(x, x), b_.Eup(Opcode::kVrcp, Sub(F32(1), x)))));
      return Vsel(Less(F32(1), x), F32(kNan), CopySign(r, a));
    }
    case Op::kAsinh: {
      // log1p(x + x^2 / (1 + sqrt(x^2 + 1))); for large x log 2x.
      Operand x = Abs(a);
      Operand x2 = Mul(x, x);
      Operand s = Add(F32(1), Sqrt(Add(x2, F32(1))));
      Operand r = Log1p(Add(x, Mul(x2, b_.Eup(Opcode::kVrcp, s))));
      r = Vsel(Less(x, F32(1e9f)), r, Add(Log(x), F32(kLn2)));
      return CopySign(r, a);
    }
    case Op::kAcosh: {
      Operand t = Sub(a, F32(1));
      Operand r = Log1p(Add(t, Sqrt(Mul(t, Add(t, F32(2))))));
      r = Vsel(Less(a, F32(1)), F32(kNan), r);
      return Vsel(Less(a, F32(1e9f)), r, Add(Log(a), F32(kLn2)));
    }
    case Op::kAsin: {  // atan2(x, sqrt((1 - x)(1 + x)))
      Operand s = Sqrt(Mul(Sub(F32(1), a), Add(a, F32(1))));
      return Atan2(a, s);
    }
    case Op::kAcos: {
      Operand s = Sqrt(Mul(Sub(F32(1), a), Add(a, F32(1))));
      return Atan2(s, a);
    }
    case Op::kReal:
    case Op::kCopy:
      return a;
    default:
      Fail(id, "not lowered");
      return Imm(0);
  }
}

// ---- integers ----

// Three steps of an estimated quotient; each leaves a remainder smaller by 2^-20 or so.
std::pair<Operand, Operand> Lowering::DivRemU32(Operand a, Operand b) {
  // A little below 1/b, so that no estimate is too large.
  Operand inv = Mul(b_.Eup(Opcode::kVrcp, V(Opcode::kVcvtU32F32, b)), F32(0.9999995f));
  Operand q = Imm(0), r = a;
  for (int i = 0; i < 2; ++i) {
    Operand e = V(Opcode::kVcvtF32U32, Mul(V(Opcode::kVcvtU32F32, r), inv));
    r = V(Opcode::kVsubS32, r, V(Opcode::kVmulU32, e, b));
    q = i == 0 ? e : V(Opcode::kVaddS32, q, e);
  }
  for (int i = 0; i < 2; ++i) {
    Operand more = b_.Op(Opcode::kVcmpLeU32, {b, r});
    q = Vsel(more, V(Opcode::kVaddS32, q, Imm(1)), q);
    r = Vsel(more, V(Opcode::kVsubS32, r, b), r);
  }
  return {q, r};
}

// XLA: x / 0 = -1 (all ones), x % 0 = x; INT_MIN / -1 = INT_MIN, % -1 = 0.
Operand Lowering::DivRemInt(Op op, Type t, Operand a, Operand b) {
  bool div = op == Op::kDivide;
  Operand zero = b_.Op(Opcode::kVcmpEqS32, {b, Imm(0)});
  if (ClassOf(t) == TypeClass::kUnsigned) {
    auto [q, r] = DivRemU32(a, b);
    return div ? Vsel(zero, Imm(-1), q) : Vsel(zero, a, r);
  }
  auto negate = [&](Operand v) { return V(Opcode::kVsubS32, Imm(0), v); };
  Operand ua = V(Opcode::kVmaxS32, a, negate(a)), ub = V(Opcode::kVmaxS32, b, negate(b));
  auto [q, r] = DivRemU32(ua, ub);
  Operand sign = div ? V(Opcode::kVxor, a, b) : a;
  Operand v = div ? q : r;
  v = Vsel(b_.Op(Opcode::kVcmpLtS32, {sign, Imm(0)}), negate(v), v);
  return div ? Vsel(zero, Imm(-1), v) : Vsel(zero, a, v);
}

// Square and multiply over the exponent's bits; a negative exponent gives 0 but for bases 1 and -1.
Operand Lowering::PowerInt(Type t, Operand a, Operand b) {
  Operand r = b_.AsReg(Imm(1)), base = a;
  int bits = BitsOf(t);
  for (int i = 0; i < bits; ++i) {
    Operand bit = b_.Op(Opcode::kVcmpNeS32, {V(Opcode::kVand, b, Imm(int64_t{1} << i)), Imm(0)});
    r = Vsel(bit, V(Opcode::kVmulU32, r, base), r);
    if (i + 1 < bits) base = V(Opcode::kVmulU32, base, base);
  }
  if (ClassOf(t) == TypeClass::kUnsigned) return r;
  Operand one = b_.Op(Opcode::kVcmpEqS32, {a, Imm(1)}),
          minus = b_.Op(Opcode::kVcmpEqS32, {a, Imm(-1)});
  Operand odd = b_.Op(Opcode::kVcmpNeS32, {V(Opcode::kVand, b, Imm(1)), Imm(0)});
  Operand n = Vsel(minus, Vsel(odd, b_.AsReg(Imm(-1)), Imm(1)), Imm(0));
  n = Vsel(one, Imm(1), n);
  return Vsel(b_.Op(Opcode::kVcmpLtS32, {b, Imm(0)}), n, r);
}

}  // namespace tpuc::lower
