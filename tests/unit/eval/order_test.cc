// Orders of large computations: what they run first, what they run twice, and that values stay.
#include "src/eval/order.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "grammar/hlo/parser.h"
#include "gtest/gtest.h"
#include "src/eval/evaluator.h"
#include "src/eval/plan.h"
#include "tests/unit/eval/modules.h"

namespace tpuc {
namespace {

// Walks the plan as a run does: a value is there from its step until it is read last.
void Walk(const Computation& computation, const Plan& plan) {
  std::vector<bool> there(computation.instructions.size(), false);
  for (int place : plan.parameters) there[place] = true;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const int i = plan.steps[s];
    EXPECT_EQ(plan.last[s].size(), plan.operands[i].size());
    for (int operand : plan.operands[i]) {
      EXPECT_TRUE(there[operand]) << computation.name << ": " << computation.instructions[i]->name
                                  << " reads " << computation.instructions[operand]->name;
      if (!there[operand]) return;
    }
    there[i] = true;
    for (size_t j = 0; j < plan.operands[i].size(); ++j) {
      if (plan.last[s][j]) there[plan.operands[i][j]] = false;
    }
  }
  EXPECT_TRUE(there[plan.root]) << computation.name;
}

std::vector<std::string> Names(const Module& module) {
  const Plan plan = MakePlan(*module.entry, false);
  std::vector<std::string> names;
  for (int i : plan.steps) names.emplace_back(module.entry->instructions[i]->name);
  return names;
}

int64_t Place(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) - names.begin();
}

constexpr char kLate[] = R"(
ENTRY e {
  x = f32[SIZE]{0} parameter(0)
  zero = f32[] constant(0)
  zeros = f32[SIZE]{0} broadcast(zero), dimensions={}
  y = f32[SIZE]{0} sine(x)
  z = f32[SIZE]{0} cosine(y)
  w = f32[SIZE]{0} tanh(z)
  p = pred[SIZE]{0} compare(y, zeros), direction=GT
  ROOT r = f32[SIZE]{0} select(p, w, x)
}
)";

std::string WithSize(std::string text, const std::string& size) {
  for (size_t at; (at = text.find("SIZE")) != std::string::npos;) text.replace(at, 4, size);
  return text;
}

TEST(Order, TruthValuesWaitInsteadOfWhatTheyAreMadeOf) {
  const auto module = Parse(WithSize(kLate, "8388608"));
  ASSERT_TRUE(module);
  const std::vector<std::string> names = Names(*module);
  EXPECT_LT(Place(names, "p"), Place(names, "z"));
  EXPECT_EQ(names.size(), 7u);
}

TEST(Order, SmallComputationsRunAsWritten) {
  const auto module = Parse(WithSize(kLate, "8388"));
  ASSERT_TRUE(module);
  EXPECT_EQ(Names(*module), (std::vector<std::string>{"zero", "zeros", "y", "z", "w", "p", "r"}));
}

// y would live beside v and w; x lives anyway.
TEST(Order, WhatIsCheapIsComputedAgain) {
  const auto module = Parse(R"(
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  x = f32[4000000]{0} parameter(0)
  low = f32[] constant(-100)
  y = f32[4000000]{0} negate(x)
  v = f32[8000000]{0} concatenate(y, y), dimensions={0}
  w = f32[8000000]{0} reverse(v), dimensions={0}
  s = f32[] reduce(w, low), dimensions={0}, to_apply=max
  t = f32[4000000]{0} broadcast(s), dimensions={}
  u = f32[4000000]{0} multiply(y, t)
  ROOT r = f32[4000000]{0} subtract(u, x)
}
)");
  ASSERT_TRUE(module);
  const std::vector<std::string> names = Names(*module);
  EXPECT_EQ(std::count(names.begin(), names.end(), "y"), 2);
  EXPECT_EQ(names.size(), 9u);

  Literal x(Shape::Array(Type::kF32, {4000000}));
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = static_cast<float>(i % 7 - 5);
  const Literal input = x;
  DiagSink diags;
  const auto result = Evaluate(*module, {std::move(x)}, {}, &diags);
  ASSERT_TRUE(result) << diags.Render();
  int64_t wrong = 0;
  for (int64_t i = 0; i < input.size(); ++i) {  // the largest of -x is 5
    const float value = input.data<float>()[i];
    wrong += result->data<float>()[i] != -value * 5 - value;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Order, OperandsOfTheCorpusAreThereWhenTheyAreRead) {
  const std::filesystem::path corpus =
      std::filesystem::path(TPUC_SOURCE_DIR) / "../shared/corpus/xla";
  if (!std::filesystem::exists(corpus)) GTEST_SKIP() << "../shared/corpus is not there";
  int computations = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus)) {
    if (entry.path().extension() != ".hlo") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    auto whole = std::make_shared<Source>(Source{entry.path().string(), text.str()});
    for (const auto& source : SplitModules(whole)) {
      DiagSink diags;
      auto module = ParseHlo(source, &diags);
      if (!module) continue;
      for (const auto& computation : module->computations) {
        Walk(*computation, MakePlan(*computation, false));
        ++computations;
      }
    }
  }
  EXPECT_GT(computations, 1000);
}

}  // namespace
}  // namespace tpuc
