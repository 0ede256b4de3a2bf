// What lives in VMEM (vmem_plan.h). Three kinds of buffers ask for room, in this order:
//
//   1. one parameter, the largest of the first kernel that reads any: copied in before the
//   program's first kernel
//      (by the previous program, if it was this one), kept to the end so that the next run finds it
//   2. intermediates, by saved bytes per byte of room: every write and read of a buffer in VMEM
//   saves
//      its bytes at HBM's rate, so the one with most uses comes first, the larger of equals before
//   3. parameters, constants and evicted buffers, by their first read: copied in as early as there
//   is
//      room, not before the first kernel (whose operands would wait behind the copy), if that saves
//      more than it makes its reader wait
//
// An intermediate with no room for all its life may have it until one of its reads, and is then
// copied out (evicted) for the reads that follow.
#include "passes/vmem_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "passes/address_space.h"
#include "passes/kernel_time.h"
#include "passes/op_cost.h"
#include "src/ir/kernel_call.h"

namespace tpuc {

int64_t VmemForBuffers(const Chip& chip) {
  return std::max<int64_t>(0, chip.vmem_bytes - chip.scoped_vmem_bytes);
}

std::vector<double> StartTimes(const Computation& entry, const Chip& chip) {
  std::vector<double> start = {0};
  for (const auto& i : entry.instructions) start.push_back(start.back() + KernelCycles(*i, chip));
  return start;
}

namespace {

constexpr int64_t kLargeWeights = 1 << 20;  // bytes

bool HasDot(const Instruction& i) {
  if (i.op == Op::kDot) return true;
  if (i.op != Op::kFusion) return false;
  const auto& body = i.ComputationAttr(AttrId::kCalls)->instructions;
  return std::any_of(body.begin(), body.end(), [](const auto& x) { return x->op == Op::kDot; });
}

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
  double FetchCycles(int64_t position, int64_t bytes) const {
    double covered = HasDot(At(position)) ? 0 : start_[position + 1] - start_[position];
    return chip_.dma_fixed_cycles + std::max(0.0, HbmCycles(bytes, chip_) - covered);
  }
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

std::string NameOf(const LiveBuffer& b) {
  return b.leaf == 0 && !b.instruction->shape.IsTuple()
             ? b.instruction->name
             : absl::StrCat(b.instruction->name, "_", b.leaf);
}

// Made and read by kernels only (or a parameter or constant read by them), and no result.
bool Planner::MayLiveInVmem(const LiveBuffer& b) const {
  if (b.bytes == 0 || b.result || b.reads.empty()) return false;
  if (b.shape.layout && b.shape.layout->memory_space != 0) return false;
  if (!b.parameter && !b.constant && !IsKernel(*b.instruction)) return false;
  if (b.parameter && b.instruction->shape.IsTuple()) return false;
  if (IsKernelCall(*b.instruction) &&
      !(context_.result_in_vmem && context_.result_in_vmem(*b.instruction, b.leaf))) {
    return false;
  }
  for (int64_t read : b.reads) {
    if (!IsKernel(At(read)) || !CallTakes(At(read), b)) return false;
  }
  return true;
}

// A call of a kernel file can have the buffer in VMEM wherever it reads it.
bool Planner::CallTakes(const Instruction& reader, const LiveBuffer& b) const {
  if (!IsKernelCall(reader)) return true;
  for (size_t n = 0; n < reader.operands.size(); ++n) {
    const int buffer = ranges_.Find(reader.operands[n]);
    if (buffer < 0 || &ranges_.buffers[buffer] != &b) continue;
    if (!context_.operand_in_vmem || !context_.operand_in_vmem(reader, static_cast<int64_t>(n))) {
      return false;
    }
  }
  return true;
}

int64_t Planner::FindFirstKernel() const {
  for (int64_t n = 0; n < ranges_.length; ++n) {
    if (IsKernel(At(n))) return n;
  }
  return ranges_.length;
}

int Planner::CopiesUnderWay(int64_t from, int64_t to) const {
  return begun_.UpTo(to) - read_.UpTo(from - 1);
}

void Planner::Stay(const VmemStay& stay) {
  stays_.push_back(stay);
  stays_of_[stay.buffer] = 1;
  if (!stay.prefetch) return;
  begun_.Add(stay.from);
  read_.Add(stay.first_read);
}

void Planner::CrossProgram() {
  int64_t first = ranges_.length;  // the first kernel that reads a parameter at all
  for (const LiveBuffer& b : ranges_.buffers) {
    if (b.parameter && MayLiveInVmem(b)) first = std::min(first, b.reads[0]);
  }
  int best = -1;
  for (size_t n = 0; n < ranges_.buffers.size(); ++n) {
    const LiveBuffer& b = ranges_.buffers[n];
    if (!b.parameter || !MayLiveInVmem(b) || b.reads[0] != first) continue;
    if (best >= 0 && b.bytes <= ranges_.buffers[best].bytes) continue;
    if (space_.Find(b.bytes, 0, ranges_.length - 1) < 0) {
      context_.Remark(NameOf(b), ": no cross-program copy, ", b.bytes, " bytes asked, ",
                      space_.LargestGap(0, ranges_.length - 1), " available");
      continue;
    }
    best = static_cast<int>(n);
  }
  if (best < 0) return;
  const LiveBuffer& b = ranges_.buffers[best];
  VmemStay stay;
  stay.buffer = best;
  stay.from = 0;
  stay.to = ranges_.length - 1;
  stay.offset = space_.Place(b.bytes, stay.from, stay.to);
  stay.prefetch = stay.cross_program = true;
  stay.first_read = b.reads[0];
  Stay(stay);
  context_.Remark(
      absl::StrFormat("%s: VMEM %d, %d bytes, cross-program copy: the largest parameter of "
                      "the first kernel that reads any",
                      NameOf(b), stay.offset, b.bytes));
}

void Planner::Intermediates() {
  std::vector<int> order;
  for (size_t n = 0; n < ranges_.buffers.size(); ++n) {
    const LiveBuffer& b = ranges_.buffers[n];
    if (!b.parameter && !b.constant && MayLiveInVmem(b)) order.push_back(static_cast<int>(n));
  }
  // Saved bytes over bytes of room: the number of times the buffer is written and read.
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
    const LiveBuffer &a = ranges_.buffers[x], &b = ranges_.buffers[y];
    return std::make_pair(a.reads.size(), a.bytes) > std::make_pair(b.reads.size(), b.bytes);
  });
  for (int n : order) {
    const LiveBuffer& b = ranges_.buffers[n];
    VmemStay stay;
    stay.buffer = n;
    stay.from = b.from;
    stay.to = b.to;
    stay.offset = space_.Place(b.bytes, b.from, b.to);
    if (stay.offset >= 0) Stay(stay);
    const bool evicted = stay.offset < 0 && TryEvict(n);
    if (!context_.remarks || evicted) continue;
    double saved = HbmCycles(b.bytes, chip_) * (1 + b.reads.size());
    std::string what = absl::StrFormat(
        "%s: %d bytes, written once, read %d times, alive %d-%d, "
        "saves %.1f cycles",
        NameOf(b), b.bytes, b.reads.size(), b.from, b.to, saved);
    if (stay.offset >= 0) {
      context_.Remark(what, ": VMEM ", stay.offset);
    } else {
      context_.Remark(what, ": stays in HBM, largest gap ", space_.LargestGap(b.from, b.to));
    }
  }
}

