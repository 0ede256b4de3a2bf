// The scanner (lexer.h). Words are looked up in one small table of types and keywords; numbers are
// tried against the patterns of hlo-text.md 2.4 in their order.
#include "grammar/hlo/lexer.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace tpuc::hlo {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct CharClasses {
  std::array<bool, 256> word{}, word_start{};
  constexpr CharClasses() {
    for (int c = 0; c < 256; ++c) {
      bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      word_start[c] = letter;
      word[c] = letter || (c >= '0' && c <= '9') || c == '.' || c == '-';
    }
  }
};
constexpr CharClasses kClasses;
bool IsWord(char c) { return kClasses.word[static_cast<unsigned char>(c)]; }
bool IsWordStart(char c) { return kClasses.word_start[static_cast<unsigned char>(c)]; }

// Types and keywords by a hash of length, first and last character.
class ReservedWords {
 public:
  struct Row {
    absl::string_view text;
    Keyword keyword = Keyword::kNone;
    Type type = Type::kTuple;
  };
  ReservedWords() {
#define TYPE(id, text, cls, bits) Insert({text, Keyword::kNone, Type::id});
#include "src/ir/types.def"
#undef TYPE
    Insert({"opaque_type", Keyword::kNone, Type::kOpaque});
    constexpr absl::string_view kKeywords[] = {"true",          "false",
                                               "inf",           "HloModule",
                                               "ENTRY",         "ROOT",
                                               "FileNames",     "FunctionNames",
                                               "FileLocations", "StackFrames",
                                               "maximal",       "replicated",
                                               "manual",        "last_tile_dim_replicate",
                                               "shard_as",      "shard_like",
                                               "unknown",       "unreduced"};
    for (size_t i = 0; i < std::size(kKeywords); ++i) {
      Insert({kKeywords[i], static_cast<Keyword>(i + 1), Type::kTuple});
    }
  }
  const Row* Find(absl::string_view word) const {
    for (size_t h = Hash(word);; h = (h + 1) % kSize) {
      if (rows_[h].text.empty()) return nullptr;
      if (rows_[h].text == word) return &rows_[h];
    }
  }

 private:
  static constexpr size_t kSize = 256;
  static size_t Hash(absl::string_view w) {
    return (w.size() * 37 + static_cast<unsigned char>(w.front()) * 7 +
            static_cast<unsigned char>(w.back()) * 59 +
            static_cast<unsigned char>(w[w.size() / 2]) * 3) %
           kSize;
  }
  void Insert(Row row) {
    if (row.text.front() == '(') return;  // tuple is no word
    size_t h = Hash(row.text);
    while (!rows_[h].text.empty()) h = (h + 1) % kSize;
    rows_[h] = row;
  }
  std::array<Row, kSize> rows_{};
};

const ReservedWords& Reserved() {
  static const auto* words = new ReservedWords;
  return *words;
}

// End of [0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,} at p, or null.
const char* MatchDimLabels(const char* p, const char* end) {
  auto run = [&](char a, char b) {
    const char* from = p;
    while (p < end && (IsDigit(*p) || *p == '?' || *p == a || *p == b)) ++p;
    return p - from >= 2;
  };
  if (!run('b', 'f') || p == end || *p != '_') return nullptr;
  ++p;
  if (!run('i', 'o') || end - p < 2 || p[0] != '-' || p[1] != '>') return nullptr;
  p += 2;
  return run('b', 'f') ? p : nullptr;
}

const char* Digits(const char* p, const char* end) {
  while (p < end && IsDigit(*p)) ++p;
  return p;
}

// D+(xD+)+
const char* MatchDxD(const char* p, const char* end) {
  const char* q = Digits(p, end);
  if (q == p) return nullptr;
  const char* matched = nullptr;
  while (q + 1 < end && *q == 'x' && IsDigit(q[1])) matched = q = Digits(q + 1, end);
  return matched;
}

