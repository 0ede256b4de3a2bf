// Reads HLO text as JAX and XLA print it (grammar/hlo/hlo.ebnf): modules, bare computations and
// single instructions.
//
//   DiagSink diags;
//   auto module = ParseHlo(std::make_shared<Source>(Source{"a.hlo", text}), &diags);
//
// Checks what XLA's parser checks; shapes and dimension numbers are src/ir/verifier.h's.
#pragma once

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Null on error, with at least one error in `diags`; warnings may come with a module.
std::unique_ptr<Module> ParseHlo(std::shared_ptr<const Source> source, DiagSink* diags);

// The modules of a file that parts them by lines "// -----". Each part is padded with newlines, so
// that its line numbers are the file's. A file without such lines is one part.
std::vector<std::shared_ptr<const Source>> SplitModules(std::shared_ptr<const Source> source);

// "f32[8,128]{1,0:T(8,128)}", and nothing after it.
bool ParseShapeText(absl::string_view text, Shape* shape);

}  // namespace tpuc
