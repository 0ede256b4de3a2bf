// Diagnostics: what tpuc tells a user about the user's input.
//
// A Diag has a code (a row of diag.def), a place, a message, notes and a hint. A DiagSink collects
// them, so that one run reports more than one error. Text is rendered in clang's form:
//
//   softmax.hlo:4:23: error: operand shapes f32[8,128] and f32[8,256] differ [E0104]
//     ROOT %a = f32[8,128] add(%x, %y)
//                         ^
//   help: ...
//
// Nothing a user can type may reach CHECK (check.h); that is for bugs of tpuc alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tpuc {

// One input text. Columns and lines count from 1; columns are bytes.
struct Source {
  std::string name;  // as the user named it; "<stdin>" for '-'
  std::string text;
};

struct Loc {
  int32_t line = 0;  // 0: no place
  int32_t column = 0;
};

enum class Severity : uint8_t { kError, kWarning, kNote };

enum class DiagCode : uint16_t {
#define DIAG(id, code, severity, title, paragraph) id,
#include "src/diag/diag.def"
#undef DIAG
};

struct DiagInfo {
  DiagCode id;
  absl::string_view code;  // "E0104"
  Severity severity;
  absl::string_view title;      // one line
  absl::string_view paragraph;  // what `tpuc explain CODE` prints
};
// All rows of diag.def in order.
const std::vector<DiagInfo>& DiagTable();
const DiagInfo& InfoOf(DiagCode code);

struct DiagNote {
  Loc loc;  // line 0: no place
  std::string message;
};

struct Diag {
  DiagCode code;
  std::shared_ptr<const Source> source;  // may be null
  Loc loc;
  std::string message;
  std::vector<DiagNote> notes;
  std::string hint;  // printed as "help: ..."; may be empty
};

// Collects diagnostics in order. At most kMaxErrors errors are kept; the rest are counted.
class DiagSink {
 public:
  static constexpr int kMaxErrors = 20;
  // Adds a diagnostic and returns it for notes and hint; valid until the next call.
  Diag& Add(DiagCode code, std::shared_ptr<const Source> source, Loc loc, std::string message);
  Diag& Add(DiagCode code, std::string message) { return Add(code, nullptr, {}, std::move(message)); }
  bool has_errors() const { return errors_ > 0; }
  int errors() const { return errors_; }
  const std::vector<Diag>& diags() const { return diags_; }
  // All of it as text (clang's form), or one JSON object a line.
  std::string Render(bool color = false) const;
  std::string RenderJson() const;

 private:
  std::vector<Diag> diags_;
  Diag dropped_{};
  int errors_ = 0;
};

// The member of `known` nearest to `word` (edit distance at most 1/3 of its length), or "".
std::string NearestName(absl::string_view word, const std::vector<std::string>& known);

}  // namespace tpuc
