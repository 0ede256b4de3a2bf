// Reading the program that a command works on: its text, and HLO text to a verified module.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/diag/diag.h"
#include "src/ir/hlo.h"

namespace tpuc::cli {

// Reads a file ("-": standard input). Null and a diagnostic if it cannot be read.
std::shared_ptr<const Source> ReadSource(const std::string& path, DiagSink* diags);
// What becomes of constants printed as {...} (--elided-constants): an error where they are needed,
// or the values that XLA's parser gives them.
enum class Elided : uint8_t { kError, kXla };
// Fills them where asked to: within a quarter of what the evaluator may use, since passes and
// bundles hold copies. False and E0202 where they are too large.
bool TakeElided(Elided elided, Module* module, DiagSink* diags);
// Parses and verifies the one module of an HLO text. Null and diagnostics on error.
std::unique_ptr<Module> ReadModule(std::shared_ptr<const Source> source, Elided elided,
                                   DiagSink* diags);

}  // namespace tpuc::cli
