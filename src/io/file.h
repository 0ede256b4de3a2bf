// Files as byte strings. "-" is standard input or output. A file is written whole or not at all:
// into a temporary file beside it that is then renamed.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"

namespace tpuc {

// Reads all of `path`. False and a diagnostic (E0300) if that fails.
bool ReadFile(const std::string& path, std::string* contents, DiagSink* diags);
// Writes all of `contents`. False and a diagnostic (E0301) if that fails.
bool WriteFile(const std::string& path, absl::string_view contents, DiagSink* diags);
// Two names of one existing file ("-" is none).
bool SameFile(const std::string& a, const std::string& b);
bool FileExists(const std::string& path);
// Makes the directory and its parents. False and E0301 if that fails.
bool MakeDirectories(const std::string& path, DiagSink* diags);

}  // namespace tpuc
