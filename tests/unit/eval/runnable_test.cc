// What is refused before a run: only what every run comes to.
#include "src/eval/runnable.h"

#include <memory>
#include <string>

#include "grammar/hlo/parser.h"
#include "gtest/gtest.h"

namespace tpuc {
namespace {

// The first diagnostic of CanRunAll; "" if there is none.
std::string Refusal(const std::string& text, const EvalOptions& options = {}) {
  DiagSink diags;
  auto module = ParseHlo(std::make_shared<Source>(Source{"t.hlo", text}), &diags);
  EXPECT_NE(module, nullptr) << diags.Render(false);
  if (!module) return "unread";
  const bool ok = CanRunAll(*module, options, &diags);
  EXPECT_EQ(ok, diags.diags().empty());
  return ok ? "" : diags.diags()[0].message;
}

TEST(Runnable, EveryKindIsNamed) {
  EXPECT_EQ(Refusal(R"(HloModule m
s { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), replica_groups={{0,1}}, to_apply=s }
)"),
            "the evaluator cannot run all-reduce among several devices (instruction r)");
  EXPECT_EQ(Refusal(R"(HloModule m
ENTRY e { p = f32[4] parameter(0)
  ROOT r = f32[4] collective-permute(p), source_target_pairs={{0,1}} }
)"),
            "the evaluator cannot run collective-permute between devices (instruction r)");
  EXPECT_EQ(Refusal(R"(HloModule m
ENTRY e { p = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(p), custom_call_target="secret" }
)"),
            "the evaluator cannot run custom-call to \"secret\" (instruction r)");
  EXPECT_EQ(Refusal(R"(HloModule m
ENTRY e { ROOT c = f32[100] constant({...}) }
)"),
            "the value of constant c was left out when the program was printed");
}

TEST(Runnable, CalledComputationsCount) {
  EXPECT_EQ(Refusal(R"(HloModule m
f { p = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(p), custom_call_target="secret" }
g { p = f32[4] parameter(0)
  ROOT r = f32[4] call(p), to_apply=f }
ENTRY e { p = f32[4] parameter(0)
  ROOT r = f32[4] fusion(p), kind=kLoop, calls=g }
)"),
            "the evaluator cannot run custom-call to \"secret\" (instruction r)");
}

TEST(Runnable, WhatMayNeverRunIsLeftToTheRun) {
  EXPECT_EQ(Refusal(R"(HloModule m
t { p = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(p), custom_call_target="secret" }
f { ROOT p = f32[4] parameter(0) }
c { p = f32[4] parameter(0)
  ROOT r = pred[] constant(false) }
ENTRY e { p = f32[4] parameter(0)
  q = pred[] parameter(1)
  dead = f32[4] custom-call(p), custom_call_target="secret"
  w = f32[4] while(p), condition=c, body=t
  ROOT r = f32[4] conditional(q, w, p), true_computation=t, false_computation=f }
)"),
            "");
}

// An array of 160 MB and a copy of it, of which one may take the other's place.
TEST(Runnable, MemoryFarBeyondTheLimit) {
  constexpr char kText[] = R"(HloModule m
ENTRY e { p = f32[4] parameter(0)
  i = f32[40000000] iota(), iota_dimension=0
  ROOT r = f32[40000000] reverse(i), dimensions={0} }
)";
  EvalOptions options;
  options.memory_limit = 64 << 20;
  EXPECT_EQ(Refusal(kText, options),
            "about 305 MiB are needed at once when r runs, 64 MiB are available");
  options.memory_limit = 320 << 20;
  EXPECT_EQ(Refusal(kText, options), "");
}

TEST(Runnable, OneDeviceIsEnough) {
  EXPECT_EQ(Refusal(R"(HloModule m, replica_count=1
s { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[4] parameter(0)
  a = f32[4] all-reduce(p), replica_groups={{0}}, to_apply=s
  ROOT r = f32[4] custom-call(a), custom_call_target="Sharding" }
)"),
            "");
}

}  // namespace
}  // namespace tpuc
