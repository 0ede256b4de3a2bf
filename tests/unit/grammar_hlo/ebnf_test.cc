// grammar/hlo/hlo.ebnf is normative: random sentences of it (fixed seed, bounded) parse, print and
// print again the same, and together they use every opcode and every attribute of the tables.
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "gtest/gtest.h"
#include "src/ir/op_table.h"
#include "src/ir/verifier.h"

namespace tpuc {
namespace {

// One node of a rule: a choice of sequences, a terminal, a rule's name, an option or a repetition.
struct Node {
  enum Kind { kChoice, kSequence, kText, kRule, kOption, kRepeat } kind;
  std::string text;
  std::vector<Node> parts;
};

// Reads "name = alternatives ;" rules with (* comments *).
class Grammar {
 public:
  explicit Grammar(std::string text) : text_(std::move(text)) {
    for (Skip(); at_ < text_.size(); Skip()) {
      std::string name = Word();
      Take('=');
      rules_[name] = Choice();
      Take(';');
    }
    Measure();
  }
  const std::map<std::string, Node>& rules() const { return rules_; }
  const std::set<std::string>& undefined() const { return undefined_; }
  std::string Sentence(const std::string& start, std::mt19937* random) {
    out_.clear();
    fresh_ = 0;
    Walk(rules_.at(start), 0, random);
    return out_;
  }

 private:
  void Skip() {
    while (at_ < text_.size()) {
      if (isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_.compare(at_, 2, "(*") == 0) {
        at_ = text_.find("*)", at_) + 2;
      } else {
        return;
      }
    }
  }
  bool At(char c) { return Skip(), at_ < text_.size() && text_[at_] == c; }
  void Take(char c) {
    ASSERT_TRUE(At(c)) << "expected " << c << " at: " << text_.substr(at_, 60);
    ++at_;
  }
  std::string Word() {
    Skip();
    size_t from = at_;
    while (at_ < text_.size() &&
           (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    EXPECT_GT(at_, from) << text_.substr(from, 60);
    if (at_ == from) at_ = text_.size();
    return text_.substr(from, at_ - from);
  }
  Node Choice() {
    Node choice{Node::kChoice, "", {Sequence()}};
    while (At('|')) {
      ++at_;
      choice.parts.push_back(Sequence());
    }
    return choice;
  }
  Node Sequence() {
    Node sequence{Node::kSequence, "", {}};
    while (Skip(), at_ < text_.size() && !strchr("|;])}", text_[at_]))
      sequence.parts.push_back(Part());
    return sequence;
  }
  Node Part() {
    for (const auto& [open, close, kind] : {std::tuple('(', ')', Node::kSequence),
                                            {'[', ']', Node::kOption},
                                            {'{', '}', Node::kRepeat}}) {
      if (!At(open)) continue;
      ++at_;
      Node node{kind, "", {Choice()}};
      Take(close);
      return node;
    }
    if (!At('"')) return {Node::kRule, Word(), {}};
    std::string text;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      char c = text_[at_];
      if (c == '\\') {
        c = text_[++at_];
        if (c == 'n') c = '\n';
      }
      text += c;
    }
    ++at_;
    return {Node::kText, text, {}};
  }

  // Least depth of each rule, so that a walk can end.
  int Depth(const Node& node) {
    int depth = 0;
    switch (node.kind) {
      case Node::kText:
        return 0;
      case Node::kOption:
      case Node::kRepeat:
        return 0;
      case Node::kRule: {
        if (node.text == "FRESH" || node.text == "LAST") return 0;
        if (!rules_.contains(node.text)) undefined_.insert(node.text);
        auto it = depth_.find(node.text);
        return it == depth_.end() ? 1000 : it->second + 1;
      }
      case Node::kChoice:
        depth = 1000;
        for (const Node& part : node.parts) depth = std::min(depth, Depth(part));
        return depth;
      case Node::kSequence:
        for (const Node& part : node.parts) depth = std::max(depth, Depth(part));
        return depth;
    }
    return depth;
  }
  void Measure() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [name, node] : rules_) {
        int depth = Depth(node);
        if (depth < 1000 && (!depth_.contains(name) || depth_[name] > depth)) {
          depth_[name] = depth;
          changed = true;
        }
      }
    }
  }

