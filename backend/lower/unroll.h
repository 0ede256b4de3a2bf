// Unrolling of counted loops that ask for it, before lowering: the body is copied, its counter
// becomes a constant (all trips) or the counter plus one.
//
//   for i in 0..3 unroll { o[i] = i; }      ->  o[0] = 0; o[1] = 1; o[2] = 2;
//   for i in 0..5 unroll 2 { o[i] = i; }    ->  for t in 0..2 { o[2*t] = ..; o[2*t+1] = ..; } o[4]
//   = 4;
#pragma once

#include "backend/kernel/kernel.h"

namespace tpuc::lower {

void UnrollLoops(kernel::Kernel* kernel);

}  // namespace tpuc::lower
