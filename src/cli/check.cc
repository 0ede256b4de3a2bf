#include "src/cli/check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tpuc::cli {
namespace {

constexpr double kSmallestNormal = 1.2e-38;  // f32: what is less in size equals zero

// One step of a narrow float type relative to the value; 0 for others.
double StepOf(Type type) {
  switch (type) {
    case Type::kBF16:
      return std::ldexp(1, -7);
    case Type::kF16:
      return std::ldexp(1, -10);
    case Type::kF8E4M3FN:
    case Type::kF8E4M3:
    case Type::kF8E4M3FNUZ:
    case Type::kF8E4M3B11FNUZ:
      return std::ldexp(1, -3);
    case Type::kF8E5M2:
    case Type::kF8E5M2FNUZ:
    case Type::kF6E3M2FN:
      return std::ldexp(1, -2);
    case Type::kF8E3M4:
      return std::ldexp(1, -4);
    case Type::kF6E2M3FN:
      return std::ldexp(1, -3);
    case Type::kF4E2M1FN:
      return std::ldexp(1, -1);
    default:
      return 0;
  }
}

}  // namespace

CheckResult CheckResults(const std::vector<Literal>& expected, const std::vector<Literal>& actual,
                         const CheckLimits& limits, std::string* text) {
  CheckResult result{true, 0, 0, 0};
  double depth = std::max(1.0, limits.dots / 4.0);
  for (size_t i = 0; i < expected.size(); ++i) {
    Type type = expected[i].shape().type;
    Tolerance t = limits.tolerance;
    double most_rms = -1;
    if (!limits.given) {
      bool exact = !IsFloat(type) && ClassOf(type) != TypeClass::kComplex;
      double of_scale = limits.reference ? 4e-6 : limits.dots ? 4e-3 * depth : 2e-5;
      // The scale is that of the expected array; a first comparison finds it.
      double scale = exact ? 0 : Compare(expected[i], actual[i], {}).scale;
      t = {StepOf(type) * (limits.reference ? 1 : 4), exact ? 0 : of_scale * scale + kSmallestNormal, -1};
      if (!limits.reference && limits.dots && type == Type::kF32) most_rms = 1e-4 * depth;
    }
    Comparison c = Compare(expected[i], actual[i], t);
    result.max_abs = std::max(result.max_abs, c.max_abs);
    result.max_rel = std::max(result.max_rel, c.max_rel);
    result.rms = std::max(result.rms, c.rms);
    // Where all that is expected is subnormal, all of it equals zero.
    bool rms_bad = most_rms >= 0 && c.scale >= kSmallestNormal && c.rms > most_rms;
    if (c.bad == 0 && !rms_bad) continue;
    result.ok = false;
    absl::StrAppend(text, "out", i, " ", ToString(expected[i].shape(), false), ": ");
    if (rms_bad && c.bad == 0) {
      absl::StrAppendFormat(text, "root mean square %.3g of scale, limit %.3g\n", c.rms, most_rms);
    } else {
      absl::StrAppend(text, c.bad, " of ", c.count, " elements differ\n", Describe(c));
    }
  }
  return result;
}

}  // namespace tpuc::cli
