// The DMA engine: transfers under way, when each completes, and what it moves (cost: interp.h).
//
//   engine.Start(t, now)       queued; its bytes move when it completes
//   engine.Advance(cycle)      completes all that are done by `cycle`
//   engine.WaitFor(flag, n)    completes until the flag holds n; the cycle, or -1: never
//
// Time here is the wall clock; the fraction of a cycle is kept between events.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/interp/interp.h"
#include "backend/interp/memory.h"
#include "backend/isa/program.h"

namespace tpuc::interp {

// One side of a transfer in bytes of its memory: `steps` pieces of `piece` bytes, `stride` apart.
struct Side {
  isa::Memory memory{};
  int64_t address = 0, stride = 0, piece = 0, steps = 1;
  int64_t low() const { return address + std::min<int64_t>(0, stride * (steps - 1)); }
  int64_t high() const { return address + std::max<int64_t>(0, stride * (steps - 1)) + piece; }
};

struct Transfer {
  isa::Opcode op{};
  Side from, to;
  int64_t bytes = 0;
  int flag = 0;
  int copy = -1;  // row of Program::copies
  int kernel = -1, source = -1;
  int64_t start = 0;  // cycle of issue
  double at = 0;      // time of the next event
  double target = 0;  // bytes served per sharer when it ends
};

class DmaEngine {
 public:
  void Init(const Chip& chip, Memory* memory, bool strict, bool values, RunResult* result,
            bool trace);
  // Issues at cycle `now`; `instant`: done at once (a warm cross-program copy). An empty string, or
  // what is wrong with it (a race with another transfer).
  std::string Start(Transfer t, int64_t now, bool instant);
  void Advance(int64_t cycle);
  int64_t WaitFor(int flag, int64_t granules, int64_t now);
  // Completes everything; the cycle of the last, or `now`.
  int64_t Drain(int64_t now);
  bool idle() const { return outstanding_ == 0; }
  bool UsesFlag(int flag) const;
  int SourceOf(int flag) const;  // source row of a transfer under way on the flag; -1: none
  // The transfer under way that writes these bytes, else one that reads them; null: none.
  const Transfer* Toucher(isa::Memory memory, int64_t address, int64_t bytes) const;
  // A transfer under way writes these bytes of SMEM, or, where they are about to be stored, reads
  // them.
  bool MovesSmem(int64_t address, int64_t bytes, bool store) const;
  // A timing-only run brought such bytes to SMEM, where they could steer it.
  bool needs_values() const { return needs_values_; }
  int last_copy() const { return last_copy_; }  // of the transfer completed last; -1: none

 private:
  bool Step(double limit);  // the next event not after `limit`
  void Admit(double now);
  void Complete(const Transfer& t, int64_t cycle);
  void Move(const Transfer& t);
  std::string Race(const Transfer& t) const;
  bool Unknown(const Side& side) const;
  void MarkRows(const Side& side, bool destination, bool on);
  double Rate() const;
  double StreamEnd(size_t* which) const;
  double NextCompletion(size_t* which) const;
  int64_t StepToCompletion(int64_t now);
  template <class F>
  void ForEachOutstanding(F f) const;

  Memory* memory_ = nullptr;
  RunResult* result_ = nullptr;
  bool strict_ = true, values_ = true, trace_ = false;
  double hbm_rate_ = 1, limit_ = 1, fixed_ = 0, segment_ = 0;
  int in_flight_limit_ = 1, in_flight_ = 0;
  int outstanding_ = 0;
  std::deque<Transfer> waiting_;   // for a place
  std::deque<Transfer> latency_;   // fixed part, in order of `at`
  std::vector<Transfer> flowing_;  // sharing HBM
  std::vector<Transfer> tail_;     // bytes done, completes at `at`
  double served_ = 0, served_at_ = 0;
  int last_copy_ = -1;
  std::vector<bool> stale_;  // timing-only: pages of HBM written by vectors, their bytes unknown
  bool needs_values_ = false;
};

}  // namespace tpuc::interp
