// The keys by which the instruction table names a chip's latencies and issue intervals.
#pragma once

#include <cstdint>

namespace tpuc {

enum class LatencyKey : uint8_t {
#define LATENCY(id, text) id,
#include "backend/chip/keys.def"
#undef LATENCY
  kCount
};
enum class IntervalKey : uint8_t {
#define INTERVAL(id, text) id,
#include "backend/chip/keys.def"
#undef INTERVAL
  kCount
};

}  // namespace tpuc
