// Programs for the tests of passes: reading, running, comparing.
#pragma once

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "passes/pipeline.h"
#include "src/eval/evaluator.h"
#include "src/eval/inputs.h"

namespace tpuc {

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

}  // namespace tpuc
