// Random numbers: rng-bit-generator with XLA's Threefry and Philox, bit by bit, and rng.
//
// Sources: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011) for the two
// ciphers; for how counters and results are laid out, XLA's xla/hlo/builder/lib/prng.cc. The
// default algorithm is Philox, as on XLA's CPU.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "src/ir/literal.h"

namespace tpuc {

// state: u64[2] or u64[3], or u32[4] (pairs of words). algorithm: rng_default, rng_three_fry or
// rng_philox, in any case.
bool EvalRngBitGenerator(const Literal& state, absl::string_view algorithm, Literal* new_state,
                         Literal* bits, std::string* error);

// rng: uniform in [a, b) or normal of mean a and deviation b, by Philox with this key. XLA leaves
// the generator open; the same key gives the same numbers.
bool EvalRng(const Literal& a, const Literal& b, absl::string_view distribution, uint64_t key,
             Literal* out, std::string* error);

}  // namespace tpuc
