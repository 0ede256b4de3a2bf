// What is known of a scalar integer node before the kernel runs: its range and what divides it.
//
//   i * 8 with i on a grid axis of 4 steps: in [0, 24], a multiple of 8.
#pragma once

#include <cstdint>

#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

struct ScalarFacts {
  bool bounded = false;
  int64_t least = 0, most = 0;  // where bounded
  int64_t divisor = 1;          // always divides the value; 0: the value is 0
};

// `loops` are the kFor nodes around the use, outermost first.
ScalarFacts FactsOf(const Kernel& kernel, NodeId node, const std::vector<NodeId>& loops);

}  // namespace tpuc::kernel
