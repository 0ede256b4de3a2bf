// Times that hold registers for less, once every group has one (modulo_scheduler.h).
#include <algorithm>

#include "backend/schedule/modulo_scheduler.h"

namespace tpuc::schedule {

using isa::RegClass;

// What a group and the other users of one of its registers do to that register's life in a trip.
struct ModuloScheduler::Life {
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

void ModuloScheduler::FindLives(const Group& group, std::vector<Life>* lives) const {
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
void ModuloScheduler::SinkFloating() {
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
void ModuloScheduler::ShortenLives() {
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

}  // namespace tpuc::schedule
