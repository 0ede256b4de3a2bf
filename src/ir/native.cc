// Widening and narrowing of stored elements (native.h). One switch over the stored forms; the
// 8-bit floats and smaller widen through a table of 256 values made on first use by WidenFloat.
#include "src/ir/native.h"

#include <array>
#include <cstring>

#include "src/diag/check.h"
#include "src/ir/float_format.h"
#include "src/num/convert.h"
#include "src/num/convert_array.h"

namespace tpuc {
namespace {

float WidenSmallFloat(Type type, uint8_t bits) {
  if (type == Type::kF8E8M0FNU) return static_cast<float>(num::F64FromF8E8M0(bits));
  return static_cast<float>(num::WidenFloat(*FloatFormatOf(type), bits));
}

template <typename S, typename T>
void WidenAs(const uint8_t* from, int64_t first, int64_t n, T* to) {
  const S* in = reinterpret_cast<const S*>(from) + first;
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(in[i]);
}

template <typename S, typename T>
void NarrowAs(const T* from, int64_t n, uint8_t* to, int64_t first) {
  S* out = reinterpret_cast<S*>(to) + first;
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<S>(from[i]);
}

void WidenFloats(Type type, const uint8_t* from, int64_t first, int64_t n, float* to) {
  const uint16_t* half = reinterpret_cast<const uint16_t*>(from) + first;
  if (type == Type::kBF16) {
    num::F32sFromBF16s(half, n, to);
  } else if (type == Type::kF16) {
    num::F32sFromF16s(half, n, to);
  } else if (n < 64) {
    for (int64_t i = 0; i < n; ++i) to[i] = WidenSmallFloat(type, from[first + i]);
  } else {
    std::array<float, 256> values;
    for (int b = 0; b < 256; ++b) values[b] = WidenSmallFloat(type, static_cast<uint8_t>(b));
    for (int64_t i = 0; i < n; ++i) to[i] = values[from[first + i]];
  }
}

void NarrowFloats(Type type, const float* from, int64_t n, uint8_t* to, int64_t first) {
  uint16_t* half = reinterpret_cast<uint16_t*>(to) + first;
  if (type == Type::kBF16) {
    num::BF16sFromF32s(from, n, half);
  } else if (type == Type::kF16) {
    num::F16sFromF32s(from, n, half);
  } else if (type == Type::kF8E8M0FNU) {
    for (int64_t i = 0; i < n; ++i) to[first + i] = num::F8E8M0FromF64(from[i]);
  } else {
    const num::FloatFormat& format = *FloatFormatOf(type);
    for (int64_t i = 0; i < n; ++i) {
      to[first + i] = static_cast<uint8_t>(num::NarrowFloat(format, from[i]));
    }
  }
}

// Integers of fewer than 8 bits live in a byte, sign- or zero-extended.
template <typename T>
void NarrowSmallInts(Type type, const T* from, int64_t n, uint8_t* to, int64_t first) {
  const int drop = 8 - BitsOf(type);
  const bool is_signed = ClassOf(type) == TypeClass::kSigned;
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t top = static_cast<uint8_t>(static_cast<uint8_t>(from[i]) << drop);
    to[first + i] = is_signed ? static_cast<uint8_t>(static_cast<int8_t>(top) >> drop)
                              : static_cast<uint8_t>(top >> drop);
  }
}

}  // namespace

Compute ComputeOf(Type type) {
  switch (ClassOf(type)) {
    case TypeClass::kBool:
      return Compute::kU32;
    case TypeClass::kSigned:
      return BitsOf(type) == 64 ? Compute::kS64 : Compute::kS32;
    case TypeClass::kUnsigned:
      return BitsOf(type) == 64 ? Compute::kU64 : Compute::kU32;
    case TypeClass::kFloat:
      return type == Type::kF64 ? Compute::kF64 : Compute::kF32;
    default:
      return Compute::kNone;
  }
}

bool IsNative(Type type) {
  return ClassOf(type) != TypeClass::kBool && ClassOf(type) != TypeClass::kOther &&
         BitsOf(type) >= 32;
}

