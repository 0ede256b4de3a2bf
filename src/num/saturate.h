// Sums and products of sizes that stop at the largest 64-bit number, so that a file with huge sizes
// is refused for what it asks, not for a remainder.
//
//   SaturatingMul(1 << 40, 1 << 40) is INT64_MAX. For operands that are not negative.
#pragma once

#include <cstdint>

namespace tpuc {

inline int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

}  // namespace tpuc
