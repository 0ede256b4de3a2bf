#include "backend/report/columns.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tpuc {

std::string Cell(absl::string_view text, size_t width) {
  if (text.size() > width) return absl::StrCat(text.substr(0, width - 2), "..");
  return absl::StrCat(text, std::string(width - text.size(), ' '));
}

std::string Bytes(int64_t bytes) {
  if (bytes >= 1 << 20) return absl::StrFormat("%.1f MiB", bytes / 1048576.0);
  if (bytes >= 1 << 10) return absl::StrFormat("%.1f KiB", bytes / 1024.0);
  return absl::StrCat(bytes, " B");
}

std::string Count(int64_t n) {
  std::string digits = absl::StrCat(n), out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace tpuc
