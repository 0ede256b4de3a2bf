// Tokens of .tk files (kernel.ebnf): names, numbers, strings and punctuation, each with its place.
//
//   "w^T[0:+8] # rows"  ->  name w, punct ^T, punct [, integer 0, punct :, punct +, integer 8,
//   punct ]
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"

namespace tpuc::kernel_text {

struct Token {
  enum class Kind : uint8_t { kName, kInteger, kNumber, kString, kPunct, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;            // strings without quotes and backslashes
  size_t offset = 0, end = 0;  // bytes of the source
  Loc loc;
};

// All tokens, kEnd last. Characters that belong to no token are diagnostics (kSyntax).
std::vector<Token> Tokenize(const std::shared_ptr<const Source>& source, DiagSink* diags);

// True where the text is one name, not to be quoted.
bool IsName(absl::string_view text);
// Words with a meaning of their own at the start of a statement or in an expression.
bool IsReserved(absl::string_view text);
std::string Quote(absl::string_view text);

}  // namespace tpuc::kernel_text
