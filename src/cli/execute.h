// Running a compiled program on the interpreter: literals in, literals and counts out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "backend/report/stats.h"
#include "src/cli/inputs.h"
#include "src/diag/diag.h"
#include "src/ir/literal.h"

namespace tpuc::cli {

struct ExecuteOptions {
  const Chip* chip = nullptr;  // null: the one that the program carries
  bool timing_only = false;
  bool warm = false;       // leave the cross-program copy out
  bool spans = false;      // record when kernels ran (RunStats::spans)
  bool trace = false;      // make Execution::trace
  int64_t max_cycles = 0;  // 0: no limit
  std::optional<uint64_t> permute_parallel;
  std::string simd;  // "": the best; avx512, avx2, scalar
};

struct Execution {
  std::vector<Literal> outputs;  // logical; empty if timing only
  RunStats stats;
  Chip chip;          // that it ran on
  std::string trace;  // Chrome's JSON
};

// The program's inputs as logical shapes. Nothing where a shape is not understood.
std::optional<std::vector<InputPort>> InputPorts(const isa::Program& program, DiagSink* diags);
// Nothing and diagnostics on a fault of the simulated program.
std::optional<Execution> Execute(const isa::Program& program, const std::vector<Literal>& inputs,
                                 const ExecuteOptions& options, DiagSink* diags);

}  // namespace tpuc::cli
