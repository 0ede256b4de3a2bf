// One rounding routine for every narrow float format. The value is taken apart as an f64 (to which
// f32 widens exactly), the mantissa shifted to the width wanted with round to nearest even, and put
// together under the format's bias. Must not depend on the FPU's rounding mode or flushing.
#include "src/num/convert.h"

#include <cmath>
#include <limits>

namespace tpuc::num {
namespace {

uint32_t MaxFinite(const FloatFormat& f) {
  const uint32_t all = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
  switch (f.specials) {
    case FloatSpecials::kIeee:
      return all - (1u << f.mantissa_bits);
    case FloatSpecials::kFn:
      return all - 1;
    case FloatSpecials::kFnuz:
    case FloatSpecials::kFinite:
      return all;
  }
  return all;
}

uint32_t NaNBits(const FloatFormat& f, bool negative) {
  const uint32_t sign = 1u << (f.bits() - 1);
  const uint32_t all = sign - 1;
  switch (f.specials) {
    case FloatSpecials::kIeee:  // the quiet bit alone
      return (negative ? sign : 0) | (all & ~((1u << f.mantissa_bits) - 1)) |
             1u << (f.mantissa_bits - 1);
    case FloatSpecials::kFn:
      return (negative ? sign : 0) | all;
    case FloatSpecials::kFnuz:
    case FloatSpecials::kFinite:
      return sign;
  }
  return all;
}

uint32_t Overflow(const FloatFormat& f, bool negative) {
  const uint32_t sign = negative ? 1u << (f.bits() - 1) : 0;
  switch (f.specials) {
    case FloatSpecials::kIeee:
      return sign | (MaxFinite(f) + 1);
    case FloatSpecials::kFn:
    case FloatSpecials::kFnuz:
      return NaNBits(f, negative);
    case FloatSpecials::kFinite:
      return sign | MaxFinite(f);
  }
  return sign;
}

// Drops `shift` low bits of m, rounding to nearest even. shift 1..63.
uint64_t RoundShift(uint64_t m, int shift) {
  const uint64_t kept = m >> shift, rest = m & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

}  // namespace

uint32_t NarrowFloat(const FloatFormat& f, double x) {
  const uint64_t in = BitsOfF64(x);
  const bool negative = in >> 63;
  if (std::isnan(x)) return NaNBits(f, negative);
  if (std::isinf(x)) return Overflow(f, negative);
  const int in_exponent = static_cast<int>(in >> 52 & 0x7FF);
  uint64_t magnitude = 0;
  if (in_exponent != 0) {  // a double subnormal is below every format's half step
    const uint64_t mantissa = (in & 0xFFFFFFFFFFFFF) | uint64_t{1} << 52;
    const int exponent = in_exponent - 1023 + f.bias;  // as the format biases it
    // A subnormal result keeps fewer bits; its hidden bit is not subtracted away below.
    const int extra = exponent < 1 ? 1 - exponent : 0;
    const int shift = 52 - f.mantissa_bits + extra;
    const uint64_t rounded = shift > 54 ? 0 : RoundShift(mantissa, shift);
    // A carry out of the mantissa runs into the exponent, which is what rounding up means.
    magnitude =
        extra > 0 ? rounded : rounded + (static_cast<uint64_t>(exponent - 1) << f.mantissa_bits);
  }
  if (magnitude > MaxFinite(f)) return Overflow(f, negative);
  if (magnitude == 0 && f.specials == FloatSpecials::kFnuz) return 0;
  return static_cast<uint32_t>(magnitude) | (negative ? 1u << (f.bits() - 1) : 0);
}

double WidenFloat(const FloatFormat& f, uint32_t bits) {
  const uint32_t sign_bit = 1u << (f.bits() - 1);
  const bool negative = bits & sign_bit;
  const uint32_t magnitude = bits & (sign_bit - 1);
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  double value;
  if (f.specials == FloatSpecials::kFnuz && (bits & (2 * sign_bit - 1)) == sign_bit) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (magnitude > MaxFinite(f)) {
    value = f.specials == FloatSpecials::kIeee && mantissa == 0
                ? std::numeric_limits<double>::infinity()
                : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1u << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

uint16_t F16FromF32(float x) {
  const uint32_t bits = BitsOfF32(x), magnitude = bits & 0x7FFFFFFF;
  const uint32_t sign = bits >> 16 & 0x8000;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65520 rounds up
  if (magnitude < 0x38800000) {
    // Below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low mantissa bits.
    return static_cast<uint16_t>(sign | (BitsOfF32(F32OfBits(magnitude) + 0.5f) - 0x3F000000));
  }
  return static_cast<uint16_t>(sign |
                               ((magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13));
}

float F32FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7FFF;
  if (magnitude >= 0x7C00) return F32OfBits(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
  if (magnitude < 0x400) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return F32OfBits(sign | ((magnitude << 13) + 0x38000000));
}

uint8_t F8E8M0FromF64(double x) {
  if (std::isnan(x) || std::isinf(x) || x < 0) return 0xFF;
  if (x < 0x1p-127) return 0;
  int exponent;
  const double fraction = std::frexp(x, &exponent);  // in [0.5, 1)
  int power = exponent - 1;
  // Halfway between 2^p and 2^(p+1) is 1.5 * 2^p; the tie goes to the even encoding.
  if (fraction > 0.75 || (fraction == 0.75 && ((power + 127) & 1))) ++power;
  return power > 127 ? 0xFF : static_cast<uint8_t>(power + 127);
}

double F64FromF8E8M0(uint8_t bits) {
  return bits == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
}

namespace {

// One body for both widths: U the bits, kMantissa and kExponent the source format's.
template <typename U, int kExponent, int kMantissa>
U ReduceBits(U bits, int exponent_bits, int mantissa_bits) {
  const U sign = bits & (U{1} << (kExponent + kMantissa));
  const U infinity = ((U{1} << kExponent) - 1) << kMantissa;
  U magnitude = bits ^ sign;
  if (magnitude > infinity) return mantissa_bits > 0 ? bits : sign | infinity;
  if (mantissa_bits < kMantissa) {
    const int drop = kMantissa - mantissa_bits;
    const U last = U{1} << drop;
    magnitude += (last >> 1) - 1 + (magnitude >> drop & 1);
    magnitude &= ~(last - 1);
  }
  if (exponent_bits < kExponent) {
    const U bias = (U{1} << (kExponent - 1)) - 1;
    const U reduced = (U{1} << (exponent_bits - 1)) - 1;
    const U largest = (bias + reduced) << kMantissa;       // exponent field of the largest numbers
    const U smallest = (bias - reduced + 1) << kMantissa;  // the smallest normal number
    if (magnitude >= largest + (U{1} << kMantissa)) return sign | infinity;
    if (magnitude < smallest) return sign;
  }
  return sign | magnitude;
}

}  // namespace

float ReducePrecision(float x, int exponent_bits, int mantissa_bits) {
  return F32OfBits(ReduceBits<uint32_t, 8, 23>(BitsOfF32(x), exponent_bits, mantissa_bits));
}
double ReducePrecision(double x, int exponent_bits, int mantissa_bits) {
  return F64OfBits(ReduceBits<uint64_t, 11, 52>(BitsOfF64(x), exponent_bits, mantissa_bits));
}

}  // namespace tpuc::num
