// Puts values in memory so that at most `capacity` registers of a class are needed at once in
// program order: at each point where one too many is held, the one whose next use is furthest goes.
//
//   %v1 = vadd ..                     %v1 = vadd ..
//   ... 64 others ...         ->      vst [vmem:4096], %v1
//   vst .., %v1                       ... %v90 = vld [vmem:4096] ; vst .., %v90
//
// What can be had again at no cost (constants, vlaneseq, splats of unchanged scalars, loads of
// memory the function never writes) is made again instead. Masks go as 0/1 vectors, predicates as
// 0/1 words.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"

namespace tpuc::regalloc {

// Where spilled values live, and how much there is already.
struct SpillArea {
  int64_t first_row = 0, first_word = 0;
  int64_t rows = 0, words = 0;             // used so far, from the first
  int vmem_buffer = -1, smem_buffer = -1;  // MemRef::buffer of the area
};

// Adds the area to the function's allocations.
SpillArea MakeSpillArea(llo::Function* function, int64_t first_row, int64_t first_word);

struct SpillCounts {
  int64_t spills = 0, fills = 0;  // stores and loads added
};

// Rewrites the function, whose blocks are in the order in which they will be scheduled. False if
// one instruction alone needs more than `capacity` registers.
bool SpillToFit(llo::Function* function, isa::RegClass cls, int capacity, SpillArea* area,
                SpillCounts* counts);

// Puts the named registers in memory everywhere: stored after each write, loaded before each use.
void SpillRegisters(llo::Function* function, isa::RegClass cls, const std::vector<int>& registers,
                    SpillArea* area, SpillCounts* counts);

}  // namespace tpuc::regalloc
