// Event simulation of the DMA engine (dma.h). Four stages: waiting for a place, fixed latency,
// flowing (equal shares of the HBM bandwidth), tail of a strided transfer. With equal shares the
// bytes served to each sharer grow alike, so one counter and each transfer's target suffice.
#include "backend/interp/dma.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tpuc::interp {
namespace {

constexpr int64_t kPage = 4096;
constexpr double kNever = 1e300;

// The same bytes as steps of a stride that goes up.
Side Upward(Side side) {
  if (side.stride == 0) side.steps = 1;
  if (side.stride < 0) {
    side.address = side.low();
    side.stride = -side.stride;
  }
  return side;
}

bool Overlap(const Side& x, const Side& y) {
  if (x.memory != y.memory || x.low() >= y.high() || y.low() >= x.high()) return false;
  const Side a = Upward(x), b = Upward(y);
  for (int64_t i = 0; i < a.steps; ++i) {
    int64_t low = a.address + i * a.stride, high = low + a.piece;
    int64_t first = 0, last = b.steps - 1;
    if (b.stride > 0) {  // the steps of b that can meet [low, high)
      first = std::max<int64_t>(0, (low - b.address - b.piece) / b.stride);
      last = std::min(last, (high - b.address) / b.stride);
    }
    for (int64_t j = first; j <= last; ++j) {
      int64_t other = b.address + j * b.stride;
      if (low < other + b.piece && other < high) return true;
    }
  }
  return false;
}

const char* Name(isa::Memory m) {
  switch (m) {
    case isa::Memory::kHbm:
      return "HBM";
    case isa::Memory::kVmem:
      return "VMEM";
    case isa::Memory::kSmem:
      return "SMEM";
    case isa::Memory::kSync:
      return "sync flags";
  }
  return "";
}

}  // namespace

void DmaEngine::Init(const Chip& chip, Memory* memory, bool strict, bool values, RunResult* result,
                     bool trace) {
  memory_ = memory;
  result_ = result;
  strict_ = strict;
  values_ = values;
  trace_ = trace;
  hbm_rate_ = chip.hbm_bytes_per_cycle;
  limit_ = chip.vmem_dma_bytes_per_cycle;
  fixed_ = chip.dma_fixed_cycles;
  segment_ = chip.dma_segment_cycles;
  in_flight_limit_ = chip.dma_in_flight;
  if (!values) stale_.assign(memory->hbm.size() / kPage + 1, false);
}

template <class F>
void DmaEngine::ForEachOutstanding(F f) const {
  for (const Transfer& t : waiting_) f(t);
  for (const Transfer& t : latency_) f(t);
  for (const Transfer& t : flowing_) f(t);
  for (const Transfer& t : tail_) f(t);
}

bool DmaEngine::UsesFlag(int flag) const {
  bool used = false;
  ForEachOutstanding([&](const Transfer& t) { used |= t.flag == flag; });
  return used;
}

int DmaEngine::SourceOf(int flag) const {
  int source = -1;
  ForEachOutstanding([&](const Transfer& t) {
    if (t.flag == flag && source < 0) source = t.source;
  });
  return source;
}

const Transfer* DmaEngine::Toucher(isa::Memory memory, int64_t address, int64_t bytes) const {
  const Transfer* found = nullptr;
  const Side side{memory, address, 0, bytes, 1};
  ForEachOutstanding([&](const Transfer& t) {
    if (Overlap(t.to, side) || (found == nullptr && Overlap(t.from, side))) found = &t;
  });
  return found;
}

bool DmaEngine::MovesSmem(int64_t address, int64_t bytes, bool store) const {
  bool hit = false;
  const auto touches = [&](const Side& side) {
    return side.memory == isa::Memory::kSmem && side.low() < address + bytes &&
           address < side.high();
  };
  ForEachOutstanding(
      [&](const Transfer& t) { hit |= touches(t.to) || (store && touches(t.from)); });
  return hit;
}

