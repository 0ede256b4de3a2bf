// Reads bundles.txt and LLO text. Null on an error, with diagnostics; never aborts.
#pragma once

#include <memory>

#include "backend/isa/program.h"
#include "backend/llo/llo.h"
#include "src/diag/diag.h"

namespace tpuc::bundle {

// True if the text starts as bundles.txt does.
bool LooksLikeBundles(absl::string_view text);
bool LooksLikeLlo(absl::string_view text);
std::unique_ptr<isa::Program> ParseBundles(std::shared_ptr<const Source> source, DiagSink* diags);
std::unique_ptr<llo::Program> ParseLlo(std::shared_ptr<const Source> source, DiagSink* diags);

}  // namespace tpuc::bundle
