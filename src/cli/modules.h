// Reading the program that a command works on: its text, and HLO text to a verified module.
#pragma once

#include <memory>
#include <string>

#include "src/diag/diag.h"
#include "src/ir/hlo.h"

namespace tpuc::cli {

// Reads a file ("-": standard input). Null and a diagnostic if it cannot be read.
std::shared_ptr<const Source> ReadSource(const std::string& path, DiagSink* diags);
// Parses and verifies the one module of an HLO text. Null and diagnostics on error.
std::unique_ptr<Module> ReadModule(std::shared_ptr<const Source> source, DiagSink* diags);

}  // namespace tpuc::cli
