// What must hold of every module: it verifies, prints and reads back; every pass of the pipeline
// leaves it well formed and its values where they were; and a second run of the pipeline's clean-up
// finds nothing to do.
//
// Values are the reference evaluator's on seeded inputs. They must be the same bits, but for floats
// where a pass writes an operation in another form (x/64, a*b + a*c, sums in another order): those
// may differ by some roundings, see Differs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/ir/hlo.h"

namespace tpuc::random_modules {

struct Verdict {
  enum Kind {
    kSame,         // all held
    kRounded,      // all held, some floats within the tolerance only
    kUnsupported,  // the evaluator or a pass refuses it with a diagnostic
    kFailed
  };
  Kind kind = kSame;
  std::string pass;  // after which it failed or was refused; "" before the first
  std::string what;  // the first difference, or the diagnostic
};

// `seed` of the inputs. `module` is changed by the passes.
Verdict CheckModule(std::unique_ptr<Module> module, uint64_t seed);

// The module of that text; null where it does not parse or verify.
std::unique_ptr<Module> ReadText(const std::string& text);

}  // namespace tpuc::random_modules
