#include "tests/modules/check.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backend/chip/chip.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "passes/pipeline.h"
#include "src/eval/evaluator.h"
#include "src/eval/inputs.h"
#include "src/ir/native.h"
#include "src/ir/verifier.h"

namespace tpuc::random_modules {
namespace {

constexpr int64_t kMostSteps = 20 * 1000 * 1000;

std::string Messages(const DiagSink& diags) {
  return diags.diags().empty() ? "no diagnostic" : diags.diags()[0].message;
}

std::optional<Literal> Run(const Module& module, const std::vector<Literal>& inputs,
                           std::string* error) {
  DiagSink diags;
  int64_t steps = kMostSteps;
  EvalOptions options;
  options.work = &steps;
  options.memory_limit = 1 << 28;
  auto value = Evaluate(module, inputs, options, &diags);
  if (!value) *error = Messages(diags);
  return value;
}

void Leaves(const Literal& literal, std::vector<const Literal*>* leaves) {
  if (literal.shape().IsArray()) leaves->push_back(&literal);
  for (const Literal& element : literal.elements()) Leaves(element, leaves);
}

// One rounding of the type, relative to the value.
double Rounding(Type type) {
  switch (type) {
    case Type::kF64:
    case Type::kC128:
      return 1e-15;
    case Type::kF32:
    case Type::kC64:
      return 1.2e-7;
    case Type::kF16:
      return 1e-3;
    case Type::kBF16:
      return 8e-3;
    default:
      return 0.25;
  }
}

// Floats may differ by some roundings of the largest value of the array: what is subtracted may be
// that large. Infinities and NaN stand where they stood.
bool Near(const Literal& expected, const Literal& actual, std::string* what) {
  const Type type = expected.shape().type;
  const bool complex = ClassOf(type) == TypeClass::kComplex;
  if (!IsFloat(type) && !complex) return *what = "other bits", false;
  const Type part = type == Type::kC64 ? Type::kF32 : type == Type::kC128 ? Type::kF64 : type;
  const int64_t count = expected.size() * (complex ? 2 : 1);
  double scale = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = std::fabs(ElementAsDouble(part, expected.bytes(), i));
    if (std::isfinite(x)) scale = std::max(scale, x);
  }
  const double limit = 64 * Rounding(type) * scale + 1e-37;
  for (int64_t i = 0; i < count; ++i) {
    const double x = ElementAsDouble(part, expected.bytes(), i);
    const double y = ElementAsDouble(part, actual.bytes(), i);
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= limit;
    if (same) continue;
    *what = absl::StrCat("element ", i, " is ", y, ", was ", x, " (scale ", scale, ")");
    return false;
  }
  return true;
}

// kSame, kRounded or kFailed.
Verdict::Kind Compare(const Literal& expected, const Literal& actual, std::string* what) {
  std::vector<const Literal*> a, b;
  Leaves(expected, &a);
  Leaves(actual, &b);
  if (a.size() != b.size()) return *what = "another number of results", Verdict::kFailed;
  Verdict::Kind kind = Verdict::kSame;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Compatible(a[i]->shape(), b[i]->shape())) {
      *what = absl::StrCat("result ", i, " is ", ToString(b[i]->shape(), false), ", was ",
                           ToString(a[i]->shape(), false));
      return Verdict::kFailed;
    }
    const bool bits =
        a[i]->byte_size() == 0 || std::memcmp(a[i]->bytes(), b[i]->bytes(), a[i]->byte_size()) == 0;
    if (bits) continue;
    if (!Near(*a[i], *b[i], what)) {
      *what = absl::StrCat("result ", i, " ", ToString(a[i]->shape(), false), ": ", *what);
      return Verdict::kFailed;
    }
    kind = Verdict::kRounded;
  }
  return kind;
}

struct Checker {
  std::vector<Literal> inputs;
  Literal expected;
  Verdict verdict;

  bool After(absl::string_view pass, const Module& module) {
    if (pass.empty()) return true;
    verdict.pass = std::string(pass);
    DiagSink diags;
    if (!VerifyHlo(module, &diags)) {
      verdict.kind = Verdict::kFailed;
      verdict.what = absl::StrCat("not well formed: ", Messages(diags));
      return false;
    }
    auto value = Run(module, inputs, &verdict.what);
    const Verdict::Kind kind = value ? Compare(expected, *value, &verdict.what) : Verdict::kFailed;
    if (kind == Verdict::kFailed) verdict.kind = kind;
    if (kind == Verdict::kRounded) verdict.kind = kind;
    return kind != Verdict::kFailed;
  }
};

}  // namespace

std::unique_ptr<Module> ReadText(const std::string& text) {
  DiagSink diags;
  auto module = ParseHlo(std::make_shared<Source>(Source{"random", text}), &diags);
  if (!module || !VerifyHlo(*module, &diags)) return nullptr;
  return module;
}

Verdict CheckModule(std::unique_ptr<Module> module, uint64_t seed) {
  Checker checker;
  Verdict& verdict = checker.verdict;
  DiagSink diags;
  if (!VerifyHlo(*module, &diags)) {
    return {Verdict::kFailed, "", absl::StrCat("not well formed: ", Messages(diags))};
  }
  for (const Instruction* p : module->entry->Parameters()) {
    checker.inputs.push_back(GenerateInput(p->shape, p->parameter_number, seed));
  }
  auto value = Run(*module, checker.inputs, &verdict.what);
  if (!value) return {Verdict::kUnsupported, "", verdict.what};
  checker.expected = *std::move(value);

  PipelineOptions options;
  options.verify_each = [&](absl::string_view pass, const Module& changed) {
    return checker.After(pass, changed);
  };
  BufferAssignment buffers;
  const Chip* chip = BuiltinChip("v6e");
  std::string last;
  const auto observer = [&](absl::string_view pass, const Module&, bool, absl::string_view) {
    last = std::string(pass);
  };
  DiagSink errors;
  if (!RunPipeline(module.get(), *chip, options, observer, &buffers, &errors) &&
      verdict.kind != Verdict::kFailed) {
    return {Verdict::kUnsupported, last, Messages(errors)};
  }
  return verdict;
}

}  // namespace tpuc::random_modules
