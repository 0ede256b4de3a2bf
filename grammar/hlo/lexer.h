// Tokens of HLO text (hlo-text.md section 2). One token at a time, views into the source, no
// allocation.
//
//   "%x = f32[2] add(a, b)" -> kName "x", '=', kType f32, '[', kInt 2, ']', kIdent "add", '(' ...
//
// A word's class depends on the next character: "x:" is a kName and "x=" a kAttrName, both with
// that character swallowed. Errors are tokens of kind kError; the lexer never throws or reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"
#include "src/ir/shape.h"

namespace tpuc::hlo {

enum class Tok : uint8_t {
  kEof,
  kError,  // `text` is the message
  kName,
  kAttrName,
  kIdent,
  kKeyword,
  kType,
  kInt,
  kDecimal,  // also nan, with payload
  kNegInf,
  kString,
  kDxD,
  kPad,
  kDimLabels,
  kArrow,  // ->
  kDots,   // ...
  kLeq,    // <=
  kPunct   // one character, in `punct`
};

enum class Keyword : uint8_t {
  kNone,
  kTrue,
  kFalse,
  kInf,
  kHloModule,
  kEntry,
  kRoot,
  kFileNames,
  kFunctionNames,
  kFileLocations,
  kStackFrames,
  kMaximal,
  kReplicated,
  kManual,
  kLastTileDimReplicate,
  kShardAs,
  kShardLike,
  kUnknown,
  kUnreduced
};

struct Token {
  Tok kind = Tok::kEof;
  char punct = 0;
  Keyword keyword = Keyword::kNone;
  Type type = Type::kTuple;
  bool is_nan = false, negative = false;  // of kDecimal
  bool escaped = false;                   // a kString with backslashes
  absl::string_view text;                 // word, number as written, string between its quotes
  int64_t integer = 0;                    // kInt; values over int64 wrap (u64 constants)
  uint64_t payload = 0;                   // of a NaN; 0: none
  const char* begin = nullptr;            // first byte of the token
  Loc loc;
};

// The token's value as a double (kInt, kDecimal without NaN, kNegInf, inf). Infinite on overflow.
double NumberOf(const Token& token);

class Lexer {
 public:
  explicit Lexer(absl::string_view text);

  const Token& token() const { return token_; }
  void Next();
  // The next byte after the current token, whitespace and comments skipped; 0 at the end.
  char PeekChar() const;
  bool IsPunct(char c) const { return token_.kind == Tok::kPunct && token_.punct == c; }
  // If the current token is '{': the text up to its matching '}' (only braces and double-quoted
  // strings count), and moves past it. False if it is not closed.
  bool TakeBraced(absl::string_view* text);
  // All that is left, from the current token on.
  absl::string_view Rest() const {
    return absl::string_view(token_.begin, static_cast<size_t>(end_ - token_.begin));
  }
  // Continues at `p`, a place not before the current token's line.
  void SkipTo(const char* p);

 private:
  bool SkipSpace();  // false: an unclosed comment, token_ is the error
  void Word(const char* p);
  void Number(const char* p);
  bool Decimal(const char* p);
  void Nan(const char* word, const char* p, bool negative);
  void String(const char* p);
  void Emit(Tok kind, const char* begin, const char* end);
  void Error(const char* begin, absl::string_view message);

  const char* begin_;
  const char* p_;
  const char* end_;
  const char* line_begin_;
  int32_t line_ = 1;
  Token token_;
};

// "1_2x-3_4" -> {{1, 2}, {-3, 4}}, the numbers of a kInt, kDxD or kPad; false if one overflows.
bool ParseNumbers(absl::string_view text, std::vector<std::vector<int64_t>>* parts);
// C escapes of a string resolved; false with a message at an unknown escape.
bool Unescape(absl::string_view raw, std::string* out, std::string* error);
// The reverse, with quotes: printable ASCII as it is, \n \r \t \" \' \\, else three octal digits.
std::string Quoted(absl::string_view text);
void AppendQuoted(absl::string_view text, std::string* out);
// The text is one balanced {...} by TakeBraced's rules.
bool IsBracedDict(absl::string_view text);
// Length of the balanced {...} at the start of `text`; 0 if there is none.
size_t BracedLength(absl::string_view text);
// The word is a keyword or an element type, and so no name without '%'.
bool IsReservedWord(absl::string_view word);

}  // namespace tpuc::hlo
