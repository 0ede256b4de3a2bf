#include "src/cli/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/diag/check.h"
#include "src/ir/float_format.h"
#include "src/num/convert.h"

namespace tpuc::cli {
namespace {

// The scalar type that is compared: complex numbers are pairs of it.
Type PartType(Type type) {
  if (type == Type::kC64) return Type::kF32;
  return type == Type::kC128 ? Type::kF64 : type;
}

uint64_t BitsAt(const uint8_t* bytes, int64_t i, int64_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes + i * width, width);
  return bits;
}

int64_t SignedAt(Type type, uint64_t bits) {
  switch (LiteralBytesOf(type)) {
    case 1:
      return static_cast<int8_t>(bits);
    case 2:
      return static_cast<int16_t>(bits);
    case 4:
      return static_cast<int32_t>(bits);
    default:
      return static_cast<int64_t>(bits);
  }
}

double ValueOf(Type type, uint64_t bits) {
  if (type == Type::kF32) return num::F32OfBits(static_cast<uint32_t>(bits));
  if (type == Type::kF64) return num::F64OfBits(bits);
  if (type == Type::kF8E8M0FNU) return num::F64FromF8E8M0(static_cast<uint8_t>(bits));
  if (const num::FloatFormat* f = FloatFormatOf(type)) {
    return num::WidenFloat(*f, static_cast<uint32_t>(bits));
  }
  if (ClassOf(type) == TypeClass::kSigned) return static_cast<double>(SignedAt(type, bits));
  return static_cast<double>(bits);
}

// Numbers in order: neighbouring values of the type are neighbouring integers.
__int128 RankOf(Type type, uint64_t bits) {
  if (ClassOf(type) == TypeClass::kSigned) return SignedAt(type, bits);
  if (!IsFloat(type) || type == Type::kF8E8M0FNU) return bits;
  uint64_t sign = 1ull << (BitsOf(type) - 1);
  return bits & sign ? -static_cast<__int128>(bits & (sign - 1)) : static_cast<__int128>(bits);
}

int64_t StepsBetween(Type type, uint64_t a, uint64_t b) {
  __int128 d = RankOf(type, a) - RankOf(type, b);
  if (d < 0) d = -d;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return d > kMost ? kMost : static_cast<int64_t>(d);
}

std::string IndexText(const Shape& shape, int64_t i) {
  Dims index(shape.rank(), 0);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = i % shape.dims[d];
    i /= shape.dims[d];
  }
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

double ScaleOf(const Literal& expected, Type part, int64_t parts) {
  int64_t width = LiteralBytesOf(part);
  double scale = 0;
  for (int64_t i = 0; i < parts; ++i) {
    double v = std::fabs(ValueOf(part, BitsAt(expected.bytes(), i, width)));
    if (std::isfinite(v)) scale = std::max(scale, v);
  }
  return scale;
}

int Bucket(double d, double scale) {
  if (d == 0) return 0;
  double r = scale > 0 ? d / scale : std::numeric_limits<double>::infinity();
  double edge = 1e-7;
  for (int k = 1; k < 8; ++k, edge *= 10) {
    if (r < edge) return k;
  }
  return 8;
}

}  // namespace

double ElementOf(const Literal& literal, int64_t i) {
  Type part = PartType(literal.shape().type);
  return ValueOf(part, BitsAt(literal.bytes(), i, LiteralBytesOf(part)));
}

Comparison Compare(const Literal& expected, const Literal& actual, const Tolerance& tolerance) {
  CHECK(Compatible(expected.shape(), actual.shape()) && expected.shape().IsArray());
  Comparison c;
  Type type = expected.shape().type, part = PartType(type);
  int64_t per_element = part == type ? 1 : 2, width = LiteralBytesOf(part);
  c.count = expected.size();
  c.scale = ScaleOf(expected, part, c.count * per_element);
  double squares = 0;
  int64_t finite = 0;
  auto bad = [&](int64_t i, double got, double want) {
    int64_t element = i / per_element;
    if (c.first_bad != element) ++c.bad;
    if (c.first_bad >= 0) return;
    c.first_bad = element;
    c.worst = absl::StrFormat("got %.9g, expected %.9g at %s", got, want,
                              IndexText(expected.shape(), element));
  };
  int64_t last_bad = -1;
  for (int64_t i = 0; i < c.count * per_element; ++i) {
    uint64_t e = BitsAt(expected.bytes(), i, width), a = BitsAt(actual.bytes(), i, width);
    double want = ValueOf(part, e), got = ValueOf(part, a);
    bool fine = false;
    if (std::isnan(want) || std::isnan(got) || std::isinf(want) || std::isinf(got)) {
      fine = (std::isnan(want) && std::isnan(got)) || want == got;
      c.nan_pairs += std::isnan(want) && std::isnan(got);
      c.special += !fine;
    } else {
      int64_t steps = StepsBetween(part, e, a);
      double d = std::fabs(got - want);
      if (!IsFloat(part) && steps > 0 && d == 0) d = static_cast<double>(steps);  // above 2^53
      c.signed_zero_pairs += e != a && want == 0 && got == 0;
      c.max_abs = std::max(c.max_abs, d);
      if (d > 0) {
        c.max_rel = std::max(
            c.max_rel, want != 0 ? d / std::fabs(want) : std::numeric_limits<double>::infinity());
      }
      c.max_ulp = std::max(c.max_ulp, steps);
      if (c.scale > 0) squares += d / c.scale * (d / c.scale);
      ++finite;
      ++c.histogram[Bucket(d, c.scale)];
      fine = d <= tolerance.atol + tolerance.rtol * std::fabs(want) ||
             (tolerance.max_ulp >= 0 && steps <= tolerance.max_ulp);
    }
    if (!fine && last_bad != i / per_element) {
      last_bad = i / per_element;
      bad(i, got, want);
    }
  }
  c.rms = finite ? std::sqrt(squares / finite) : 0;
  return c;
}

std::string Describe(const Comparison& c) {
  std::string out = absl::StrFormat(
      "  elements %d, different %d\n  max abs error %.6g, max rel error %.6g, max ulp error %d, "
      "rms "
      "%.3g of scale %.6g\n",
      c.count, c.bad, c.max_abs, c.max_rel, c.max_ulp, c.rms, c.scale);
  if (c.first_bad >= 0) absl::StrAppend(&out, "  first: ", c.worst, "\n");
  if (c.special > 0) {
    absl::StrAppend(&out, "  NaN or infinity on one side only: ", c.special, "\n");
  }
  static constexpr const char* kLabels[] = {"0",     "<1e-7", "<1e-6", "<1e-5", "<1e-4",
                                            "<1e-3", "<1e-2", "<1e-1", "more"};
  absl::StrAppend(&out, "  error/scale ");
  for (size_t k = 0; k < c.histogram.size(); ++k) {
    if (c.histogram[k]) absl::StrAppend(&out, " ", kLabels[k], ": ", c.histogram[k]);
  }
  out += "\n";
  if (c.nan_pairs || c.signed_zero_pairs) {
    absl::StrAppend(&out, "  taken as equal: ", c.nan_pairs, " pairs of NaN, ", c.signed_zero_pairs,
                    " pairs of 0 and -0\n");
  }
  return out;
}

}  // namespace tpuc::cli
