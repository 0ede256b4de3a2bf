// The planner behind vmem_plan.h: what is decided (vmem_plan.cc) and how copies in are timed
// (vmem_copies.cc). Internal to passes.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "passes/address_space.h"
#include "passes/vmem_plan.h"

namespace tpuc::vmem {

// How many of the positions added are at most p.
class PositionCounts {
 public:
  explicit PositionCounts(int64_t positions) : sums_(positions + 1) {}
  void Add(int64_t p) {
    for (++p; p < static_cast<int64_t>(sums_.size()); p += p & -p) ++sums_[p];
  }
  int UpTo(int64_t p) const {
    int count = 0;
    for (++p; p > 0; p -= p & -p) count += sums_[p];
    return count;
  }

 private:
  std::vector<int> sums_;  // a Fenwick tree
};

// The largest n of low..high for which `holds`, which holds up to some n: low - 1 if for none.
template <typename F>
int64_t LastWhere(int64_t low, int64_t high, const F& holds) {
  if (high < low || holds(high)) return std::max(high, low - 1);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

class Planner {
 public:
  Planner(const Computation& entry, const LiveRanges& ranges, const PassContext& context)
      : entry_(entry),
        ranges_(ranges),
        context_(context),
        chip_(*context.chip),
        space_(VmemForBuffers(chip_), kVmemGranule),
        start_(StartTimes(entry, chip_)),
        first_kernel_(FindFirstKernel()),
        stays_of_(ranges.buffers.size(), 0),
        in_hbm_from_(ranges.buffers.size(), -1),
        begun_(ranges.length + 1),
        read_(ranges.length + 1),
        now_(start_) {}
  std::vector<VmemStay> Plan();

 private:
  const Instruction& At(int64_t position) const { return *entry_.instructions[position]; }
  bool MayLiveInVmem(const LiveBuffer& b) const;
  bool CallTakes(const Instruction& reader, const LiveBuffer& b) const;
  int64_t FindFirstKernel() const;
  int64_t FirstKernel() const { return first_kernel_; }
  // Cycles that the kernel at `position` waits for its operand, if it has to fetch it from HBM: the
  // start of a copy, and what of its bytes the kernel's own work does not cover. Weights are needed
  // before the work starts.
  double FetchCycles(int64_t position, int64_t bytes) const;
  int CopiesUnderWay(int64_t from, int64_t to) const;
  void CrossProgram();
  void Intermediates();
  bool TryEvict(int buffer);
  void Prefetches();
  double FetchedByFirst() const;
  double Gain(const LiveBuffer& b, double saved, int64_t use, int64_t from) const;
  std::vector<int64_t> Starts(const LiveBuffer& b, int64_t use, int64_t earliest) const;
  int64_t PreferredStart(const std::vector<int64_t>& starts, int64_t use, int64_t bytes) const;
  size_t Prefetch(int buffer, size_t first);
  void AdvanceClock(int64_t position);
  void Stay(const VmemStay& stay);

  const Computation& entry_;
  const LiveRanges& ranges_;
  const PassContext& context_;
  const Chip& chip_;
  AddressSpace space_;
  std::vector<double> start_;
  int64_t first_kernel_;
  std::vector<VmemStay> stays_;
  std::vector<char> stays_of_;        // by buffer: it is in stays_
  std::vector<int64_t> in_hbm_from_;  // by buffer: evicted, first position to copy it from
  PositionCounts begun_, read_;       // copies in, by their start and by their first read
  // The clock of the copies: as start_, and each kernel waits for its copies. Positions up to
  // now_known_ have their waits; those behind it are still as in start_.
  std::vector<double> now_;
  int64_t now_known_ = 0;
  double waited_ = 0;      // in all
  double copies_end_ = 0;  // when the copies planned so far are done
};

// "fusion", or "fusion_1" of a kernel with several results.
std::string NameOf(const LiveBuffer& b);

}  // namespace tpuc::vmem
