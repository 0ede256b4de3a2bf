// Comparing two arrays of one shape number by number. NaN equals NaN, -0 equals 0, infinities equal
// with sign.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "src/ir/literal.h"

namespace tpuc::cli {

// An element is good if |actual - expected| <= atol + rtol * |expected|, or if max_ulp is given and
// at most that many steps of the type lie between the two.
struct Tolerance {
  double rtol = 0, atol = 0;
  int64_t max_ulp = -1;  // -1: not given
};

struct Comparison {
  int64_t count = 0, bad = 0;
  int64_t first_bad = -1;           // row-major number of the element
  double max_abs = 0, max_rel = 0;  // over elements where both are finite
  double rms = 0;                   // root mean square of (actual - expected) / scale
  double scale = 0;                 // largest finite |expected|
  int64_t max_ulp = 0;
  int64_t nan_pairs = 0;          // NaN on both sides: equal
  int64_t signed_zero_pairs = 0;  // 0 against -0: equal
  int64_t special = 0;            // NaN or infinity on one side only
  // |difference| / scale: 0; below 1e-7; 1e-6 ... 1e-1; the rest.
  std::array<int64_t, 9> histogram{};
  std::string worst;  // "got 1.5, expected 1.25 at [0,3]"; of the first bad element
};

// The literals' shapes are compatible arrays.
Comparison Compare(const Literal& expected, const Literal& actual, const Tolerance& tolerance);
// Several lines: errors, first bad element, histogram, what was taken for equal.
std::string Describe(const Comparison& c);
// An element as a double (complex: the real part of i even, the imaginary of i odd, of 2 * size()).
double ElementOf(const Literal& literal, int64_t i);

}  // namespace tpuc::cli
