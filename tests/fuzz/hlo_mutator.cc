#include "tests/fuzz/hlo_mutator.h"

#include <random>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

enum class Kind { kWord, kNumber, kSpace, kOther };

struct Token {
  Kind kind;
  std::string text;
};

bool IsWord(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '%'; }

Kind KindOf(absl::string_view text) {
  const char c = text[0];
  if (absl::ascii_isspace(c)) return Kind::kSpace;
  if (absl::ascii_isdigit(c)) return Kind::kNumber;
  return IsWord(c) || c == '-' ? Kind::kWord : Kind::kOther;
}

// Words keep their inner dashes ("get-tuple-element"), numbers a leading one.
std::vector<Token> Tokens(absl::string_view text) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < text.size();) {
    const size_t first = i++;
    const char c = text[first];
    if (absl::ascii_isspace(c)) {
      while (i < text.size() && absl::ascii_isspace(text[i])) ++i;
    } else if (IsWord(c)) {
      while (i < text.size() && (IsWord(text[i]) || (text[i] == '-' && absl::ascii_isalpha(c)))) {
        ++i;
      }
    }
    const absl::string_view token = text.substr(first, i - first);
    tokens.push_back({KindOf(token), std::string(token)});
  }
  return tokens;
}

class Mutator {
 public:
  Mutator(absl::string_view text, uint64_t seed) : random_(seed), tokens_(Tokens(text)) {}

  std::string Run() {
    for (uint64_t changes = 1 + Below(4); changes > 0 && !tokens_.empty(); --changes) Change();
    std::string text;
    for (const Token& token : tokens_) absl::StrAppend(&text, token.text);
    return Below(4) == 0 ? Lines(text) : text;
  }

 private:
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : random_() % n; }
  template <typename T>
  const T& OneOf(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

  // A token of this kind, found from a random place on; or any.
  size_t Find(Kind kind) {
    const size_t start = Below(tokens_.size());
    for (size_t k = 0; k < tokens_.size(); ++k) {
      const size_t i = (start + k) % tokens_.size();
      if (tokens_[i].kind == kind) return i;
    }
    return start;
  }

  std::string Number(const std::string& old) {
    static const std::vector<std::string> kSizes{"0",
                                                 "1",
                                                 "2",
                                                 "3",
                                                 "4",
                                                 "7",
                                                 "8",
                                                 "9",
                                                 "16",
                                                 "127",
                                                 "128",
                                                 "129",
                                                 "-1",
                                                 "-2",
                                                 "255",
                                                 "1000",
                                                 "65536",
                                                 "2147483647",
                                                 "2147483648",
                                                 "-2147483648",
                                                 "4294967296",
                                                 "9223372036854775807",
                                                 "-9223372036854775808",
                                                 "18446744073709551615",
                                                 "1e30",
                                                 "inf",
                                                 "nan",
                                                 "-0.0",
                                                 "0.5",
                                                 "1e-45"};
    int64_t value;
    if (Below(2) == 0 && absl::SimpleAtoi(old, &value) && value < 1000000 && value > -1000000) {
      switch (Below(4)) {
        case 0:
          return absl::StrCat(value + 1);
        case 1:
          return absl::StrCat(value - 1);
        case 2:
          return absl::StrCat(value * 2);
        default:
          return absl::StrCat(value / 2);
      }
    }
    return OneOf(kSizes);
  }

  std::string Word() {
    switch (Below(3)) {
      case 0:
        return std::string(OpTable()[Below(OpTable().size())].name);
      case 1:
        return std::string(TypeName(static_cast<Type>(Below(static_cast<int>(Type::kTuple)))));
      default:
        return std::string(AttrTable()[Below(AttrTable().size())].name);
    }
  }

  void Change() {
    const size_t i = Below(tokens_.size());
    switch (Below(8)) {
      case 0:
        tokens_.erase(tokens_.begin() + i);
        break;
      case 1:
        tokens_.insert(tokens_.begin() + Below(tokens_.size()), Token(tokens_[i]));
        break;
      case 2:
        std::swap(tokens_[i].text, tokens_[Find(tokens_[i].kind)].text);
        break;
      case 3:
      case 4: {
        Token& number = tokens_[Find(Kind::kNumber)];
        number.text = Number(number.text);
        break;
      }
      case 5:
        tokens_[Find(Kind::kWord)].text = Word();
        break;
      case 6:
        tokens_[Find(Kind::kWord)].text = tokens_[Find(Kind::kWord)].text;
        break;
      default:
        tokens_[Find(Kind::kNumber)].text = tokens_[Find(Kind::kNumber)].text;
        break;
    }
  }

  // Doubles, drops or swaps a line.
  std::string Lines(const std::string& text) {
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    const size_t a = Below(lines.size()), b = Below(lines.size());
    switch (Below(3)) {
      case 0:
        lines.insert(lines.begin() + a, std::string(lines[b]));
        break;
      case 1:
        lines.erase(lines.begin() + a);
        break;
      default:
        std::swap(lines[a], lines[b]);
        break;
    }
    return absl::StrJoin(lines, "\n");
  }

  std::mt19937_64 random_;
  std::vector<Token> tokens_;
};

}  // namespace

std::string MutateHlo(absl::string_view text, uint64_t seed) { return Mutator(text, seed).Run(); }

}  // namespace tpuc