// Room until one of the reads, the longest such stay, and a copy out for the rest.
bool Planner::TryEvict(int buffer) {
  const LiveBuffer& b = ranges_.buffers[buffer];
  const int64_t kept = LastWhere(1, static_cast<int64_t>(b.reads.size()) - 1, [&](int64_t n) {
    return space_.Find(b.bytes, b.from, b.reads[n - 1]) >= 0;
  });
  if (kept < 1) return false;
  // The copy out must have time: it is waited for right behind the last read from VMEM.
  double time = start_[b.reads[kept - 1] + 1] - start_[b.from + 1];
  if (time < chip_.dma_fixed_cycles + HbmCycles(b.bytes, chip_)) return false;
  VmemStay stay;
  stay.buffer = buffer;
  stay.from = b.from;
  stay.to = b.reads[kept - 1];
  stay.offset = space_.Place(b.bytes, stay.from, stay.to);
  stay.evict = true;
  Stay(stay);
  in_hbm_from_[buffer] = b.reads[kept - 1] + 1;
  context_.Remark(
      absl::StrFormat("%s: VMEM %d for its first %d reads, then evicted: no gap of %d "
                      "bytes for all of its life",
                      NameOf(b), stay.offset, kept, b.bytes));
  return true;
}

// Bytes that the first kernel reads from HBM itself.
double Planner::FetchedByFirst() const {
  double fetched = 0;
  for (const Instruction* operand : At(FirstKernel()).operands) {
    int n = ranges_.Find(operand);
    if (n >= 0 && !stays_of_[n]) fetched += static_cast<double>(ranges_.buffers[n].bytes);
  }
  return fetched;
}

