// Copies into VMEM: when each starts, so that it is there when it is wanted and those wanted before
// it are not delayed; and which are worth their wait.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "passes/op_cost.h"
#include "passes/vmem_planner.h"

namespace tpuc::vmem {
namespace {

constexpr int64_t kLargeWeights = 1 << 20;  // bytes

bool HasDot(const Instruction& i) {
  if (i.op == Op::kDot) return true;
  if (i.op != Op::kFusion) return false;
  const auto& body = i.ComputationAttr(AttrId::kCalls)->instructions;
  return std::any_of(body.begin(), body.end(), [](const auto& x) { return x->op == Op::kDot; });
}

}  // namespace

double Planner::FetchCycles(int64_t position, int64_t bytes) const {
  double covered = HasDot(At(position)) ? 0 : start_[position + 1] - start_[position];
  return chip_.dma_fixed_cycles + std::max(0.0, HbmCycles(bytes, chip_) - covered);
}

int Planner::CopiesUnderWay(int64_t from, int64_t to) const {
  return begun_.UpTo(to) - read_.UpTo(from - 1);
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
      std::partition_point(
          starts.begin(), starts.end(),
          [&](int64_t p) { return now_[p] + chip_.dma_fixed_cycles < copies_end_; }) -
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
        copies_end_ =
            std::max(copies_end_, now_[from] + chip_.dma_fixed_cycles) + HbmCycles(b.bytes, chip_);
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

}  // namespace tpuc::vmem
