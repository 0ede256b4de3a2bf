// Conversions between element types. Float to integer truncates and saturates at the target's
// range, NaN is 0; integer to integer wraps; anything to pred is x != 0; to narrow floats rounds
// once, to nearest even. Source: XLA on a CPU, checked by oracle/programs/convert.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "src/eval/blocks.h"
#include "src/eval/elementwise.h"
#include "src/num/convert.h"

namespace tpuc {
namespace {

// f64 to f32 by rounding to odd: what is rounded again to fewer bits then comes out as if rounded
// once from the f64.
float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  float toward_zero = nearest;
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) {
    toward_zero = std::nextafter(nearest, 0.0f);
  }
  return num::F32OfBits(num::BitsOfF32(toward_zero) | 1);
}

template <typename To, typename From>
To Saturate(From x, int bits) {
  if (std::isnan(x)) return 0;
  using W = long double;  // holds every 64-bit bound exactly
  const bool is_signed = std::is_signed_v<To>;
  const W high = std::ldexp(W{1}, is_signed ? bits - 1 : bits);  // first value out of range
  const W low = is_signed ? -high : W{0};
  if (W{x} >= high) {
    return static_cast<To>(static_cast<std::make_unsigned_t<To>>(~uint64_t{0}) >>
                           (8 * sizeof(To) - bits + (is_signed ? 1 : 0)));
  }
  if (W{x} <= low) return static_cast<To>(low);
  return static_cast<To>(x);
}

template <typename From, typename To>
void ConvertBlock(const From* x, int64_t n, Type to_type, To* out) {
  const int bits = ValueBits(to_type);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      out[i] = to_type == Type::kPred ? x[i] != 0 : Saturate<To>(x[i], bits);
    } else if constexpr (std::is_same_v<From, double> && std::is_same_v<To, float>) {
      out[i] = bits < 32 ? RoundToOdd(x[i]) : static_cast<float>(x[i]);
    } else {
      out[i] = to_type == Type::kPred ? static_cast<To>(x[i] != 0) : static_cast<To>(x[i]);
    }
  }
}

int ExponentBits(Type type) {
  switch (type) {
    case Type::kF64:
      return 11;
    case Type::kF16:
    case Type::kF8E5M2:
    case Type::kF8E5M2FNUZ:
      return 5;
    case Type::kF8E4M3:
    case Type::kF8E4M3FN:
    case Type::kF8E4M3FNUZ:
    case Type::kF8E4M3B11FNUZ:
      return 4;
    case Type::kF8E3M4:
    case Type::kF6E3M2FN:
      return 3;
    case Type::kF4E2M1FN:
    case Type::kF6E2M3FN:
      return 2;
    default:
      return 8;
  }
}

std::string Pair(const char* what, const Literal& a, const Literal& out) {
  return absl::StrCat(what, " from ", TypeName(a.shape().type), " to ", TypeName(out.shape().type));
}

}  // namespace

bool EvalConvert(const Literal& a, Literal* out, std::string* error) {
  const Type to_type = out->shape().type;
  bool typed = false;
  if (a.shape().type == to_type) {
    std::memcpy(out->bytes(), a.bytes(), a.byte_size());
    return true;
  }
  VisitCompute(a.shape().type, [&](auto from_tag) {
    typed = VisitCompute(to_type, [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      InBlocks<From> in(a, out->size());
      OutBlocks<To> to(out);
      ForBlocks(out->size(), [&](Block b) {
        ConvertBlock(in.At(b), b.n, to_type, to.At(b));
        to.Done(b);
      });
    });
  });
  if (!typed) *error = Pair("convert", a, *out);
  return typed;
}

bool EvalReducePrecision(const Literal& a, int exponent_bits, int mantissa_bits, Literal* out,
                         std::string* error) {
  const Type type = a.shape().type;
  bool known = false;
  VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      // A range as wide as the type's own takes nothing away; its subnormals stay.
      const int own = ExponentBits(type);
      const int exponent = exponent_bits >= own ? (sizeof(T) == 8 ? 11 : 8) : exponent_bits;
      InBlocks<T> in(a, out->size());
      OutBlocks<T> to(out);
      ForBlocks(out->size(), [&](Block b) {
        const T* x = in.At(b);
        T* y = to.At(b);
        for (int64_t i = 0; i < b.n; ++i) {
          y[i] = num::ReducePrecision(x[i], exponent, mantissa_bits);
        }
        to.Done(b);
      });
      known = true;
    }
  });
  if (!known) *error = absl::StrCat("reduce-precision of ", TypeName(type));
  return known;
}

