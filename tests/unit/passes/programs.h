// Programs for the tests of passes: reading, running, comparing.
#pragma once

#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "passes/pipeline.h"
#include "src/eval/evaluator.h"
#include "src/eval/inputs.h"
#include "src/ir/native.h"
#include "src/ir/verifier.h"

namespace tpuc {

inline std::string OracleDir() {
  return std::string(TPUC_SOURCE_DIR) + "/../shared/oracle/programs/";
}

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::unique_ptr<Module> ParseText(std::string text, DiagSink* diags) {
  auto source = std::make_shared<Source>();
  source->name = "test.hlo";
  source->text = std::move(text);
  return ParseHlo(source, diags);
}

inline std::optional<Literal> RunSeeded(const Module& module, DiagSink* diags) {
  std::vector<Literal> inputs;
  for (const Instruction* p : module.entry->Parameters()) {
    inputs.push_back(GenerateInput(p->shape, p->parameter_number, 0));
  }
  return Evaluate(module, std::move(inputs), EvalOptions{}, diags);
}

// The oracle's limits for the evaluator (oracle/README.md): 4e-6 of the largest value for f32, one
// step of narrow types, integers exact. Returns what differs, or "".
inline std::string Compare(const Literal& expected, const Literal& actual) {
  if (!expected.elements().empty() || expected.shape().IsTuple()) {
    if (expected.elements().size() != actual.elements().size()) return "tuple sizes differ";
    for (size_t n = 0; n < expected.elements().size(); ++n) {
      std::string why = Compare(expected.elements()[n], actual.elements()[n]);
      if (!why.empty()) return absl::StrCat("element ", n, ": ", why);
    }
    return "";
  }
  if (!Compatible(expected.shape(), actual.shape())) {
    return absl::StrCat(ToString(expected.shape()), " became ", ToString(actual.shape()));
  }
  Type type = expected.shape().type;
  int64_t count = expected.size();
  if (!IsFloat(type)) {
    return std::memcmp(expected.bytes(), actual.bytes(), expected.byte_size()) == 0
               ? ""
               : "integers differ";
  }
  double scale = 0;
  for (int64_t n = 0; n < count; ++n) {
    double e = ElementAsDouble(type, expected.bytes(), n);
    if (std::isfinite(e)) scale = std::max(scale, std::fabs(e));
  }
  double limit = 4e-6 * scale, step = BitsOf(type) == 32 ? 0 : BitsOf(type) == 16 ? 0x1p-7 : 0x1p-2;
  for (int64_t n = 0; n < count; ++n) {
    double e = ElementAsDouble(type, expected.bytes(), n);
    double a = ElementAsDouble(type, actual.bytes(), n);
    if (std::isnan(e) && std::isnan(a)) continue;
    if (e == a || std::fabs(e - a) <= limit + step * std::fabs(e)) continue;
    return absl::StrCat("element ", n, ": expected ", e, ", is ", a);
  }
  return "";
}

}  // namespace tpuc