// The net gain in cycles of a copy that starts at `from` for reads from position `use` on, which
// take `saved` cycles less.
double Planner::Gain(const LiveBuffer& b, double saved, int64_t use, int64_t from) const {
  double copy = chip_.dma_fixed_cycles + HbmCycles(b.bytes, chip_);
  double wait = std::max(0.0, copy - (start_[use] - start_[from]));
  // Operands that the first kernel fetches itself share the bandwidth.
  double shared = 0;
  if (from == FirstKernel() && use > from) {
    shared = HbmCycles(std::min(static_cast<double>(b.bytes), FetchedByFirst()), chip_);
  }
  return saved - wait - shared;
}

// Where a copy for a read at `use` may start, in order.
std::vector<int64_t> Planner::Starts(const LiveBuffer& b, int64_t use, int64_t earliest) const {
  std::vector<int64_t> starts;
  double copy = chip_.dma_fixed_cycles + HbmCycles(b.bytes, chip_);
  bool hidden = use > earliest && start_[use] - start_[earliest] >= copy / 2;
  // Beside the first kernel where that costs it nothing, or where there is no other time.
  const bool beside_first = earliest == FirstKernel() + 1 && use >= earliest;
  if (beside_first && (!hidden || FetchedByFirst() == 0)) starts.push_back(earliest - 1);
  // Copies start right behind a kernel: nothing changes in between.
  for (int64_t from = earliest; from < use; ++from) {
    if (from == earliest || IsKernel(At(from - 1))) starts.push_back(from);
  }
  return starts;
}

void Planner::AdvanceClock(int64_t position) {
  for (; now_known_ < position; ++now_known_) now_[now_known_ + 1] += waited_;
}

// The number of the start that suits the copies planned so far, which share the bandwidth with this
// one and whose kernels run before: when its first bytes flow as theirs end, if it is then still
// there in time; otherwise the start before, so that the HBM does not pause between them. Much
// earlier would only delay them.
int64_t Planner::PreferredStart(const std::vector<int64_t>& starts, int64_t use,
                                int64_t bytes) const {
  const int64_t behind =
      std::partition_point(starts.begin(), starts.end(),
                           [&](int64_t p) {
                             return now_[p] + chip_.dma_fixed_cycles < copies_end_;
                           }) -
      starts.begin();
  const bool in_time =
      behind < static_cast<int64_t>(starts.size()) &&
      now_[starts[behind]] + chip_.dma_fixed_cycles + HbmCycles(bytes, chip_) <= now_[use];
  return in_time ? behind : std::max<int64_t>(0, behind - 1);
}

