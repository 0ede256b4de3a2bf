// The choice among list schedules of a block, and what a block passes to the next.
#include "backend/schedule/function_schedule.h"

#include <algorithm>
#include <set>

#include "backend/llo/operands.h"
#include "backend/schedule/loop_bounds.h"
#include "backend/schedule/rules.h"
#include "backend/schedule/sink.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;

// Cycles that keeping `spills` values in memory is taken to cost; a first one also waits for vst ->
// vld.
double SpillCost(int spills, double weight) { return spills == 0 ? 0 : 8 + weight * spills; }

struct Candidate {
  BlockSchedule schedule;
  int spills = 0;
  double cost = 0;
};

int Spills(const Graph& graph, const BlockSchedule& s, const std::array<int, 4>& registers) {
  int spills = 0;
  for (int c = 0; c < 4; ++c) {
    if (s.max_live[c] > registers[c]) spills += CountSpills(graph, s, kClasses[c], registers[c]);
  }
  return spills;
}

// Widest choice first; each further one trades cycles for registers.
std::vector<Policy> Policies(const Graph& graph, const ScheduleOptions& options) {
  std::vector<Policy> policies;
  if (options.window == 1) {
    policies.push_back({1});
    return policies;
  }
  std::array<int, 4> limits = options.registers;
  int reserve = limits[0] / 8;
  if (options.near_order) {
    for (int window : {256, 96, 48, 24}) policies.push_back({window, limits, true, 2, true});
    policies.push_back({1});
    return policies;
  }
  policies.push_back({});
  policies.push_back({kNoLimit, limits, false, reserve});
  policies.push_back({kNoLimit, limits, true, reserve});
  for (int window = graph.size / 2; window >= 48; window /= 2) {
    policies.push_back({window});
    if (window <= 1024) policies.push_back({window, limits, false, reserve});
  }
  policies.push_back({1});
  return policies;
}

// No schedule is shorter.
int LowerBound(const Graph& graph, const llo::Function& function, int block, const Chip& chip) {
  return std::max(CriticalPath(graph, chip), ResourceBound(function, block, block, chip));
}

bool BestSchedule(const Graph& graph, int lower_bound, const Chip& chip,
                  const ScheduleOptions& options, BlockSchedule* out) {
  Candidate best;
  bool found = false;
  for (Policy policy : Policies(graph, options)) {
    Candidate c;
    if (!ListSchedule(graph, chip, policy, &c.schedule)) {
      // A result could not leave its queue before one that it waits for (the reuse of a name).
      policy.ordered_pushes = true;
      if (!ListSchedule(graph, chip, policy, &c.schedule)) continue;
    }
    c.spills = Spills(graph, c.schedule, options.registers);
    BlockSchedule sunk = c.schedule;
    SinkTowardsReaders(graph, chip, &sunk);
    int spills = Spills(graph, sunk, options.registers);
    if (spills <= c.spills) {  // what helps one class can hurt another
      c.spills = spills;
      c.schedule = std::move(sunk);
    }
    c.cost = c.schedule.length + SpillCost(c.spills, options.spill_weight);
    if (options.must_fit && c.spills > 0) c.cost += 1e9 + c.spills * 1e3;
    bool better = !found || c.cost < best.cost;
    if (better) best = std::move(c);
    found = true;
    // Limits only make it longer; and one in a hundred is not worth another try.
    bool free = best.spills == 0 && policy.window == kNoLimit && policy.limits[0] == kNoLimit;
    if (free || best.cost <= lower_bound + lower_bound / 128) break;
  }
  *out = std::move(best.schedule);
  return found;
}

// Values of block `b` that are not ready when the next block starts.
std::vector<Arrival> ArrivalsAfter(const Graph& graph, const BlockSchedule& s, const Chip& chip) {
  std::vector<Arrival> arrivals;
  for (const Value& v : graph.values) {
    if (v.def < 0 || !v.live_out) continue;
    int late = s.time[v.def] + Latency(graph.inst(v.def), chip) - s.length;
    if (late > 0) arrivals.push_back({{v.cls, v.reg}, late});
  }
  return arrivals;
}

}  // namespace

int CriticalPath(const Graph& graph, const Chip& chip) {
  int path = graph.terminator >= 0 ? graph.terminator_ready + 1 + chip.delay_slots : 0;
  for (int n = 0; n < graph.size; ++n) {
    path = std::max(path, graph.earliest[n] + graph.height[n] + 1);
  }
  return path;
}

std::array<int, 4> RegistersOf(const Chip& chip) {
  return {chip.vector_registers, chip.mask_registers, chip.scalar_registers,
          chip.predicate_registers};
}

int CountSpills(const Graph& graph, const BlockSchedule& s, isa::RegClass cls, int registers) {
  struct Interval {
    int from, to;
  };
  std::vector<Interval> intervals;
  std::vector<int> last(graph.values.size(), -1);
  for (int n = 0; n < graph.size; ++n) {
    for (int v : graph.reads[n]) last[v] = std::max(last[v], s.time[n]);
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    if (v.cls != cls) continue;
    int from = v.def < 0 ? 0 : s.time[v.def] + 1;
    intervals.push_back({from, v.live_out ? s.length : std::max(last[i], from)});
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.from < b.from; });
  registers = std::max(0, registers - graph.through[ClassIndex(cls)]);
  std::multiset<int> ends;
  int spills = 0;
  for (const Interval& i : intervals) {
    while (!ends.empty() && *ends.begin() < i.from) ends.erase(ends.begin());
    ends.insert(i.to);
    if (static_cast<int>(ends.size()) > registers) {
      ends.erase(std::prev(ends.end()));
      ++spills;
    }
  }
  return spills;
}

bool ScheduleFunction(const llo::Function& function, const Chip& chip,
                      const ScheduleOptions& options, FunctionSchedule* out, int* bad_block) {
  int n = function.blocks.size();
  DmaTargets targets = FindDmaTargets(function);
  std::array<llo::Liveness, 4> live;
  BlockContext context;
  context.function = &function;
  context.targets = &targets;
  for (int c = 0; c < 4; ++c) {
    live[c] = llo::ComputeLiveness(function, kClasses[c]);
    context.live[c] = &live[c];
  }
  for (int a = 0; a < function.args; ++a) context.arrivals.push_back({isa::S(a), 1});
  out->graphs.clear();
  out->blocks.assign(n, BlockSchedule());
  for (int b = 0; b < n; ++b) {
    out->graphs.push_back(BuildGraph(context, b, chip));
    int bound = LowerBound(out->graphs[b], function, b, chip);
    if (!BestSchedule(out->graphs[b], bound, chip, options, &out->blocks[b])) {
      *bad_block = b;
      return false;
    }
    context.arrivals = ArrivalsAfter(out->graphs[b], out->blocks[b], chip);
  }
  return true;
}

}  // namespace tpuc::schedule
