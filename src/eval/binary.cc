// Binary element-wise operations on the compute types. Integers wrap; x/0 is -1 or all ones, x%0
// is x, MIN/-1 is MIN; a shift by the width or more (the amount read as unsigned) leaves nothing,
// or the sign. Floats: maximum and minimum propagate NaN, remainder is fmod. Source: XLA's
// semantics of these operations, checked by oracle/programs/int and binary.
#include <cmath>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "src/eval/blocks.h"
#include "src/eval/complex.h"
#include "src/eval/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/eval/binary.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Plain loops, compiled for each kind of vectors.
HWY_BEFORE_NAMESPACE();
namespace tpuc::HWY_NAMESPACE {
namespace {

// out may be a or b.
template <typename T, typename F>
void Each(const T* a, const T* b, int64_t n, T* out, F f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(f(a[i], b[i]));
}

template <typename T>
bool FloatBlock(Op op, const T* a, const T* b, int64_t n, T* o) {
  switch (op) {
    case Op::kAdd:
      Each(a, b, n, o, [](T x, T y) { return x + y; });
      return true;
    case Op::kSubtract:
      Each(a, b, n, o, [](T x, T y) { return x - y; });
      return true;
    case Op::kMultiply:
      Each(a, b, n, o, [](T x, T y) { return x * y; });
      return true;
    case Op::kDivide:
      Each(a, b, n, o, [](T x, T y) { return x / y; });
      return true;
    case Op::kRemainder:
      Each(a, b, n, o, [](T x, T y) { return std::fmod(x, y); });
      return true;
    case Op::kMaximum:
      Each(a, b, n, o, Max<T>);
      return true;
    case Op::kMinimum:
      Each(a, b, n, o, Min<T>);
      return true;
    case Op::kPower:
      Each(a, b, n, o, [](T x, T y) { return std::pow(double{x}, double{y}); });
      return true;
    case Op::kAtan2:
      Each(a, b, n, o, [](T x, T y) { return std::atan2(double{x}, double{y}); });
      return true;
    default:
      return false;
  }
}

template <typename T>
T Divide(T x, T y) {
  using U = std::make_unsigned_t<T>;
  if (y == 0) return static_cast<T>(~U{0});
  if (std::is_signed_v<T> && y == static_cast<T>(-1)) return static_cast<T>(U{0} - U(x));
  return x / y;
}

template <typename T>
T Remainder(T x, T y) {
  if (y == 0) return x;
  if (std::is_signed_v<T> && y == static_cast<T>(-1)) return 0;
  return x % y;
}

// x^y modulo 2^width; a negative power is the integer part of the true value.
template <typename T>
T Power(T x, T y) {
  using U = std::make_unsigned_t<T>;
  if (y < 0) return x == 1 ? 1 : x == static_cast<T>(-1) ? ((y & 1) ? x : 1) : 0;
  U result = 1, base = static_cast<U>(x);
  for (U e = static_cast<U>(y); e != 0; e >>= 1, base *= base) {
    if (e & 1) result *= base;
  }
  return static_cast<T>(result);
}

template <typename T>
T MulHigh(T x, T y, int bits) {
  if constexpr (sizeof(T) == 4) {
    using W = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>(W{x} * W{y} >> bits);
  } else {
    using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>(W{x} * W{y} >> bits);
  }
}

template <typename T>
bool ShiftBlock(Op op, int bits, const T* a, const T* b, int64_t n, T* o) {
  using U = std::make_unsigned_t<T>;
  using S = std::make_signed_t<T>;
  const U mask = static_cast<U>(~U{0}) >> (8 * sizeof(U) - bits);
  const int spare = static_cast<int>(8 * sizeof(U)) - bits;
  const U width = static_cast<U>(bits);
  switch (op) {
    case Op::kShiftLeft:
      Each(a, b, n, o, [=](T x, T y) { return (U(y) & mask) < width ? U(x) << (U(y) & mask) : 0; });
      return true;
    case Op::kShiftRightLogical:
      Each(a, b, n, o,
           [=](T x, T y) { return (U(y) & mask) < width ? (U(x) & mask) >> (U(y) & mask) : 0; });
      return true;
    case Op::kShiftRightArithmetic:
      Each(a, b, n, o, [=](T x, T y) {
        const S value = static_cast<S>(U(x) << spare) >> spare;  // sign-extended from the width
        return value >> ((U(y) & mask) < width ? (U(y) & mask) : width - 1);
      });
      return true;
    default:
      return false;
  }
}

template <typename T>
bool IntegerBlock(Op op, int bits, const T* a, const T* b, int64_t n, T* o) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Op::kAdd:
      Each(a, b, n, o, [](T x, T y) { return U(x) + U(y); });
      return true;
    case Op::kSubtract:
      Each(a, b, n, o, [](T x, T y) { return U(x) - U(y); });
      return true;
    case Op::kMultiply:
      Each(a, b, n, o, [](T x, T y) { return U(x) * U(y); });
      return true;
    case Op::kDivide:
      Each(a, b, n, o, Divide<T>);
      return true;
    case Op::kRemainder:
      Each(a, b, n, o, Remainder<T>);
      return true;
    case Op::kMaximum:
      Each(a, b, n, o, [](T x, T y) { return x > y ? x : y; });
      return true;
    case Op::kMinimum:
      Each(a, b, n, o, [](T x, T y) { return x < y ? x : y; });
      return true;
    case Op::kPower:
      Each(a, b, n, o, Power<T>);
      return true;
    case Op::kAnd:
      Each(a, b, n, o, [](T x, T y) { return x & y; });
      return true;
    case Op::kOr:
      Each(a, b, n, o, [](T x, T y) { return x | y; });
      return true;
    case Op::kXor:
      Each(a, b, n, o, [](T x, T y) { return x ^ y; });
      return true;
    case Op::kMulhi:
      Each(a, b, n, o, [=](T x, T y) { return MulHigh(x, y, bits); });
      return true;
    default:
      return ShiftBlock(op, bits, a, b, n, o);
  }
}

}  // namespace

