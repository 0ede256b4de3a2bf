// The accept/reject table of XLA's parser (hlo-parser-cases.tsv): every `must` row agrees, and what
// is accepted prints to a fixpoint. `may` and `new` rows are free; those that differ are named
// here.
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "gtest/gtest.h"

namespace tpuc {
namespace {

std::string Unescaped(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    char c = text[++i];
    out += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
  }
  return out;
}

TEST(Cases, AgreeWithXla) {
  std::ifstream file(std::string(TPUC_SOURCE_DIR) + "/../shared/reference/hlo-parser-cases.tsv");
  if (!file) GTEST_SKIP() << "../shared/reference is not here";
  int rows = 0;
  std::set<std::string> differ;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> columns = absl::StrSplit(line, '\t');
    ASSERT_GE(columns.size(), 5u) << line;
    if (columns[0] == "id") continue;
    ++rows;
    DiagSink diags;
    auto source = std::make_shared<Source>(Source{columns[0], Unescaped(columns[4])});
    auto module = ParseHlo(source, &diags);
    EXPECT_EQ(module == nullptr, diags.has_errors()) << columns[0];
    if ((module != nullptr) != (columns[2] == "accept")) {
      differ.insert(columns[0]);
      EXPECT_NE(columns[3], "must")
          << columns[0] << " must " << columns[2] << ": " << columns.back() << "\n"
          << source->text << "\n"
          << diags.Render();
    }
    if (!module) continue;
    std::string printed = PrintHlo(*module);
    DiagSink again;
    auto reread = ParseHlo(std::make_shared<Source>(Source{"printed", printed}), &again);
    ASSERT_TRUE(reread) << columns[0] << "\n" << printed << again.Render();
    EXPECT_EQ(PrintHlo(*reread), printed) << columns[0];
  }
  EXPECT_GT(rows, 150);
  EXPECT_EQ(differ, std::set<std::string>());
}

}  // namespace
}  // namespace tpuc
