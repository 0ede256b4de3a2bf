// See move_plan.h.
#include "backend/lower/move_plan.h"

#include <algorithm>
#include <optional>

namespace tpuc::lower {

void MovePlan::Add(const LaneRun& lane) {
  MoveUnit& unit = units.back();
  if (unit.count > 0) {
    LaneRun& last = runs.back();
    bool follows =
        last.source == lane.source &&
        (lane.source < 0 || (last.row == lane.row && last.from + last.count == lane.from));
    if (follows) {
      last.count += lane.count;
      return;
    }
  }
  ++unit.count;
  runs.push_back(lane);
}

int64_t MovePlan::Runs(int64_t begin, int64_t end) const {
  if (begin >= end) return 0;
  return units[end - 1].first + units[end - 1].count - units[begin].first;
}

namespace {

// Whether unit `b` is unit `a` moved on by `step`; sets what it does not know yet.
bool Follows(const MovePlan& plan, int64_t a, int64_t b,
             std::vector<std::optional<int64_t>>* from) {
  const MoveUnit& x = plan.units[a];
  const MoveUnit& y = plan.units[b];
  if (x.rows != y.rows || x.count != y.count) return false;
  for (int32_t i = 0; i < x.count; ++i) {
    const LaneRun& r = plan.runs[x.first + i];
    const LaneRun& s = plan.runs[y.first + i];
    if (r.lane != s.lane || r.count != s.count || r.source != s.source || r.from != s.from) {
      return false;
    }
    if (r.source < 0) continue;
    std::optional<int64_t>& step = (*from)[r.source];
    if (!step) step = s.row - r.row;
    if (*step != s.row - r.row) return false;
  }
  return true;
}

Repeat Try(const MovePlan& plan, int64_t begin, int64_t end, int64_t period) {
  Repeat r;
  r.period = period;
  r.to = plan.units[begin + period].to - plan.units[begin].to;
  std::vector<std::optional<int64_t>> from(plan.sources);
  int64_t i = begin;
  while (i + period < end && plan.units[i + period].to - plan.units[i].to == r.to &&
         Follows(plan, i, i + period, &from)) {
    ++i;
  }
  r.times = 1 + (i - begin) / period;
  for (const std::optional<int64_t>& f : from) r.from.push_back(f.value_or(0));
  return r;
}

}  // namespace

Repeat FindRepeat(const MovePlan& plan, int64_t begin, int64_t end) {
  constexpr int64_t kShort = 1024;    // periods up to this are all tried, longer ones that divide
  constexpr int64_t kWorthTwice = 8;  // shorter ones must repeat more often
  int64_t length = end - begin;
  Repeat best;
  best.period = length;
  auto consider = [&](int64_t period) {
    Repeat r = Try(plan, begin, end, period);
    if (r.times < 2 || (r.times == 2 && period < kWorthTwice)) return false;
    if (best.times < 2 || r.times * r.period > best.times * best.period) best = r;
    return r.times * r.period == length;
  };
  for (int64_t p = 1; p <= std::min(kShort, length / 2); ++p) {
    if (consider(p)) return best;
  }
  for (int64_t n = std::min<int64_t>(256, length / kShort); n >= 2; --n) {
    if (length % n == 0 && length / n > kShort && consider(length / n)) return best;
  }
  return best;
}

}  // namespace tpuc::lower
