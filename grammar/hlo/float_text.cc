// Float text (float_text.h).
#include "grammar/hlo/float_text.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/ir/float_format.h"
#include "src/num/convert.h"

namespace tpuc::hlo {
namespace {

double ValueOf(Type type, uint64_t bits) {
  if (type == Type::kF64) return num::F64OfBits(bits);
  if (type == Type::kF32) return num::F32OfBits(static_cast<uint32_t>(bits));
  if (type == Type::kF8E8M0FNU) return num::F64FromF8E8M0(static_cast<uint8_t>(bits));
  return num::WidenFloat(*FloatFormatOf(type), static_cast<uint32_t>(bits));
}

int MantissaBits(Type type) {
  if (type == Type::kF64) return 52;
  if (type == Type::kF32) return 23;
  if (type == Type::kF8E8M0FNU) return 0;
  return FloatFormatOf(type)->mantissa_bits;
}

bool HasNanPayload(Type type) {
  if (type == Type::kF64 || type == Type::kF32) return true;
  const num::FloatFormat* format = FloatFormatOf(type);
  return format && format->specials == num::FloatSpecials::kIeee;
}

int ExponentBits(Type type) {
  if (type == Type::kF64) return 11;
  if (type == Type::kF32) return 8;
  return FloatFormatOf(type)->exponent_bits;
}

}  // namespace

bool FloatBits(Type type, double value, uint64_t* bits) {
  switch (type) {
    case Type::kF64:
      *bits = num::BitsOfF64(value);
      return true;
    case Type::kF32: {
      float narrow = static_cast<float>(value);
      *bits = num::BitsOfF32(narrow);
      return std::isinf(narrow) == std::isinf(value);
    }
    case Type::kF8E8M0FNU:
      *bits = num::F8E8M0FromF64(value);
      return *bits != 255;
    default:
      break;
  }
  const num::FloatFormat& format = *FloatFormatOf(type);
  *bits = num::NarrowFloat(format, value);
  double back = num::WidenFloat(format, static_cast<uint32_t>(*bits));
  if (format.specials == num::FloatSpecials::kFinite) {
    // Saturates: within half a step of the largest value, or out of range.
    double largest =
        num::WidenFloat(format, (uint32_t{1} << (format.exponent_bits + format.mantissa_bits)) - 1);
    double step = std::ldexp(1.0, std::ilogb(largest) - format.mantissa_bits);
    return std::fabs(value) < largest + step / 2;
  }
  return !std::isnan(back) && std::isinf(back) == std::isinf(value);
}

bool NanBits(Type type, bool negative, uint64_t payload, uint64_t* bits) {
  if (type == Type::kF8E8M0FNU) {
    *bits = 255;
    return payload == 0 && !negative;
  }
  const num::FloatFormat* format = FloatFormatOf(type);
  if (!HasNanPayload(type)) {
    uint64_t sign = uint64_t{1} << (format->bits() - 1);
    switch (format->specials) {
      case num::FloatSpecials::kFn:
        *bits = (sign - 1) | (negative ? sign : 0);
        return payload == 0;
      case num::FloatSpecials::kFnuz:
        *bits = sign;
        return payload == 0;
      default:
        return false;
    }
  }
  int mantissa = MantissaBits(type), exponent = ExponentBits(type);
  if (payload >> mantissa) return false;
  if (payload == 0) payload = uint64_t{1} << (mantissa - 1);
  *bits = (((uint64_t{1} << exponent) - 1) << mantissa) | payload;
  if (negative) *bits |= uint64_t{1} << (mantissa + exponent);
  return true;
}

void AppendFloatText(Type type, uint64_t bits, std::string* out) {
  double value = ValueOf(type, bits);
  if (std::isnan(value)) {
    uint64_t plain = 0;
    bool negative = (bits >> (BitsOf(type) - 1)) & 1;
    if (!NanBits(type, negative, 0, &plain)) negative = false;
    *out += negative && type != Type::kF8E8M0FNU ? "-nan" : "nan";
    if (!HasNanPayload(type) || plain == bits) return;
    uint64_t payload = bits & ((uint64_t{1} << MantissaBits(type)) - 1);
    absl::StrAppend(out, "(0x", absl::Hex(payload), ")");
    return;
  }
  if (std::isinf(value)) {
    *out += value < 0 ? "-inf" : "inf";
    return;
  }
  // digits10 + 1 of the type, never fewer than that: XLA's %.Ng.
  int p = MantissaBits(type) + 1;
  int safe = static_cast<int>(std::ceil(1 + p * 0.30103));
  int first = type == Type::kF64 ? 15 : type == Type::kF32 ? 6 : safe;
  char text[40];
  for (int digits : {first, safe}) {
    auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr;
    double read = 0;
    std::from_chars(text, end, read);
    uint64_t back = 0;
    if (digits == safe || (FloatBits(type, read, &back) && back == bits)) {
      out->append(text, end);
      return;
    }
  }
}

std::string DoubleText(double value) {
  char text[40];
  for (int digits : {6, 17}) {
    auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr;
    double read = 0;
    std::from_chars(text, end, read);
    if (digits == 17 || read == value) return std::string(text, end);
  }
  return "";
}

}  // namespace tpuc::hlo
