// Placing groups in the modulo reservation table (modulo_scheduler.h).
#include "backend/schedule/modulo.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/llo/operands.h"
#include "backend/schedule/modulo_scheduler.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {

using isa::Inst;

void ModuloScheduler::AddPops(Group* group, int push, int first, int apart) {
  const std::vector<int32_t>& pops = g_.pops[push];
  for (size_t k = 0; k < pops.size(); ++k) {
    group->nodes.push_back({pops[k], first + static_cast<int>(k) * apart});
  }
}

void ModuloScheduler::MakeGroups() {
  group_of_.assign(g_.size, -1);
  offset_of_.assign(g_.size, 0);
  int xlu_latency = 0;  // of all kinds in the loop, so that one queue keeps its order
  for (int n = 0; n < g_.size; ++n) {
    const Inst& i = inst(n);
    if (isa::Info(i.op).unit == isa::Unit::kXlu && llo::IsPush(i.op) && !llo::IsXposeStart(i.op)) {
      xlu_latency = std::max(xlu_latency, Latency(i, chip_));
    }
  }
  int step = chip_.interval(IntervalKey::kXlu);
  for (int n = 0; n < g_.size; ++n) {
    if (g_.dead[n] || g_.push[n] >= 0) continue;
    const Inst& i = inst(n);
    Group group;
    group.nodes.push_back({n, 0});
    group.unit = i.unit;
    group.xlu = isa::Info(i.op).unit == isa::Unit::kXlu;
    group.xpose = llo::IsXposeStart(i.op);
    if (group.xpose) {
      const std::vector<int32_t>& members = g_.members[n];
      int count = members.size();
      for (int k = 1; k < count; ++k) group.nodes.push_back({members[k], k * step});
      AddPops(&group, n, (count - 1) * step + Latency(i, chip_) - count * step,
              ResultInterval(i, chip_));
    } else if (llo::IsPush(i.op)) {
      AddPops(&group, n, group.xlu ? xlu_latency : Latency(i, chip_), ResultInterval(i, chip_));
    }
    for (auto [node, offset] : group.nodes) {
      group_of_[node] = groups_.size();
      isa::Slot slot = isa::Info(inst(node).op).slot;
      total_loads_ += slot == isa::Slot::kLoad;
      total_stores_ += slot == isa::Slot::kStore;
      total_valus_ += slot == isa::Slot::kValu;
      offset_of_[node] = offset;
    }
    groups_.push_back(std::move(group));
  }
  touched_.resize(g_.size);
  for (size_t r = 0; r < g_.registers.size(); ++r) {
    for (const auto* list :
         {&g_.registers[r].writes, &g_.registers[r].reads, &g_.registers[r].reads_of_last}) {
      for (int n : *list) {
        if (touched_[n].empty() || touched_[n].back() != static_cast<int>(r))
          touched_[n].push_back(r);
      }
    }
  }
  out_.resize(groups_.size());
  in_.resize(groups_.size());
  for (const LoopEdge& e : g_.edges) {
    int from = group_of_[e.from], to = group_of_[e.to];
    int latency = e.latency + offset_of_[e.from] - offset_of_[e.to];
    if (from == to && e.distance == 0) continue;  // inside, and kept by the offsets
    out_[from].push_back({to, latency, e.distance});
    in_[to].push_back({from, latency, e.distance});
  }
}

// Longest paths under the interval; false if some chain of trips cannot keep up with it.
bool ModuloScheduler::FindHeights() {
  for (Group& group : groups_) group.height = group.nodes.back().second;
  int n = groups_.size();
  for (int round = 0; round <= n + 1; ++round) {
    bool changed = false;
    for (int g = n - 1; g >= 0; --g) {
      for (const GroupEdge& e : out_[g]) {
        int h = groups_[e.other].height + e.latency - ii_ * e.distance;
        if (h > groups_[g].height) {
          if (g == e.other) return false;
          groups_[g].height = h;
          changed = true;
        }
      }
    }
    if (!changed) return true;
    if (round > 64) return false;  // a cycle, or as good as one
  }
  return false;
}

