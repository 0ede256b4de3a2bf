// --verify-each names the pass after which the module gives other values.
#include "src/cli/verify_each.h"

#include <gtest/gtest.h>

#include "grammar/hlo/parser.h"

namespace tpuc {
namespace {

std::unique_ptr<Module> Parsed(const std::string& op) {
  DiagSink diags;
  return ParseHlo(std::make_shared<Source>(
                      Source{"m.hlo", "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT r = "
                                      "f32[8] " + op + "\n}\n"}),
                  &diags);
}

TEST(VerifyEach, NamesThePassThatChangesValues) {
  DiagSink diags;
  VerifyEach verify(*Parsed("add(x, x)"), 0, &diags);
  EXPECT_TRUE(verify.Check("cse", *Parsed("add(x, x)")));
  EXPECT_FALSE(diags.has_errors());
  EXPECT_FALSE(verify.Check("simplify", *Parsed("multiply(x, x)")));
  ASSERT_EQ(diags.errors(), 1);
  EXPECT_EQ(diags.diags()[0].code, DiagCode::kPassChangedValues);
  EXPECT_EQ(diags.diags()[0].message,
            "the module's values after simplify differ from those before the first pass");
}

}  // namespace
}  // namespace tpuc
