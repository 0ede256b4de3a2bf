#include "src/diag/diag.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tpuc {

const std::vector<DiagInfo>& DiagTable() {
  static const auto* table = new std::vector<DiagInfo>{
#define DIAG(id, code, severity, title, paragraph) {DiagCode::id, code, severity, title, paragraph},
#include "src/diag/diag.def"
#undef DIAG
  };
  return *table;
}

const DiagInfo& InfoOf(DiagCode code) { return DiagTable()[static_cast<size_t>(code)]; }

Diag& DiagSink::Add(DiagCode code, std::shared_ptr<const Source> source, Loc loc,
                    std::string message) {
  bool error = InfoOf(code).severity == Severity::kError;
  if (error) ++errors_;
  Diag diag{code, std::move(source), loc, std::move(message), {}, {}};
  if (error && errors_ > kMaxErrors) {
    dropped_ = std::move(diag);
    return dropped_;
  }
  diags_.push_back(std::move(diag));
  return diags_.back();
}

namespace {

const char* SeverityText(Severity s) {
  switch (s) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "error";
}

// The line of `loc`, tabs expanded, cut to 72 columns around the caret; then the caret line.
std::string SourceExcerpt(const std::string& text, Loc loc) {
  size_t begin = 0;
  for (int line = 1; line < loc.line; ++line) {
    size_t next = text.find('\n', begin);
    if (next == std::string::npos) return "";
    begin = next + 1;
  }
  size_t caret = begin + std::max(0, loc.column - 1);
  // Look at no more than a window around the caret: a line may be megabytes long.
  size_t from = std::max(begin, caret > 400 ? caret - 400 : 0);
  size_t to = std::min(text.size(), caret + 400);
  size_t end = text.find('\n', caret);
  if (end == std::string::npos || end > to) end = to;
  if (end > begin && text[end - 1] == '\r') --end;
  std::string shown, pad;
  size_t column = 0;
  for (size_t i = from; i < end; ++i) {
    if (i == caret) column = shown.size();
    unsigned char c = text[i];
    if (c == '\t') {
      shown.append(8 - shown.size() % 8, ' ');
    } else {
      shown += c < 32 || c == 127 ? '?' : static_cast<char>(c);
    }
  }
  if (caret >= end) column = shown.size();
  constexpr size_t kWidth = 72;
  size_t cut = 0;
  if (shown.size() > kWidth && column > kWidth / 2) {
    cut = std::min(column - kWidth / 2, shown.size() - kWidth);
  }
  bool cut_left = cut > 0 || from > begin;
  std::string line = shown.substr(cut, kWidth);
  if (cut_left) line = "..." + line;
  if (cut + kWidth < shown.size()) line += "...";
  return absl::StrCat("  ", line, "\n  ", std::string(column - cut + (cut_left ? 3 : 0), ' '),
                      "^\n");
}

// A message may quote a name of megabytes: the middle is left out.
std::string Cut(const std::string& message) {
  constexpr size_t kMost = 8000, kEnd = 1000;
  if (message.size() <= kMost) return message;
  return absl::StrCat(message.substr(0, kEnd), "... (", message.size() - 2 * kEnd,
                      " characters left out) ...", message.substr(message.size() - kEnd));
}

}  // namespace

std::string DiagSink::Render(bool color) const {
  std::string out;
  const char* bold = color ? "\033[1m" : "";
  const char* red = color ? "\033[1;31m" : "";
  const char* off = color ? "\033[0m" : "";
  for (const Diag& d : diags_) {
    const DiagInfo& info = InfoOf(d.code);
    auto place = [&](Loc loc) {
      std::string p = d.source ? d.source->name : "tpuc";
      if (loc.line > 0) absl::StrAppend(&p, ":", loc.line, ":", loc.column);
      return p;
    };
    absl::StrAppend(&out, bold, place(d.loc), ": ", red, SeverityText(info.severity), ":", off, " ",
                    Cut(d.message), " [", info.code, "]\n");
    if (d.source && d.loc.line > 0) out += SourceExcerpt(d.source->text, d.loc);
    for (const DiagNote& n : d.notes) {
      absl::StrAppend(&out, place(n.loc), ": note: ", Cut(n.message), "\n");
      if (d.source && n.loc.line > 0) out += SourceExcerpt(d.source->text, n.loc);
    }
    if (!d.hint.empty()) absl::StrAppend(&out, "help: ", Cut(d.hint), "\n");
  }
  if (errors_ > kMaxErrors) {
    absl::StrAppend(&out, "tpuc: ", errors_ - kMaxErrors, " more errors not shown\n");
  }
  return out;
}

namespace {
std::string JsonString(absl::string_view s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 32) {
      static const char* hex = "0123456789abcdef";
      absl::StrAppend(&out, "\\u00", std::string(1, hex[c >> 4]), std::string(1, hex[c & 15]));
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}
}  // namespace

std::string DiagSink::RenderJson() const {
  std::string out;
  for (const Diag& d : diags_) {
    const DiagInfo& info = InfoOf(d.code);
    absl::StrAppend(&out, "{\"code\":", JsonString(info.code), ",\"column\":", d.loc.column,
                    ",\"file\":", JsonString(d.source ? d.source->name : ""),
                    ",\"hint\":", JsonString(Cut(d.hint)), ",\"line\":", d.loc.line,
                    ",\"message\":", JsonString(Cut(d.message)), ",\"notes\":[");
    for (size_t i = 0; i < d.notes.size(); ++i) {
      absl::StrAppend(&out, i ? "," : "", "{\"column\":", d.notes[i].loc.column,
                      ",\"line\":", d.notes[i].loc.line,
                      ",\"message\":", JsonString(Cut(d.notes[i].message)), "}");
    }
    absl::StrAppend(&out, "],\"severity\":\"", SeverityText(info.severity), "\"}\n");
  }
  return out;
}

namespace {

// Insertions, deletions, changes and swaps of neighbours from a to b.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  if (word.size() > 200) return best;  // no name of a table; the distance is quadratic
  for (const std::string& k : known) {
    size_t distance = EditDistance(word, k);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = k;
  }
  return best;
}

}  // namespace tpuc
