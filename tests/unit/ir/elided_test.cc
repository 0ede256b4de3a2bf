// Constants printed as {...}, filled as XLA fills them. What is expected is what jaxlib 0.10.2
// gave: hlo_module_from_text of the same text in a fresh process, printed with large constants.
#include "src/ir/elided.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"

namespace tpuc {
namespace {

constexpr int64_t kLimit = int64_t{1} << 20;

std::unique_ptr<Module> Parse(const std::string& text) {
  DiagSink diags;
  auto module = ParseHlo(std::make_shared<Source>(Source{"a.hlo", text}), &diags);
  EXPECT_NE(module, nullptr) << diags.Render();
  return module;
}

std::string Filled(const std::string& text) {
  auto module = Parse(text);
  DiagSink diags;
  EXPECT_TRUE(FillElided(module.get(), kLimit, &diags));
  EXPECT_EQ(diags.diags().size(), 1u);
  return PrintHlo(*module);
}

void ExpectHas(const std::string& text, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    EXPECT_TRUE(absl::StrContains(text, line)) << line << "\nnot in\n" << text;
  }
}

TEST(Elided, TypesOfEveryWidth) {
  ExpectHas(
      Filled(R"(HloModule m
ENTRY e {
  a = f32[12] constant({...})
  b = s8[13] constant({...})
  c = u16[11] constant({...})
  d = pred[13] constant({...})
  s = s4[15] constant({...})
  ss = s4[4] constant({...})
  z = s32[3] constant({...})
  w = bf16[5] constant({...})
  f = f64[3] constant({...})
  k = s32[2,3]{0,1} constant({...})
  g = c64[1] constant({...})
  ROOT t = (f32[12], s8[13]) tuple(a, b)
}
)"),
      {"f32[12] constant({0, 1.4013e-45, 2.8026e-45, 4.2039e-45,", "1.54143e-44})",
       "s8[13] constant({12, 0, 0, 0, 13, 0, 0, 0, 14, 0, 0, 0, 0})",
       "u16[11] constant({15, 0, 272, 2, 17, 0, 18, 0, 19, 0, 0})",
       "pred[13] constant({0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0})",
       "s4[15] constant({7, 0, 0, 4, 5, 6, 0, 0, -7, 0, 0, 0, 0, 0, 0})",
       "s4[4] constant({-6, 0, 0, 0})", "s32[3] constant({27, 28, 29})",
       "bf16[5] constant({2.755e-39, 4.063e-34, 2.847e-39, 0, 0})",
       "f64[3] constant({7.00258611176641e-313, 7.42698527005828e-313, 7.85138442835014e-313})",
       "c64[1] constant({(6.16571e-44, 6.30584e-44)})",
       "s32[2,3]{0,1} constant({ { 38, 39, 40 }, { 41, 42, 43 } })"});
}

TEST(Elided, NarrowTypes) {
  ExpectHas(Filled(R"(HloModule m
ENTRY e {
  a = u4[7] constant({...})
  b = s2[7] constant({...})
  c = u2[7] constant({...})
  d = s1[7] constant({...})
  e = u1[7] constant({...})
  ROOT t = (u4[7], s2[7]) tuple(a, b)
}
)"),
            {"u4[7] constant({0, 0, 1, 2, 0, 0, 0})", "s2[7] constant({1, -1, 0, 1, 0, 0, 0})",
             "u2[7] constant({2, 2, 3, 0, 0, 0, 0})", "s1[7] constant({-1, -1, 0, -1, 0, 0, 0})",
             "u1[7] constant({0, 0, 1, 0, 0, 0, 0})"});
}

// In the order of the text: an operand written in place, an inline computation, one that is called
// from nowhere, a tuple's elements, a custom call's literal; an empty array takes nothing.
TEST(Elided, OrderOfTheText) {
  ExpectHas(
      Filled(R"(HloModule m
f {
  q = s32[2] constant({...})
  p = s32[2] parameter(0)
  ROOT r = s32[2] add(p, q)
}
ENTRY e {
  a = (s32[3], s32[], u8[3,5]) constant(({...}, 4, {...}))
  p = s32[2] parameter(0)
  x = s32[2] call(p), to_apply=f
  c = s32[2] custom-call(p), custom_call_target="foo", literal=s32[3]{0} {...}
  d = s32[2] call(p), to_apply={
    pp = s32[2] parameter(0)
    y = s32[2] constant({7, ...})
    ROOT r = s32[2] add(pp, y)
  }
  z = s32[0] constant({...})
  n = s32[5] negate(s32[5] constant({...}))
  ROOT r = s32[2] constant({...})
}
unused {
  ROOT q = s32[3] constant({...})
}
)"),
      {"s32[2] constant({0, 1})",
       "constant(({2, 3, 4}, 4, { { 5, 0, 0, 0, 1 }, { 2, 0, 0, 7, 0 }, { 0, 0, 0, 0, 0 } }))",
       "literal=s32[3]{0} {8, 9, 10}", "s32[2] constant({11, 12})",
       "s32[5] constant({13, 14, 15, 16, 17})", "s32[2] constant({18, 19})",
       "s32[3] constant({20, 21, 22})"});
}

TEST(Elided, SaidOnceForASource) {
  auto source = std::make_shared<Source>(Source{"a.hlo", R"(HloModule m
ENTRY e {
  a = s32[2] constant({...})
  ROOT t = (s32[2], u8[1]) constant(({...}, {1}))
}
)"});
  DiagSink diags;
  for (int time = 0; time < 2; ++time) {
    auto module = ParseHlo(source, &diags);
    ASSERT_NE(module, nullptr);
    EXPECT_TRUE(HasElided(*module->entry->root->literal));
    EXPECT_TRUE(FillElided(module.get(), kLimit, &diags));
    EXPECT_FALSE(HasElided(*module->entry->root->literal));
  }
  ASSERT_EQ(diags.diags().size(), 1u);
  EXPECT_TRUE(
      absl::StrContains(diags.Render(), "a.hlo:3:3: warning: 2 elided constants are filled"))
      << diags.Render();
}

TEST(Elided, NoneIsNoWarning) {
  auto module = Parse("HloModule m\nENTRY e {\n  ROOT a = s32[2] constant({1, 2})\n}\n");
  DiagSink diags;
  EXPECT_TRUE(FillElided(module.get(), 0, &diags));
  EXPECT_TRUE(diags.diags().empty());
}

TEST(Elided, TooLarge) {
  for (const char* dims : {"1000,1000", "1000000,1000000", "100000"}) {
    auto module = Parse(absl::StrCat("HloModule m\nENTRY e {\n  a = f32[200000] constant({...})\n",
                                     "  ROOT b = f32[", dims, "] constant({...})\n}\n"));
    DiagSink diags;
    EXPECT_FALSE(FillElided(module.get(), kLimit, &diags));
    EXPECT_TRUE(absl::StrContains(diags.Render(), "4:8: error: ")) << diags.Render();
    EXPECT_TRUE(absl::StrContains(diags.Render(), "E0202"));
  }
}

}  // namespace
}  // namespace tpuc
