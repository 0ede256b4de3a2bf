// Names of a computation: those that differ in nothing but zeros or digits are different names.
#include "grammar/hlo/scope_names.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tpuc::hlo {
namespace {

TEST(ScopeNames, EveryNameIsItself) {
  const std::vector<std::string> names = {
      "a",    "a0",          "a00",         "a7",   "a07",  "a007", "a.7",        "a.07",
      "7",    "07",          "0",           "00",   "",     "a.",   "a..7",       "b.7",
      "a.70", "a4294967295", "a1234567890", "a123", "a.1a", "1a.1", "a234567890",
  };
  ScopeNames scope;
  std::vector<Instruction> made(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_FALSE(scope.Contains(names[i])) << names[i];
    EXPECT_EQ(scope.Add(names[i], &made[i]), nullptr) << names[i];
  }
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_NE(scope.Find(names[i]), nullptr) << names[i];
    EXPECT_EQ(*scope.Find(names[i]), &made[i]) << names[i];
    Instruction other;
    ASSERT_NE(scope.Add(names[i], &other), nullptr) << names[i];
    EXPECT_EQ(*scope.Find(names[i]), &made[i]) << "the first stays: " << names[i];
  }
  EXPECT_EQ(scope.Find("a.8"), nullptr);
  EXPECT_EQ(scope.Find("c.7"), nullptr);
}

TEST(ScopeNames, FailedDefinitionsAreKnown) {
  ScopeNames scope;
  EXPECT_EQ(scope.Add("x.1", nullptr), nullptr);
  ASSERT_NE(scope.Find("x.1"), nullptr);
  EXPECT_EQ(*scope.Find("x.1"), nullptr);
}

// Many stems of one number, and one stem of many: both stay a lookup each.
TEST(ScopeNames, ManyStemsAndManyNumbers) {
  constexpr int kNames = 200'000;
  ScopeNames scope;
  std::vector<Instruction> made(2);
  for (int i = 0; i < kNames; ++i) {
    ASSERT_EQ(scope.Add(absl::StrCat("layer", i, ".add.1"), &made[0]), nullptr);
    ASSERT_EQ(scope.Add(absl::StrCat("multiply.", i), &made[1]), nullptr);
  }
  for (int i = 0; i < kNames; ++i) {
    ASSERT_EQ(*scope.Find(absl::StrCat("layer", i, ".add.1")), &made[0]);
    ASSERT_EQ(*scope.Find(absl::StrCat("multiply.", i)), &made[1]);
  }
}

}  // namespace
}  // namespace tpuc::hlo