  void Walk(const Node& node, int level, std::mt19937* random) {
    auto pick = [&](int n) { return static_cast<int>((*random)() % static_cast<unsigned>(n)); };
    constexpr int kDeep = 14;
    switch (node.kind) {
      case Node::kText:
        out_ += node.text;
        break;
      case Node::kRule:
        if (node.text == "FRESH") {
          absl::StrAppend(&out_, "%f", ++fresh_);
        } else if (node.text == "LAST") {
          absl::StrAppend(&out_, "%f", last_);
        } else {
          Walk(rules_.at(node.text), level + 1, random);
        }
        break;
      case Node::kSequence:
        for (size_t i = 0; i < node.parts.size(); ++i) {
          // LAST is the name defined by the line before.
          if (node.parts[i].kind == Node::kRule && node.parts[i].text == "FRESH") last_ = fresh_;
          Walk(node.parts[i], level, random);
        }
        break;
      case Node::kOption:
        if (level < kDeep && pick(2)) Walk(node.parts[0], level, random);
        break;
      case Node::kRepeat:
        for (int n = level < kDeep ? pick(level < 3 ? 12 : 4) : 0; n > 0; --n) {
          Walk(node.parts[0], level, random);
        }
        break;
      case Node::kChoice: {
        size_t at = static_cast<size_t>(pick(static_cast<int>(node.parts.size())));
        if (level >= kDeep) {
          for (size_t i = 0; i < node.parts.size(); ++i) {
            if (Depth(node.parts[i]) < Depth(node.parts[at])) at = i;
          }
        }
        Walk(node.parts[at], level, random);
      }
    }
  }

  std::string text_, out_;
  size_t at_ = 0;
  int fresh_ = 0, last_ = 0;
  std::map<std::string, Node> rules_;
  std::map<std::string, int> depth_;
  std::set<std::string> undefined_;
};

TEST(Ebnf, SentencesParseAndPrint) {
  std::ifstream file(std::string(TPUC_SOURCE_DIR) + "/grammar/hlo/hlo.ebnf");
  std::stringstream text;
  text << file.rdbuf();
  Grammar grammar(text.str());
  ASSERT_EQ(grammar.undefined(), std::set<std::string>());
  std::mt19937 random(1);
  std::set<std::string> ops, attrs;
  int modules = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string sentence = grammar.Sentence("text", &random);
    DiagSink diags;
    auto module = ParseHlo(std::make_shared<Source>(Source{"t", sentence}), &diags);
    // The grammar cannot say that an attribute stands once.
    // or that a made name is no type's.
    std::string why = diags.Render();
    if (!module && (why.find("is given twice") != std::string::npos ||
                    why.find("cannot name an instruction") != std::string::npos)) {
      continue;
    }
    ASSERT_TRUE(module) << sentence << "\n" << diags.Render();
    // A bare computation may have any shape, buffers and layouts of one dimension in two included.
    if (module->entry->instructions.size() > 3) {
      ++modules;
      ASSERT_TRUE(VerifyHlo(*module, &diags)) << sentence << "\n" << diags.Render();
    }
    std::string printed = PrintHlo(*module);
    DiagSink again;
    auto reread = ParseHlo(std::make_shared<Source>(Source{"printed", printed}), &again);
    ASSERT_TRUE(reread) << sentence << "\n" << printed << again.Render();
    ASSERT_EQ(PrintHlo(*reread), printed) << sentence;
    for (const auto& computation : module->computations) {
      for (const auto& instruction : computation->instructions) {
        ops.insert(std::string(OpName(instruction->op)));
        for (const Attr& attr : instruction->attrs) attrs.insert(std::string(AttrName(attr.id)));
      }
    }
  }
  EXPECT_GT(modules, 1000);
  for (const OpInfo& row : OpTable()) EXPECT_TRUE(ops.contains(std::string(row.name))) << row.name;
  for (const AttrInfo& row : AttrTable()) {
    // Never held: metadata is a field of its own, inferred_dimension and mode say nothing.
    if (row.id == AttrId::kMetadata || row.id == AttrId::kMode ||
        row.id == AttrId::kInferredDimension) {
      continue;
    }
    // The grammar gives them at their default only, {}, which is not held either.
    if (row.name.find("batching_dims") != absl::string_view::npos) continue;
    EXPECT_TRUE(attrs.contains(std::string(row.name))) << row.name;
  }
}

}  // namespace
}  // namespace tpuc
