// The text of a compiled program (bundles.txt) and of LLO. Both are complete: parsing gives back
// the same program (grammar/bundle/bundle.ebnf).
#pragma once

#include <string>

#include "backend/isa/program.h"
#include "backend/llo/llo.h"

namespace tpuc::bundle {

std::string PrintBundles(const isa::Program& program);
// One function's bundles, as they stand inside PrintBundles.
std::string PrintFunction(const isa::Function& function, int number);
std::string PrintLlo(const llo::Function& function);
std::string PrintLlo(const llo::Program& program);

}  // namespace tpuc::bundle