// A stay for reads[first] and as many behind it as find room. Returns how many; 0: none.
size_t Planner::Prefetch(int buffer, size_t first) {
  const LiveBuffer& b = ranges_.buffers[buffer];
  const int64_t use = b.reads[first];
  const double copy = chip_.dma_fixed_cycles + HbmCycles(b.bytes, chip_);
  AdvanceClock(use);
  int64_t earliest = std::max(FirstKernel(), b.defined) + 1;
  earliest = std::max({earliest, in_hbm_from_[buffer], use - kCopyReach});
  std::vector<int64_t> starts = Starts(b, use, earliest);
  // Large weights of the first kernel are waited for before it runs, so that the copies for the
  // next kernels flow behind its work and not beside its own fetch.
  const bool ahead_of_all = use == FirstKernel() && HasDot(At(use)) && b.bytes >= kLargeWeights &&
                            b.shape.rank() == 2 && b.parameter;
  if (ahead_of_all) starts.push_back(use - 1 > b.defined ? use - 1 : use);
  const int64_t count = static_cast<int64_t>(starts.size());
  const int64_t preferred = PreferredStart(starts, use, b.bytes);
  auto room = [&](int64_t start, int64_t last) {
    return space_.Find(b.bytes, starts[start], b.reads[last]) >= 0;
  };
  // Fewer reads save less, but leave room for earlier starts: starts from `tried` on have failed.
  const int64_t low = static_cast<int64_t>(first), high = static_cast<int64_t>(b.reads.size()) - 1;
  for (int64_t tried = count, last = high; tried > 0;) {
    last = LastWhere(low, last, [&](int64_t n) { return room(tried - 1, n); });
    if (last < low) break;
    const int64_t open =
        tried - 1 - LastWhere(0, tried - 1, [&](int64_t n) { return room(tried - 1 - n, last); });
    double saved = 0;
    for (int64_t n = low; n <= last; ++n) saved += FetchCycles(b.reads[n], b.bytes);
    for (int64_t n = open - 1; n < tried; ++n) {
      const bool first_try = n < open;
      const int64_t s = first_try ? preferred : n;
      if (s < open || s >= tried || (!first_try && s == preferred)) continue;
      const int64_t from = starts[s];
      if (CopiesUnderWay(from, use) >= chip_.dma_in_flight - 4) continue;
      const double gain = Gain(b, saved, use, from);
      if (gain <= 0 && !ahead_of_all) continue;
      VmemStay stay;
      stay.buffer = buffer;
      stay.from = from;
      stay.to = b.reads[last];
      stay.offset = space_.Place(b.bytes, from, stay.to);
      stay.prefetch = true;
      stay.first_read = use;
      Stay(stay);
      if (!ahead_of_all) {
        copies_end_ = std::max(copies_end_, now_[from] + chip_.dma_fixed_cycles) +
                      HbmCycles(b.bytes, chip_);
        const double wait = std::max(0.0, copies_end_ - now_[use]);
        waited_ += wait;
        now_[use] += wait;
      }
      context_.Remark(
          absl::StrFormat("%s: VMEM %d, %d bytes, copied in from position %d for %d-%d, "
                          "copy %.1f cycles, hidden behind %.1f, saves %.1f",
                          NameOf(b), stay.offset, b.bytes, from, use, stay.to, copy,
                          start_[use] - start_[from], gain));
      return static_cast<size_t>(last - low + 1);
    }
    tried = open;
  }
  context_.Remark(absl::StrFormat(
      "%s: read from HBM at %d, %d bytes: %s", NameOf(b), use, b.bytes,
      starts.empty() ? "no time to copy it ahead" : "no room, or waiting would cost more"));
  return 0;
}

