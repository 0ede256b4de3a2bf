// Scalar literals (scalar.h), made by the reference evaluator's own conversions.
#include "backend/kernel/scalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "src/ir/native.h"

namespace tpuc::kernel {
namespace {

// The largest or the smallest value of a type; infinities where it has them.
Literal ExtremeOf(Type type, bool largest) {
  if (IsFloat(type)) {
    const double inf = std::numeric_limits<double>::infinity();
    return ScalarOf(type, largest ? inf : -inf);
  }
  const int bits = BitsOf(type);
  if (ClassOf(type) == TypeClass::kSigned) {
    const int64_t max = bits >= 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
    return ScalarOf(type, largest ? max : -max - 1);
  }
  if (type == Type::kPred) return ScalarOf(type, int64_t{largest});
  return ScalarOf(type, largest ? int64_t{-1} : int64_t{0});
}

}  // namespace

Literal ScalarOf(Type type, double value) {
  Shape scalar;
  scalar.type = type;
  Literal result(std::move(scalar));
  VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      const T v = static_cast<T>(value);
      Narrow<T>(type, &v, 1, result.bytes(), 0);
    } else {
      // Callers give whole numbers; what is outside int64 is clamped rather than undefined.
      const double clamped = std::isnan(value) ? 0 : std::fmin(std::fmax(value, -9.2e18), 9.2e18);
      const T v = static_cast<T>(static_cast<int64_t>(clamped));
      Narrow<T>(type, &v, 1, result.bytes(), 0);
    }
  });
  return result;
}

Literal ScalarOf(Type type, int64_t value) {
  Shape scalar;
  scalar.type = type;
  Literal result(std::move(scalar));
  VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T v = static_cast<T>(value);
    Narrow<T>(type, &v, 1, result.bytes(), 0);
  });
  return result;
}

Literal IdentityOf(Op reducer, Type type) {
  switch (reducer) {
    case Op::kMultiply:
      return ScalarOf(type, int64_t{1});
    case Op::kMaximum:
      return ExtremeOf(type, false);
    case Op::kMinimum:
      return ExtremeOf(type, true);
    case Op::kAnd:
      return ScalarOf(type, type == Type::kPred ? int64_t{1} : int64_t{-1});
    default:  // add, or, xor
      return ScalarOf(type, int64_t{0});
  }
}

bool IsIdentity(Op reducer, const Literal& scalar) {
  const Type type = scalar.shape().type;
  if (scalar.elided() || ComputeOf(type) == Compute::kNone) return false;
  const Literal identity = IdentityOf(reducer, type);
  if (identity.byte_size() != scalar.byte_size()) return false;
  if (std::memcmp(identity.bytes(), scalar.bytes(), identity.byte_size()) == 0) return true;
  return reducer == Op::kAdd && IsFloat(type) && ElementAsDouble(type, scalar.bytes(), 0) == 0;
}

void FillPoison(Literal* array) {
  const Type type = array->shape().type;
  if (array->byte_size() == 0) return;
  if (ClassOf(type) == TypeClass::kComplex || ComputeOf(type) == Compute::kNone) {
    std::memset(array->bytes(), 0xFF, array->byte_size());  // NaN
    return;
  }
  Literal one = IsFloat(type) ? ScalarOf(type, std::numeric_limits<double>::quiet_NaN())
                : ClassOf(type) == TypeClass::kSigned ? ExtremeOf(type, false)
                                                      : ExtremeOf(type, true);
  const int64_t width = one.byte_size();
  std::memcpy(array->bytes(), one.bytes(), width);
  for (int64_t done = width; done < array->byte_size();) {  // doubling copies
    const int64_t n = std::min(done, array->byte_size() - done);
    std::memcpy(array->bytes() + done, array->bytes(), n);
    done += n;
  }
}

}  // namespace tpuc::kernel
