// Tokens of the bundle and LLO text: words, numbers, strings, punctuation, line ends.
//
//   (!%p2) %v7 = vadd.f32 %v3, 1.5f @4  ->  ( ! %p2 ) %v7 = vadd.f32 %v3 , 1.5f @ 4 <line end>
//
// A word starts with a letter, '_' or '%' and goes on with letters, digits and "_.%"; a number
// starts with a digit or '-' and keeps its letters (0x1f, 1.5f, 1e-3f). '#' starts a comment.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"

namespace tpuc::bundle {

enum class TokenKind : uint8_t { kWord, kNumber, kString, kPunct, kLineEnd, kEnd, kError };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  absl::string_view text;  // of a string: between the quotes, escapes not resolved
  Loc loc;
};

class Lexer {
 public:
  explicit Lexer(std::shared_ptr<const Source> source);
  const Token& Peek() const { return token_; }
  Token Next();
  // The raw text from here up to a line that is exactly `terminator`, which is consumed too.
  // False where there is none.
  bool RawBlock(absl::string_view terminator, std::string* text);
  const std::shared_ptr<const Source>& source() const { return source_; }

 private:
  void Advance();
  std::shared_ptr<const Source> source_;
  absl::string_view text_;
  size_t pos_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  Token token_;
};

// Strings with \" \\ \n \t and \xHH.
std::string Quote(absl::string_view text);
bool Unquote(absl::string_view raw, std::string* text);

}  // namespace tpuc::bundle
