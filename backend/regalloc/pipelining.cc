// For each loop: the smallest interval that the registers allow, if it beats the list schedule.
#include "backend/regalloc/pipelining.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"
#include "backend/schedule/loop_bounds.h"
#include "backend/schedule/loop_graph.h"
#include "backend/schedule/modulo.h"
#include "backend/schedule/pipeline.h"

namespace tpuc::regalloc {
namespace {

using isa::Inst;
using isa::Opcode;
using schedule::ClassIndex;

class Pipeliner {
 public:
  Pipeliner(const FixedScalars& fixed, const Chip& chip, llo::Function* f,
            schedule::FunctionSchedule* s, Coloring* coloring)
      : fixed_(fixed), chip_(chip), f_(*f), s_(*s), coloring_(*coloring) {}
  bool IsInnermost(int loop) const;
  LoopReport Run(int loop);

 private:
  const char* Obstacle(const llo::Loop& l) const;
  void ReportBlocks(const llo::Loop& l, LoopReport* report) const;
  int Search(const schedule::LoopGraph& graph, const LoopReport& report, int from,
             std::vector<schedule::ModuloTimes>* found);
  bool Use(schedule::LoopGraph* graph, std::vector<schedule::ModuloTimes> found,
           LoopReport* report);
  bool Try(schedule::LoopGraph graph, LoopReport* report);
  double RegisterShare(const schedule::LoopGraph& graph, const schedule::ModuloTimes& times,
                       int block) const;
  bool Replace(int loop, schedule::PipelinedLoop pipelined);
  void ShiftAfter(int block, int by);
  void PointGraphsAtBlocks();

