// Conditions over parameters (constraint.h): a syntax tree evaluated with the integer arithmetic of
// kernels.
#include "grammar/kernel/constraint.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "grammar/kernel/op_names.h"
#include "grammar/kernel/syntax.h"

namespace tpuc {
namespace {

using kernel::Expr;
using Syntax = kernel_text::Expr;

class Evaluator {
 public:
  Evaluator(const ParameterValues& values, std::shared_ptr<const Source> source, DiagSink* diags)
      : values_(values), source_(std::move(source)), diags_(diags) {}

  std::optional<int64_t> Evaluate(const Syntax& e) {
    int64_t n = 0;
    switch (e.kind) {
      case Syntax::Kind::kInteger:
        if (absl::SimpleAtoi(e.text, &n)) return n;
        return Fail(DiagCode::kKernelParam, e, absl::StrCat(e.text, " is too large"));
      case Syntax::Kind::kName:
        return Name(e);
      case Syntax::Kind::kUnary: {
        const auto a = Evaluate(e.args[0]);
        if (!a) return a;
        if (e.text == "!") return *a == 0;
        return Apply(e, Expr::Kind::kSub, 0, *a);
      }
      case Syntax::Kind::kBinary:
        return Binary(e);
      case Syntax::Kind::kCall:
        if (const auto kind = kernel_text::IntegerFunction(e.text); kind && e.args.size() == 2) {
          return Two(e, *kind);
        }
        [[fallthrough]];
      default:
        return Fail(DiagCode::kKernelParam, e,
                    absl::StrCat("expected integers, comparisons, cdiv, min or max, found ",
                                 PrintSyntax(e)));
    }
  }

 private:
  std::nullopt_t Fail(DiagCode code, const Syntax& e, std::string message) {
    if (diags_) diags_->Add(code, source_, e.loc, std::move(message));
    return std::nullopt;
  }
  std::optional<int64_t> Name(const Syntax& e) {
    const auto it = values_.find(e.text);
    if (it != values_.end()) return it->second;
    std::vector<std::string> known;
    for (const auto& [name, value] : values_) known.push_back(name);
    if (!diags_) return std::nullopt;
    const std::string nearest = NearestName(e.text, known);
    diags_
        ->Add(DiagCode::kKernelName, source_, e.loc,
              absl::StrCat("no parameter is called ", e.text))
        .hint = nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?");
    return std::nullopt;
  }
  std::optional<int64_t> Apply(const Syntax& e, Expr::Kind kind, int64_t a, int64_t b) {
    const auto r =
        kernel::EvaluateExpr(kernel::MakeExpr(kind, {Expr::Const(a), Expr::Const(b)}), {});
    if (r) return r;
    return Fail(DiagCode::kKernelParam, e,
                absl::StrCat(PrintSyntax(e), " has no value: division by zero or overflow"));
  }
  std::optional<int64_t> Two(const Syntax& e, Expr::Kind kind) {
    const auto a = Evaluate(e.args[0]);
    const auto b = a ? Evaluate(e.args[1]) : std::nullopt;
    return b ? Apply(e, kind, *a, *b) : std::nullopt;
  }
  std::optional<int64_t> Binary(const Syntax& e) {
    if (const auto kind = kernel_text::IntegerOperator(e.text)) return Two(e, *kind);
    return Fail(DiagCode::kKernelParam, e, absl::StrCat("'", e.text, "' in a condition"));
  }

  const ParameterValues& values_;
  std::shared_ptr<const Source> source_;
  DiagSink* diags_;  // null: errors are not told
};

}  // namespace

std::optional<ParameterValues> KernelParameters(
    std::shared_ptr<const Source> source, absl::Span<const std::pair<std::string, int64_t>> set,
    DiagSink* diags) {
  const auto file = kernel_text::ParseSyntax(source, diags);
  if (!file) return std::nullopt;
  ParameterValues all;
  for (const kernel_text::Kernel& k : file->kernels) {
    ParameterValues values;
    for (const kernel_text::Parameter& p : k.parameters) {
      // What has no integer value (a type, an error that the compile will name) is left out.
      std::optional<int64_t> value = Evaluator(values, source, nullptr).Evaluate(p.value);
      for (const auto& [name, to] : set) {
        if (name == p.name || name == absl::StrCat(k.name, ".", p.name)) value = to;
      }
      if (value) values[p.name] = *value;
    }
    for (const auto& [name, value] : values) all.emplace(name, value);
  }
  for (const auto& [name, value] : set) all.emplace(name, value);
  return all;
}

std::optional<bool> EvaluateConstraint(const std::string& text, const ParameterValues& values,
                                       DiagSink* diags) {
  auto source = std::make_shared<Source>(Source{"<condition>", text});
  const auto syntax = kernel_text::ParseExpression(source, diags);
  if (!syntax) return std::nullopt;
  const auto value = Evaluator(values, source, diags).Evaluate(*syntax);
  if (!value) return std::nullopt;
  return *value != 0;
}

}  // namespace tpuc
