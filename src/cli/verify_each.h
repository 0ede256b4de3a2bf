// --verify-each: evaluates the module after each pass on seeded inputs and compares with what it
// gave before the first, within the oracle's limits; names the first pass that moves a value.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"
#include "src/eval/evaluator.h"
#include "src/ir/hlo.h"
#include "src/ir/literal.h"

namespace tpuc {

class VerifyEach {
 public:
  VerifyEach(const Module& module, uint64_t seed, DiagSink* diags, EvalOptions eval = {});
  // True if the module still gives the values it gave at first. Otherwise adds kPassChangedValues.
  bool Check(absl::string_view pass, const Module& module);

 private:
  std::vector<Literal> inputs_;
  std::vector<Literal> expected_;  // leaves of the result
  int64_t dots_;
  bool ready_ = false;             // the module could be evaluated
  DiagSink* diags_;
  EvalOptions eval_;
};

}  // namespace tpuc