  const FixedScalars& fixed_;
  const Chip& chip_;
  llo::Function& f_;
  schedule::FunctionSchedule& s_;
  Coloring& coloring_;
  std::array<llo::Liveness, 4> live_;
  bool live_known_ = false;
  bool held_too_much_ = false;  // some interval of this loop failed for want of registers
};

bool Pipeliner::IsInnermost(int loop) const {
  const llo::Loop& l = f_.loops[loop];
  for (const llo::Loop& other : f_.loops) {
    bool inside = other.first >= l.first && other.last <= l.last;
    if (inside && (other.first != l.first || other.last != l.last)) return false;
  }
  return true;
}

// Why a loop cannot be pipelined; null: it may be.
const char* Pipeliner::Obstacle(const llo::Loop& l) const {
  if (l.first != l.last) return "control";
  const std::vector<Inst>& insts = f_.blocks[l.first].insts;
  if (insts.empty()) return "control";
  const Inst& branch = insts.back();
  if (branch.op != Opcode::kSbr || !branch.pred.valid() || branch.target != l.first) {
    return "control";
  }
  for (const Inst& inst : insts) {
    if (llo::IsSync(inst.op)) return "DMA order";
  }
  return nullptr;
}

// A loop that stays as it is: each block waits for the one before, so the chain of a trip's blocks
// is what binds it.
void Pipeliner::ReportBlocks(const llo::Loop& l, LoopReport* report) const {
  schedule::LoopBound units = schedule::FindResourceBound(f_, l.first, l.last, nullptr, chip_);
  int chain = 0;
  report->ii = 0;
  for (int b = l.first; b <= l.last; ++b) {
    chain += schedule::CriticalPath(s_.graphs[b], chip_);
    report->ii += s_.blocks[b].length;
  }
  report->mii = units.cycles;
  report->bound = units.name;
  const char* obstacle = Obstacle(l);
  if (chain <= units.cycles || obstacle == nullptr) return;
  report->mii = chain;
  report->bound = absl::StrCat("recurrence: ", obstacle, ", the latencies of ",
                               l.last - l.first + 1, l.first == l.last ? " block" : " blocks",
                               " in turn; ", units.name, " ", units.cycles);
}

// What the trips hold, as a share of the registers that what lives across the loop leaves: of the
// class that is shortest.
double Pipeliner::RegisterShare(const schedule::LoopGraph& graph,
                                const schedule::ModuloTimes& times, int block) const {
  double share = 0;
  std::array<int, 4> registers = schedule::RegistersOf(chip_);
  for (isa::RegClass cls : schedule::kClasses) {
    const llo::BitSet& in = live_[ClassIndex(cls)].in[block];
    int through = in.Count();
    for (const schedule::LoopRegister& r : graph.registers) {
      through -= r.reg.cls == cls && in.Has(r.reg.id);
    }
    int held = schedule::ModuloPressure(graph, times, cls, chip_);
    if (held == 0) continue;
    share = std::max(share, held / std::max(0.5, double(registers[ClassIndex(cls)] - through)));
  }
  return share;
}

void Pipeliner::PointGraphsAtBlocks() {
  for (size_t b = 0; b < f_.blocks.size(); ++b) s_.graphs[b].block = &f_.blocks[b];
}

// Blocks after `block` have moved.
void Pipeliner::ShiftAfter(int block, int by) {
  for (llo::Block& b : f_.blocks) {
    if (b.insts.empty() || b.insts.back().op != Opcode::kSbr) continue;
    int& target = b.insts.back().target;
    if (target > block) target += by;  // to the loop itself: its prologue
  }
  for (llo::Loop& l : f_.loops) {
    if (l.first > block) l.first += by;
    if (l.last > block) l.last += by;
  }
}

// Puts the new blocks in the loop's place if all registers still find a home.
bool Pipeliner::Replace(int loop, schedule::PipelinedLoop pipelined) {
  int block = f_.loops[loop].first, parts = pipelined.kernel_trips > 0 ? 3 : 1;
  llo::Loop old_loop = f_.loops[loop];
  llo::Block old_block = std::move(f_.blocks[block]);
  schedule::Graph old_graph = std::move(s_.graphs[block]);
  schedule::BlockSchedule old_times = std::move(s_.blocks[block]);
  f_.blocks.erase(f_.blocks.begin() + block);
  s_.graphs.erase(s_.graphs.begin() + block);
  s_.blocks.erase(s_.blocks.begin() + block);
  ShiftAfter(block, parts - 1);
  for (llo::Loop& l : f_.loops) {
    if (l.first <= block && l.last == block) l.last += parts - 1;  // loops around it end with it
  }
  for (int part = 0; part < parts; ++part) {
    schedule::Graph graph;
    graph.size = pipelined.schedules[part].time.size();
    if (part == 1) graph.terminator = graph.size;
    f_.blocks.insert(f_.blocks.begin() + block + part, std::move(pipelined.blocks[part]));
    s_.graphs.insert(s_.graphs.begin() + block + part, std::move(graph));
    s_.blocks.insert(s_.blocks.begin() + block + part, std::move(pipelined.schedules[part]));
  }
  f_.loops[loop].first = f_.loops[loop].last = block + (parts == 3 ? 1 : 0);
  f_.loops[loop].trips = std::max<int64_t>(1, pipelined.kernel_trips);
  f_.loops[loop].latch = false;  // done by its first trip
  Coloring coloring = Color(f_, s_, fixed_, chip_);
  bool ok = coloring.ok();
  if (ok) {
    coloring_ = std::move(coloring);
    live_known_ = false;
  } else {  // as it was; new names stay taken
    f_.blocks.erase(f_.blocks.begin() + block, f_.blocks.begin() + block + parts);
    s_.graphs.erase(s_.graphs.begin() + block, s_.graphs.begin() + block + parts);
    s_.blocks.erase(s_.blocks.begin() + block, s_.blocks.begin() + block + parts);
    ShiftAfter(block, 1 - parts);
    for (llo::Loop& l : f_.loops) {
      if (l.first <= block && l.last == block + parts - 1) l.last = block;
    }
    f_.blocks.insert(f_.blocks.begin() + block, std::move(old_block));
    s_.graphs.insert(s_.graphs.begin() + block, std::move(old_graph));
    s_.blocks.insert(s_.blocks.begin() + block, std::move(old_times));
    f_.loops[loop] = old_loop;
  }
  PointGraphsAtBlocks();
  return ok;
}

// Where to look next if a schedule of `ii` takes `share` of the registers: closely below the
// widest interval that is as good as the bound, then by leaps.
int WidestGood(int mii) { return mii * 115 / 100; }
int NextInterval(int ii, int mii, double share) {
  int good = WidestGood(mii);
  double wider = share < 2 ? 1.125 : 1 + 0.5 * (std::min(4.0, share) - 1);
  if (ii < good) return std::min(good, std::max(ii + 1, static_cast<int>(1.05 * ii)));
  return std::max(ii + 1, static_cast<int>(wider * ii));
}

// Adds to `found` what fits the registers of intervals from `from` on; gives where to look next.
int Pipeliner::Search(const schedule::LoopGraph& graph, const LoopReport& report, int from,
                      std::vector<schedule::ModuloTimes>* found) {
  using schedule::Urgency;
  constexpr int kLarge = 1000;  // the longest path of much code holds too many registers
  constexpr Urgency kSmallBody[] = {Urgency::kProgramOrder, Urgency::kLongestPath,
                                    Urgency::kAsListed};
  constexpr Urgency kLargeBody[] = {Urgency::kAsListed, Urgency::kProgramOrder};
  bool large = graph.size > kLarge;
  int block = f_.loops[report.loop].first;
  const schedule::BlockSchedule& listed = s_.blocks[block];
  int64_t trips = report.trips;
  int next = listed.length, widest = WidestGood(report.mii);
  for (Urgency urgency :
       large ? absl::MakeConstSpan(kLargeBody) : absl::MakeConstSpan(kSmallBody)) {
    schedule::ModuloTimes times;
    int to = found->empty() ? listed.length - 1 : std::max(found->front().ii, widest);
    if (!schedule::ModuloSchedule(graph, chip_, urgency, listed.time, from, to, &times)) continue;
    // The next, if this one does not do: a wider interval holds fewer trips at once.
    double share = RegisterShare(graph, times, block);
    next = std::min(next, NextInterval(times.ii, report.mii, share));
    if (share > 1) held_too_much_ = true;
    if (share > 1 || times.Cycles(trips) >= listed.length * trips) continue;
    bool narrowest = times.ii == from;
    found->push_back(std::move(times));
    if (large && narrowest) break;
  }
  return next;
}

// The first of those found that can be written as code.
bool Pipeliner::Use(schedule::LoopGraph* graph, std::vector<schedule::ModuloTimes> found,
                    LoopReport* report) {
  int block = f_.loops[report->loop].first;
  int64_t trips = report->trips, listed = s_.blocks[block].length * trips;
  std::stable_sort(found.begin(), found.end(),
                   [&](const auto& a, const auto& b) { return a.Cycles(trips) < b.Cycles(trips); });
  for (const schedule::ModuloTimes& times : found) {
    schedule::PipelinedLoop pipelined;
    if (!schedule::PipelineLoop(*graph, times, f_.blocks[block], trips, block + 1, chip_, &f_,
                                &pipelined)) {
      continue;
    }
    if (pipelined.cycles >= listed) continue;
    if (!Replace(report->loop, std::move(pipelined))) {
      held_too_much_ = true;
      graph->block = &f_.blocks[block];  // blocks have moved
      continue;
    }
    report->ii = times.ii;
    report->stages = times.Stages();
    return true;
  }
  return false;
}

bool Pipeliner::Try(schedule::LoopGraph graph, LoopReport* report) {
  constexpr int kLargestBody = 6000, kTries = 12;
  int length = s_.blocks[f_.loops[report->loop].first].length;
  if (report->trips < 2 || graph.size > kLargestBody) return false;
  std::vector<schedule::ModuloTimes> found;
  int from = report->mii;
  for (int attempt = 0; attempt < kTries && from < length; ++attempt) {
    from = Search(graph, *report, from, &found);
    if (found.empty()) continue;
    // With few trips the first one's latencies are much of the time, and a wider interval may have
    // shorter ones.
    bool few = found[0].last > found[0].ii * report->trips / 2;
    if (few && from <= WidestGood(report->mii)) continue;
    if (Use(&graph, std::move(found), report)) return true;
    found.clear();
  }
  return Use(&graph, std::move(found), report);
}

LoopReport Pipeliner::Run(int loop) {
  LoopReport report;
  report.loop = loop;
  const llo::Loop l = f_.loops[loop];
  report.trips = l.trips;
  ReportBlocks(l, &report);
  if (Obstacle(l) != nullptr) return report;
  if (!live_known_) {
    for (isa::RegClass cls : schedule::kClasses) {
      live_[ClassIndex(cls)] = llo::ComputeLiveness(f_, cls);
    }
    live_known_ = true;
  }
  schedule::DmaTargets targets = schedule::FindDmaTargets(f_);
  schedule::BlockContext context;
  context.function = &f_;
  context.targets = &targets;
  for (int c = 0; c < 4; ++c) context.live[c] = &live_[c];
  schedule::LoopGraph graph;
  if (!schedule::BuildLoopGraph(context, l.first, l.trips, chip_, &graph)) {
    absl::StrAppend(&report.bound, "; not pipelined: transposes among other cross-lane results");
    return report;
  }
  schedule::LoopBound units = schedule::FindResourceBound(f_, l.first, l.last, &graph.dead, chip_);
  schedule::LoopBound chain = schedule::RecurrenceBound(graph, units.cycles, chip_);
  report.mii = std::max(units.cycles, chain.cycles);
  report.bound = units.name;
  if (chain.cycles > units.cycles) {
    report.bound = absl::StrCat("recurrence: ", chain.name, "; ", units.name, " ", units.cycles);
  }
  held_too_much_ = false;
  if (!Try(graph, &report)) {
    absl::StrAppend(&report.bound,
                    "; not pipelined: ", l.trips < 0 ? "trips unknown" : "registers or length");
  } else if (report.ii * 100 > report.mii * 115) {
    absl::StrAppend(&report.bound, held_too_much_ ? "; wider for registers"
                                                  : "; wider: nothing narrower found a place");
  }
  return report;
}

}  // namespace

std::vector<LoopReport> PipelineLoops(const FixedScalars& fixed, const Chip& chip,
                                      llo::Function* function, schedule::FunctionSchedule* schedule,
                                      Coloring* coloring) {
  std::vector<LoopReport> reports;
  Pipeliner pipeliner(fixed, chip, function, schedule, coloring);
  for (int l = 0; l < static_cast<int>(function->loops.size()); ++l) {
    if (pipeliner.IsInnermost(l)) reports.push_back(pipeliner.Run(l));
  }
  return reports;
}

}  // namespace tpuc::regalloc
