// Floats of 16 and 8 bits but bf16: f16, f8e5m2, f8e4m3, f8e3m4, f8e4m3fn. In registers they are
// f32 values that the type can hold; memory has their bits. The machine has no instruction for
// them: integer operations do.
//
//   f16 1.5 = 0x3e00  <->  f32 0x3fc00000:  (0x3e00 << 13) + (112 << 23)
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/lower/lowering.h"
#include "src/ir/float_format.h"
#include "src/num/convert.h"

namespace tpuc::lower {

const num::FloatFormat* NarrowFormat(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kF8E5M2:
    case Type::kF8E4M3:
    case Type::kF8E3M4:
    case Type::kF8E4M3FN:
      return FloatFormatOf(type);
    default:
      return nullptr;
  }
}

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What one format's numbers are in f32.
struct Places {
  int drop;          // bits of an f32 mantissa that it lacks
  int64_t rebias;    // its exponent + this = an f32's
  float unit;        // one over its smallest subnormal
  int64_t min, max;  // bits of its smallest normal and its largest finite number, as f32
  int64_t top;       // its magnitude bits from which on they are no finite number
  bool infinity;
};

Places PlacesOf(const num::FloatFormat& f) {
  Places p;
  p.drop = 23 - f.mantissa_bits;
  p.rebias = 127 - f.bias;
  p.unit = std::ldexp(1.0f, f.mantissa_bits + f.bias - 1);
  p.min = (p.rebias + 1) << 23;
  p.infinity = f.specials == num::FloatSpecials::kIeee;
  int64_t all = (int64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1;
  p.top = p.infinity ? all >> f.mantissa_bits << f.mantissa_bits : all;
  p.max = ((p.top - 1) << p.drop) + (p.rebias << 23);
  return p;
}

}  // namespace

// The mantissa without its last `drop` bits, ties to even; NaN may become anything.
Operand Lowering::RoundMantissa(Operand x, int drop) {
  if (drop == 0) return x;
  Operand odd = V(Opcode::kVand, V(Opcode::kVshrl, x, Imm(drop)), Imm(1));
  Operand r = V(Opcode::kVaddS32, V(Opcode::kVaddS32, x, Imm((1 << (drop - 1)) - 1)), odd);
  return V(Opcode::kVand, r, Imm(-(int64_t{1} << drop)));
}

// The nearest value of the format, ties to even; beyond its range infinity, or NaN where it has
// none.
Operand Lowering::RoundNarrow(const num::FloatFormat& format, Operand v) {
  Places p = PlacesOf(format);
  Operand x = b_.AsReg(v);
  Operand r = RoundMantissa(x, p.drop);
  Operand over = b_.Op(Opcode::kVcmpGtS32, {Abs(r), Imm(p.max)});
  Operand special = p.infinity ? CopySign(Imm(0x7f800000), x) : F32(kNan);
  r = Vsel(over, special, r);
  Operand sub = Mul(V(Opcode::kVroundF32, Mul(x, F32(p.unit))), F32(1 / p.unit));
  r = Vsel(b_.Op(Opcode::kVcmpLtS32, {Abs(x), Imm(p.min)}), sub, r);
  return Vsel(IsNan(x), x, r);
}

// reduce-precision: as a format of these widths would hold it, but for its subnormals, which are
// zero (XLA).
Operand Lowering::ReducePrecision(Operand v, int64_t exponent_bits, int64_t mantissa_bits) {
  Operand x = b_.AsReg(v);
  int drop = 23 - static_cast<int>(std::min<int64_t>(23, mantissa_bits));
  Operand r = RoundMantissa(x, drop);
  if (exponent_bits < 8) {
    int64_t bias = (int64_t{1} << (exponent_bits - 1)) - 1;
    Operand over = b_.Op(Opcode::kVcmpGeS32, {Abs(r), Imm((127 + bias + 1) << 23)});
    Operand under = b_.Op(Opcode::kVcmpLtS32, {Abs(r), Imm((127 - bias + 1) << 23)});
    r = Vsel(over, CopySign(Imm(0x7f800000), x), r);
    r = Vsel(under, V(Opcode::kVand, x, Imm(0x80000000)), r);
  }
  return Vsel(IsNan(x), x, r);
}

// Bits (the word's other bits 0) to the value, and back.
Operand Lowering::DecodeNarrow(const num::FloatFormat& format, Operand bits) {
  Places p = PlacesOf(format);
  int sign = format.bits() - 1;
  Operand m = V(Opcode::kVand, bits, Imm((int64_t{1} << sign) - 1));
  Operand shifted = V(Opcode::kVshll, m, Imm(p.drop));
  Operand r = V(Opcode::kVaddS32, shifted, Imm(p.rebias << 23));
  Operand sub = Mul(V(Opcode::kVcvtS32F32, m), F32(1 / p.unit));
  r = Vsel(b_.Op(Opcode::kVcmpLtS32, {m, Imm(int64_t{1} << format.mantissa_bits)}), sub, r);
  Operand special = p.infinity ? V(Opcode::kVor, shifted, Imm(0x7f800000)) : F32(kNan);
  r = Vsel(b_.Op(Opcode::kVcmpGeS32, {m, Imm(p.top)}), special, r);
  return CopySign(r, V(Opcode::kVshll, bits, Imm(31 - sign)));
}

Operand Lowering::EncodeNarrow(const num::FloatFormat& format, Operand v) {
  Places p = PlacesOf(format);
  int sign = format.bits() - 1;
  Operand x = b_.AsReg(v);
  Operand mag = Abs(x);
  Operand r = V(Opcode::kVshrl, V(Opcode::kVsubS32, mag, Imm(p.rebias << 23)), Imm(p.drop));
  Operand sub = V(Opcode::kVcvtF32S32, Mul(mag, F32(p.unit)));
  r = Vsel(b_.Op(Opcode::kVcmpLtS32, {mag, Imm(p.min)}), sub, r);
  if (p.infinity) r = Vsel(Equal(mag, F32(std::numeric_limits<float>::infinity())), Imm(p.top), r);
  int64_t nan = p.infinity ? p.top | int64_t{1} << (format.mantissa_bits - 1) : p.top;
  r = Vsel(IsNan(x), Imm(nan), r);
  Operand s = V(Opcode::kVand, V(Opcode::kVshrl, x, Imm(31 - sign)), Imm(int64_t{1} << sign));
  return V(Opcode::kVor, r, s);
}

}  // namespace tpuc::lower
