// Decodes a program for a Machine: checks every instruction against isa.def and the chip, resolves
// its registers and body, and writes down what each bundle waits for and what it marks.
//
//   {vadd.f32 v3, v1, v2 ;; vst [..], v3}   the store must see the old v3: vadd writes a shadow
//
// A bad instruction is a Fault (E0258) with its bundle; nothing is run then.
#pragma once

#include <vector>

#include "backend/interp/machine.h"

namespace tpuc::interp {

// Sets up registers, lines and queues of `m` for m->chip, then decodes all kernels and the TLP
// (last). False after m->Fail.
bool DecodeProgram(const BodyTable& vector_bodies, Machine* m, std::vector<DecodedFunction>* out);

}  // namespace tpuc::interp