bool BinaryF32(Op op, int, const float* a, const float* b, int64_t n, float* out) {
  return FloatBlock(op, a, b, n, out);
}
bool BinaryF64(Op op, int, const double* a, const double* b, int64_t n, double* out) {
  return FloatBlock(op, a, b, n, out);
}
bool BinaryS32(Op op, int bits, const int32_t* a, const int32_t* b, int64_t n, int32_t* out) {
  return IntegerBlock(op, bits, a, b, n, out);
}
bool BinaryU32(Op op, int bits, const uint32_t* a, const uint32_t* b, int64_t n, uint32_t* out) {
  return IntegerBlock(op, bits, a, b, n, out);
}
bool BinaryS64(Op op, int bits, const int64_t* a, const int64_t* b, int64_t n, int64_t* out) {
  return IntegerBlock(op, bits, a, b, n, out);
}
bool BinaryU64(Op op, int bits, const uint64_t* a, const uint64_t* b, int64_t n, uint64_t* out) {
  return IntegerBlock(op, bits, a, b, n, out);
}

}  // namespace tpuc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc {

HWY_EXPORT(BinaryF32);
HWY_EXPORT(BinaryF64);
HWY_EXPORT(BinaryS32);
HWY_EXPORT(BinaryU32);
HWY_EXPORT(BinaryS64);
HWY_EXPORT(BinaryU64);

namespace {

// and, or, xor of integers and truth values: on the bytes as they are stored, sign extended or not.
bool EvalBitwise(Op op, const Literal& a, const Literal& b, Literal* out) {
  const Type type = out->shape().type;
  if ((!IsInteger(type) && type != Type::kPred) || a.size() != out->size() ||
      b.size() != out->size()) {
    return false;
  }
  const uint8_t *x = a.bytes(), *y = b.bytes();
  uint8_t* to = out->bytes();
  const auto each = [&](auto f) {
    for (int64_t i = 0, n = out->byte_size(); i < n; ++i) to[i] = f(x[i], y[i]);
    return true;
  };
  if (op == Op::kAnd) return each([](uint8_t l, uint8_t r) -> uint8_t { return l & r; });
  if (op == Op::kOr) return each([](uint8_t l, uint8_t r) -> uint8_t { return l | r; });
  if (op == Op::kXor) return each([](uint8_t l, uint8_t r) -> uint8_t { return l ^ r; });
  return false;
}

}  // namespace

template <typename T>
bool BinaryBlock(Op op, int bits, const T* a, const T* b, int64_t n, T* out) {
  if constexpr (kIsComplex<T>) {
    return ComplexBlock(op, a, b, n, out);
  } else if constexpr (std::is_same_v<T, float>) {
    return HWY_DYNAMIC_DISPATCH(BinaryF32)(op, bits, a, b, n, out);
  } else if constexpr (std::is_same_v<T, double>) {
    return HWY_DYNAMIC_DISPATCH(BinaryF64)(op, bits, a, b, n, out);
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return HWY_DYNAMIC_DISPATCH(BinaryS32)(op, bits, a, b, n, out);
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    return HWY_DYNAMIC_DISPATCH(BinaryU32)(op, bits, a, b, n, out);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return HWY_DYNAMIC_DISPATCH(BinaryS64)(op, bits, a, b, n, out);
  } else {
    return HWY_DYNAMIC_DISPATCH(BinaryU64)(op, bits, a, b, n, out);
  }
}
template bool BinaryBlock(Op, int, const int32_t*, const int32_t*, int64_t, int32_t*);
template bool BinaryBlock(Op, int, const uint32_t*, const uint32_t*, int64_t, uint32_t*);
template bool BinaryBlock(Op, int, const int64_t*, const int64_t*, int64_t, int64_t*);
template bool BinaryBlock(Op, int, const uint64_t*, const uint64_t*, int64_t, uint64_t*);
template bool BinaryBlock(Op, int, const float*, const float*, int64_t, float*);
template bool BinaryBlock(Op, int, const double*, const double*, int64_t, double*);
template bool BinaryBlock(Op, int, const std::complex<float>*, const std::complex<float>*, int64_t,
                          std::complex<float>*);
template bool BinaryBlock(Op, int, const std::complex<double>*, const std::complex<double>*,
                          int64_t, std::complex<double>*);

bool EvalBinary(Op op, const Literal& a, const Literal& b, Literal* out, std::string* error) {
  const Type type = out->shape().type;
  if (EvalBitwise(op, a, b, out)) return true;
  bool known = true;
  const bool typed = VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    InBlocks<T> x(a, out->size()), y(b, out->size());
    OutBlocks<T> to(out);
    ForBlocks(out->size(), [&](Block block) {
      known &= BinaryBlock(op, ValueBits(type), x.At(block), y.At(block), block.n, to.At(block));
      to.Done(block);
    });
  });
  if (!typed || !known) *error = absl::StrCat(OpName(op), " of ", TypeName(type));
  return typed && known;
}

}  // namespace tpuc
#endif  // HWY_ONCE
