// Constants that were printed as {...}: their values are lost. By default nothing that runs takes
// them (E0201). FillElided gives them the values that XLA's text parser makes up, so that the same
// text can be timed, and compared with XLA:
//
//   a = s32[3] constant({...})   b = s8[6] constant({...})       0, 1, 2 and 3, 0, 1, 0, 0, 0
//
// The values mean nothing: whoever fills must say so, which is what the warning is for.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"
#include "src/ir/hlo.h"

namespace tpuc {

// An elided array, or a tuple with one among its leaves.
bool HasElided(const Literal& literal);

// E0201: running needs the value of the constant `name`.
void AddElided(std::shared_ptr<const Source> source, Loc loc, absl::string_view name,
               DiagSink* diags);

// Fills every elided array, also of tuples and of custom calls' `literal`, in the order of the
// text, and adds the warning W0201, once for a source. Together they may take `limit` bytes: false
// and E0202 otherwise. A module without any is left as it is.
bool FillElided(Module* module, int64_t limit, DiagSink* diags);

}  // namespace tpuc
