// A chip description: every number of a machine, read from a .chip file in which each has its kind
// (measured, published, derived, assumed) and source. No chip number stands anywhere else.
//
// File: lines `name = value  kind  "source"` under [section] headings; # comments. See v6e.chip.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "backend/chip/keys.h"
#include "src/diag/diag.h"

namespace tpuc {

struct ChipRow {  // for `tpuc list chips`
  std::string section, name, value, kind, source;
};

struct Chip {
  std::string name;
  std::string text;  // the file
  // [machine]
  double clock_mhz = 0;
  int vector_registers = 0, mask_registers = 0, scalar_registers = 0, predicate_registers = 0;
  int sublanes = 0, lanes = 0;
  int mxus = 0, mxu_size = 0, xlus = 0;
  int delay_slots = 0;  // bundles after a branch that always issue
  // [slots] of one bundle
  int salu = 0, valu = 0, eup = 0, vex = 0, pop = 0, load = 0, store = 0;
  int memory_total = 0;  // loads + stores + misc
  int misc = 0;          // sync, wait, trace, vpush ...
  int smem_access = 0;   // sld + sst
  int branch = 0, dma_start = 0;
  int immediates = 0;  // distinct literal immediates a bundle
  // [queues] entries, per unit
  int mrf_depth = 0, xlu_depth = 0, eup_depth = 0, v2s_depth = 0;
  // [memory]
  int64_t hbm_bytes = 0, vmem_bytes = 0, smem_bytes = 0;
  int sync_flags = 0;
  int64_t scoped_vmem_bytes = 0;        // default limit of one kernel's windows and scratch
  double hbm_bytes_per_cycle = 0;       // shared by all transfers
  double vmem_dma_bytes_per_cycle = 0;  // one transfer's limit
  int dma_fixed_cycles = 0;             // issue to first byte
  int dma_segment_cycles = 0;           // each further step of a strided transfer
  int dma_in_flight = 0;                // more wait
  std::array<int, static_cast<int>(LatencyKey::kCount)> latencies{};
  std::array<int, static_cast<int>(IntervalKey::kCount)> intervals{};
  int eup_bits = 0;  // 0: correctly rounded to 1 ulp; n: results cut to n mantissa bits
  std::vector<ChipRow> rows;

  // Tiles of 128 along a side of an MXU, 1 or 2: registers of K that a matmul takes at most, and
  // results that it gives.
  int mxu_tiles() const { return lanes > 0 ? std::max(1, mxu_size / lanes) : 1; }
  int latency(LatencyKey k) const { return latencies[static_cast<int>(k)]; }
  int interval(IntervalKey k) const { return intervals[static_cast<int>(k)]; }
};

// Parses a chip file. Every known name must be there once, unknown names are errors. Null on error.
std::unique_ptr<Chip> ParseChip(std::shared_ptr<const Source> source, DiagSink* diags);
// A chip built into tpuc by name ("v6e"), or null.
const Chip* BuiltinChip(absl::string_view name);
std::vector<std::string> BuiltinChipNames();

}  // namespace tpuc
