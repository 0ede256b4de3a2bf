// HLO text to a module, for the evaluator's tests.
#pragma once

#include <memory>
#include <string>

#include "grammar/hlo/parser.h"
#include "gtest/gtest.h"
#include "src/ir/verifier.h"

namespace tpuc {

// Of computations alone, or with the line of HloModule. It must parse and verify.
inline std::unique_ptr<Module> Parse(const std::string& text) {
  const bool named = text.rfind("HloModule", 0) == 0;
  const std::string whole = named ? text : "HloModule m\n" + text;
  DiagSink diags;
  auto module = ParseHlo(std::make_shared<Source>(Source{"test", whole}), &diags);
  EXPECT_TRUE(module && VerifyHlo(*module, &diags)) << diags.Render() << whole;
  return module;
}

}  // namespace tpuc