// One part of a PAD: -?D+_-?D+(_D+)?
const char* MatchPadPart(const char* p, const char* end) {
  for (int i = 0; i < 2; ++i) {
    if (i) {
      if (p == end || *p != '_') return nullptr;
      ++p;
    }
    if (p < end && *p == '-') ++p;
    const char* q = Digits(p, end);
    if (q == p) return nullptr;
    p = q;
  }
  if (p + 1 < end && *p == '_' && IsDigit(p[1])) p = Digits(p + 1, end);
  return p;
}

const char* MatchPad(const char* p, const char* end) {
  const char* matched = MatchPadPart(p, end);
  while (matched && matched < end && *matched == 'x') {
    const char* q = MatchPadPart(matched + 1, end);
    if (!q) break;
    matched = q;
  }
  return matched;
}

// End of -?(D+|D+.D*|D*.D+)[eE][+-]?D+ or -?(D+.D*|D*.D+), or null.
const char* MatchDecimal(const char* p, const char* end) {
  if (*p == '-') ++p;
  const char* q = Digits(p, end);
  bool digits = q > p, point = q < end && *q == '.';
  if (point) {
    const char* fraction = Digits(q + 1, end);
    digits |= fraction > q + 1;
    q = fraction;
  }
  if (!digits) return nullptr;
  if (q < end && (*q == 'e' || *q == 'E')) {
    const char* e = q + 1;
    if (e < end && (*e == '+' || *e == '-')) ++e;
    const char* exponent = Digits(e, end);
    if (exponent > e) return exponent;
  }
  return point ? q : nullptr;
}

}  // namespace

