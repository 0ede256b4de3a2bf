// Conversions between element types. Float to integer truncates and saturates at the target's
// range, NaN is 0; integer to integer wraps; anything to pred is x != 0; to narrow floats rounds
// once, to nearest even. Source: XLA on a CPU, checked by oracle/programs/convert.
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
      const int own = type == Type::kF16 || type == Type::kF8E5M2 ? 5 : type == Type::kF64 ? 11 : 8;
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

bool EvalBitcastConvert(const Literal& a, Literal* out, std::string* error) {
  const auto whole = [](Type t) { return BitsOf(t) >= 8 && BitsOf(t) % 8 == 0; };
  if (!whole(a.shape().type) || !whole(out->shape().type) || a.byte_size() != out->byte_size()) {
    *error = Pair("bitcast-convert", a, *out);
    return false;
  }
  if (a.byte_size() > 0) std::memcpy(out->bytes(), a.bytes(), a.byte_size());
  return true;
}

}  // namespace tpuc
