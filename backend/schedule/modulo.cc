// Modulo scheduling without backtracking, on groups: an instruction alone, or a push with its pops.
#include "backend/schedule/modulo.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "backend/llo/operands.h"
#include "backend/schedule/rules.h"
#include "backend/schedule/slots.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::RegClass;

struct Group {
  std::vector<std::pair<int, int>> nodes;  // node, offset from the group's time
  bool xlu = false, xpose = false;
  int unit = -1;
  int time = -1;
  int height = 0;
  int no_sooner = 0;  // for the sake of registers
};
struct GroupEdge {
  int other = 0, latency = 0, distance = 0;  // latency between group times
};

class Scheduler {
 public:
  Scheduler(const LoopGraph& graph, const Chip& chip) : g_(graph), chip_(chip) { MakeGroups(); }
  void NoSoonerThan(const std::vector<int32_t>& listed);
  bool Feasible(int ii) {
    ii_ = ii;
    return FindHeights();
  }
  bool Try(int ii, Urgency urgency, ModuloTimes* out);
  // The nodes of a chain that cannot keep up with the interval; empty: there is none.
  std::vector<int> SlowChain(int ii, int* latency, int* trips);

 private:
  const Inst& inst(int node) const { return g_.block->insts[node]; }
  void MakeGroups();
  void AddPops(Group* group, int push, int first, int apart);
  bool FindHeights();
  bool Fits(const Group& group, int time);
  bool TakesFairShare(const Group& group, int time) const;
  int FreeXlu(const Group& group, int time) const;
  bool Place(int group);
  int64_t EarliestOf(int group) const;
  int CostOfForcing(int group, int64_t time);
  void Force(int group);
  void Evict(int group);
  void MakeRoom(int group, int node, int row);
  void MakeXluFree(int group);
  void Reserve(const Group& group, bool add);
  int Row(int time) const { return ((time % ii_) + ii_) % ii_; }
  struct Life;
  void FindLives(const Group& group, std::vector<Life>* lives) const;
  void SinkFloating();
  void ShortenLives();
  bool QueuesHold() const;

  const LoopGraph& g_;
  const Chip& chip_;
  int ii_ = 0;
  std::vector<Group> groups_;
  std::vector<int> group_of_, offset_of_;  // by node
  std::vector<std::vector<int>> touched_;  // registers written or read, by node
  std::vector<std::vector<GroupEdge>> out_, in_;
  std::vector<SlotUse> slots_;
  std::vector<int> loads_, stores_, valus_;  // by row
  std::vector<std::vector<int>> at_;         // by row: groups that issue there
  std::vector<int64_t> forced_;              // by group: where it was last put by force
  std::set<std::pair<int, int>> left_;       // to be placed: highest first
  int total_loads_ = 0, total_stores_ = 0, total_valus_ = 0;
  int fair_loads_ = 0, fair_stores_ = 0, fair_valus_ = 0;
  std::vector<std::vector<char>> commands_;   // by XLU and row
  std::vector<std::vector<int>> transposes_;  // by XLU: rows where one starts
};

void Scheduler::AddPops(Group* group, int push, int first, int apart) {
  const std::vector<int32_t>& pops = g_.pops[push];
  for (size_t k = 0; k < pops.size(); ++k) {
    group->nodes.push_back({pops[k], first + static_cast<int>(k) * apart});
  }
}