bool DmaEngine::Unknown(const Side& side) const {
  if (values_) return false;
  if (side.memory != isa::Memory::kHbm) return side.memory == isa::Memory::kVmem;
  for (int64_t i = side.low() / kPage; i <= (side.high() - 1) / kPage; ++i) {
    if (stale_[i]) return true;
  }
  return false;
}

std::string DmaEngine::Race(const Transfer& t) const {
  std::string what;
  ForEachOutstanding([&](const Transfer& other) {
    if (!what.empty()) return;
    if (Overlap(t.to, other.to)) {
      what = absl::StrCat("writes ", Name(t.to.memory), " that the transfer started in cycle ",
                          other.start, " will write");
    } else if (Overlap(t.to, other.from)) {
      what = absl::StrCat("writes ", Name(t.to.memory), " that the transfer started in cycle ",
                          other.start, " will read");
    } else if (Overlap(t.from, other.to)) {
      what = absl::StrCat("reads ", Name(t.from.memory), " that the transfer started in cycle ",
                          other.start, " will write");
    }
  });
  if (what.empty() && Overlap(t.from, t.to)) what = "has overlapping source and destination";
  return what;
}

void DmaEngine::MarkRows(const Side& side, bool destination, bool on) {
  if (side.memory != isa::Memory::kVmem || side.piece == 0) return;
  for (int64_t i = 0; i < side.steps; ++i) {
    int64_t low = side.address + i * side.stride;
    for (int64_t r = low / kRowBytes; r <= (low + side.piece - 1) / kRowBytes; ++r) {
      uint16_t& row = memory_->rows[r];
      if (destination) {
        row = static_cast<uint16_t>(on ? (row | kRowDestination)
                                       : ((row & ~kRowDestination) | kRowWritten));
      } else {
        row = static_cast<uint16_t>(on ? row + kRowSource : row - kRowSource);
      }
    }
  }
}

std::string DmaEngine::Start(Transfer t, int64_t now, bool instant) {
  Advance(now);
  if (strict_) {
    std::string race = Race(t);
    if (!race.empty()) return race;
  }
  t.start = now;
  if (t.copy >= 0 && result_->copies[t.copy].start < 0) result_->copies[t.copy].start = now;
  if (strict_) {
    MarkRows(t.from, false, true);
    MarkRows(t.to, true, true);
  }
  if (instant) {
    Complete(t, now);
    return "";
  }
  KernelRun& by = t.kernel < 0 ? result_->tlp : result_->kernels[t.kernel];
  if (t.from.memory == isa::Memory::kHbm) by.hbm_read_bytes += t.bytes;
  if (t.to.memory == isa::Memory::kHbm) by.hbm_written_bytes += t.bytes;
  ++outstanding_;
  waiting_.push_back(std::move(t));
  Admit(static_cast<double>(now));
  return "";
}

void DmaEngine::Admit(double now) {
  while (!waiting_.empty() && in_flight_ < in_flight_limit_) {
    Transfer t = std::move(waiting_.front());
    waiting_.pop_front();
    t.at = now + fixed_;
    ++in_flight_;
    latency_.push_back(std::move(t));
  }
}

double DmaEngine::Rate() const {
  return flowing_.empty() ? 0 : std::min(limit_, hbm_rate_ / static_cast<double>(flowing_.size()));
}

double DmaEngine::StreamEnd(size_t* which) const {
  double end = kNever;
  for (size_t i = 0; i < flowing_.size(); ++i) {
    double at = served_at_ + std::max(0.0, flowing_[i].target - served_) / Rate();
    if (at < end) {
      end = at;
      *which = i;
    }
  }
  return end;
}

double DmaEngine::NextCompletion(size_t* which) const {
  double at = kNever;
  for (size_t i = 0; i < tail_.size(); ++i) {
    if (tail_[i].at < at) {
      at = tail_[i].at;
      *which = i;
    }
  }
  return at;
}