std::vector<int> ModuloScheduler::SlowChain(int ii, int* latency, int* trips) {
  ii_ = ii;
  int n = groups_.size(), changed = -1;
  std::vector<const GroupEdge*> next(n, nullptr);
  for (Group& group : groups_) group.height = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    changed = -1;
    for (int g = n - 1; g >= 0; --g) {
      for (const GroupEdge& e : out_[g]) {
        int h = groups_[e.other].height + e.latency - ii_ * e.distance;
        if (h <= groups_[g].height) continue;
        groups_[g].height = h;
        next[g] = &e;
        changed = g;
      }
    }
    if (changed < 0) return {};
  }
  int at = changed;
  for (int i = 0; i < n && next[at] != nullptr; ++i) at = next[at]->other;
  std::vector<int> chain;
  *latency = *trips = 0;
  for (int g = at; next[g] != nullptr;) {
    chain.push_back(groups_[g].nodes[0].first);
    *latency += next[g]->latency;
    *trips += next[g]->distance;
    g = next[g]->other;
    if (g == at) break;
  }
  return chain;
}

int ModuloScheduler::FreeXlu(const Group& group, int time) const {
  int step = chip_.interval(IntervalKey::kXlu);
  int whole = chip_.interval(IntervalKey::kXposeGroup);
  if (step > ii_ || (group.xpose && whole > ii_)) return -1;
  for (int u = 0; u < chip_.xlus; ++u) {
    if (group.unit >= 0 && group.unit != u) continue;
    bool free = true;
    for (size_t k = 0; group.xpose && k < transposes_[u].size() && free; ++k) {
      int apart = Row(time - transposes_[u][k]);
      free = apart >= whole && ii_ - apart >= whole;
    }
    for (size_t k = 0; k < group.nodes.size() && free; ++k) {
      auto [node, offset] = group.nodes[k];
      if (llo::IsPop(inst(node).op)) continue;
      int row = Row(time + offset);
      for (int j = 0; j < step && free; ++j) {
        free = !commands_[u][row];
        row = row + 1 < ii_ ? row + 1 : 0;
      }
    }
    if (free) return u;
  }
  return -1;
}

bool ModuloScheduler::Fits(const Group& group, int time) {
  size_t placed = 0;
  for (; placed < group.nodes.size(); ++placed) {  // members may share rows
    auto [node, offset] = group.nodes[placed];
    SlotUse& row = slots_[Row(time + offset)];
    if (!row.Fits(inst(node), chip_)) break;
    row.Add(inst(node));
  }
  bool all = placed == group.nodes.size();
  while (placed > 0) {
    auto [node, offset] = group.nodes[--placed];
    slots_[Row(time + offset)].Remove(inst(node));
  }
  return all;
}

// Loads and stores share positions, and so do vector arithmetic and EUP starts: an even share of
// each in every row leaves room for the other.
bool ModuloScheduler::TakesFairShare(const Group& group, int time) const {
  if (group.nodes.size() > 1) return true;
  switch (isa::Info(inst(group.nodes[0].first).op).slot) {
    case isa::Slot::kLoad:
      return loads_[Row(time)] < fair_loads_;
    case isa::Slot::kStore:
      return stores_[Row(time)] < fair_stores_;
    case isa::Slot::kValu:
      return valus_[Row(time)] < fair_valus_;
    default:
      return true;
  }
}

