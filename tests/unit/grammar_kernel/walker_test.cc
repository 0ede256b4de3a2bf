// kernel.ebnf is normative: a generator walks it, the parser takes every sentence, and what it
// prints is taken again and printed the same.
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "grammar/kernel/lexer.h"
#include "grammar/kernel/syntax.h"
#include "gtest/gtest.h"

namespace tpuc {
namespace {

// One EBNF term: alternatives of sequences.
struct Term {
  enum Kind { kLiteral, kRule, kChoice, kSequence, kRepeat, kOptional } kind = kLiteral;
  std::string text;
  std::vector<Term> parts;
};

class Ebnf {
 public:
  explicit Ebnf(const std::string& text) : text_(text) {
    Skip();
    while (at_ < text_.size()) {
      const std::string name = Word();
      Expect('=');
      rules_[name] = Choice();
      Expect(';');
      Skip();
    }
  }
  const std::map<std::string, Term>& rules() const { return rules_; }

 private:
  void Skip() {
    while (at_ < text_.size()) {
      if (text_.compare(at_, 2, "(*") == 0) {
        at_ = text_.find("*)", at_) + 2;
      } else if (absl::ascii_isspace(text_[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }
  char Peek() {
    Skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void Expect(char c) {
    ASSERT_EQ(Peek(), c) << "in kernel.ebnf at byte " << at_;
    ++at_;
  }
  std::string Word() {
    Skip();
    const size_t start = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_')) ++at_;
    if (start == at_) {
      ADD_FAILURE() << "no word in kernel.ebnf at byte " << at_;
      at_ = text_.size();
    }
    return text_.substr(start, at_ - start);
  }
  Term Choice() {
    Term t;
    t.kind = Term::kChoice;
    t.parts.push_back(Sequence());
    while (Peek() == '|') {
      ++at_;
      t.parts.push_back(Sequence());
    }
    return t;
  }
  Term Sequence() {
    Term t;
    t.kind = Term::kSequence;
    while (true) {
      const char c = Peek();
      if (c == '"' || c == '\'') {
        const size_t end = text_.find(c, at_ + 1);
        Term literal;
        literal.text = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        t.parts.push_back(literal);
      } else if (c == '{' || c == '[' || c == '(') {
        ++at_;
        Term inner = Choice();
        Expect(c == '{' ? '}' : c == '[' ? ']' : ')');
        Term group;
        group.kind = c == '{' ? Term::kRepeat : c == '[' ? Term::kOptional : Term::kChoice;
        group.parts.push_back(std::move(inner));
        t.parts.push_back(std::move(group));
      } else if (absl::ascii_isalpha(c)) {
        Term rule;
        rule.kind = Term::kRule;
        rule.text = Word();
        t.parts.push_back(std::move(rule));
      } else {
        return t;
      }
    }
  }

  std::string text_;
  size_t at_ = 0;
  std::map<std::string, Term> rules_;
};

class Walker {
 public:
  Walker(const Ebnf& grammar, uint64_t seed) : grammar_(grammar), random_(seed) {}

  std::string Sentence(const std::string& rule) {
    text_.clear();
    budget_ = 200 + Pick(2000);
    Walk(grammar_.rules().at(rule), 0);
    return text_;
  }
  // Literals that sentences used.
  const std::map<std::string, int>& seen() const { return seen_; }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  void Put(const std::string& token) { absl::StrAppend(&text_, text_.empty() ? "" : " ", token); }

  bool Lexical(const std::string& rule) {
    static const char* const kNames[] = {"x", "acc", "k_2", "fusion.5", "T", "exp", "_", "grid1"};
    static const char* const kNumbers[] = {"0.5", "1e-6", "12.25E+3", "7e2"};
    if (rule == "name") {
      Put(kNames[Pick(8)]);
    } else if (rule == "integer") {
      Put(absl::StrCat(Pick(3) == 0 ? 0 : Pick(1000)));
    } else if (rule == "number") {
      Put(kNumbers[Pick(4)]);
    } else if (rule == "string") {
      Put(Pick(2) == 0 ? "\"a \\\"b\\\" \\\\ c\"" : "\"copy-start.1\"");
    } else {
      return false;
    }
    return true;
  }

  void Walk(const Term& t, int depth) {
    --budget_;
    const bool tired = budget_ < 0 || depth > 60;
    switch (t.kind) {
      case Term::kLiteral:
        Put(t.text);
        ++seen_[t.text];
        return;
      case Term::kRule: {
        if (Lexical(t.text)) return;
        ASSERT_EQ(grammar_.rules().count(t.text), 1u) << "no rule " << t.text;
        // The way out of recursion: the simplest expression.
        if (tired && (t.text == "expr" || t.text == "primary")) return Put("1");
        Walk(grammar_.rules().at(t.text), depth + 1);
        return;
      }
      case Term::kChoice:
        Walk(t.parts[tired ? 0 : Pick(static_cast<int>(t.parts.size()))], depth + 1);
        return;
      case Term::kSequence:
        for (const Term& p : t.parts) Walk(p, depth + 1);
        return;
      case Term::kRepeat:
        // Few deep down: every level of an expression repeats.
        for (int n = tired ? 0 : depth < 9 ? Pick(4) : Pick(8) / 7; n > 0; --n) {
          Walk(t.parts[0], depth + 1);
        }
        return;
      case Term::kOptional:
        if (!tired && Pick(2) == 0) Walk(t.parts[0], depth + 1);
        return;
    }
  }

  const Ebnf& grammar_;
  std::mt19937_64 random_;
  std::string text_;
  int budget_ = 0;
  std::map<std::string, int> seen_;
};

std::string GrammarText() {
  std::ifstream in(std::string(TPUC_SOURCE_DIR) + "/grammar/kernel/kernel.ebnf");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(KernelGrammar, EverySentenceParsesAndPrints) {
  const Ebnf grammar(GrammarText());
  ASSERT_GT(grammar.rules().size(), 30u);
  Walker walker(grammar, 1);
  for (int i = 0; i < 3000; ++i) {
    const std::string sentence = walker.Sentence("file");
    DiagSink diags;
    auto source = std::make_shared<Source>(Source{"walk.tk", sentence});
    auto file = kernel_text::ParseSyntax(source, &diags);
    ASSERT_NE(file, nullptr) << sentence << "\n" << diags.Render();
    const std::string printed = PrintSyntax(*file);
    auto again =
        kernel_text::ParseSyntax(std::make_shared<Source>(Source{"again.tk", printed}), &diags);
    ASSERT_NE(again, nullptr) << printed << "\n" << diags.Render();
    ASSERT_EQ(PrintSyntax(*again), printed) << sentence;
  }
  // Every terminal of the grammar was tried.
  for (const char* word :
       {"squeeze", "parallel", "alias", "buffers", "^T", "copy_done", "elided", "->", "else",
        "+=", "S", "T", "splat", "none", "cross_program", "as", "live"}) {
    EXPECT_GT(walker.seen().count(word), 0u) << word;
  }
}

TEST(KernelGrammar, EveryWordOfTheGrammarIsReadByTheParser) {
  // A mutated sentence must never crash; most are errors, and errors have places.
  const Ebnf grammar(GrammarText());
  Walker walker(grammar, 2);
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string sentence = walker.Sentence("file");
    for (int cut = 0; cut < 3 && !sentence.empty(); ++cut) {
      const size_t at = random() % sentence.size();
      sentence.erase(at, 1 + random() % 5);
    }
    DiagSink diags;
    auto file =
        kernel_text::ParseSyntax(std::make_shared<Source>(Source{"walk.tk", sentence}), &diags);
    EXPECT_EQ(file == nullptr, diags.has_errors());
    for (const Diag& d : diags.diags()) EXPECT_GT(d.loc.line, 0);
  }
}

}  // namespace
}  // namespace tpuc