namespace {

// The low `bits` of element i, in the low end.
uint64_t PartOf(const Literal& a, int bits, int64_t i) {
  if (bits == 64) return a.data<uint64_t>()[i];
  if (bits == 32) return a.data<uint32_t>()[i];
  if (bits == 16) return a.data<uint16_t>()[i];
  return a.bytes()[i] & ((1u << bits) - 1);
}

void SetPart(Literal* out, int64_t i, uint64_t bits) {
  const Type type = out->shape().type;
  if (BitsOf(type) < 8 && IsInteger(type)) {
    const uint32_t wide = static_cast<uint32_t>(bits);
    if (ClassOf(type) == TypeClass::kSigned) {
      const int32_t value = static_cast<int32_t>(wide);
      Narrow(type, &value, 1, out->bytes(), i);
    } else {
      Narrow(type, &wide, 1, out->bytes(), i);
    }
  } else {
    const int64_t bytes = LiteralBytesOf(type);
    std::memcpy(out->bytes() + i * bytes, &bits, bytes);
  }
}

}  // namespace

bool EvalBitcastConvert(const Literal& a, Literal* out, std::string* error) {
  const int from = BitsOf(a.shape().type), to = BitsOf(out->shape().type);
  if (a.size() == 0 || out->size() == 0) return true;
  if (from == to) {
    if (from >= 8 && a.byte_size() == out->byte_size()) {
      std::memcpy(out->bytes(), a.bytes(), a.byte_size());
    } else {
      for (int64_t i = 0; i < out->size(); ++i) SetPart(out, i, PartOf(a, from, i));
    }
    return true;
  }
  if (std::max(from, to) % std::min(from, to) != 0 || from == 6 || to == 6) {
    *error = Pair("bitcast-convert", a, *out);
    return false;
  }
  if (from >= 8 && to >= 8) {  // the bytes lie as they must
    std::memcpy(out->bytes(), a.bytes(), a.byte_size());
  } else if (from < to) {
    const int parts = to / from;
    for (int64_t i = 0; i < out->size(); ++i) {
      for (int part = 0; part < parts; part += 64 / from) {  // c128 takes two words
        uint64_t word = 0;
        for (int p = 0; p < std::min(parts, 64 / from); ++p) {
          word |= PartOf(a, from, i * parts + part + p) << (p * from);
        }
        const int64_t bytes = std::min<int64_t>(8, LiteralBytesOf(out->shape().type));
        std::memcpy(out->bytes() + i * LiteralBytesOf(out->shape().type) + part * from / 8, &word,
                    bytes);
      }
    }
  } else {
    const int64_t parts = from / to, bytes = LiteralBytesOf(a.shape().type);
    for (int64_t i = 0; i < out->size(); ++i) {
      const int64_t bit = i % parts * to;
      const uint8_t byte = a.bytes()[i / parts * bytes + bit / 8];
      SetPart(out, i, byte >> (bit % 8) & ((1u << to) - 1));
    }
  }
  return true;
}

bool EvalStochasticConvert(const Literal& a, const Literal& random, Literal* out,
                           std::string* error) {
  const Type type = a.shape().type, to_type = out->shape().type;
  const int bits = BitsOf(random.shape().type);
  if (!IsFloat(type) || !IsInteger(to_type) || !IsInteger(random.shape().type)) {
    *error = Pair("stochastic-convert", a, *out);
    return false;
  }
  const bool is_signed = ClassOf(to_type) == TypeClass::kSigned;
  const double high = std::ldexp(1.0, BitsOf(to_type) - (is_signed ? 1 : 0));  // out of range
  const double low = is_signed ? -high : 0;
  Literal rounded(Shape::Array(Type::kF64, out->shape().dims));
  for (int64_t i = 0; i < out->size(); ++i) {
    const double x = ElementAsDouble(type, a.bytes(), i), size = std::abs(x);
    const double whole = std::floor(size);
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    const uint64_t draw =
        static_cast<uint64_t>(ElementAsInt(random.shape().type, random.bytes(), i)) & mask;
    const bool up = static_cast<double>(draw) < std::ldexp(size - whole, bits);
    const double result = std::copysign(whole + (up ? 1 : 0), x);
    rounded.data<double>()[i] = std::isnan(x) ? 0 : result;
  }
  for (int64_t i = 0; i < rounded.size(); ++i) {
    double& x = rounded.data<double>()[i];
    x = x >= high ? high : x <= low ? low : x;
  }
  return EvalConvert(rounded, out, error);
}

}  // namespace tpuc