template <typename T>
void Widen(Type type, const uint8_t* from, int64_t first, int64_t n, T* to) {
  if (n == 0) return;
  if (IsNative(type)) {
    std::memcpy(to, from + first * sizeof(T), n * sizeof(T));
  } else if constexpr (kIsComplex<T>) {
    CHECK_MSG(false, "no complex type is narrow");
  } else if constexpr (std::is_same_v<T, float>) {
    WidenFloats(type, from, first, n, to);
  } else if (ClassOf(type) == TypeClass::kSigned) {
    BitsOf(type) == 16 ? WidenAs<int16_t>(from, first, n, to) : WidenAs<int8_t>(from, first, n, to);
  } else {
    BitsOf(type) == 16 ? WidenAs<uint16_t>(from, first, n, to)
                       : WidenAs<uint8_t>(from, first, n, to);
  }
}

template <typename T>
void Narrow(Type type, const T* from, int64_t n, uint8_t* to, int64_t first) {
  if (n == 0) return;
  if (IsNative(type)) {
    std::memcpy(to + first * sizeof(T), from, n * sizeof(T));
  } else if constexpr (kIsComplex<T>) {
    CHECK_MSG(false, "no complex type is narrow");
  } else if constexpr (std::is_same_v<T, float>) {
    NarrowFloats(type, from, n, to, first);
  } else if (type == Type::kPred) {
    for (int64_t i = 0; i < n; ++i) to[first + i] = from[i] != 0;
  } else if (BitsOf(type) < 8) {
    NarrowSmallInts(type, from, n, to, first);
  } else if (BitsOf(type) == 16) {
    NarrowAs<uint16_t>(from, n, to, first);
  } else {
    NarrowAs<uint8_t>(from, n, to, first);
  }
}

template void Widen<int32_t>(Type, const uint8_t*, int64_t, int64_t, int32_t*);
template void Narrow<int32_t>(Type, const int32_t*, int64_t, uint8_t*, int64_t);
template void Widen<uint32_t>(Type, const uint8_t*, int64_t, int64_t, uint32_t*);
template void Narrow<uint32_t>(Type, const uint32_t*, int64_t, uint8_t*, int64_t);
template void Widen<int64_t>(Type, const uint8_t*, int64_t, int64_t, int64_t*);
template void Narrow<int64_t>(Type, const int64_t*, int64_t, uint8_t*, int64_t);
template void Widen<uint64_t>(Type, const uint8_t*, int64_t, int64_t, uint64_t*);
template void Narrow<uint64_t>(Type, const uint64_t*, int64_t, uint8_t*, int64_t);
template void Widen<float>(Type, const uint8_t*, int64_t, int64_t, float*);
template void Narrow<float>(Type, const float*, int64_t, uint8_t*, int64_t);
template void Widen<double>(Type, const uint8_t*, int64_t, int64_t, double*);
template void Narrow<double>(Type, const double*, int64_t, uint8_t*, int64_t);
template void Widen<std::complex<float>>(Type, const uint8_t*, int64_t, int64_t,
                                         std::complex<float>*);
template void Narrow<std::complex<float>>(Type, const std::complex<float>*, int64_t, uint8_t*,
                                          int64_t);

template void Widen<std::complex<double>>(Type, const uint8_t*, int64_t, int64_t,
                                          std::complex<double>*);
template void Narrow<std::complex<double>>(Type, const std::complex<double>*, int64_t, uint8_t*,
                                           int64_t);

double ElementAsDouble(Type type, const uint8_t* bytes, int64_t index) {
  double result = 0;
  VisitCompute(type, [&](auto tag) {
    typename decltype(tag)::type value;
    Widen(type, bytes, index, 1, &value);
    result = static_cast<double>(value);
  });
  return result;
}

int64_t ElementAsInt(Type type, const uint8_t* bytes, int64_t index) {
  int64_t result = 0;
  VisitCompute(type, [&](auto tag) {
    typename decltype(tag)::type value;
    Widen(type, bytes, index, 1, &value);
    if constexpr (std::is_integral_v<decltype(value)>) result = static_cast<int64_t>(value);
  });
  return result;
}

}  // namespace tpuc
