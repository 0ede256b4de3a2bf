#include "backend/interp/tracer.h"

#include <algorithm>

namespace tpuc::interp {
namespace {

// Spans that a trace keeps before it bridges longer gaps.
constexpr size_t kMostSpans = 200'000;

}  // namespace

std::vector<std::string> TraceLanes(const Chip& chip) {
  std::vector<std::string> lanes;
  for (int i = 0; i < chip.mxus; ++i) lanes.push_back("mxu" + std::to_string(i));
  for (int i = 0; i < chip.mxus; ++i) lanes.push_back("mxu" + std::to_string(i) + " weights");
  for (int i = 0; i < chip.xlus; ++i) lanes.push_back("xlu" + std::to_string(i));
  for (const char* name : {"eup", "valu", "load", "store", "salu"}) lanes.push_back(name);
  return lanes;
}

// Where an instruction works, and for how many cycles it keeps the unit; lane -1: nowhere shown.
Tracer::Use Tracer::UseOf(const isa::Inst& inst, const Chip& chip) {
  const int weights = chip.mxus, xlu = 2 * chip.mxus, eup = xlu + chip.xlus;
  const isa::OpInfo& info = isa::Info(inst.op);
  const int unit = std::max<int>(0, inst.unit);
  switch (info.slot) {
    case isa::Slot::kEup:
      return {eup, 1};
    case isa::Slot::kValu:
      return {eup + 1, 1};
    case isa::Slot::kLoad:
      return {eup + 2, 1};
    case isa::Slot::kStore:
      return {eup + 3, 1};
    case isa::Slot::kSalu:
      return {eup + 4, 1};
    case isa::Slot::kVex: {
      const int64_t busy = std::max<int64_t>(1, chip.interval(info.interval));
      if (info.unit == isa::Unit::kXlu && unit < chip.xlus) return {xlu + unit, busy};
      if (info.unit != isa::Unit::kMxu || unit >= chip.mxus) return {-1, 0};
      return {(info.interval == IntervalKey::kMatmulF32 ? 0 : weights) + unit, busy};
    }
    default:
      return {-1, 0};
  }
}

Tracer::Tracer(const isa::Program& program, const Chip& chip) : ranges_(program.sources.size()) {
  open_.resize(TraceLanes(chip).size());
  for (size_t i = 0; i < open_.size(); ++i) open_[i] = {static_cast<int>(i), -1, -1, 0};
  for (const isa::Function& f : program.kernels) AddFunction(f, chip);
  AddFunction(program.tlp, chip);
}

void Tracer::AddFunction(const isa::Function& f, const Chip& chip) {
  std::vector<Work>& bundles = work_.emplace_back();
  for (const isa::Bundle& b : f.bundles) {
    Work& w = bundles.emplace_back();
    for (const isa::Inst& inst : b.insts) {
      const Use use = UseOf(inst, chip);
      bool known = std::any_of(w.uses.begin(), w.uses.end(),
                               [&](const Use& u) { return u.lane == use.lane; });
      if (use.lane >= 0 && !known) w.uses.push_back(use);
      const int row = inst.source;
      if (row >= 0 && row < static_cast<int>(ranges_.size()) &&
          std::find(w.sources.begin(), w.sources.end(), row) == w.sources.end()) {
        w.sources.push_back(row);
      }
    }
  }
}

void Tracer::Begin() { ++call_; }

void Tracer::Busy(int lane, int64_t cycle, int64_t busy) {
  UnitSpan& span = open_[lane];
  if (span.end >= 0 && cycle - span.end <= gap_) {
    // A unit is never busy twice in a cycle: a later start waits for the interval.
    span.busy += cycle + busy - std::max(cycle, span.end);
    span.end = std::max(span.end, cycle + busy);
    return;
  }
  if (span.end >= 0) done_.push_back(span);
  span = {lane, cycle, cycle + busy, busy};
  if (done_.size() > kMostSpans) Coarsen();
}

// Doubles the gap until no more than half as many spans are left.
void Tracer::Coarsen() {
  while (done_.size() > kMostSpans / 2) {
    gap_ *= 2;
    std::vector<UnitSpan> kept;
    std::vector<int64_t> last(open_.size(), -1);
    for (const UnitSpan& s : done_) {
      const int64_t at = last[s.lane];
      if (at >= 0 && s.start - kept[at].end <= gap_) {
        kept[at].end = s.end;
        kept[at].busy += s.busy;
      } else {
        last[s.lane] = static_cast<int64_t>(kept.size());
        kept.push_back(s);
      }
    }
    done_ = std::move(kept);
  }
}

void Tracer::Issue(int kernel, int bundle, int64_t cycle) {
  const size_t function = kernel < 0 ? work_.size() - 1 : static_cast<size_t>(kernel);
  const Work& w = work_[function][bundle];
  for (const Use& u : w.uses) Busy(u.lane, cycle, u.busy);
  if (kernel < 0) return;
  for (int row : w.sources) {
    Range& r = ranges_[row];
    if (r.first < 0) {
      r.first = cycle;
      touched_.push_back(row);
    }
    r.last = cycle;
    ++r.count;
  }
}

void Tracer::End(RunResult* result) {
  for (int row : touched_) {
    result->op_spans.push_back(
        {call_, row, ranges_[row].first, ranges_[row].last + 1, ranges_[row].count});
    ranges_[row] = {};
  }
  touched_.clear();
}

void Tracer::Finish(RunResult* result) {
  for (UnitSpan& span : open_) {
    if (span.end >= 0) done_.push_back(span);
    span.end = -1;
  }
  std::stable_sort(done_.begin(), done_.end(), [](const UnitSpan& a, const UnitSpan& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.start < b.start;
  });
  result->unit_spans = std::move(done_);
}

}  // namespace tpuc::interp
