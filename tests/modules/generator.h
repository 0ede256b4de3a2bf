// Random well-typed modules of all opcodes: a seed gives the same module everywhere.
//
// A module is 1 to 14 random instructions, each made by the function that the table in generator.cc
// names for its opcode, on operands drawn from what was made before: all types, sizes about 0, 1,
// the tile sizes 8 and 128 and primes, layouts, called computations. Every opcode has a row, or
// says why it has none.
#pragma once

#include <cstdint>
#include <memory>

#include "tests/modules/builder.h"

namespace tpuc::random_modules {

std::unique_ptr<Module> RandomModule(uint64_t seed);

// Appends about that many instructions to the computation.
void RandomSteps(Builder* b, int64_t count);

// An opcode that is neither made nor excused; nothing where the table is complete.
std::vector<Op> MissingOpcodes();

}  // namespace tpuc::random_modules