double NumberOf(const Token& token) {
  switch (token.kind) {
    case Tok::kInt:
      // "-0" is a float's negative zero; a value over int64 was written without sign.
      if (token.integer == 0 && token.text.front() == '-') return -0.0;
      return token.text.front() == '-' ? static_cast<double>(token.integer)
                                       : static_cast<double>(static_cast<uint64_t>(token.integer));
    case Tok::kNegInf:
      return -std::numeric_limits<double>::infinity();
    case Tok::kKeyword:
      return std::numeric_limits<double>::infinity();
    default:
      break;
  }
  double value = 0;
  absl::string_view text = token.text;
  auto [p, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Too large gives infinity, too small 0; strtod tells which.
  if (error == std::errc::result_out_of_range)
    value = std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

Lexer::Lexer(absl::string_view text)
    : begin_(text.data()), p_(begin_), end_(begin_ + text.size()), line_begin_(begin_) {
  Next();
}

void Lexer::Emit(Tok kind, const char* begin, const char* end) {
  token_.kind = kind;
  token_.text = absl::string_view(begin, static_cast<size_t>(end - begin));
  p_ = end;
}

void Lexer::Error(const char* begin, absl::string_view message) {
  token_.kind = Tok::kError;
  token_.text = message;
  token_.begin = begin;
  p_ = end_;  // nothing after an error is worth reading; SkipTo may go on
}

bool Lexer::SkipSpace() {
  while (p_ < end_) {
    char c = *p_;
    if (c == '\n') {
      ++line_;
      line_begin_ = ++p_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++p_;
    } else if (c == '/' && p_ + 1 < end_ && p_[1] == '/') {
      while (p_ < end_ && *p_ != '\n' && *p_ != '\r') ++p_;
    } else if (c == '/' && p_ + 1 < end_ && p_[1] == '*') {
      const char* open = p_;
      Loc loc{line_, static_cast<int32_t>(open - line_begin_) + 1};
      p_ += 2;
      while (p_ + 1 < end_ && !(p_[0] == '*' && p_[1] == '/')) {
        if (*p_ == '\n') {
          ++line_;
          line_begin_ = p_ + 1;
        }
        ++p_;
      }
      if (p_ + 1 >= end_) {
        Error(open, "unterminated comment");
        token_.loc = loc;
        return false;
      }
      p_ += 2;
    } else {
      break;
    }
  }
  return true;
}

void Lexer::Next() {
  token_.keyword = Keyword::kNone;
  if (!SkipSpace()) return;
  const char* p = p_;
  token_.begin = p;
  token_.loc = {line_, static_cast<int32_t>(p - line_begin_) + 1};
  if (p == end_) return Emit(Tok::kEof, p, p);
  char c = *p;
  if (c == '%') {
    if (p + 1 == end_ || !IsWordStart(p[1])) return Error(p, "expected a name after '%'");
    const char* q = p + 2;
    while (q < end_ && IsWord(*q)) ++q;
    Emit(Tok::kName, p + 1, q);
    return;
  }
  if (IsWordStart(c)) return Word(p);
  if (IsDigit(c) || c == '-' || c == '?') return Number(p);
  switch (c) {
    case '=':
    case ',':
    case ':':
    case '*':
    case '#':
    case '+':
    case '~':
    case '[':
    case ']':
    case '{':
    case '}':
    case '(':
    case ')':
      token_.punct = c;
      return Emit(Tok::kPunct, p, p + 1);
    case '"':
    case '\'':
      return String(p);
    case '.':
      if (end_ - p >= 3 && p[1] == '.' && p[2] == '.') return Emit(Tok::kDots, p, p + 3);
      return Error(p, "stray '.'");
    case '<':
      if (end_ - p >= 2 && p[1] == '=') return Emit(Tok::kLeq, p, p + 2);
      return Error(p, "stray '<'");
    case '/':
      return Error(p, "stray '/'; comments are // ... and /* ... */");
    case '\0':
      return Error(p, "NUL byte; this is no text file");
    default:
      return Error(p, static_cast<unsigned char>(c) >= 128
                          ? "byte outside ASCII; only strings and comments may hold one"
                          : "character that starts no token");
  }
}

void Lexer::Word(const char* p) {
  const char* q = p + 1;
  while (q < end_ && IsWord(*q)) ++q;
  absl::string_view word(p, static_cast<size_t>(q - p));
  if (q < end_ && (*q == ':' || *q == '=')) {
    Emit(*q == ':' ? Tok::kName : Tok::kAttrName, p, q);
    ++p_;
    return;
  }
  if (const ReservedWords::Row* row = Reserved().Find(word)) {
    Emit(row->keyword == Keyword::kNone ? Tok::kType : Tok::kKeyword, p, q);
    token_.keyword = row->keyword;
    token_.type = row->type;
    return;
  }
  if (word == "nan") return Nan(p, q, false);
  if (*p == 'b' || *p == 'f') {
    if (const char* labels = MatchDimLabels(p, end_)) return Emit(Tok::kDimLabels, p, labels);
  }
  Emit(Tok::kIdent, p, q);
}

void Lexer::Nan(const char* word, const char* p, bool negative) {
  uint64_t payload = 0;
  const char* q = p;
  if (p < end_ && *p == '(') {
    const char* digits = p + 3;
    q = digits;
    auto is_hex = [](char c) {
      return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    bool ok = end_ - p > 3 && p[1] == '0' && p[2] == 'x';
    while (ok && q < end_ && is_hex(*q)) ++q;
    ok = ok && q > digits && q < end_ && *q == ')' &&
         std::from_chars(digits, q, payload, 16).ec == std::errc() && payload >= 1 &&
         payload < (uint64_t{1} << 52);
    if (!ok) return Error(word, "a NaN payload is written (0x...), from 1 to 0xfffffffffffff");
    ++q;
  }
  Emit(Tok::kDecimal, word, q);
  token_.is_nan = true;
  token_.negative = negative;
  token_.payload = payload;
}

bool Lexer::Decimal(const char* p) {
  const char* q = MatchDecimal(p, end_);
  if (!q) return false;
  Emit(Tok::kDecimal, p, q);
  token_.is_nan = false;
  token_.negative = *p == '-';
  return true;
}

void Lexer::Number(const char* p) {
  if (*p == '-' && p + 1 < end_ && p[1] == '>') return Emit(Tok::kArrow, p, p + 2);
  // Most numbers are small integers that end at once.
  const char* q = Digits(*p == '-' ? p + 1 : p, end_);
  bool plain =
      q < end_ && q > p && (*q == ',' || *q == '}' || *q == ']' || *q == ')' || IsSpace(*q));
  if (!plain) {
    if (Decimal(p)) return;
    if (const char* e = MatchDimLabels(p, end_)) return Emit(Tok::kDimLabels, p, e);
    if (const char* e = MatchDxD(p, end_)) return Emit(Tok::kDxD, p, e);
    if (const char* e = MatchPad(p, end_)) return Emit(Tok::kPad, p, e);
  }
  if (q > p + (*p == '-')) {
    Emit(Tok::kInt, p, q);
    std::from_chars_result r{};
    if (*p == '-') {
      r = std::from_chars(p, q, token_.integer);
    } else {
      uint64_t value = 0;
      r = std::from_chars(p, q, value);
      token_.integer = static_cast<int64_t>(value);
    }
    if (r.ec != std::errc()) Error(p, "integer does not fit 64 bits");
    return;
  }
  auto follows = [&](absl::string_view word) {
    return absl::string_view(p, static_cast<size_t>(end_ - p)).substr(0, word.size()) == word;
  };
  if (follows("-inf")) return Emit(Tok::kNegInf, p, p + 4);
  if (follows("-nan")) return Nan(p, p + 4, true);
  if (*p == '?') {
    token_.punct = '?';
    return Emit(Tok::kPunct, p, p + 1);
  }
  Error(p, "expected a number after '-'");
}

void Lexer::String(const char* p) {
  char quote = *p;
  const char* q = p + 1;
  token_.escaped = false;
  // memchr-like: most strings have neither escapes nor newlines.
  while (q < end_ && *q != quote) {
    if (*q == '\\') {
      token_.escaped = true;
      if (++q == end_ || *q == '\n') break;
    } else if (*q == '\n') {
      ++line_;
      line_begin_ = q + 1;
    }
    ++q;
  }
  if (q >= end_ || *q != quote) return Error(p, "unterminated string");
  Emit(Tok::kString, p + 1, q);
  p_ = q + 1;
}

char Lexer::PeekChar() const {
  const char* p = p_;
  while (p < end_) {
    if (IsSpace(*p)) {
      ++p;
    } else if (*p == '/' && p + 1 < end_ && p[1] == '/') {
      while (p < end_ && *p != '\n' && *p != '\r') ++p;
    } else if (*p == '/' && p + 1 < end_ && p[1] == '*') {
      absl::string_view rest(p + 2, static_cast<size_t>(end_ - p - 2));
      size_t close = rest.find("*/");
      if (close == absl::string_view::npos) return 0;
      p += close + 4;
    } else {
      return *p;
    }
  }
  return 0;
}

size_t BracedLength(absl::string_view text) {
  int64_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      if (i >= text.size()) return 0;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}') {
      if (--depth == 0) return i + 1;
      if (depth < 0) return 0;
    }
    if (depth == 0) return 0;
  }
  return 0;
}

