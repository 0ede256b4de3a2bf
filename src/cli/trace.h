// The trace of one run in Chrome's JSON format, for Perfetto (ui.perfetto.dev) and
// chrome://tracing.
//
//   kernels   one slice a call, and the top-level program between: together every cycle of the run
//   mxu0 ...  when each unit worked, with the share of busy cycles
//   HLO 1 ... the operations inside each call, by op_name
//   DMA 1 ... transfers; arrows from the kernel that started one, and to what ran when it was done
//   counters  VMEM bytes in use, registers that are live at most in the running kernel
//
// One microsecond of the viewer is one cycle, so that nothing is rounded.
#pragma once

#include <string>

#include "backend/interp/interp.h"

namespace tpuc::cli {

// `run` of RunOptions::trace.
std::string TraceJson(const isa::Program& program, const Chip& chip, const interp::RunResult& run);

}  // namespace tpuc::cli
