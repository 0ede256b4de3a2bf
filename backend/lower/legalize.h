// Accesses without instructions of their own become ones that have them, before lowering: what a
// Pallas author may write about VMEM, and what registers and rows of 512 bytes can do.
#pragma once

#include "backend/kernel/kernel.h"

namespace tpuc::lower {

//   o[3:19, :] = v (bf16)    ->  o[0:19, :] = pad(v, 0, [3:0, ..]) where row >= 3
//   x[3:19, :] (bf16)        ->  slice(x[0:19, :], [3:19, :])
//   take(x[:], t, axis=0)    ->  for i in 0..n { g[i :+ 1, :] = x[t[i] :+ 1, :]; } .. g[:]
//   dynamic_slice(v, i, 0)   ->  s[:] = v; .. s[min(max(i, 0), most) :+ n, :]
//
// with scratch of their own (g, s), whose elements have 32 bits, as temporaries have. What none of
// these fits stays as it is.
void LegalizeAccesses(kernel::Kernel* kernel);

}  // namespace tpuc::lower