bool IsBracedDict(absl::string_view text) {
  for (unsigned char c : text) {
    if (c < 32 && c != '\n' && c != '\t' && c != '\r') return false;
  }
  return !text.empty() && text.front() == '{' && BracedLength(text) == text.size();
}

bool Lexer::TakeBraced(absl::string_view* text) {
  if (!IsPunct('{')) return false;
  size_t length = BracedLength(Rest());
  if (length == 0) return false;
  *text = Rest().substr(0, length);
  p_ = token_.begin + length;
  for (const char* p = token_.begin; p < p_; ++p) {
    const char* newline = static_cast<const char*>(memchr(p, '\n', static_cast<size_t>(p_ - p)));
    if (!newline) break;
    ++line_;
    line_begin_ = newline + 1;
    p = newline;
  }
  Next();
  return true;
}

void Lexer::SkipTo(const char* p) {
  // Count lines from the token on, whose place is known even if scanning went to the end.
  line_ = token_.loc.line;
  line_begin_ = token_.begin - (token_.loc.column - 1);
  for (const char* q = token_.begin; q < p;) {
    const char* newline = static_cast<const char*>(memchr(q, '\n', static_cast<size_t>(p - q)));
    if (!newline) break;
    ++line_;
    line_begin_ = q = newline + 1;
  }
  p_ = p;
  Next();
}

