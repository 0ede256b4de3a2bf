// The extended unary unit's functions on vectors of f32, for any Highway target:
//
//   vpow2 (2^x)   vlog2   vrcp (1/x)   vrsqrt (1/sqrt(x))   vtanh        named after the
//   instructions
//
// Each is a fixed sequence of IEEE operations (+ - * / sqrt and fused multiply-add), so the bytes
// are the same whatever the vector width or host; without a fused instruction every lane goes
// through std::fma. Results are within 1 ulp of the true value (measured maxima beside each).
// Subnormal inputs count as zero, subnormal results are zero, both with their sign; every NaN is
// 0x7FC00000. Polynomials are minimax fits (Remez, 60 digits) of our own, rounded to f32.
//
// Include it in a foreach_target file after highway.h, inside no namespace:
//   namespace hn = hwy::HWY_NAMESPACE; hn::ScalableTag<float> d; num::HWY_NAMESPACE::vpow2(d, x);
#if defined(TPUC_NUM_EUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TPUC_NUM_EUP_INL_H_
#undef TPUC_NUM_EUP_INL_H_
#else
#define TPUC_NUM_EUP_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tpuc::num::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// a * b + c, rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Fma(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  (void)d;
  return hn::MulAdd(a, b, c);
#else
  constexpr size_t kMax = hn::MaxLanes(D());
  HWY_ALIGN float as[kMax], bs[kMax], cs[kMax];
  hn::Store(a, d, as);
  hn::Store(b, d, bs);
  hn::Store(c, d, cs);
  for (size_t i = 0; i < hn::Lanes(d); ++i) cs[i] = std::fma(as[i], bs[i], cs[i]);
  return hn::Load(d, cs);
#endif
}

// Subnormals to zero, sign kept.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Flush(D d, V x) {
  const V sign = hn::And(x, hn::Set(d, -0.0f));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-126f)), sign, x);
}

// One bit pattern for every NaN: hosts disagree on sign and payload.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V OneNaN(D d, V x) {
  const V nan = hn::BitCast(d, hn::Set(hn::Rebind<uint32_t, D>(), 0x7FC00000u));
  return hn::IfThenElse(hn::Eq(x, x), x, nan);
}

// 2^f * 2^n for f in [-0.5, 0.5], where shifted = 1.5 * 2^23 + n (n sits in its low bits) and the
// result is a normal number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Pow2Reduced(D d, V f, V shifted) {
  const hn::Rebind<int32_t, D> di;
  V q = hn::Set(d, 0x1.4477b2p-13f);
  q = Fma(d, q, f, hn::Set(d, 0x1.5f05b4p-10f));
  q = Fma(d, q, f, hn::Set(d, 0x1.3b29d2p-7f));
  q = Fma(d, q, f, hn::Set(d, 0x1.c6af86p-5f));
  q = Fma(d, q, f, hn::Set(d, 0x1.ebfbe0p-3f));
  q = Fma(d, q, f, hn::Set(d, 0x1.62e430p-1f));
  const V p = Fma(d, q, f, hn::Set(d, 1.0f));
  // The shift pushes all of the constant but n out of the word.
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V vpow2(D d, V x) {
  const V shift = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::Add(x, shift);  // rounds x to an integer, ties to even
  const V f = hn::Sub(x, hn::Sub(shifted, shift));
  V r = Pow2Reduced(d, f, shifted);
  r = hn::IfThenElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Zero(d), r);
  r = hn::IfThenElse(hn::Ge(x, hn::Set(d, 128.0f)), hn::Set(d, HUGE_VALF), r);
  return OneNaN(d, hn::IfThenElse(hn::Eq(x, x), r, x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V vlog2(D d, V x) {
  const hn::Rebind<int32_t, D> di;
  x = Flush(d, x);
  // x = m * 2^e, m in [sqrt(1/2), sqrt(2)).
  const auto bits = hn::BitCast(di, x);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F3504F3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e)));
  const V ef = hn::ConvertTo(d, e);
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  // log2(1 + f) = f * log2(e) + f^2 * q(f), the first term in two parts.
  V q = hn::Set(d, 0x1.98a654p-4f);
  q = Fma(d, q, f, hn::Set(d, -0x1.5c587ep-3f));
  q = Fma(d, q, f, hn::Set(d, 0x1.5ecd82p-3f));
  q = Fma(d, q, f, hn::Set(d, -0x1.6de9aep-3f));
  q = Fma(d, q, f, hn::Set(d, 0x1.a41c38p-3f));
  q = Fma(d, q, f, hn::Set(d, -0x1.ec842ap-3f));
  q = Fma(d, q, f, hn::Set(d, 0x1.277f30p-2f));
  q = Fma(d, q, f, hn::Set(d, -0x1.71546ap-2f));
  q = Fma(d, q, f, hn::Set(d, 0x1.ec7088p-2f));
  q = Fma(d, q, f, hn::Set(d, -0x1.715476p-1f));
  const V log2e = hn::Set(d, 0x1.715476p0f);
  const V t = hn::Mul(f, log2e);
  V low = Fma(d, f, log2e, hn::Neg(t));
  low = Fma(d, f, hn::Set(d, 0x1.4ae0c0p-26f), low);
  const V high = hn::Add(ef, t);  // |ef| >= |t| or ef = 0: the rest below is exact
  low = hn::Add(low, hn::Sub(t, hn::Sub(high, ef)));
  const V f2 = hn::Mul(f, f);
  low = Fma(d, Fma(d, f, f, hn::Neg(f2)), q, low);
  V r = hn::Add(high, Fma(d, f2, q, low));
  r = hn::IfThenElse(hn::Eq(x, hn::Set(d, HUGE_VALF)), x, r);
  r = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -HUGE_VALF), r);
  // Less than zero, and NaN.
  const V nan = hn::BitCast(d, hn::Set(di, 0x7FC00000));
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), r, nan);
}

