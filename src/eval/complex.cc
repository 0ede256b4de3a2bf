// Complex arithmetic (complex.h). Functions compute in complex f64 and round once. Source of the
// special cases: XLA's rules for sign (z/|z|, 0 at 0), power (0^0 = 1, 0^w = 0) and convert (the
// imaginary part is dropped or 0).
#include "src/eval/complex.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/blocks.h"
#include "src/eval/elementwise.h"

namespace tpuc {
namespace {

using Wide = std::complex<double>;

bool IsComplexType(Type type) { return ClassOf(type) == TypeClass::kComplex; }
Type PartOf(Type type) { return type == Type::kC64 ? Type::kF32 : Type::kF64; }

Wide Power(Wide x, Wide y) {
  if (x == Wide(0)) return y == Wide(0) ? Wide(1) : y.real() > 0 ? Wide(0) : std::pow(x, y);
  return std::pow(x, y);
}

// The parts separately, as XLA writes it: no rescue of infinities.
Wide Times(Wide a, Wide b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

bool Binary(Op op, Wide a, Wide b, Wide* out) {
  switch (op) {
    case Op::kAdd:
      return *out = a + b, true;
    case Op::kSubtract:
      return *out = a - b, true;
    case Op::kMultiply:
      return *out = Times(a, b), true;
    case Op::kDivide:
      return *out = a / b, true;
    case Op::kPower:
      return *out = Power(a, b), true;
    case Op::kAtan2: {
      const Wide i(0, 1);
      return *out = -i * std::log((b + i * a) / std::sqrt(a * a + b * b)), true;
    }
    default:
      return false;
  }
}

Wide Log1p(Wide z) {  // the real part without cancellation near 0
  const double x = z.real(), y = z.imag();
  return {0.5 * std::log1p(x * (2 + x) + y * y), std::atan2(y, 1 + x)};
}
Wide Expm1(Wide z) {
  const double half = std::sin(z.imag() / 2), e = std::expm1(z.real());
  return {e * std::cos(z.imag()) - 2 * half * half, std::exp(z.real()) * std::sin(z.imag())};
}

bool Unary(Op op, Wide z, Wide* out) {
  switch (op) {
    case Op::kNegate:
      return *out = -z, true;
    case Op::kSign:
      return *out = z == Wide(0) ? z : z / std::abs(z), true;
    case Op::kExponential:
      return *out = std::exp(z), true;
    case Op::kExponentialMinusOne:
      return *out = Expm1(z), true;
    case Op::kLog:
      return *out = std::log(z), true;
    case Op::kLogPlusOne:
      return *out = Log1p(z), true;
    case Op::kLogistic:
      return *out = 1.0 / (1.0 + std::exp(-z)), true;
    case Op::kSqrt:
      return *out = std::sqrt(z), true;
    case Op::kRsqrt:
      return *out = 1.0 / std::sqrt(z), true;
    case Op::kCbrt:
      return *out = std::pow(z, 1.0 / 3.0), true;
    case Op::kSine:
      return *out = std::sin(z), true;
    case Op::kCosine:
      return *out = std::cos(z), true;
    case Op::kTan:
      return *out = std::tan(z), true;
    case Op::kSinh:
      return *out = std::sinh(z), true;
    case Op::kCosh:
      return *out = std::cosh(z), true;
    case Op::kTanh:
      return *out = std::tanh(z), true;
    case Op::kAsin:
      return *out = std::asin(z), true;
    case Op::kAcos:
      return *out = std::acos(z), true;
    case Op::kAsinh:
      return *out = std::asinh(z), true;
    case Op::kAcosh:
      return *out = std::acosh(z), true;
    case Op::kAtanh:
      return *out = std::atanh(z), true;
    default:
      return false;
  }
}

// A real result of each complex value: abs, real, imag.
template <typename T>
bool RealOf(Op op, const std::complex<T>* a, int64_t n, T* out) {
  switch (op) {
    case Op::kAbs:
      for (int64_t i = 0; i < n; ++i) out[i] = std::hypot(a[i].real(), a[i].imag());
      return true;
    case Op::kReal:
      for (int64_t i = 0; i < n; ++i) out[i] = a[i].real();
      return true;
    case Op::kImag:
      for (int64_t i = 0; i < n; ++i) out[i] = a[i].imag();
      return true;
    default:
      return false;
  }
}

template <typename C>
bool RunAs(Op op, absl::Span<const Literal* const> operands, absl::string_view direction,
           Literal* out) {
  using T = typename C::value_type;
  const int64_t n = out->size();
  const C* a = operands[0]->data<C>();
  const C* b = operands.size() > 1 ? operands[1]->data<C>() : nullptr;
  if (op == Op::kCompare) {
    for (int64_t i = 0; i < n; ++i) out->bytes()[i] = (a[i] == b[i]) == (direction == "EQ");
    return direction == "EQ" || direction == "NE";
  }
  if (op == Op::kIsFinite) {
    for (int64_t i = 0; i < n; ++i) {
      out->bytes()[i] = std::isfinite(a[i].real()) && std::isfinite(a[i].imag());
    }
    return true;
  }
  if (!IsComplexType(out->shape().type)) return RealOf<T>(op, a, n, out->data<T>());
  C* to = out->data<C>();
  if (b != nullptr) return ComplexBlock(op, a, b, n, to);
  for (int64_t i = 0; i < n; ++i) {
    Wide wide;
    if (!Unary(op, Wide(a[i]), &wide)) return false;
    to[i] = C(wide);
  }
  return true;
}

// (re, im) -> complex.
void Join(const Literal& re, const Literal& im, Literal* out) {
  VisitNumber(out->shape().type, [&](auto tag) {
    using C = typename decltype(tag)::type;
    if constexpr (kIsComplex<C>) {
      using T = typename C::value_type;
      for (int64_t i = 0; i < out->size(); ++i) {
        out->data<C>()[i] = C(re.data<T>()[i], im.data<T>()[i]);
      }
    }
  });
}

bool Convert(const Literal& a, Literal* out, std::string* error) {
  const Type from = a.shape().type, to = out->shape().type;
  const Type part = IsComplexType(from) ? PartOf(from) : from;
  Literal real(Shape::Array(part, a.shape().dims)), zero;
  const Literal* operand = &a;
  if (IsComplexType(from)) {
    if (!EvalComplex(Op::kReal, {&operand, 1}, {}, &real, error)) return false;
  } else {
    real = a;
  }
  if (!IsComplexType(to)) return EvalConvert(real, out, error);
  Literal re(Shape::Array(PartOf(to), a.shape().dims)), im(re.shape());
  if (!EvalConvert(real, &re, error)) return false;
  if (IsComplexType(from)) {
    if (!EvalComplex(Op::kImag, {&operand, 1}, {}, &real, error)) return false;
    if (!EvalConvert(real, &im, error)) return false;
  }
  Join(re, im, out);
  return true;
}

}  // namespace

template <typename C>
bool ComplexBlock(Op op, const C* a, const C* b, int64_t n, C* out) {
  for (int64_t i = 0; i < n; ++i) {
    Wide wide;
    if (!Binary(op, Wide(a[i]), Wide(b[i]), &wide)) return false;
    out[i] = C(wide);
  }
  return true;
}
template bool ComplexBlock(Op, const std::complex<float>*, const std::complex<float>*, int64_t,
                           std::complex<float>*);
template bool ComplexBlock(Op, const std::complex<double>*, const std::complex<double>*, int64_t,
                           std::complex<double>*);

bool EvalComplex(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                 Literal* out, std::string* error) {
  if (op == Op::kConvert) return Convert(*operands[0], out, error);
  if (op == Op::kComplex) {
    Join(*operands[0], *operands[1], out);
    return true;
  }
  const Type type = operands[0]->shape().type;
  const absl::string_view direction = WordOf(attrs, AttrId::kDirection);
  const bool known = type == Type::kC64 ? RunAs<std::complex<float>>(op, operands, direction, out)
                                        : RunAs<std::complex<double>>(op, operands, direction, out);
  if (!known) *error = absl::StrCat(OpName(op), " of ", TypeName(type));
  return known;
}

}  // namespace tpuc
