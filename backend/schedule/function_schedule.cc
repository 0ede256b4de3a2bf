// The choice among list schedules of a block, and what a block passes to the next.
#include "backend/schedule/function_schedule.h"

#include <algorithm>
#include <cmath>
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
  constexpr int kLarge = 8000;  // instructions: free of limits, they hold hundreds of values
  std::array<int, 4> limits = options.registers;
  int reserve = limits[0] / 8;
  if (options.near_order) {
    for (int window : {256, 96, 48, 24}) policies.push_back({window, limits, true, 2, true});
    policies.push_back({1});
    return policies;
  }
  auto graded = [&](int by) {
    Policy p = {kNoLimit, limits, true};
    p.graded = by;
    policies.push_back(p);
  };
  if (graph.size > kLarge) {
    for (int c = 0; c < 4; ++c) limits[c] -= limits[c] / 32;  // colouring may need more than live
    for (int by : {160, 320}) graded(by);
    policies.push_back({256, limits, true, 2, true});
    for (int window : {96, 24}) policies.push_back({window, limits, true, 2, true});
    policies.push_back({1});
    return policies;
  }
  policies.push_back({});
  policies.push_back({kNoLimit, limits, false, reserve});
  policies.push_back({kNoLimit, limits, true, reserve});
  for (int by : {160, 320}) graded(by);
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

// The policy's schedule, unless it is longer than `longest`.
void Make(const Graph& graph, const Chip& chip, Policy policy, const std::array<int, 4>& registers,
          int longest, Candidate* c) {
  *c = Candidate();
  Listed listed = ListSchedule(graph, chip, policy, longest, &c->schedule);
  if (listed == Listed::kStuck) {
    // A result could not leave its queue before one that it waits for (the reuse of a name).
    policy.ordered_pushes = true;
    listed = ListSchedule(graph, chip, policy, longest, &c->schedule);
  }
  if (listed != Listed::kDone) {
    c->schedule = BlockSchedule();
    c->longer_than = listed == Listed::kTooLong ? longest : kNoLimit;
    return;
  }
  c->spills = Spills(graph, c->schedule, registers);
  BlockSchedule sunk = c->schedule;
  SinkTowardsReaders(graph, chip, &sunk);
  int spills = Spills(graph, sunk, registers);
  if (spills <= c->spills) {  // what helps one class can hurt another
    c->spills = spills;
    c->schedule = std::move(sunk);
  }
}

double Cost(const Candidate& c, const ScheduleOptions& options) {
  double cost = c.schedule.length + SpillCost(c.spills, options.spill_weight);
  return options.must_fit && c.spills > 0 ? cost + 1e9 + c.spills * 1e3 : cost;
}

// The limits of the policy held without being asked for.
bool AlreadyWithin(const Policy& policy, const Policy& wider, const Candidate& c) {
  if (policy.window != wider.window || policy.oldest_first != wider.oldest_first ||
      policy.graded != wider.graded) {
    return false;
  }
  return c.schedule.length > 0 && c.spills == 0;
}

// Index of the best policy; -1: none has a schedule.
int BestSchedule(const Graph& graph, int lower_bound, const Chip& chip,
                 const ScheduleOptions& options, std::vector<Candidate>* candidates) {
  std::vector<Policy> policies = Policies(graph, options);
  candidates->resize(policies.size());
  int best = -1;
  double best_cost = 0;
  for (int i = 0; i < static_cast<int>(policies.size()); ++i) {
    Candidate& c = (*candidates)[i];
    if (i > 0 && AlreadyWithin(policies[i], policies[i - 1], (*candidates)[i - 1])) continue;
    bool any_length = best < 0 || best_cost > 1e9;
    int longest = any_length ? kNoLimit - 1 : static_cast<int>(std::ceil(best_cost)) - 1;
    if (c.schedule.length == 0) {
      if (c.longer_than >= longest) continue;
      Make(graph, chip, policies[i], options.registers, longest, &c);
      if (c.longer_than > 0) continue;
    }
    double cost = Cost(c, options);
    if (best >= 0 && cost >= best_cost) continue;
    best = i;
    best_cost = cost;
    // Limits only make it longer; and one in a hundred is not worth another try.
    bool free =
        c.spills == 0 && policies[i].window == kNoLimit && policies[i].limits[0] == kNoLimit;
    if (free || best_cost <= lower_bound + lower_bound / 128) break;
  }
  return best;
}

CandidateKey KeyOf(int block, const std::vector<Arrival>& arrivals) {
  CandidateKey key = {block};
  for (const Arrival& a : arrivals) {
    key.insert(key.end(), {static_cast<int>(a.reg.cls), a.reg.id, a.cycle});
  }
  return key;
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

// A loop of one block, whose trips are known: they may overlap, and so its length matters little.
bool IsPipelinable(const llo::Function& function, int block) {
  for (const llo::Loop& l : function.loops) {
    if (l.first == block && l.last == block && l.trips > 1) return true;
  }
  return false;
}

bool ScheduleFunction(const llo::Function& function, const Chip& chip,
                      const ScheduleOptions& options, Candidates* candidates, FunctionSchedule* out,
                      int* bad_block) {
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
  out->choices.assign(n, 0);
  for (int b = 0; b < n; ++b) {
    out->graphs.push_back(BuildGraph(context, b, chip));
    int bound = LowerBound(out->graphs[b], function, b, chip);
    std::vector<Candidate> made;
    std::vector<Candidate>* of_block =
        candidates == nullptr ? &made : &(*candidates)[KeyOf(b, context.arrivals)];
    ScheduleOptions of_this = options;
    if (options.fit_loops && IsPipelinable(function, b)) of_this.must_fit = true;
    int best = BestSchedule(out->graphs[b], bound, chip, of_this, of_block);
    if (best < 0) {
      *bad_block = b;
      return false;
    }
    out->choices[b] = best;
    out->blocks[b] =
        candidates == nullptr ? std::move(made[best].schedule) : (*of_block)[best].schedule;
    context.arrivals = ArrivalsAfter(out->graphs[b], out->blocks[b], chip);
  }
  return true;
}

}  // namespace tpuc::schedule
