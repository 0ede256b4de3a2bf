// What is said about wrong HLO text: the table diagnostics.txt (text in, exact messages out), the
// form on the terminal, limits, and that no wrong text brings the parser down.
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "gtest/gtest.h"
#include "src/ir/verifier.h"

namespace tpuc {
namespace {

std::unique_ptr<Module> Parse(std::string text, DiagSink* diags) {
  return ParseHlo(std::make_shared<Source>(Source{"t.hlo", std::move(text)}), diags);
}

// "LINE:COLUMN: message [CODE]", notes and hints on lines of their own.
std::string Messages(const DiagSink& diags) {
  std::string out;
  for (const Diag& d : diags.diags()) {
    absl::StrAppend(&out, d.loc.line, ":", d.loc.column, ": ", d.message, " [", InfoOf(d.code).code,
                    "]\n");
    for (const DiagNote& n : d.notes) {
      absl::StrAppend(&out, "note ", n.loc.line, ":", n.loc.column, ": ", n.message, "\n");
    }
    if (!d.hint.empty()) absl::StrAppend(&out, "help: ", d.hint, "\n");
  }
  return out;
}

struct Case {
  std::string name, text, messages;
};

std::vector<Case> Cases() {
  std::ifstream file(std::string(TPUC_SOURCE_DIR) + "/tests/unit/grammar_hlo/diagnostics.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "=== ")) {
      cases.push_back({line.substr(4), "", ""});
    } else if (cases.empty()) {
      continue;  // the head of the file
    } else if (absl::StartsWith(line, "--- ")) {
      absl::StrAppend(&cases.back().messages, line.substr(4), "\n");
    } else {
      absl::StrAppend(&cases.back().text, line, "\n");
    }
  }
  return cases;
}

TEST(Diagnostics, Table) {
  std::vector<Case> cases = Cases();
  EXPECT_GT(cases.size(), 200u);
  for (const Case& c : cases) {
    DiagSink diags;
    auto module = Parse(c.text, &diags);
    EXPECT_EQ(module == nullptr, diags.has_errors()) << c.name;
    if (module) VerifyHlo(*module, &diags);
    EXPECT_EQ(Messages(diags), c.messages) << c.name << "\n" << c.text;
  }
}

// Codes E0001 to E0199 and W0001 are the HLO front end's.
TEST(Diagnostics, EveryCodeIsProvoked) {
  std::string all;
  for (const Case& c : Cases()) all += c.messages;
  for (const DiagInfo& row : DiagTable()) {
    bool ours = (absl::StartsWith(row.code, "E00") || absl::StartsWith(row.code, "E01") ||
                 row.code == "W0001") &&
                row.code != "E0102";
    if (!ours || row.id == DiagCode::kTooDeep) continue;  // Limits.Depth
    EXPECT_TRUE(absl::StrContains(all, absl::StrCat("[", row.code, "]"))) << row.code;
  }
}

TEST(Diagnostics, Rendered) {
  DiagSink diags;
  Parse("HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n\tq = f32[4] negat(p)\n}\n", &diags);
  EXPECT_EQ(diags.Render(),
            "t.hlo:4:13: error: unknown opcode 'negat' [E0002]\n"
            "          q = f32[4] negat(p)\n"
            "                     ^\n"
            "help: did you mean 'negate'?\n");
}

TEST(Diagnostics, SplitFilesKeepTheirLines) {
  auto parts = SplitModules(std::make_shared<Source>(
      Source{"t.hlo",
             "HloModule a\nENTRY e {\n  p = f32[] parameter(0)\n}\n// -----\n// only a comment\n"
             "// -----\n// ----------\nHloModule b\nENTRY e {\n  q = f32[] negate(p)\n}\n"}));
  ASSERT_EQ(parts.size(), 2u);
  DiagSink diags;
  EXPECT_TRUE(ParseHlo(parts[0], &diags));
  EXPECT_FALSE(ParseHlo(parts[1], &diags));
  EXPECT_EQ(Messages(diags), "11:20: instruction 'p' is not defined in this computation [E0007]\n");
}

TEST(Diagnostics, BinaryFile) {
  DiagSink diags;
  EXPECT_FALSE(Parse(std::string("\x0a\x05hello\0\0\x12", 10), &diags));
  EXPECT_EQ(Messages(diags),
            "2:1: this is a binary file, not HLO text [E0015]\n"
            "help: HLO text begins with 'HloModule'; a serialized HloModuleProto cannot be read\n");
}

TEST(Diagnostics, AtMostTwentyErrors) {
  std::string text = "HloModule m\nENTRY e {\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, "  a", i, " = f32[] add(x, y)\n");
  DiagSink diags;
  EXPECT_FALSE(Parse(text + "}\n", &diags));
  EXPECT_EQ(diags.errors(), 20);
}

// ---- limits ----

std::string Repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// A text that nests `n` levels, of four kinds.
std::string Nested(int kind, int n) {
  std::string head = "HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n";
  switch (kind) {
    case 0:
      return head + "  q = f32[] " + Repeat("negate(", n + 1) + "p" + Repeat(")", n + 1) + "\n}\n";
    case 1:
      return head + "  q = " + Repeat("(", n) + "f32[]" + Repeat(")", n) + " parameter(1)\n}\n";
    case 2:
      return head + "  q = " + Repeat("(", n) + "f32[]" + Repeat(")", n) + " constant(" +
             Repeat("(", n) + "1" + Repeat(")", n) + ")\n}\n";
    default:
      return head + Repeat("q = f32[] call(p), to_apply={\n p = f32[] parameter(0)\n", n) +
             "q = f32[] negate(p)" + Repeat("}", n) + "\n}\n";
  }
}

TEST(Limits, Depth) {
  for (int kind = 0; kind < 4; ++kind) {
    DiagSink diags;
    auto module = Parse(Nested(kind, 1000), &diags);
    ASSERT_TRUE(module) << kind << diags.Render();
    std::string printed = PrintHlo(*module);
    DiagSink again;
    EXPECT_TRUE(Parse(printed, &again)) << kind << again.Render();
    for (int n : {1025, 10000, 100000}) {
      DiagSink deep;
      EXPECT_FALSE(Parse(Nested(kind, n), &deep)) << kind;
      ASSERT_EQ(deep.errors(), 1) << kind;
      EXPECT_NE(deep.diags()[0].message.find("nested deeper than "), std::string::npos);
    }
  }
}

TEST(Limits, ConstantsTakeMemoryOnlyForTheirText) {
  DiagSink diags;
  // 4 TiB, were it allocated by its shape.
  auto module =
      Parse("HloModule m\nENTRY e {\n  c = f32[1000000,1000000] constant({...})\n}\n", &diags);
  ASSERT_TRUE(module);
  EXPECT_TRUE(module->entry->root->literal->elided());
  EXPECT_FALSE(
      Parse("HloModule m\nENTRY e {\n  c = f32[1000000,1000000] constant({{1,2}})\n}\n", &diags));
}

TEST(Limits, LongLine) {
  std::string text = "HloModule m ENTRY e { p = f32[] parameter(0) ";
  for (int i = 0; i < 100000; ++i) absl::StrAppend(&text, "a", i, " = f32[] negate(p) ");
  DiagSink diags;
  EXPECT_TRUE(Parse(text + "}", &diags));
  EXPECT_FALSE(Parse(text + "x = f32[] negate(z) }", &diags));
  ASSERT_EQ(diags.errors(), 1);
  EXPECT_LT(diags.Render().size(), 400u);  // the excerpt is cut
}

constexpr char kSample[] = R"hlo(HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) },
  entry_computation_layout={(f32[4]{0:T(128)})->(f32[4]{0}, s32[])}

FileNames
1 "a.py"
FunctionNames
1 "f"
FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}
StackFrames
1 {file_location_id=1 parent_frame_id=1}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(f32[] %a, f32[] %b)
}, execution_thread="x"

