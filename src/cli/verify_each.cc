#include "src/cli/verify_each.h"

#include "absl/strings/str_cat.h"
#include "src/cli/check.h"
#include "src/eval/evaluator.h"
#include "src/eval/inputs.h"

namespace tpuc {
namespace {

void Leaves(const Literal& literal, std::vector<Literal>* leaves) {
  if (literal.shape().IsTuple()) {
    for (const Literal& e : literal.elements()) Leaves(e, leaves);
  } else if (literal.shape().IsArray()) {
    leaves->push_back(literal);
  }
}

int64_t Contractions(const Module& module) {
  int64_t count = 0;
  for (const auto& c : module.computations) {
    for (const auto& i : c->instructions) {
      count += i->op == Op::kDot || i->op == Op::kConvolution;
    }
  }
  return count;
}

}  // namespace

VerifyEach::VerifyEach(const Module& module, uint64_t seed, DiagSink* diags, EvalOptions eval)
    : dots_(Contractions(module)), diags_(diags), eval_(std::move(eval)) {
  for (const Instruction* p : module.entry->Parameters()) {
    inputs_.push_back(GenerateInput(p->shape, p->parameter_number, seed));
  }
  auto value = Evaluate(module, inputs_, eval_, diags_);
  if (value) Leaves(*value, &expected_);
  ready_ = value.has_value();
}

bool VerifyEach::Check(absl::string_view pass, const Module& module) {
  if (!ready_) return false;
  auto value = Evaluate(module, inputs_, eval_, diags_);
  if (!value) return false;
  std::vector<Literal> actual;
  Leaves(*value, &actual);
  cli::CheckLimits limits;
  limits.dots = dots_;
  limits.reference = true;
  std::string wrong;
  if (actual.size() == expected_.size() &&
      cli::CheckResults(expected_, actual, limits, &wrong).ok) {
    return true;
  }
  Diag& d = diags_->Add(DiagCode::kPassChangedValues,
                        absl::StrCat("the module's values after ", std::string(pass),
                                     " differ from those before the first pass"));
  d.notes.push_back({{}, wrong.empty() ? "another number of results" : wrong});
  d.hint = absl::StrCat("--print-after=", std::string(pass), " shows the module");
  return false;
}

}  // namespace tpuc
