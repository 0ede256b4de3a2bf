// Writes a modulo schedule as code: the trips that start before the steady state (prologue), a loop
// of `copies` trips each of whose values has registers of its own (kernel), and the trips that end
// after it (epilogue). Queues are not empty between the three; their times are fixed.
//
//   for 10: A; B; C             A0 | A1 B0 | { A2 B1 C0 } x 8 | B9 C8 | C9
//
// Where the trips are too few for that, all of them are written out, overlapped, in one block.
#pragma once

#include <cstdint>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"
#include "backend/schedule/list.h"
#include "backend/schedule/loop_graph.h"
#include "backend/schedule/modulo.h"

namespace tpuc::schedule {

struct PipelinedLoop {
  llo::Block blocks[3];  // prologue, kernel, epilogue; the kernel branches to block `kernel`
  BlockSchedule schedules[3];
  int64_t kernel_trips = 0;  // 0: the first block is all
  int64_t cycles = 0;        // of all trips
};

// `block` is the loop's, run `trips` times; `kernel` the number its kernel will have. New names are
// taken from `function`. False if it would be too much code.
bool PipelineLoop(const LoopGraph& graph, const ModuloTimes& times, const llo::Block& block,
                  int64_t trips, int kernel, const Chip& chip, llo::Function* function,
                  PipelinedLoop* out);

}  // namespace tpuc::schedule