bool DmaEngine::Step(double limit) {
  size_t stream = 0, last = 0;
  double arrival = latency_.empty() ? kNever : latency_.front().at;
  double end = StreamEnd(&stream);
  double completion = NextCompletion(&last);
  double next = std::min({arrival, end, completion});
  if (next > limit || next == kNever) return false;
  if (completion == next) {
    Transfer t = std::move(tail_[last]);
    tail_.erase(tail_.begin() + last);
    --in_flight_;
    --outstanding_;
    Complete(t, static_cast<int64_t>(completion));
    Admit(completion);
    return true;
  }
  served_ += Rate() * (next - served_at_);
  served_at_ = next;
  Transfer t;
  double done = next;
  if (end == next) {
    t = std::move(flowing_[stream]);
    flowing_.erase(flowing_.begin() + stream);
  } else {
    t = std::move(latency_.front());
    latency_.pop_front();
    int hbm_sides = (t.from.memory == isa::Memory::kHbm) + (t.to.memory == isa::Memory::kHbm);
    if (hbm_sides > 0 && t.bytes > 0) {
      t.target = served_ + static_cast<double>(t.bytes) * hbm_sides;
      flowing_.push_back(std::move(t));
      return true;
    }
    done += static_cast<double>(t.bytes) / limit_;
  }
  t.at = std::ceil(done + segment_ * static_cast<double>(t.from.steps - 1) - 1e-6);
  tail_.push_back(std::move(t));
  return true;
}

void DmaEngine::Advance(int64_t cycle) {
  if (outstanding_ == 0) return;
  while (Step(static_cast<double>(cycle))) {
  }
}

// Runs until one transfer completes; its cycle, or -1: nothing is under way.
int64_t DmaEngine::StepToCompletion(int64_t now) {
  int before = outstanding_;
  while (before > 0) {
    size_t which = 0;
    double completion = NextCompletion(&which);
    if (!Step(kNever / 2)) return -1;
    if (outstanding_ != before) return std::max(now, static_cast<int64_t>(completion));
  }
  return -1;
}

int64_t DmaEngine::WaitFor(int flag, int64_t granules, int64_t now) {
  Advance(now);
  last_copy_ = -1;
  int64_t done = now;
  while (memory_->flags[flag] < granules) {
    done = StepToCompletion(done);
    if (done < 0) return -1;
  }
  return done;
}

int64_t DmaEngine::Drain(int64_t now) {
  int64_t done = now;
  while (outstanding_ > 0) {
    int64_t cycle = StepToCompletion(done);
    if (cycle < 0) break;
    done = cycle;
  }
  return done;
}

void DmaEngine::Complete(const Transfer& t, int64_t cycle) {
  Move(t);
  if (strict_) {
    MarkRows(t.from, false, false);
    MarkRows(t.to, true, false);
  }
  memory_->flags[t.flag] += t.bytes / kGranuleBytes;
  last_copy_ = t.copy;
  if (t.copy >= 0) result_->copies[t.copy].done = cycle;
  if (trace_) result_->dma_spans.push_back({t.start, cycle, t.bytes, t.kernel, t.source, t.op});
}

void DmaEngine::Move(const Transfer& t) {
  if (t.bytes == 0) return;
  auto base = [&](const Side& side) -> uint8_t* {
    switch (side.memory) {
      case isa::Memory::kHbm:
        return memory_->hbm.data();
      case isa::Memory::kVmem:
        return memory_->vmem.data();
      default:
        return reinterpret_cast<uint8_t*>(memory_->smem.data());
    }
  };
  if (t.to.memory == isa::Memory::kSmem) {
    std::fill_n(memory_->smem_written.begin() + t.to.address / 4, t.bytes / 4, 1);
  }
  if (Unknown(t.from)) {
    needs_values_ |= t.to.memory == isa::Memory::kSmem;
    if (t.to.memory == isa::Memory::kHbm) {
      std::fill(stale_.begin() + t.to.low() / kPage, stale_.begin() + (t.to.high() - 1) / kPage + 1,
                true);
    }
    return;
  }
  if (!values_ && t.to.memory == isa::Memory::kVmem) return;
  const uint8_t* from = base(t.from) + t.from.address;
  uint8_t* to = base(t.to) + t.to.address;
  for (int64_t i = 0; i < t.from.steps; ++i) {
    std::memmove(to + i * t.to.stride, from + i * t.from.stride, t.from.piece);
  }
}

}  // namespace tpuc::interp