ENTRY %e (p: f32[4]) -> (f32[4], s32[]) {
  %p = f32[4]{0:T(128)S(1)} parameter(0), sharding={devices=[2]<=[2]}, metadata={op_name="jit(f)" stack_frame_id=1}
  %c = f32[2,2] constant({ { 1, -inf }, { nan(0x7), 1e-3 } }), backend_config={"a":{"b":[1,"}"]}}
  %n = f32[4] negate(/*c*/ negate(%p)), frontend_attributes={k="v",d={x}}
  %s = ((f32[4]), f32[4], s32[]) negate-start(%n), async_execution_thread="t" // end
  %d = f32[4] negate-done(%s), control-predecessors={%n}
  %z = f32[] constant(0)
  %q = f32[] reduce(%d, %z), dimensions={0}, to_apply=%sum
  %w = f32[3] reduce-window(%d, %z), window={size=2 pad=0_0}, to_apply={ x = f32[] parameter(0) y = f32[] parameter(1) ROOT m = f32[] maximum(x, y) }
  %i = s32[] constant(1)
  %g = f32[3]{0} custom-call(%w), custom_call_target="a\nb\'", literal=s32[2]{0} {1, 2}, operand_layout_constraints={f32[3]{0}}
  ROOT %t = (f32[4], s32[]) tuple(%d, %i)
}
)hlo";

TEST(Robust, EveryPrefixAndEveryChangedByte) {
  std::string text = kSample;
  {
    DiagSink diags;
    ASSERT_TRUE(Parse(text, &diags)) << diags.Render();
  }
  auto check = [](const std::string& wrong) {
    DiagSink diags;
    auto module = Parse(wrong, &diags);
    ASSERT_EQ(module == nullptr, diags.has_errors()) << wrong;
    diags.Render();
    if (!module) return;
    DiagSink ignored;
    VerifyHlo(*module, &ignored);
    std::string printed = PrintHlo(*module);
    DiagSink again;
    auto reread = Parse(printed, &again);
    ASSERT_TRUE(reread) << wrong << again.Render();
    ASSERT_EQ(PrintHlo(*reread), printed);
  };
  for (size_t i = 0; i < text.size(); ++i) check(text.substr(0, i));
  for (size_t i = 0; i < text.size(); ++i) {
    for (char c : {'{', '}', '(', ')', '"', ',', '0', 'x', '\n', '\0', '=', '-', '%', '\xff'}) {
      std::string wrong = text;
      wrong[i] = c;
      check(wrong);
    }
    check(text.substr(0, i) + text.substr(i + 1));
  }
}

}  // namespace
}  // namespace tpuc
