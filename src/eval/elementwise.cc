// Dispatch of element-wise operations, and those that are neither unary nor binary of one type:
// compare, select, clamp.
#include "src/eval/elementwise.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/blocks.h"
#include "src/eval/complex.h"
#include "src/eval/strided.h"
#include "src/num/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/eval/elementwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Plain loops, compiled for each kind of vectors.
HWY_BEFORE_NAMESPACE();
namespace tpuc::HWY_NAMESPACE {
namespace {

// Floats as integers in the order -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN.
int32_t TotalOrder(float x) {
  const int32_t bits = static_cast<int32_t>(num::BitsOfF32(x));
  return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}
int64_t TotalOrder(double x) {
  const int64_t bits = static_cast<int64_t>(num::BitsOfF64(x));
  return bits < 0 ? bits ^ 0x7FFFFFFFFFFFFFFF : bits;
}

// The i-th of an array; the same for all.
template <typename T>
auto Each(const T* x) {
  return [x](int64_t i) { return x[i]; };
}
template <typename T>
auto Same(T x) {
  return [x](int64_t) { return x; };
}

template <typename T, typename B>
void CompareBlock(absl::string_view direction, const T* a, B b, int64_t n, uint8_t* out) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b(i));
  };
  if (direction == "EQ") return each([](T x, T y) { return x == y; });
  if (direction == "NE") return each([](T x, T y) { return x != y; });
  if (direction == "LT") return each([](T x, T y) { return x < y; });
  if (direction == "LE") return each([](T x, T y) { return x <= y; });
  if (direction == "GT") return each([](T x, T y) { return x > y; });
  if (direction == "GE") return each([](T x, T y) { return x >= y; });
}

}  // namespace

bool Compare(const Literal& a, const Literal& b, absl::string_view direction,
             absl::string_view type, Literal* out, std::string* error) {
  const bool typed = VisitCompute(a.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    InBlocks<T> x(a, out->size()), y(b, out->size());
    ForBlocks(out->size(), [&](Block block) {
      uint8_t* to = out->bytes() + block.first;
      if constexpr (std::is_floating_point_v<T>) {
        if (type == "TOTALORDER") {
          using I = decltype(TotalOrder(T{}));
          I left[kBlock], right[kBlock];
          const T *l = x.At(block), *r = y.At(block);
          for (int64_t i = 0; i < block.n; ++i) {
            left[i] = TotalOrder(l[i]);
            right[i] = TotalOrder(r[i]);
          }
          return CompareBlock(direction, left, Each(right), block.n, to);
        }
      }
      if (y.splat()) {
        CompareBlock(direction, x.At(block), Same(y.one()), block.n, to);
      } else {
        CompareBlock(direction, x.At(block), Each(y.At(block)), block.n, to);
      }
    });
  });
  if (!typed) *error = absl::StrCat("compare of ", TypeName(a.shape().type));
  return typed;
}

namespace {

// to[i] = p[i] ? a(i) : b(i). Both are read, so that there is no branch; `to` may be an operand,
// element by element.
template <typename T, typename A, typename B>
void Choose(int64_t n, const uint8_t* p, A a, B b, T* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T x = a(i), y = b(i);
    to[i] = p[i] ? x : y;
  }
}

}  // namespace

// By bytes: any element type.
bool Select(const Literal& pred, const Literal& on_true, const Literal& on_false, Literal* out) {
  const bool scalar = pred.size() == 1 && out->size() != 1;
  if (out->size() == 0) return true;
  const auto one = [&](const Literal& x) { return x.size() == 1 && out->size() != 1; };
  VisitElementSize(LiteralBytesOf(out->shape().type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const uint8_t* p = pred.bytes();
    const T *a = on_true.data<T>(), *b = on_false.data<T>();
    T* to = out->data<T>();
    const int64_t n = out->size();
    if (scalar) {
      const Literal& chosen = p[0] ? on_true : on_false;
      if (one(chosen)) {
        std::fill_n(to, n, *chosen.data<T>());
      } else {
        std::memmove(to, chosen.bytes(), out->byte_size());  // may be *out itself
      }
    } else {
      if (one(on_true) && one(on_false)) {
        Choose(n, p, Same(*a), Same(*b), to);
      } else if (one(on_true)) {
        Choose(n, p, Same(*a), Each(b), to);
      } else if (one(on_false)) {
        Choose(n, p, Each(a), Same(*b), to);
      } else {
        Choose(n, p, Each(a), Each(b), to);
      }
    }
  });
  return true;
}

namespace {

// out may be x.
template <typename T, typename L, typename H>
void ClampBlock(L low, const T* x, H high, int64_t n, T* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Min(high(i), Max(low(i), x[i]));
}

}  // namespace

bool Clamp(const Literal& low, const Literal& x, const Literal& high, Literal* out,
           std::string* error) {
  const Type type = x.shape().type;
  const bool typed = VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    InBlocks<T> lo(low, out->size()), in(x, out->size()), hi(high, out->size());
    OutBlocks<T> to(out);
    ForBlocks(out->size(), [&](Block b) {
      const T* v = in.At(b);
      T* o = to.At(b);
      if (lo.splat() && hi.splat()) {
        ClampBlock(Same(lo.one()), v, Same(hi.one()), b.n, o);
      } else {
        ClampBlock(Each(lo.At(b)), v, Each(hi.At(b)), b.n, o);
      }
      to.Done(b);
    });
  });
  if (!typed) *error = absl::StrCat("clamp of ", TypeName(type));
  return typed;
}

}  // namespace tpuc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc {

HWY_EXPORT(Compare);
HWY_EXPORT(Select);
HWY_EXPORT(Clamp);

bool EvalElementwise(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                     Literal* out, std::string* error) {
  const auto is_complex = [](const Literal& x) {
    return ClassOf(x.shape().type) == TypeClass::kComplex;
  };
  const bool moves = op == Op::kSelect || op == Op::kBitcastConvert;
  if (!moves && (is_complex(*operands[0]) || is_complex(*out))) {
    return EvalComplex(op, operands, attrs, out, error);
  }
  switch (op) {
    case Op::kCompare:
      return HWY_DYNAMIC_DISPATCH(Compare)(*operands[0], *operands[1],
                                           WordOf(attrs, AttrId::kDirection),
                                           WordOf(attrs, AttrId::kCompareType), out, error);
    case Op::kSelect:
      return HWY_DYNAMIC_DISPATCH(Select)(*operands[0], *operands[1], *operands[2], out);
    case Op::kClamp:
      return HWY_DYNAMIC_DISPATCH(Clamp)(*operands[0], *operands[1], *operands[2], out, error);
    case Op::kConvert:
      return EvalConvert(*operands[0], out, error);
    case Op::kBitcastConvert:
      return EvalBitcastConvert(*operands[0], out, error);
    case Op::kStochasticConvert:
      return EvalStochasticConvert(*operands[0], *operands[1], out, error);
    case Op::kReducePrecision:
      return EvalReducePrecision(*operands[0],
                                 static_cast<int>(IntOf(attrs, AttrId::kExponentBits)),
                                 static_cast<int>(IntOf(attrs, AttrId::kMantissaBits)), out, error);
    default:
      break;
  }
  if (operands.size() == 1) return EvalUnary(op, *operands[0], out, error);
  if (operands.size() == 2) return EvalBinary(op, *operands[0], *operands[1], out, error);
  *error = std::string(OpName(op));
  return false;
}

}  // namespace tpuc
#endif  // HWY_ONCE
