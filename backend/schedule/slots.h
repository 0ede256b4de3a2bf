// Issue slots of one bundle: what is taken and whether an instruction still fits.
//
// Per bundle (chip file [slots]): salu 2 (with sld, sst, DMA starts, branches); valu 4 (EUP starts
// included, at most 1); vex 2; pop 2; load 3 and store 2 with misc operations in a load or store
// position, all together <= memory_total, misc 1; sld + sst 1; branch 1; DMA start 1; distinct
// literals (sources and address offsets) <= immediates.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "backend/chip/chip.h"
#include "backend/isa/isa.h"

namespace tpuc::schedule {

class SlotUse {
 public:
  bool Fits(const isa::Inst& inst, const Chip& chip) const;
  void Add(const isa::Inst& inst);
  void Remove(const isa::Inst& inst);

 private:
  void Count(const isa::Inst& inst, int by);
  int8_t salu_ = 0, valu_ = 0, eup_ = 0, vex_ = 0, pop_ = 0, load_ = 0, store_ = 0, misc_ = 0;
  int8_t smem_ = 0, branch_ = 0, dma_ = 0;
  struct Literal {
    int32_t value = 0, uses = 0;
  };
  absl::InlinedVector<Literal, 6> literals_;  // distinct
};

}  // namespace tpuc::schedule