void ModuloScheduler::Reserve(const Group& group, bool add) {
  for (auto [node, offset] : group.nodes) {
    SlotUse& row = slots_[Row(group.time + offset)];
    if (add)
      row.Add(inst(node));
    else
      row.Remove(inst(node));
    std::vector<int>& there = at_[Row(group.time + offset)];
    int self = group_of_[node];
    if (add)
      there.push_back(self);
    else
      there.erase(std::find(there.begin(), there.end(), self));
    isa::Slot slot = isa::Info(inst(node).op).slot;
    if (slot == isa::Slot::kLoad) loads_[Row(group.time + offset)] += add ? 1 : -1;
    if (slot == isa::Slot::kStore) stores_[Row(group.time + offset)] += add ? 1 : -1;
    if (slot == isa::Slot::kValu) valus_[Row(group.time + offset)] += add ? 1 : -1;
    if (!group.xlu || llo::IsPop(inst(node).op)) continue;
    for (int k = 0; k < chip_.interval(IntervalKey::kXlu); ++k) {
      commands_[group.unit][Row(group.time + offset + k)] = add;
    }
  }
  if (!group.xpose) return;
  std::vector<int>& starts = transposes_[group.unit];
  if (add) {
    starts.push_back(Row(group.time));
  } else {
    starts.erase(std::find(starts.begin(), starts.end(), Row(group.time)));
  }
}

// Results stay in their queue until the listed schedule takes them: their push is to be as much
// later.
void ModuloScheduler::NoSoonerThan(const std::vector<int32_t>& listed) {
  for (Group& group : groups_) {
    for (auto [node, offset] : group.nodes) {
      group.no_sooner = std::max(group.no_sooner, listed[node] - offset);
    }
  }
}

int64_t ModuloScheduler::EarliestOf(int g) const {
  int64_t low = groups_[g].no_sooner;
  for (const GroupEdge& e : in_[g]) {
    const Group& other = groups_[e.other];
    if (other.time < 0 || e.other == g) continue;
    low = std::max<int64_t>(low, other.time + e.latency - int64_t{ii_} * e.distance);
  }
  return low;
}

bool ModuloScheduler::Place(int g) {
  Group& group = groups_[g];
  int64_t low = EarliestOf(g), high = int64_t{1} << 40;
  for (const GroupEdge& e : out_[g]) {
    const Group& other = groups_[e.other];
    if (other.time < 0 || e.other == g) continue;
    high = std::min<int64_t>(high, other.time - e.latency + int64_t{ii_} * e.distance);
  }
  for (bool fair : {true, false}) {
    for (int64_t t = low; t <= high && t < low + ii_; ++t) {
      if (fair && !TakesFairShare(group, t)) continue;
      int unit = group.xlu ? FreeXlu(group, t) : group.unit;
      if ((group.xlu && unit < 0) || !Fits(group, t)) continue;
      group.unit = unit;
      group.time = t;
      Reserve(group, true);
      return true;
    }
  }
  return false;
}

// How many would have to go.
int ModuloScheduler::CostOfForcing(int g, int64_t time) {
  const Group& group = groups_[g];
  int cost = 0;
  if (group.xlu && FreeXlu(group, time) < 0) cost += 2;
  for (auto [node, offset] : group.nodes) {
    cost += !slots_[Row(time + offset)].Fits(inst(node), chip_);
  }
  for (const GroupEdge& e : out_[g]) {
    const Group& other = groups_[e.other];
    if (other.time < 0 || e.other == g) continue;
    cost += other.time < time + e.latency - int64_t{ii_} * e.distance;
  }
  return cost;
}

void ModuloScheduler::Evict(int g) {
  Group& group = groups_[g];
  if (group.time < 0) return;
  Reserve(group, false);
  group.time = -1;
  if (group.xlu) group.unit = inst(group.nodes[0].first).unit;
  left_.insert({-group.height, g});
}