void Scheduler::MakeGroups() {
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
bool Scheduler::FindHeights() {
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

std::vector<int> Scheduler::SlowChain(int ii, int* latency, int* trips) {
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

int Scheduler::FreeXlu(const Group& group, int time) const {
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

bool Scheduler::Fits(const Group& group, int time) {
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
bool Scheduler::TakesFairShare(const Group& group, int time) const {
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

void Scheduler::Reserve(const Group& group, bool add) {
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
void Scheduler::NoSoonerThan(const std::vector<int32_t>& listed) {
  for (Group& group : groups_) {
    for (auto [node, offset] : group.nodes) {
      group.no_sooner = std::max(group.no_sooner, listed[node] - offset);
    }
  }
}

int64_t Scheduler::EarliestOf(int g) const {
  int64_t low = groups_[g].no_sooner;
  for (const GroupEdge& e : in_[g]) {
    const Group& other = groups_[e.other];
    if (other.time < 0 || e.other == g) continue;
    low = std::max<int64_t>(low, other.time + e.latency - int64_t{ii_} * e.distance);
  }
  return low;
}

bool Scheduler::Place(int g) {
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
int Scheduler::CostOfForcing(int g, int64_t time) {
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

void Scheduler::Evict(int g) {
  Group& group = groups_[g];
  if (group.time < 0) return;
  Reserve(group, false);
  group.time = -1;
  if (group.xlu) group.unit = inst(group.nodes[0].first).unit;
  left_.insert({-group.height, g});
}

// Those of the row that use what the node needs go, the least urgent first.
void Scheduler::MakeRoom(int self, int node, int row) {
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

void Scheduler::MakeXluFree(int g) {
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
void Scheduler::Force(int g) {
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

// What a group and the other users of one of its registers do to that register's life in a trip.
struct Scheduler::Life {
  int64_t first = 0, last = 0;    // of the others; first > last: there are none
  int64_t writes = 0, reads = 0;  // the group's own first write and last read, from its time
  bool has_write = false, has_read = false;
  int weight = 1;

  int64_t Length(int64_t time) const {
    int64_t from = first, to = last;
    if (has_write) from = std::min(from, time + writes);
    if (has_read) to = std::max(to, time + reads);
    return weight * std::max<int64_t>(0, to - from);
  }
};

void Scheduler::FindLives(const Group& group, std::vector<Life>* lives) const {
  constexpr int64_t kFar = int64_t{1} << 40;
  lives->clear();
  int self = group_of_[group.nodes[0].first];
  std::vector<int> seen;
  for (auto [member, unused] : group.nodes) {
    for (int index : touched_[member]) {
      const LoopRegister& r = g_.registers[index];
      if (r.fixed) continue;
      // A mask or predicate register is as scarce as four of the others.
      int weight = r.reg.cls == RegClass::kVector || r.reg.cls == RegClass::kScalar ? 1 : 4;
      if (std::find(seen.begin(), seen.end(), index) != seen.end()) continue;
      seen.push_back(index);
      Life life;
      life.first = kFar;
      life.last = -kFar;
      life.weight = weight;
      auto note = [&](int n, bool write, int later) {
        if (g_.dead[n]) return;
        int64_t offset = offset_of_[n] + later;
        if (group_of_[n] == self) {
          int64_t& own = write ? life.writes : life.reads;
          bool& has = write ? life.has_write : life.has_read;
          own = !has ? offset : write ? std::min(own, offset) : std::max(own, offset);
          has = true;
        } else if (write) {
          life.first = std::min(life.first, groups_[group_of_[n]].time + offset);
        } else {
          life.last = std::max(life.last, groups_[group_of_[n]].time + offset);
        }
      };
      for (int n : r.writes) note(n, true, 0);
      for (int n : r.reads) note(n, false, 0);
      for (int n : r.reads_of_last) note(n, false, ii_);
      lives->push_back(life);
    }
  }
}

// What needs no result of a long queue (MXU, XLU) could be made at any time: as late as its readers
// allow, together with what it is made of.
void Scheduler::SinkFloating() {
  std::vector<char> floats(groups_.size(), 1);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const isa::Unit unit = isa::Info(inst(groups_[g].nodes[0].first).op).unit;
    floats[g] = unit != isa::Unit::kMxu && unit != isa::Unit::kXlu;
  }
  std::vector<std::pair<int, int>> flow;  // groups: writer, reader
  std::vector<char> read(groups_.size(), 0);
  for (const LoopRegister& r : g_.registers) {
    for (int w : r.writes) {
      if (g_.dead[w]) continue;
      const int from = group_of_[w];
      for (const std::vector<int>* list : {&r.reads, &r.reads_of_last}) {
        for (int n : *list) {
          if (g_.dead[n] || group_of_[n] == from) continue;
          flow.push_back({from, group_of_[n]});
          read[from] = 1;
        }
      }
      if (r.live_out || r.fixed) floats[from] = 0;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [from, to] : flow) {
      if (floats[from] || !floats[to]) continue;
      floats[to] = 0;
      changed = true;
    }
  }
  std::vector<int> order(groups_.size());
  for (size_t g = 0; g < order.size(); ++g) order[g] = g;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return groups_[a].time > groups_[b].time; });
  constexpr int64_t kNone = int64_t{1} << 40;
  for (int g : order) {
    Group& group = groups_[g];
    if (!floats[g] || !read[g]) continue;
    int64_t high = kNone;
    for (const GroupEdge& e : out_[g]) {
      if (e.other == g) continue;
      high = std::min(high, groups_[e.other].time - e.latency + int64_t{ii_} * e.distance);
    }
    if (high == kNone || high <= group.time) continue;
    Reserve(group, false);
    for (int64_t t = high; t > std::max<int64_t>(group.time, high - ii_); --t) {
      if (!Fits(group, t)) continue;
      group.time = t;
      break;
    }
    Reserve(group, true);
  }
}

// Moves groups to where registers are held for the least time, as far as their neighbours allow.
void Scheduler::ShortenLives() {
  constexpr int kPasses = 4, kLooked = 512, kLookedByGroups = 64;
  std::vector<int> order(groups_.size());
  for (size_t g = 0; g < order.size(); ++g) order[g] = g;
  std::vector<Life> lives;
  for (int pass = 0; pass < kPasses; ++pass) {
    bool late = pass % 2 == 0, moved = false;  // readers first, then writers
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return late ? groups_[a].time > groups_[b].time : groups_[a].time < groups_[b].time;
    });
    for (int g : order) {
      Group& group = groups_[g];
      FindLives(group, &lives);
      if (lives.empty()) continue;
      int64_t low = group.time - ii_ + 1, high = group.time + ii_ - 1;
      for (const GroupEdge& e : in_[g]) {
        if (e.other == g) continue;
        low = std::max(low, groups_[e.other].time + e.latency - int64_t{ii_} * e.distance);
      }
      for (const GroupEdge& e : out_[g]) {
        if (e.other == g) continue;
        high = std::min(high, groups_[e.other].time - e.latency + int64_t{ii_} * e.distance);
      }
      int looked = group.nodes.size() > 1 ? kLookedByGroups : kLooked;
      low = std::max<int64_t>(low, group.time - looked);
      high = std::min<int64_t>(high, group.time + looked);
      auto cost = [&](int64_t time) {
        int64_t sum = 0;
        for (const Life& life : lives) sum += life.Length(time);
        return sum;
      };
      Reserve(group, false);
      int64_t best = cost(group.time), now = group.time;
      bool best_is_now = true;
      for (int64_t k = 0; k <= high - low; ++k) {
        int64_t t = late ? high - k : low + k;
        // Late at no cost is worth it: what it reads may follow.
        int64_t there = cost(t);
        bool better = there < best || (late && t > now && best_is_now && there == best);
        if (t == now || !better) continue;
        int unit = group.xlu ? FreeXlu(group, t) : group.unit;
        if ((group.xlu && unit < 0) || !Fits(group, t)) continue;
        best = there;
        best_is_now = false;
        group.unit = unit;
        group.time = t;
        moved = true;
      }
      Reserve(group, true);
    }
    if (!moved && pass > 0) break;
  }
}

// Never more results in a queue than it holds, trips in flight together.
bool Scheduler::QueuesHold() const {
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

bool Scheduler::Try(int ii, Urgency urgency, ModuloTimes* out) {
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

// First write and last event of a trip's value of a register; false: it is never written.
bool Lifetime(const LoopGraph& g, const ModuloTimes& times, const LoopRegister& r, const Chip& chip,
              int* from, int* to) {
  *from = -1;
  *to = 0;
  for (int n : r.writes) {
    if (g.dead[n]) continue;
    if (*from < 0 || times.time[n] < *from) *from = times.time[n];
    *to = std::max(*to, times.time[n] + 1);
  }
  for (int n : r.reads) *to = std::max(*to, g.dead[n] ? 0 : times.time[n]);
  for (int n : r.reads_of_last) *to = std::max(*to, g.dead[n] ? 0 : times.time[n] + times.ii);
  for (bool of_last : {false, true}) {
    for (int n : of_last ? r.bases_of_last : r.bases) {
      if (!g.dead[n]) *to = std::max(*to, *from + ChooseBase(g, times, r, n, of_last, chip).age);
    }
  }
  return *from >= 0;
}

}  // namespace

LoopBound RecurrenceBound(const LoopGraph& graph, int floor, const Chip& chip) {
  Scheduler scheduler(graph, chip);
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
  Scheduler scheduler(graph, chip);
  if (urgency == Urgency::kAsListed) scheduler.NoSoonerThan(listed);
  for (int ii = std::max(1, from); ii <= to; ii += 1 + ii / 32) {
    // Heights are not needed for program order, and chains are kept by placing along them.
    if (urgency == Urgency::kLongestPath && !scheduler.Feasible(ii)) continue;
    if (scheduler.Try(ii, urgency, out)) return true;
  }
  return false;
}

BaseChoice ChooseBase(const LoopGraph& g, const ModuloTimes& times, const LoopRegister& r, int node,
                      bool of_last, const Chip& chip) {
  int age = times.time[node] + (of_last ? times.ii : 0) - times.time[r.writes[0]];
  int latency = Latency(g.block->insts[r.writes[0]], chip);
  int trips = std::max(0, (age - latency) / times.ii);
  return {trips, age - trips * times.ii};
}

int ModuloPressure(const LoopGraph& g, const ModuloTimes& times, RegClass cls, const Chip& chip) {
  std::vector<int> live(times.ii, 0);
  int whole = 0;
  for (const LoopRegister& r : g.registers) {
    int from, to;
    if (r.reg.cls != cls || !Lifetime(g, times, r, chip, &from, &to)) continue;
    if (r.fixed) {
      ++whole;
      continue;
    }
    for (int t = from + 1; t <= std::max(to, from + 1); ++t) ++live[t % times.ii];
  }
  return whole + *std::max_element(live.begin(), live.end());
}

int CopiesNeeded(const LoopGraph& g, const ModuloTimes& times, const Chip& chip) {
  int copies = 1;
  for (const LoopRegister& r : g.registers) {
    int from, to;
    if (r.fixed || !Lifetime(g, times, r, chip, &from, &to)) continue;
    copies = std::max(copies, (to - from + times.ii - 1) / times.ii);
  }
  return copies;
}

}  // namespace tpuc::schedule
