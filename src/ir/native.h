// How the element types of HLO are held in a Literal and computed with.
//
// Every type has a stored form (what a Literal's bytes are) and a compute form: f32 for all floats
// up to f32, f64, and 32- or 64-bit integers of the type's signedness (pred computes as u32).
// Evaluator loops widen a block to the compute form, work there, and narrow the block again, which
// rounds narrow floats to nearest even and wraps integers: as XLA does without excess precision.
//
//   VisitCompute(Type::kBF16, [](auto tag) { using T = typename decltype(tag)::type; /* float */
//   });
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "src/ir/shape.h"

namespace tpuc {

enum class Compute : uint8_t { kS32, kU32, kS64, kU64, kF32, kF64, kNone };

template <typename T>
struct TypeTag {
  using type = T;
};

// kNone for tokens, tuples, opaque and complex values.
Compute ComputeOf(Type type);
// True where the stored and the compute form are the same bytes (s32 u32 s64 u64 f32 f64 c64 c128).
bool IsNative(Type type);

// Calls f(TypeTag<T>) with the compute type T; returns false (f not called) for kNone.
template <typename F>
bool VisitCompute(Type type, F&& f) {
  switch (ComputeOf(type)) {
    case Compute::kS32:
      f(TypeTag<int32_t>{});
      return true;
    case Compute::kU32:
      f(TypeTag<uint32_t>{});
      return true;
    case Compute::kS64:
      f(TypeTag<int64_t>{});
      return true;
    case Compute::kU64:
      f(TypeTag<uint64_t>{});
      return true;
    case Compute::kF32:
      f(TypeTag<float>{});
      return true;
    case Compute::kF64:
      f(TypeTag<double>{});
      return true;
    case Compute::kNone:
      return false;
  }
  return false;
}

// The same for all numbers: complex values compute as std::complex. False for tokens and the like.
template <typename F>
bool VisitNumber(Type type, F&& f) {
  if (type == Type::kC64) return f(TypeTag<std::complex<float>>{}), true;
  if (type == Type::kC128) return f(TypeTag<std::complex<double>>{}), true;
  return VisitCompute(type, f);
}

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

// Elements [first, first + n) of stored bytes `from` widened to the compute type T of `type`.
template <typename T>
void Widen(Type type, const uint8_t* from, int64_t first, int64_t n, T* to);
// The reverse: floats round to nearest even, integers wrap to the type's width, pred is x != 0.
template <typename T>
void Narrow(Type type, const T* from, int64_t n, uint8_t* to, int64_t first);

// One element as f64 or as a wrapped 64-bit integer, for scalars (indices, init values in tests).
double ElementAsDouble(Type type, const uint8_t* bytes, int64_t index);
int64_t ElementAsInt(Type type, const uint8_t* bytes, int64_t index);

}  // namespace tpuc
