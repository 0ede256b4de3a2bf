// Cycles and temporaries of one step of a body at given block sizes, from counts of registers: what
// the choice of windows compares. Latencies and stalls are the scheduler's; here a step has a fixed
// part for the longest of its units.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/kernel/dim_classes.h"
#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

class WorkEstimate {
 public:
  WorkEstimate(const Kernel& kernel, const Chip& chip);
  // `block`: by DimClasses number.
  double Cycles(const std::vector<int64_t>& block) const;
  int64_t TemporaryBytes(const std::vector<int64_t>& block) const;
  // Scratch for sums that gather over steps.
  int64_t GatherBytes(const std::vector<int64_t>& block) const;

 private:
  struct Item {  // an operation, its dimensions as classes
    std::vector<int> of;
    double valu = 0, eup = 0, xlu = 0;  // a register of `of`
    bool lanes_summed = false;
  };
  struct Dot {
    std::vector<int> batch, m, n, k;
    bool transposed = false;
    std::vector<int> result, lhs;
    bool keeps_lhs = false;  // computed: lies in VMEM for the passes
    bool keeps_rhs = false;
    std::vector<int> rhs;
  };
  static double Registers(const std::vector<int>& of, const std::vector<int64_t>& block);
  static double Product(const std::vector<int>& of, const std::vector<int64_t>& block);

  const Chip& chip_;
  std::vector<Item> items_;
  std::vector<Dot> dots_;
  std::vector<std::pair<std::vector<int>, bool>> sums_;  // results of reduces; over lanes
  std::vector<std::vector<int>> packed_;                 // narrow values that are widened
};

}  // namespace tpuc::kernel
