// Modulo scheduling: issue times for one trip of a loop such that a new trip can start every `ii`
// cycles.
//
// A push and its pops are placed together, at their latencies (of several kinds of cross-lane
// result the longest), so results leave their queues in order by construction. Instructions go in
// by height, the first time that fits the modulo reservation table; if one finds none the interval
// grows. At the end producers sink towards their readers.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/schedule/loop_bounds.h"
#include "backend/schedule/loop_graph.h"

namespace tpuc::schedule {

// A new trip can start no sooner because of the longest chain from a trip to a later one; the name
// tells the chain ("vld > vadd.f32 > vst, 10 cycles"). If no chain needs more than `floor` cycles:
// that, and no name.
LoopBound RecurrenceBound(const LoopGraph& graph, int floor, const Chip& chip);

struct ModuloTimes {
  int ii = 0;
  std::vector<int32_t> time;  // by node, from the trip's start; dead nodes -1
  std::vector<int8_t> unit;
  int last = 0;  // greatest time
  int Stages() const { return last / ii + 1; }
  int64_t Cycles(int64_t trips) const { return ii * (trips - 1) + last + 1; }
};

// The newest value of an affine register that a node can take as its base: that of `trips` later
// than its own, read `age` cycles after that one's write.
struct BaseChoice {
  int trips = 0, age = 0;
};
BaseChoice ChooseBase(const LoopGraph& graph, const ModuloTimes& times, const LoopRegister& r,
                      int node, bool of_last, const Chip& chip);

// What is placed first. Program order keeps what belongs together together, and so needs fewer
// registers; the longest path fits narrow chains better. As listed: in the order of a schedule of
// one trip, and no sooner than there. A trip that holds few registers at once still does so; its
// ends, where few units work, overlap the ends of its neighbours.
enum class Urgency : uint8_t { kProgramOrder, kLongestPath, kAsListed };

// The smallest interval in [from, to] that works; false if none does. `listed`: issue times of one
// trip by node, for kAsListed.
bool ModuloSchedule(const LoopGraph& graph, const Chip& chip, Urgency urgency,
                    const std::vector<int32_t>& listed, int from, int to, ModuloTimes* out);

// Registers of a class that values of the loop hold at once in the steady state.
int ModuloPressure(const LoopGraph& graph, const ModuloTimes& times, isa::RegClass cls,
                   const Chip& chip);

// Copies of each register that trips in flight need (modulo variable expansion).
int CopiesNeeded(const LoopGraph& graph, const ModuloTimes& times, const Chip& chip);

}  // namespace tpuc::schedule
