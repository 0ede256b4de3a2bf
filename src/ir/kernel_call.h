// A kernel file called from HLO: a custom-call whose backend_config names the file, relative to the
// module's own, and its parameters.
//
//   o = f32[8,128] custom-call(x), custom_call_target="tpuc.kernel",
//       backend_config={"file":"kernels/softmax.tk","set":{"br":8}}
#pragma once

#include "src/ir/hlo.h"

namespace tpuc {

inline bool IsKernelCall(const Instruction& i) {
  return i.op == Op::kCustomCall && i.StringAttr(AttrId::kCustomCallTarget) == "tpuc.kernel";
}

}  // namespace tpuc