void Planner::Prefetches() {
  struct Wish {
    int buffer;
    size_t first;  // read
  };
  std::vector<Wish> wishes;
  for (size_t n = 0; n < ranges_.buffers.size(); ++n) {
    const LiveBuffer& b = ranges_.buffers[n];
    if ((!b.parameter && !b.constant) || !MayLiveInVmem(b)) continue;
    if (b.constant && b.shape.IsScalar()) continue;  // kernels hold their own copy
    if (!stays_.empty() && stays_[0].cross_program && stays_[0].buffer == static_cast<int>(n)) {
      continue;
    }
    wishes.push_back({static_cast<int>(n), 0});
  }
  for (const VmemStay& stay : stays_) {
    if (!stay.evict) continue;
    const auto& reads = ranges_.buffers[stay.buffer].reads;
    size_t first = std::upper_bound(reads.begin(), reads.end(), stay.to) - reads.begin();
    if (first < reads.size()) wishes.push_back({stay.buffer, first});
  }
  std::stable_sort(wishes.begin(), wishes.end(), [&](const Wish& a, const Wish& b) {
    return ranges_.buffers[a.buffer].reads[a.first] < ranges_.buffers[b.buffer].reads[b.first];
  });
  for (const Wish& wish : wishes) {
    const auto& reads = ranges_.buffers[wish.buffer].reads;
    for (size_t first = wish.first; first < reads.size();) {
      first += std::max<size_t>(1, Prefetch(wish.buffer, first));
    }
  }
}

std::vector<VmemStay> Planner::Plan() {
  CrossProgram();
  Intermediates();
  Prefetches();
  context_.CountSteps(space_.steps());
  return std::move(stays_);
}

}  // namespace

std::vector<VmemStay> PlanVmem(const Computation& entry, const LiveRanges& ranges,
                               const PassContext& context) {
  return Planner(entry, ranges, context).Plan();
}

bool PlaceVmem(const Module& module, const LiveRanges& ranges, const PassContext& context,
               std::vector<PlacedBuffer>* placed) {
  auto rank = [](const LiveBuffer& b) {
    if (b.instruction->Has(AttrId::kCrossProgramPrefetchIndex)) return 0;
    return b.instruction->op == Op::kCopyStart ? 2 : 1;
  };
  std::vector<int> order;
  for (size_t n = 0; n < ranges.buffers.size(); ++n) {
    const LiveBuffer& b = ranges.buffers[n];
    if (b.shape.layout && b.shape.layout->memory_space == 1) order.push_back(static_cast<int>(n));
  }
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
    const LiveBuffer &a = ranges.buffers[x], &b = ranges.buffers[y];
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (rank(a) == 2) {
      int64_t first_a = a.reads.empty() ? a.from : a.reads[0];
      int64_t first_b = b.reads.empty() ? b.from : b.reads[0];
      return first_a < first_b;
    }
    return std::make_pair(a.reads.size(), a.bytes) > std::make_pair(b.reads.size(), b.bytes);
  });
  AddressSpace space(VmemForBuffers(*context.chip), kVmemGranule);
  for (int n : order) {
    const LiveBuffer& b = ranges.buffers[n];
    int64_t to = rank(b) == 0 ? ranges.length - 1 : b.to;
    int64_t offset = space.Place(b.bytes, b.from, to);
    if (offset >= 0) {
      placed->push_back({n, offset});
      continue;
    }
    Diag& diag = context.diags->Add(
        DiagCode::kVmemBudget, module.source, b.instruction->loc,
        absl::StrFormat("no room in VMEM for %s: %d bytes asked, %d of %d available in one piece",
                        NameOf(b), b.bytes, space.LargestGap(b.from, to),
                        VmemForBuffers(*context.chip)));
    std::vector<PlacedBuffer> largest = *placed;
    std::stable_sort(largest.begin(), largest.end(), [&](auto& x, auto& y) {
      return ranges.buffers[x.buffer].bytes > ranges.buffers[y.buffer].bytes;
    });
    if (largest.size() > 5) largest.resize(5);
    for (const PlacedBuffer& p : largest) {
      const LiveBuffer& other = ranges.buffers[p.buffer];
      diag.notes.push_back(
          {other.instruction->loc,
           absl::StrFormat("%s takes %d bytes at %d", NameOf(other), other.bytes, p.offset)});
    }
    diag.hint = "leave S(1) out of the layout, or make the array smaller";
    return false;
  }
  return true;
}

}  // namespace tpuc