// Those of the row that use what the node needs go, the least urgent first.
void ModuloScheduler::MakeRoom(int self, int node, int row) {
  while (!slots_[row].Fits(inst(node), chip_)) {
    isa::Slot slot = isa::Info(inst(node).op).slot;
    // Its own kind, unless it is positions shared with loads that are short.
    if (slot == isa::Slot::kStore && stores_[row] < chip_.store) slot = isa::Slot::kLoad;
    int victim = -1;
    bool victim_same = false;
    for (int g : at_[row]) {
      if (g == self) continue;
      bool same = false;
      for (auto [other, offset] : groups_[g].nodes) {
        same |= Row(groups_[g].time + offset) == row && isa::Info(inst(other).op).slot == slot;
      }
      bool better =
          victim < 0 || (same != victim_same ? same : groups_[g].height < groups_[victim].height);
      if (!better) continue;
      victim = g;
      victim_same = same;
    }
    if (victim < 0) return;
    Evict(victim);
  }
}

void ModuloScheduler::MakeXluFree(int g) {
  Group& group = groups_[g];
  int first = group.unit >= 0 ? group.unit : 0, step = chip_.interval(IntervalKey::kXlu);
  if (FreeXlu(group, group.time) >= 0) return;
  for (int other = 0; other < static_cast<int>(groups_.size()); ++other) {
    const Group& o = groups_[other];
    if (other == g || !o.xlu || o.time < 0 || o.unit != first) continue;
    bool in_the_way = group.xpose && o.xpose;
    for (auto [node, offset] : group.nodes) {
      if (llo::IsPop(inst(node).op)) continue;
      for (auto [theirs, their_offset] : o.nodes) {
        if (llo::IsPop(inst(theirs).op)) continue;
        int apart = Row(group.time + offset - o.time - their_offset);
        in_the_way |= apart < step || ii_ - apart < step;
      }
    }
    if (!in_the_way) continue;
    Evict(other);
    if (FreeXlu(group, group.time) >= 0) return;
  }
}

// Puts a group where it displaces least; what is in its way is placed again.
void ModuloScheduler::Force(int g) {
  Group& group = groups_[g];
  int64_t low = EarliestOf(g), best = low;
  int best_cost = 1 << 30;
  constexpr int kLooked = 96;
  for (int64_t t = low; t < low + std::min(ii_, kLooked); ++t) {
    int cost = CostOfForcing(g, t) + (t == forced_[g] ? 4 : 0);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = t;
  }
  if (best <= forced_[g] && forced_[g] < low + ii_ - 1 && best_cost > 1) best = forced_[g] + 1;
  best = std::max(best, low);
  forced_[g] = best;
  group.time = best;
  if (group.xlu) {
    MakeXluFree(g);
    int unit = FreeXlu(group, best);
    if (unit < 0) {
      group.time = -1;
      left_.insert({-group.height, g});
      return;
    }
    group.unit = unit;
  }
  group.time = -1;
  for (auto [node, offset] : group.nodes) MakeRoom(g, node, Row(best + offset));
  if (!Fits(group, best)) {  // two of its own share a row
    if (group.xlu) group.unit = inst(group.nodes[0].first).unit;
    left_.insert({-group.height, g});
    return;
  }
  group.time = best;
  Reserve(group, true);
  for (const GroupEdge& e : out_[g]) {
    const Group& other = groups_[e.other];
    if (other.time < 0 || e.other == g) continue;
    if (other.time < best + e.latency - int64_t{ii_} * e.distance) Evict(e.other);
  }
}

// Never more results in a queue than it holds, trips in flight together.
bool ModuloScheduler::QueuesHold() const {
  int queues = QueueCount(chip_);
  std::vector<std::vector<int>> entries(queues, std::vector<int>(ii_, 0));
  for (const Group& group : groups_) {
    int push = group.nodes[0].first;
    int queue = QueueOf(inst(push), group.unit, chip_);
    if (queue < 0) continue;
    for (auto [node, offset] : group.nodes) {
      if (!llo::IsPop(inst(node).op)) continue;
      for (int k = 0; k <= offset; ++k) ++entries[queue][Row(group.time + k)];
    }
  }
  for (int q = 0; q < queues; ++q) {
    for (int n : entries[q]) {
      if (n > QueueDepth(q, chip_)) return false;
    }
  }
  return true;
}