bool ParseNumbers(absl::string_view text, std::vector<std::vector<int64_t>>* parts) {
  parts->emplace_back();
  const char* end = text.data() + text.size();
  for (const char* p = text.data();; ++p) {
    auto [next, error] = std::from_chars(p, end, parts->back().emplace_back());
    if (error != std::errc()) return false;
    p = next;
    if (p == end) return true;
    if (*p == 'x') parts->emplace_back();
  }
}

bool Unescape(absl::string_view raw, std::string* out, std::string* error) {
  out->clear();
  out->reserve(raw.size());
  auto hex = [](char c) {
    if (IsDigit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  auto fail = [&](absl::string_view what) {
    *error = std::string(what);
    return false;
  };
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      *out += raw[i];
      continue;
    }
    if (++i == raw.size()) return fail("string ends in a backslash");
    constexpr absl::string_view kFrom = "abfnrtv\\?'\"", kTo = "\a\b\f\n\r\t\v\\?'\"";
    char c = raw[i];
    size_t simple = kFrom.find(c);
    if (simple != absl::string_view::npos) {
      *out += kTo[simple];
    } else if (c >= '0' && c <= '7') {
      int value = 0, digits = 0;
      for (; digits < 3 && i < raw.size() && raw[i] >= '0' && raw[i] <= '7'; ++digits, ++i) {
        value = value * 8 + (raw[i] - '0');
      }
      --i;
      if (value > 255) return fail("octal escape over \\377 in a string");
      *out += static_cast<char>(value);
    } else if (c == 'x') {
      uint32_t value = 0, digits = 0;
      for (; i + 1 < raw.size() && hex(raw[i + 1]) >= 0; ++i, ++digits) {
        value = value * 16 + hex(raw[i + 1]);
        if (value > 255) return fail("hexadecimal escape over \\xff in a string");
      }
      if (digits == 0) return fail("\\x without hexadecimal digits in a string");
      *out += static_cast<char>(value);
    } else if (c == 'u' || c == 'U') {
      uint32_t value = 0;
      for (int n = c == 'u' ? 4 : 8; n > 0; --n) {
        if (i + 1 >= raw.size() || hex(raw[i + 1]) < 0) return fail("short \\u escape in a string");
        value = value * 16 + hex(raw[++i]);
      }
      if (value > 0x10FFFF) return fail("\\U escape over 10FFFF in a string");
      if (value < 0x80) {
        *out += static_cast<char>(value);
      } else {
        if (value >= 0x10000) *out += static_cast<char>(0xF0 | value >> 18);
        if (value >= 0x800) {
          *out +=
              static_cast<char>(value >= 0x10000 ? 0x80 | (value >> 12 & 63) : 0xE0 | value >> 12);
        }
        *out += static_cast<char>(value >= 0x800 ? 0x80 | (value >> 6 & 63) : 0xC0 | value >> 6);
        *out += static_cast<char>(0x80 | (value & 63));
      }
    } else {
      return fail(std::string("unknown escape \\") + c + " in a string");
    }
  }
  return true;
}

void AppendQuoted(absl::string_view text, std::string* out) {
  *out += '"';
  size_t run = 0;  // start of what needs no escape
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c >= 32 && c < 127 && c != '"' && c != '\'' && c != '\\') continue;
    out->append(text.data() + run, i - run);
    run = i + 1;
    constexpr absl::string_view kFrom = "\n\r\t\"'\\", kTo = "nrt\"'\\";
    size_t known = kFrom.find(c);
    *out += '\\';
    if (known != absl::string_view::npos) {
      *out += kTo[known];
    } else {
      unsigned char u = static_cast<unsigned char>(c);
      *out += static_cast<char>('0' + (u >> 6));
      *out += static_cast<char>('0' + (u >> 3 & 7));
      *out += static_cast<char>('0' + (u & 7));
    }
  }
  out->append(text.data() + run, text.size() - run);
  *out += '"';
}

std::string Quoted(absl::string_view text) {
  std::string out;
  AppendQuoted(text, &out);
  return out;
}

bool IsReservedWord(absl::string_view word) { return Reserved().Find(word) != nullptr; }

}  // namespace tpuc::hlo
