// Conversions between f32/f64 values and the bits of narrower float formats.
//
// Every narrow format is one FloatFormat row (widths, bias, what stands for infinity and NaN); one
// routine rounds to any of them, to nearest even, and one widens back. Overflow gives infinity
// where the format has one, else NaN, else (formats without NaN) the largest value: the rules of
// the OCP 8-bit formats as XLA's convert applies them on a CPU, where nothing saturates unless it
// must. bf16 has a fast path of its own. Subnormals of the narrow format are kept.
//
//   BF16FromF32(1.0f) == 0x3F80;  NarrowFloat(kF8E4M3FNFormat, 448.0f) == 0x7E
#pragma once

#include <cstdint>
#include <cstring>

namespace tpuc::num {

inline uint32_t BitsOfF32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float F32OfBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline uint64_t BitsOfF64(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline double F64OfBits(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// What the top of the exponent range and the sign bit of zero mean.
enum class FloatSpecials : uint8_t {
  kIeee,    // top exponent: infinity and NaN
  kFn,      // no infinity; all bits one is NaN
  kFnuz,    // no infinity, no -0; only "-0" is NaN
  kFinite,  // neither; NaN converts to -0 and overflow to the largest value
};

struct FloatFormat {
  int exponent_bits, mantissa_bits, bias;
  FloatSpecials specials;
  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
};

// Sources: bf16 is the upper half of f32; f16 IEEE 754; f8/f6/f4 the OCP formats (hlo-text.md 8.1).
inline constexpr FloatFormat kF16Format{5, 10, 15, FloatSpecials::kIeee};
inline constexpr FloatFormat kBF16Format{8, 7, 127, FloatSpecials::kIeee};
inline constexpr FloatFormat kF8E5M2Format{5, 2, 15, FloatSpecials::kIeee};
inline constexpr FloatFormat kF8E4M3Format{4, 3, 7, FloatSpecials::kIeee};
inline constexpr FloatFormat kF8E3M4Format{3, 4, 3, FloatSpecials::kIeee};
inline constexpr FloatFormat kF8E4M3FNFormat{4, 3, 7, FloatSpecials::kFn};
inline constexpr FloatFormat kF8E4M3FNUZFormat{4, 3, 8, FloatSpecials::kFnuz};
inline constexpr FloatFormat kF8E4M3B11FNUZFormat{4, 3, 11, FloatSpecials::kFnuz};
inline constexpr FloatFormat kF8E5M2FNUZFormat{5, 2, 16, FloatSpecials::kFnuz};
inline constexpr FloatFormat kF6E3M2FNFormat{3, 2, 3, FloatSpecials::kFinite};
inline constexpr FloatFormat kF6E2M3FNFormat{2, 3, 1, FloatSpecials::kFinite};
inline constexpr FloatFormat kF4E2M1FNFormat{2, 1, 1, FloatSpecials::kFinite};

// The bits of x in `format`, rounded once to nearest even. The bits stand in the low end.
uint32_t NarrowFloat(const FloatFormat& format, double x);
// The value of `bits`; exact. NaN keeps its sign.
double WidenFloat(const FloatFormat& format, uint32_t bits);

inline uint16_t BF16FromF32(float x) {
  const uint32_t bits = BitsOfF32(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // quiet
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline float F32FromBF16(uint16_t bits) { return F32OfBits(static_cast<uint32_t>(bits) << 16); }
// x rounded to the nearest bf16, still an f32: what the MXU does to f32 operands.
inline float RoundToBF16(float x) { return F32FromBF16(BF16FromF32(x)); }

uint16_t F16FromF32(float x);
float F32FromF16(uint16_t bits);
inline uint8_t F8E4M3FNFromF32(float x) {
  return static_cast<uint8_t>(NarrowFloat(kF8E4M3FNFormat, x));
}
inline float F32FromF8E4M3FN(uint8_t bits) {
  return static_cast<float>(WidenFloat(kF8E4M3FNFormat, bits));
}
inline uint8_t F8E5M2FromF32(float x) {
  return static_cast<uint8_t>(NarrowFloat(kF8E5M2Format, x));
}
inline float F32FromF8E5M2(uint8_t bits) {
  return static_cast<float>(WidenFloat(kF8E5M2Format, bits));
}

// f8e8m0fnu: a power of two without sign or zero; value 2^(bits-127), 255 is NaN.
// Negative values and zero have no nearest power: they give NaN and the smallest power.
uint8_t F8E8M0FromF64(double x);
double F64FromF8E8M0(uint8_t bits);

// x rounded to a float of the given widths with IEEE specials (HLO reduce-precision): overflow is
// infinity, results below the smallest normal are zero with the sign of x, NaN stays NaN (with 0
// mantissa bits, infinity). exponent_bits 1..8, mantissa_bits 0..23 (1..11, 0..52 for double).
float ReducePrecision(float x, int exponent_bits, int mantissa_bits);
double ReducePrecision(double x, int exponent_bits, int mantissa_bits);

}  // namespace tpuc::num
