// Unary element-wise operations. Functions of floats compute in f64 and round to the compute type,
// which keeps f32 within half an ulp; bit operations see the width of the element type.
#include <bit>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "src/eval/blocks.h"
#include "src/eval/elementwise.h"

namespace tpuc {
namespace {

template <typename T, typename F>
void Each(const T* a, int64_t n, T* out, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(f(a[i]));
}

// f on f64, whatever T.
template <typename T, typename F>
void Wide(const T* a, int64_t n, T* out, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(f(static_cast<double>(a[i])));
}

double Sign(double x) { return x == 0 || std::isnan(x) ? x : std::copysign(1.0, x); }
double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

template <typename T>
bool FloatBlock(Op op, const T* a, int64_t n, T* o) {
  switch (op) {
    case Op::kAbs:
      Each(a, n, o, [](T x) { return std::abs(x); });
      return true;
    case Op::kNegate:
      Each(a, n, o, [](T x) { return -x; });
      return true;
    case Op::kCeil:
      Each(a, n, o, [](T x) { return std::ceil(x); });
      return true;
    case Op::kFloor:
      Each(a, n, o, [](T x) { return std::floor(x); });
      return true;
    case Op::kRoundNearestAfz:
      Each(a, n, o, [](T x) { return std::round(x); });
      return true;
    case Op::kRoundNearestEven:
      Each(a, n, o, [](T x) { return std::nearbyint(x); });
      return true;
    case Op::kReal:
      Each(a, n, o, [](T x) { return x; });
      return true;
    case Op::kImag:
      Each(a, n, o, [](T) { return T{0}; });
      return true;
    case Op::kSign:
      Wide(a, n, o, Sign);
      return true;
    case Op::kSqrt:
      Each(a, n, o, [](T x) { return std::sqrt(x); });
      return true;
    case Op::kRsqrt:
      Wide(a, n, o, [](double x) { return 1 / std::sqrt(x); });
      return true;
    case Op::kCbrt:
      Wide(a, n, o, [](double x) { return std::cbrt(x); });
      return true;
    case Op::kExponential:
      Wide(a, n, o, [](double x) { return std::exp(x); });
      return true;
    case Op::kExponentialMinusOne:
      Wide(a, n, o, [](double x) { return std::expm1(x); });
      return true;
    case Op::kLog:
      Wide(a, n, o, [](double x) { return std::log(x); });
      return true;
    case Op::kLogPlusOne:
      Wide(a, n, o, [](double x) { return std::log1p(x); });
      return true;
    case Op::kLogistic:
      Wide(a, n, o, Logistic);
      return true;
    case Op::kErf:
      Wide(a, n, o, [](double x) { return std::erf(x); });
      return true;
    case Op::kSine:
      Wide(a, n, o, [](double x) { return std::sin(x); });
      return true;
    case Op::kCosine:
      Wide(a, n, o, [](double x) { return std::cos(x); });
      return true;
    case Op::kTan:
      Wide(a, n, o, [](double x) { return std::tan(x); });
      return true;
    case Op::kSinh:
      Wide(a, n, o, [](double x) { return std::sinh(x); });
      return true;
    case Op::kCosh:
      Wide(a, n, o, [](double x) { return std::cosh(x); });
      return true;
    case Op::kTanh:
      Wide(a, n, o, [](double x) { return std::tanh(x); });
      return true;
    case Op::kAsin:
      Wide(a, n, o, [](double x) { return std::asin(x); });
      return true;
    case Op::kAcos:
      Wide(a, n, o, [](double x) { return std::acos(x); });
      return true;
    case Op::kAsinh:
      Wide(a, n, o, [](double x) { return std::asinh(x); });
      return true;
    case Op::kAcosh:
      Wide(a, n, o, [](double x) { return std::acosh(x); });
      return true;
    case Op::kAtanh:
      Wide(a, n, o, [](double x) { return std::atanh(x); });
      return true;
    default:
      return false;
  }
}

template <typename T>
bool IntegerBlock(Op op, int bits, const T* a, int64_t n, T* o) {
  using U = std::make_unsigned_t<T>;  // wraps without undefined behaviour
  const U mask = static_cast<U>(~U{0}) >> (8 * sizeof(U) - bits);
  const int spare = static_cast<int>(8 * sizeof(U)) - bits;
  switch (op) {
    case Op::kAbs:
      Each(a, n, o, [](T x) { return x < 0 ? U{0} - U(x) : U(x); });
      return true;
    case Op::kNegate:
      Each(a, n, o, [](T x) { return U{0} - U(x); });
      return true;
    case Op::kSign:
      Each(a, n, o, [](T x) { return (x > 0) - (x < 0); });
      return true;
    case Op::kNot:
      Each(a, n, o, [=](T x) { return ~U(x) & mask; });
      return true;
    case Op::kPopcnt:
      Each(a, n, o, [=](T x) { return std::popcount(U(x) & mask); });
      return true;
    case Op::kCountLeadingZeros:
      Each(a, n, o, [=](T x) { return std::countl_zero(U(U(x) & mask)) - spare; });
      return true;
    case Op::kReal:
      Each(a, n, o, [](T x) { return x; });
      return true;
    case Op::kImag:
      Each(a, n, o, [](T) { return T{0}; });
      return true;
    default:
      return false;
  }
}

bool EvalIsFinite(const Literal& a, Literal* out) {
  return VisitCompute(a.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    InBlocks<T> in(a, out->size());
    ForBlocks(out->size(), [&](Block b) {
      const T* x = in.At(b);
      for (int64_t i = 0; i < b.n; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
          out->bytes()[b.first + i] = std::isfinite(x[i]);
        } else {
          out->bytes()[b.first + i] = 1;
        }
      }
    });
  });
}

}  // namespace

bool EvalUnary(Op op, const Literal& a, Literal* out, std::string* error) {
  const Type type = a.shape().type;
  bool known = true, typed;
  if (op == Op::kIsFinite) {
    typed = EvalIsFinite(a, out);
  } else {
    typed = VisitCompute(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      InBlocks<T> in(a, out->size());
      OutBlocks<T> to(out);
      ForBlocks(out->size(), [&](Block b) {
        if constexpr (std::is_floating_point_v<T>) {
          known &= FloatBlock(op, in.At(b), b.n, to.At(b));
        } else {
          known &= IntegerBlock(op, ValueBits(type), in.At(b), b.n, to.At(b));
        }
        to.Done(b);
      });
    });
  }
  if (!typed || !known) *error = absl::StrCat(OpName(op), " of ", TypeName(type));
  return typed && known;
}

}  // namespace tpuc