bool ModuloScheduler::Try(int ii, Urgency urgency, ModuloTimes* out) {
  ii_ = ii;
  for (Group& group : groups_) {
    group.time = -1;
    if (group.xlu) group.unit = inst(group.nodes[0].first).unit;
  }
  slots_.assign(ii, SlotUse());
  loads_.assign(ii, 0);
  stores_.assign(ii, 0);
  valus_.assign(ii, 0);
  fair_valus_ = (total_valus_ + ii - 1) / ii;
  fair_loads_ = (total_loads_ + ii - 1) / ii;
  fair_stores_ = (total_stores_ + ii - 1) / ii;
  commands_.assign(chip_.xlus, std::vector<char>(ii, 0));
  transposes_.assign(chip_.xlus, {});
  at_.assign(ii, {});
  forced_.assign(groups_.size(), -1);
  left_.clear();
  int count = groups_.size();
  for (int g = 0; g < count && urgency == Urgency::kProgramOrder; ++g) {
    groups_[g].height = count - g;
  }
  for (int g = 0; g < count && urgency == Urgency::kAsListed; ++g) {
    groups_[g].height = -groups_[g].no_sooner;
  }
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g) left_.insert({-groups_[g].height, g});
  int forced = 0, most_forced = std::min<int>(4 * groups_.size(), 1500);
  while (!left_.empty()) {
    int g = left_.begin()->second;
    left_.erase(left_.begin());
    if (Place(g)) continue;
    if (++forced > most_forced) return false;
    Force(g);
  }
  SinkFloating();
  ShortenLives();
  if (!QueuesHold()) return false;
  int first = groups_.empty() ? 0 : groups_[0].time;
  for (const Group& group : groups_) first = std::min(first, group.time);
  out->ii = ii;
  out->time.assign(g_.size, -1);
  out->unit.assign(g_.size, -1);
  out->last = 0;
  for (const Group& group : groups_) {
    for (auto [node, offset] : group.nodes) {
      out->time[node] = group.time + offset - first;
      out->unit[node] = group.unit;
      out->last = std::max(out->last, out->time[node]);
    }
  }
  return true;
}

LoopBound RecurrenceBound(const LoopGraph& graph, int floor, const Chip& chip) {
  ModuloScheduler scheduler(graph, chip);
  LoopBound bound;
  bound.cycles = floor;
  if (scheduler.Feasible(floor)) return bound;
  int low = floor, high = 2 * floor;  // not feasible, feasible
  while (high < (1 << 20) && !scheduler.Feasible(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    (scheduler.Feasible(middle) ? high : low) = middle;
  }
  bound.cycles = high;
  int latency = 0, trips = 0;
  std::vector<int> chain = scheduler.SlowChain(low, &latency, &trips);
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < chain.size() && i < kShown; ++i) {
    absl::StrAppend(&bound.name, i > 0 ? " > " : "",
                    std::string(isa::Info(graph.block->insts[chain[i]].op).mnemonic));
  }
  if (chain.size() > kShown) absl::StrAppend(&bound.name, " > ..");
  absl::StrAppend(&bound.name, ", ", latency, " cycles");
  if (trips != 1) absl::StrAppend(&bound.name, " in ", trips, " trips");
  return bound;
}

bool ModuloSchedule(const LoopGraph& graph, const Chip& chip, Urgency urgency,
                    const std::vector<int32_t>& listed, int from, int to, ModuloTimes* out) {
  ModuloScheduler scheduler(graph, chip);
  if (urgency == Urgency::kAsListed) scheduler.NoSoonerThan(listed);
  for (int ii = std::max(1, from); ii <= to; ii += 1 + ii / 32) {
    // Heights are not needed for program order, and chains are kept by placing along them.
    if (urgency == Urgency::kLongestPath && !scheduler.Feasible(ii)) continue;
    if (scheduler.Try(ii, urgency, out)) return true;
  }
  return false;
}

}  // namespace tpuc::schedule
