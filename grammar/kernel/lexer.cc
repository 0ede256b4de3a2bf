// Lexer of .tk files (lexer.h).
#include "grammar/kernel/lexer.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tpuc::kernel_text {
namespace {

bool IsNameChar(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Longest first.
constexpr absl::string_view kPuncts[] = {
    "..", "->", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "&&", "||", "{", "}", "[", "]", "(",
    ")",  ",",  ";",  ":",  "=",  "<",  ">",  "+",  "-",  "*",  "/",  "%",  "&", "|", "^", "!"};

class Lexer {
 public:
  Lexer(std::shared_ptr<const Source> source, DiagSink* diags)
      : source_(std::move(source)), text_(source_->text), diags_(diags) {}

  std::vector<Token> Run() {
    std::vector<Token> tokens;
    while (true) {
      SkipBlanks();
      Token t;
      t.offset = at_;
      t.loc = {line_, static_cast<int32_t>(at_ - line_start_) + 1};
      if (at_ >= text_.size()) {
        t.end = at_;
        tokens.push_back(std::move(t));
        return tokens;
      }
      if (!Next(&t)) {
        Error(t.loc, absl::StrCat("no token starts with '", Shown(text_[at_]), "'"));
        ++at_;
        continue;
      }
      t.end = at_;
      tokens.push_back(std::move(t));
    }
  }

 private:
  static std::string Shown(char c) {
    if (absl::ascii_isprint(c)) return std::string(1, c);
    return absl::StrCat("\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
  }
  char At(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  void Error(Loc loc, std::string message) {
    diags_->Add(DiagCode::kSyntax, source_, loc, std::move(message));
  }

  void SkipBlanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '\n') {
        line_start_ = ++at_;
        ++line_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool Next(Token* t) {
    const char c = text_[at_];
    if (absl::ascii_isalpha(c) || c == '_') return Name(t);
    if (absl::ascii_isdigit(c)) return Number(t);
    if (c == '"') return String(t);
    t->kind = Token::Kind::kPunct;
    if (c == '^' && At(at_ + 1) == 'T' && !IsNameChar(At(at_ + 2))) {
      t->text = "^T";
      at_ += 2;
      return true;
    }
    for (absl::string_view p : kPuncts) {
      if (text_.substr(at_, p.size()) != p) continue;
      t->text = std::string(p);
      at_ += p.size();
      return true;
    }
    return false;
  }

  bool Name(Token* t) {
    t->kind = Token::Kind::kName;
    const size_t start = at_;
    while (IsNameChar(At(at_)) || (At(at_) == '.' && IsNameChar(At(at_ + 1)))) ++at_;
    t->text = std::string(text_.substr(start, at_ - start));
    return true;
  }

  bool Number(Token* t) {
    t->kind = Token::Kind::kInteger;
    const size_t start = at_;
    const auto digits = [&] {
      while (absl::ascii_isdigit(At(at_))) ++at_;
    };
    digits();
    if (At(at_) == '.' && absl::ascii_isdigit(At(at_ + 1))) {
      t->kind = Token::Kind::kNumber;
      ++at_;
      digits();
    }
    if (At(at_) == 'e' || At(at_) == 'E') {
      const size_t sign = At(at_ + 1) == '+' || At(at_ + 1) == '-' ? 1 : 0;
      if (absl::ascii_isdigit(At(at_ + 1 + sign))) {
        t->kind = Token::Kind::kNumber;
        at_ += 1 + sign;
        digits();
      }
    }
    t->text = std::string(text_.substr(start, at_ - start));
    return true;
  }

  bool String(Token* t) {
    t->kind = Token::Kind::kString;
    ++at_;
    while (At(at_) != '"') {
      if (at_ >= text_.size() || text_[at_] == '\n') {
        Error(t->loc, "string without an end on its line");
        return true;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      t->text += text_[at_++];
    }
    ++at_;
    return true;
  }

  std::shared_ptr<const Source> source_;
  absl::string_view text_;
  DiagSink* diags_;
  size_t at_ = 0, line_start_ = 0;
  int32_t line_ = 1;
};

}  // namespace

std::vector<Token> Tokenize(const std::shared_ptr<const Source>& source, DiagSink* diags) {
  return Lexer(source, diags).Run();
}

bool IsName(absl::string_view text) {
  if (text.empty() || !(absl::ascii_isalpha(text[0]) || text[0] == '_')) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dot = text[i] == '.' && i + 1 < text.size() && IsNameChar(text[i + 1]);
    if (!IsNameChar(text[i]) && !dot) return false;
  }
  return true;
}

bool IsReserved(absl::string_view text) {
  static constexpr absl::string_view kWords[] = {
      "kernel", "program", "param", "grid", "in",   "out",   "scratch", "when",   "else",
      "for",    "assert",  "inf",   "nan",  "true", "false", "num",     "squeeze"};
  return std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
}

std::string Quote(absl::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  quoted += '"';
  return quoted;
}

}  // namespace tpuc::kernel_text
