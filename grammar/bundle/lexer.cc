#include "grammar/bundle/lexer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tpuc::bundle {
namespace {

bool IsWordStart(char c) { return absl::ascii_isalpha(c) || c == '_' || c == '%'; }
bool IsWordChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '%'; }

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Lexer::Lexer(std::shared_ptr<const Source> source)
    : source_(std::move(source)), text_(source_->text) {
  Advance();
}

Token Lexer::Next() {
  Token t = token_;
  Advance();
  return t;
}

void Lexer::Advance() {
  while (pos_ < text_.size() &&
         (text_[pos_] == ' ' || text_[pos_] == '\t' || text_[pos_] == '\r')) {
    ++pos_;
  }
  if (pos_ < text_.size() && text_[pos_] == '#') {
    while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
  }
  token_.loc = {line_, static_cast<int32_t>(pos_ - line_start_ + 1)};
  if (pos_ >= text_.size()) {
    token_.kind = TokenKind::kEnd;
    token_.text = "";
    return;
  }
  size_t begin = pos_;
  char c = text_[pos_];
  if (c == '\n') {
    ++pos_;
    ++line_;
    line_start_ = pos_;
    token_.kind = TokenKind::kLineEnd;
    token_.text = "";
    return;
  }
  if (c == '"') {
    ++pos_;
    while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\n') {
      pos_ += text_[pos_] == '\\' && pos_ + 1 < text_.size() ? 2 : 1;
    }
    if (pos_ >= text_.size() || text_[pos_] != '"') {
      if (pos_ > text_.size()) pos_ = text_.size();
      token_.kind = TokenKind::kError;
      token_.text = text_.substr(begin, 1);
      return;
    }
    token_.kind = TokenKind::kString;
    token_.text = text_.substr(begin + 1, pos_ - begin - 1);
    ++pos_;
    return;
  }
  if (IsWordStart(c)) {
    while (pos_ < text_.size() && IsWordChar(text_[pos_])) ++pos_;
    token_.kind = TokenKind::kWord;
  } else if (absl::ascii_isdigit(c) ||
             (c == '-' && pos_ + 1 < text_.size() && absl::ascii_isdigit(text_[pos_ + 1]))) {
    ++pos_;
    while (pos_ < text_.size() &&
           (absl::ascii_isalnum(text_[pos_]) || text_[pos_] == '.' ||
            ((text_[pos_] == '-' || text_[pos_] == '+') && text_[pos_ - 1] == 'e'))) {
      ++pos_;
    }
    token_.kind = TokenKind::kNumber;
  } else {
    ++pos_;
    token_.kind = c > 32 && c < 127 ? TokenKind::kPunct : TokenKind::kError;
  }
  token_.text = text_.substr(begin, pos_ - begin);
}

bool Lexer::RawBlock(absl::string_view terminator, std::string* text) {
  // The current token is the line end after the opening line: pos_ is at the next line's start.
  size_t begin = pos_;
  size_t at = begin;
  while (at <= text_.size()) {
    size_t end = text_.find('\n', at);
    absl::string_view line = text_.substr(at, end == absl::string_view::npos ? end : end - at);
    if (line == terminator) {
      *text = std::string(text_.substr(begin, at - begin));
      pos_ = at + line.size();
      line_start_ = at;
      Advance();
      return true;
    }
    if (end == absl::string_view::npos) return false;
    ++line_;
    at = end + 1;
  }
  return false;
}

std::string Quote(absl::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 32 || c >= 127) {
      const char* hex = "0123456789abcdef";
      out += "\\x";
      out += hex[c >> 4];
      out += hex[c & 15];
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

bool Unquote(absl::string_view raw, std::string* text) {
  text->clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      *text += raw[i];
      continue;
    }
    if (++i >= raw.size()) return false;
    switch (raw[i]) {
      case 'n':
        *text += '\n';
        break;
      case 't':
        *text += '\t';
        break;
      case '"':
      case '\\':
        *text += raw[i];
        break;
      case 'x': {
        if (i + 2 >= raw.size()) return false;
        int high = HexValue(raw[i + 1]), low = HexValue(raw[i + 2]);
        if (high < 0 || low < 0) return false;
        *text += static_cast<char>(high * 16 + low);
        i += 2;
        break;
      }
      default:
        return false;
    }
  }
  return true;
}

}  // namespace tpuc::bundle
