// Orders of a computation's steps: operands are there when they are read, and less lives at once.
#include <algorithm>
#include <cmath>
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

namespace tpuc {
namespace {

// Walks the plan as a run does: a value is there from its step until it is read last. Returns the
// greatest number of arrays of a computation there at once, parameters included; 0 after a failure.
int Walk(const Computation& computation, const Plan& plan) {
  std::vector<bool> there(computation.instructions.size(), false);
  for (int place : plan.parameters) there[place] = true;
  int most = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const int i = plan.steps[s];
    EXPECT_EQ(plan.last[s].size(), plan.operands[i].size());
    for (int operand : plan.operands[i]) {
      EXPECT_TRUE(there[operand]) << computation.name << ": " << computation.instructions[i]->name
                                  << " reads " << computation.instructions[operand]->name;
      if (!there[operand]) return 0;
    }
    there[i] = true;
    most = std::max(most, static_cast<int>(std::count(there.begin(), there.end(), true)));
    for (size_t j = 0; j < plan.operands[i].size(); ++j) {
      if (plan.last[s][j]) there[plan.operands[i][j]] = false;
    }
  }
  EXPECT_TRUE(there[plan.root]) << computation.name;
  return most;
}

std::unique_ptr<Module> Parse(const std::string& text) {
  DiagSink diags;
  return ParseHlo(std::make_shared<Source>(Source{"t.hlo", text}), &diags);
}

// As written a, b, c and d wait for their second readers together, with p and two sums. They are
// cheap to compute again from p.
constexpr char kLong[] = R"(HloModule m
ENTRY e {
  p = f32[8388608] parameter(0)
  a = f32[8388608] negate(p)
  b = f32[8388608] abs(p)
  c = f32[8388608] cosine(p)
  d = f32[8388608] sine(p)
  ab = f32[8388608] add(a, b)
  cd = f32[8388608] multiply(c, d)
  x = f32[8388608] subtract(ab, cd)
  ax = f32[8388608] add(a, x)
  bx = f32[8388608] multiply(b, ax)
  cx = f32[8388608] add(c, bx)
  dx = f32[8388608] add(d, cx)
  ROOT r = f32[8388608] subtract(dx, p)
}
)";

TEST(Order, ValuesAreComputedAgainWhereThatTakesLessMemory) {
  auto module = Parse(kLong);
  ASSERT_NE(module, nullptr);
  const Plan plan = MakePlan(*module->entry, false);
  std::vector<int> sorted = plan.steps;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(std::unique(sorted.begin(), sorted.end()), sorted.end()) << "nothing comes twice";
  EXPECT_LT(Walk(*module->entry, plan), 7);
}

TEST(Order, SmallComputationsRunAsWritten) {
  std::string text = kLong;
  for (size_t at; (at = text.find("8388608")) != std::string::npos;) text.replace(at, 7, "8");
  auto module = Parse(text);
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(MakePlan(*module->entry, false).steps,
            (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

TEST(Order, ValuesAreThoseOfTheFormula) {
  std::string text = kLong;
  auto module = Parse(text);
  ASSERT_NE(module, nullptr);
  constexpr int64_t kSize = 8388608;
  Literal input(Shape::Array(Type::kF32, {kSize}));
  for (int64_t i = 0; i < kSize; ++i) {
    input.data<float>()[i] = static_cast<float>(i % 1000) / 256 - 2;
  }
  std::vector<Literal> inputs;
  inputs.push_back(input);
  DiagSink diags;
  auto result = Evaluate(*module, std::move(inputs), {}, &diags);
  ASSERT_TRUE(result.has_value()) << diags.Render(false);
  for (int64_t i = 0; i < kSize; i += 97) {
    const double p = input.data<float>()[i];
    const double a = -p, b = std::abs(p), c = std::cos(p), d = std::sin(p);
    const double expected = d + (c + b * (a + (a + b - c * d))) - p;
    ASSERT_NEAR(result->data<float>()[i], expected, 1e-5) << i;
  }
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
