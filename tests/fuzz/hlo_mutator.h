// Changes to HLO text that keep its tokens whole: what libFuzzer's own changes of bytes seldom do,
// and what reaches past the parser. One call makes one to four changes; the same seed makes the
// same ones.
//
//   "add(a, b), dimensions={0}" -> "subtract(a, a), dimensions={-1}"
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tpuc {

std::string MutateHlo(absl::string_view text, uint64_t seed);

}  // namespace tpuc
