// run --check: the bundles' results against the evaluator's in chip numbers, within the limits of
// oracle/README.md ("How close") or those of --rtol, --atol and --max-ulp.
#pragma once

#include <string>
#include <vector>

#include "backend/report/stats.h"
#include "src/cli/compare.h"
#include "src/ir/literal.h"

namespace tpuc::cli {

struct CheckLimits {
  bool given = false;      // false: the oracle's
  Tolerance tolerance;     // if given
  int64_t dots = 0;        // dot and convolution instructions of the program
  bool reference = false;  // two evaluator results in IEEE numbers, not bundles
};

// expected[i] and actual[i] have compatible array shapes. *text gets a line for each that is wrong.
CheckResult CheckResults(const std::vector<Literal>& expected, const std::vector<Literal>& actual,
                         const CheckLimits& limits, std::string* text);

}  // namespace tpuc::cli
