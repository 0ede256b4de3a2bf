// Cells of the tables in this folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tpuc {

// Cut or padded to a column's width.
std::string Cell(absl::string_view text, size_t width);
// "512 B", "32.0 KiB", "10.5 MiB".
std::string Bytes(int64_t bytes);
// "1,234,567".
std::string Count(int64_t n);

}  // namespace tpuc
