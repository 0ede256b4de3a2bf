// Conditions over parameters: arithmetic as Python's on integers, comparisons, unknown names.
#include "grammar/kernel/constraint.h"

#include <gtest/gtest.h>

namespace tpuc {
namespace {

std::optional<bool> Holds(const std::string& text) {
  DiagSink diags;
  return EvaluateConstraint(text, {{"a", 7}, {"b", -2}}, &diags);
}

TEST(Constraint, Arithmetic) {
  EXPECT_EQ(Holds("a % 4 == 3"), true);
  EXPECT_EQ(Holds("b % 4 == 2 & b / 4 == -1"), true);  // -2 % 4, -2 // 4 in Python
  EXPECT_EQ(Holds("cdiv(a, 2) == 4 & min(a, b) == b & max(a, b) == a"), true);
  EXPECT_EQ(Holds("!(a < b) | a == b"), true);
  EXPECT_EQ(Holds("-a > b"), false);
}

TEST(Constraint, NoValue) {
  for (const char* text : {"c == 1", "a %", "a / 0 == 1", "a == 1 b", "\"x\" == 1",
                           "9223372036854775807 + a > 0", "dot(a, b) == 1", ""}) {
    DiagSink diags;
    EXPECT_EQ(EvaluateConstraint(text, {{"a", 7}, {"b", -2}}, &diags), std::nullopt) << text;
    EXPECT_EQ(diags.errors(), 1) << text;
  }
}

TEST(Constraint, ParametersOfAFile) {
  DiagSink diags;
  auto source = std::make_shared<Source>(
      Source{"k.tk", "kernel k { param n = 64, half = n / 2; out o: f32[8,128]; o[:] = 0.0; }"});
  const auto values = KernelParameters(source, {{"n", 32}}, &diags);
  ASSERT_TRUE(values.has_value());
  EXPECT_EQ(*values, (ParameterValues{{"half", 16}, {"n", 32}}));
}

}  // namespace
}  // namespace tpuc
