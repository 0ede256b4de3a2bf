// One search for issue times (modulo.h), without backtracking, on groups: an instruction alone, or
// a push with its pops. What cannot be placed is put by force, and what is in its way leaves again.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "backend/schedule/modulo.h"
#include "backend/schedule/slots.h"

namespace tpuc::schedule {

class ModuloScheduler {
 public:
  ModuloScheduler(const LoopGraph& graph, const Chip& chip) : g_(graph), chip_(chip) {
    MakeGroups();
  }
  void NoSoonerThan(const std::vector<int32_t>& listed);
  bool Feasible(int ii) {
    ii_ = ii;
    return FindHeights();
  }
  bool Try(int ii, Urgency urgency, ModuloTimes* out);
  // The nodes of a chain that cannot keep up with the interval; empty: there is none.
  std::vector<int> SlowChain(int ii, int* latency, int* trips);

 private:
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

  const isa::Inst& inst(int node) const { return g_.block->insts[node]; }
  void MakeGroups();
  void AddPops(Group* group, int push, int first, int apart);
  bool FindHeights();

  // modulo.cc: one time after another, by force where nothing is free
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

  // modulo_lives.cc: all are placed; nearer to their readers
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

}  // namespace tpuc::schedule
