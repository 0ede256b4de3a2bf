// Registers that a modulo schedule needs (modulo.h).
#include <algorithm>

#include "backend/schedule/modulo.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {

using isa::RegClass;

namespace {

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