// Correctly rounded: IEEE division is.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V vrcp(D d, V x) {
  return OneNaN(d, Flush(d, hn::Div(hn::Set(d, 1.0f), Flush(d, x))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V vrsqrt(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  x = Flush(d, x);
  const V y = hn::Div(one, hn::Sqrt(x));
  // One Newton step on the two roundings of y: y + y/2 * (1 - x*y*y), x*y in two parts.
  const V h = hn::Mul(x, y);
  const V h_low = Fma(d, x, y, hn::Neg(h));
  V rest = Fma(d, hn::Neg(h), y, one);
  rest = Fma(d, hn::Neg(h_low), y, rest);
  const V r = Fma(d, hn::Mul(y, hn::Set(d, 0.5f)), rest, y);
  const auto regular = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, hn::Set(d, HUGE_VALF)));
  return OneNaN(d, hn::IfThenElse(regular, r, y));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V vtanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  x = Flush(d, x);
  const V a = hn::Abs(x);
  // |x| < 1: x + x^3 p(x^2).
  const V u = hn::Mul(x, x);
  V p = hn::Set(d, -0x1.56f896p-15f);
  p = Fma(d, p, u, hn::Set(d, 0x1.402316p-12f));
  p = Fma(d, p, u, hn::Set(d, -0x1.36aedap-10f));
  p = Fma(d, p, u, hn::Set(d, 0x1.c0ef9ap-9f));
  p = Fma(d, p, u, hn::Set(d, -0x1.2049c0p-7f));
  p = Fma(d, p, u, hn::Set(d, 0x1.660e3ap-6f));
  p = Fma(d, p, u, hn::Set(d, -0x1.ba175ap-5f));
  p = Fma(d, p, u, hn::Set(d, 0x1.111100p-3f));
  p = Fma(d, p, u, hn::Set(d, -0x1.555556p-2f));
  // With v = x^2 p in two parts, and the rounding of x + x v made good.
  const V v = hn::Mul(u, p);
  const V v_low = Fma(d, Fma(d, x, x, hn::Neg(u)), p, Fma(d, u, p, hn::Neg(v)));
  const V s = Fma(d, x, v, x);
  const V small = hn::Add(s, Fma(d, x, v_low, Fma(d, x, v, hn::Sub(x, s))));
  // Else 1 - 2 / (e^(2|x|) + 1); beyond 10 the result is 1 to the last bit.
  const V b = hn::Min(a, hn::Set(d, 10.0f));
  const V shift = hn::Set(d, 0x1.8p23f);
  const V rate = hn::Set(d, 0x1.715476p1f);  // 2 log2(e), and its rest below
  const V shifted = Fma(d, b, rate, shift);
  V f = Fma(d, b, rate, hn::Neg(hn::Sub(shifted, shift)));
  f = Fma(d, b, hn::Set(d, 0x1.4ae0c0p-25f), f);
  const V power = Pow2Reduced(d, f, shifted);
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(power, one)));
  const V r = hn::CopySign(hn::IfThenElse(hn::Lt(a, one), small, large), x);
  return OneNaN(d, hn::IfThenElse(hn::Eq(x, x), r, x));
}

}  // namespace tpuc::num::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard with toggle
