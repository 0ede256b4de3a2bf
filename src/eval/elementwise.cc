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

namespace tpuc {
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

template <typename T>
void CompareBlock(absl::string_view direction, const T* a, const T* b, int64_t n, uint8_t* out) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
  };
  if (direction == "EQ") return each([](T x, T y) { return x == y; });
  if (direction == "NE") return each([](T x, T y) { return x != y; });
  if (direction == "LT") return each([](T x, T y) { return x < y; });
  if (direction == "LE") return each([](T x, T y) { return x <= y; });
  if (direction == "GT") return each([](T x, T y) { return x > y; });
  if (direction == "GE") return each([](T x, T y) { return x >= y; });
}

bool EvalCompare(const Literal& a, const Literal& b, absl::string_view direction,
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
          return CompareBlock(direction, left, right, block.n, to);
        }
      }
      CompareBlock(direction, x.At(block), y.At(block), block.n, to);
    });
  });
  if (!typed) *error = absl::StrCat("compare of ", TypeName(a.shape().type));
  return typed;
}

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

// By bytes: any element type.
bool EvalSelect(const Literal& pred, const Literal& on_true, const Literal& on_false,
                Literal* out) {
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
      const auto each = [](const T* x) { return [x](int64_t i) { return x[i]; }; };
      const auto same = [](const T* x) { return [v = *x](int64_t) { return v; }; };
      if (one(on_true) && one(on_false)) {
        Choose(n, p, same(a), same(b), to);
      } else if (one(on_true)) {
        Choose(n, p, same(a), each(b), to);
      } else if (one(on_false)) {
        Choose(n, p, each(a), same(b), to);
      } else {
        Choose(n, p, each(a), each(b), to);
      }
    }
  });
  return true;
}

bool EvalClamp(const Literal& low, const Literal& x, const Literal& high, Literal* out,
               std::string* error) {
  const Type type = x.shape().type;
  const bool typed = VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    InBlocks<T> lo(low, out->size()), in(x, out->size()), hi(high, out->size());
    OutBlocks<T> to(out);
    T raised[kBlock];
    ForBlocks(out->size(), [&](Block b) {
      BinaryBlock(Op::kMaximum, 0, lo.At(b), in.At(b), b.n, raised);
      BinaryBlock(Op::kMinimum, 0, hi.At(b), raised, b.n, to.At(b));
      to.Done(b);
    });
  });
  if (!typed) *error = absl::StrCat("clamp of ", TypeName(type));
  return typed;
}

}  // namespace

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
      return EvalCompare(*operands[0], *operands[1], WordOf(attrs, AttrId::kDirection),
                         WordOf(attrs, AttrId::kCompareType), out, error);
    case Op::kSelect:
      return EvalSelect(*operands[0], *operands[1], *operands[2], out);
    case Op::kClamp:
      return EvalClamp(*operands[0], *operands[1], *operands[2], out, error);
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
