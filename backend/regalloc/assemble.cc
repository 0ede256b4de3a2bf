// Schedule, allocate, spill, schedule again; then pack and count.
#include "backend/regalloc/assemble.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"
#include "backend/regalloc/color.h"
#include "backend/regalloc/emit.h"
#include "backend/regalloc/memory_form.h"
#include "backend/regalloc/peel.h"
#include "backend/regalloc/pipelining.h"
#include "backend/regalloc/prepare.h"
#include "backend/regalloc/reuse.h"
#include "backend/regalloc/spill.h"
#include "backend/schedule/function_schedule.h"
#include "backend/schedule/replay.h"
#include "backend/schedule/rules.h"
#include "src/diag/check.h"

namespace tpuc {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::RegClass;
using schedule::ClassIndex;

class Assembler {
 public:
  Assembler(const llo::Function& function, const Chip& chip, const AssembleOptions& options,
            isa::Function* out, DiagSink* diags)
      : chip_(chip), options_(options), out_(*out), diags_(diags) {
    f_ = regalloc::Prepare(function, chip, &fixed_);
    area_ = regalloc::MakeSpillArea(&f_, options.spill_row, options.spill_word);
  }
  bool Run();
  int64_t spill_rows() const { return area_.rows; }
  // Loops that latch weights and could not be pipelined.
  std::vector<int> LatchingLoops() const;

 private:
  bool Fail(DiagCode code, const std::string& message) {
    diags_->Add(code, absl::StrCat("kernel ", f_.name, ": ", message));
    return false;
  }
  bool CheckQueueDepths();
  void KeepNothingAcrossCalls();
  bool ScheduleAndAllocate();
  struct State {
    llo::Function f;
    regalloc::SpillArea area;
    regalloc::SpillCounts counts;
    schedule::FunctionSchedule schedule;
    regalloc::Coloring coloring;
  };
  enum class Outcome : uint8_t { kFits, kSpilled, kSeen, kFailed };
  State Take();
  void Put(State state);
  Outcome Attempt(double spill_weight);
  double Cycles() const;
  bool Spill(int round);
  bool CheckSpillSpace();
  void Describe(const std::vector<int>& block_start);

  const Chip& chip_;
  const AssembleOptions& options_;
  isa::Function& out_;
  DiagSink* diags_;
  llo::Function f_;
  regalloc::FixedScalars fixed_;
  regalloc::SpillArea area_;
  regalloc::SpillCounts counts_;
  schedule::FunctionSchedule schedule_;
  regalloc::Coloring coloring_;
  std::vector<regalloc::LoopReport> reports_;
  // Of attempts at the function as it came.
  schedule::Candidates candidates_;
  std::set<std::vector<int>> seen_;  // choices of first schedules
};

// One push must fit its queue alone, or nothing can ever issue it.
bool Assembler::CheckQueueDepths() {
  for (const llo::Block& block : f_.blocks) {
    for (const Inst& inst : block.insts) {
      if (!llo::IsPush(inst.op)) continue;
      int unit = std::max<int>(0, inst.unit);
      int depth = schedule::QueueDepth(schedule::QueueOf(inst, unit, chip_), chip_);
      bool unit_exists = isa::Info(inst.op).unit != isa::Unit::kMxu ? unit < std::max(1, chip_.xlus)
                                                                    : unit < chip_.mxus;
      if (!unit_exists) {
        return Fail(DiagCode::kQueueDepth,
                    absl::StrCat(std::string(isa::Info(inst.op).mnemonic), " names unit ", unit,
                                 ", which ", chip_.name, " does not have"));
      }
      if (llo::ResultsOf(inst.op, chip_.mxu_tiles()) > depth) {
        return Fail(DiagCode::kQueueDepth,
                    absl::StrCat(std::string(isa::Info(inst.op).mnemonic), " puts ",
                                 llo::ResultsOf(inst.op, chip_.mxu_tiles()),
                                 " results on a queue of ", depth));
      }
    }
  }
  return true;
}

// A kernel has scalars and predicates of its own, but the vector registers and masks are the
// caller's.
void Assembler::KeepNothingAcrossCalls() {
  for (RegClass cls : {RegClass::kVector, RegClass::kMask}) {
    llo::Liveness live = llo::ComputeLiveness(f_, cls);
    llo::BitSet across(f_.registers[static_cast<int>(cls)]);
    for (size_t b = 0; b < f_.blocks.size(); ++b) {
      const std::vector<Inst>& insts = f_.blocks[b].insts;
      if (!insts.empty() && insts.back().op == Opcode::kCall) across.Merge(live.out[b]);
    }
    std::vector<int> registers;
    across.ForEach([&](int r) { registers.push_back(r); });
    if (!registers.empty()) regalloc::SpillRegisters(&f_, cls, registers, &area_, &counts_);
  }
}

// Puts each block's instructions in the order of their issue.
void Linearize(llo::Function* f, const schedule::FunctionSchedule& s) {
  for (size_t b = 0; b < f->blocks.size(); ++b) {
    std::vector<Inst>& insts = f->blocks[b].insts;
    std::vector<std::pair<int, int>> order;
    for (int i = 0; i < s.graphs[b].size; ++i) {
      insts[i].unit = s.blocks[b].unit[i];
      order.push_back({s.blocks[b].time[i], i});
    }
    std::sort(order.begin(), order.end());
    std::vector<Inst> sorted;
    for (auto [time, i] : order) sorted.push_back(insts[i]);
    if (s.graphs[b].terminator >= 0) sorted.push_back(insts[s.graphs[b].terminator]);
    insts = std::move(sorted);
  }
}

// Round n leaves n registers of slack: colouring over branches may need a few more than are live.
bool Assembler::Spill(int round) {
  Linearize(&f_, schedule_);
  // Masks and predicates first: their spill code needs vectors and scalars.
  for (RegClass cls :
       {RegClass::kMask, RegClass::kVector, RegClass::kPredicate, RegClass::kScalar}) {
    int c = ClassIndex(cls);
    int registers = schedule::RegistersOf(chip_)[c];
    int capacity = registers - std::min(round, registers / 4);
    if (!regalloc::SpillToFit(&f_, cls, capacity, &area_, &counts_)) {
      return Fail(DiagCode::kTooFewRegisters,
                  absl::StrCat("one instruction needs more than ", capacity, " registers of class ",
                               std::string(1, isa::ClassLetter(cls)), ", of which ", chip_.name,
                               " has ", schedule::RegistersOf(chip_)[c]));
    }
  }
  return true;
}

Assembler::State Assembler::Take() {
  return {std::move(f_), area_, counts_, std::move(schedule_), std::move(coloring_)};
}

void Assembler::Put(State state) {
  f_ = std::move(state.f);
  area_ = state.area;
  counts_ = state.counts;
  schedule_ = std::move(state.schedule);
  coloring_ = std::move(state.coloring);
}

// One schedule with registers: it fits, it does with some values in memory, or it starts as an
// earlier attempt did and is not carried on.
Assembler::Outcome Assembler::Attempt(double spill_weight) {
  constexpr int kRounds = 7;
  for (int round = 0;; ++round) {
    schedule::ScheduleOptions options;
    options.registers = schedule::RegistersOf(chip_);
    options.spill_weight = spill_weight;
    options.fit_loops = true;
    options.near_order = round > 0;
    options.must_fit = round > 2;
    if (round > 4) options.window = 1;
    int bad_block = 0;
    if (!schedule::ScheduleFunction(f_, chip_, options, round == 0 ? &candidates_ : nullptr,
                                    &schedule_, &bad_block)) {
      Fail(DiagCode::kQueueDepth,
           absl::StrCat("the pops of block ", bad_block, " (", f_.blocks[bad_block].label,
                        ") cannot leave their queues in the order of the pushes"));
      return Outcome::kFailed;
    }
    if (round == 0 && !seen_.insert(schedule_.choices).second) return Outcome::kSeen;
    coloring_ = regalloc::Color(f_, schedule_, fixed_, chip_);
    if (coloring_.ok()) return round == 0 ? Outcome::kFits : Outcome::kSpilled;
    if (round == kRounds) {
      Fail(DiagCode::kTooFewRegisters, "its values do not fit the registers");
      return Outcome::kFailed;
    }
    if (!Spill(round)) return Outcome::kFailed;
  }
}

double Assembler::Cycles() const {
  double cycles = 0;
  for (size_t b = 0; b < f_.blocks.size(); ++b) {
    cycles +=
        static_cast<double>(schedule_.blocks[b].length) * std::max<int64_t>(1, f_.blocks[b].trips);
  }
  return cycles;
}

// What a spilled value costs depends on how much else waits: tries three prices and keeps the best.
bool Assembler::ScheduleAndAllocate() {
  constexpr double kWeights[] = {0.5, 0.15, 1.5};
  const State original = {f_, area_, counts_, {}, {}};
  State best;
  double best_cycles = -1;
  for (double weight : kWeights) {
    if (best_cycles >= 0) Put(original);
    Outcome outcome = Attempt(weight);
    if (outcome == Outcome::kFailed) return false;
    if (outcome == Outcome::kFits) return true;
    if (outcome == Outcome::kSeen) continue;
    double cycles = Cycles();
    if (best_cycles >= 0 && cycles >= best_cycles) continue;
    best_cycles = cycles;
    best = Take();
  }
  Put(std::move(best));
  return true;
}

bool Assembler::CheckSpillSpace() {
  int64_t rows = chip_.vmem_bytes / 512, words = chip_.smem_bytes / 4;
  if (area_.first_row + area_.rows > rows || area_.first_word + area_.words > words) {
    return Fail(DiagCode::kSpillSpace,
                absl::StrCat("spilling takes ", area_.rows, " VMEM rows from row ", area_.first_row,
                             " and ", area_.words, " SMEM words from word ", area_.first_word,
                             "; there are ", rows, " rows and ", words, " words"));
  }
  return true;
}

void Assembler::Describe(const std::vector<int>& block_start) {
  std::vector<schedule::ReplayLoop> loops;
  out_.info.loops.clear();
  for (const llo::Loop& loop : f_.loops) {
    int first = block_start[loop.first], last = block_start[loop.last + 1] - 1;
    loops.push_back({first, last, loop.trips, loop.is_grid});
    if (loop.is_grid) out_.info.grid.first_bundle = first;
  }
  for (const regalloc::LoopReport& r : reports_) {
    isa::LoopInfo info;
    info.first_bundle = loops[r.loop].first;
    info.last_bundle = loops[r.loop].last;
    info.trips = r.trips;
    info.mii = r.mii;
    info.ii = r.ii;
    info.stages = r.stages;
    info.bound = r.bound;
    out_.info.loops.push_back(std::move(info));
  }
  schedule::Replay replay = schedule::ReplayTiming(out_.bundles, out_.args, loops, chip_);
  out_.info.schedule_cycles = replay.grid_step >= 0 ? replay.grid_step : replay.cycles;
  out_.info.grid_steps = f_.grid_steps;
  out_.info.spills = counts_.spills;
  out_.info.fills = counts_.fills;
  out_.info.max_live_vregs = coloring_.max_live[ClassIndex(RegClass::kVector)];
}

std::vector<int> Assembler::LatchingLoops() const {
  std::vector<int> loops;
  for (size_t l = 0; l < f_.loops.size(); ++l) {
    if (f_.loops[l].latch) loops.push_back(static_cast<int>(l));
  }
  return loops;
}

bool Assembler::Run() {
  SetCurrentStage(absl::StrCat("schedule ", f_.name));
  out_ = isa::Function();
  out_.name = f_.name;
  out_.args = f_.args;
  out_.info = f_.info;
  if (!CheckQueueDepths()) return false;
  std::vector<int> block_start;
  if (options_.opt_level == 0) {
    if (!regalloc::EmitMemoryForm(f_, chip_, &area_, &counts_, &out_, &block_start)) {
      return Fail(DiagCode::kTooFewRegisters, "one instruction has too many operands");
    }
  } else {
    regalloc::ReuseResults(&f_);
    KeepNothingAcrossCalls();
    if (!ScheduleAndAllocate()) return false;
    reports_ = regalloc::PipelineLoops(fixed_, chip_, &f_, &schedule_, &coloring_);
    regalloc::CheckColoring(f_, schedule_, coloring_, fixed_, chip_);
    regalloc::EmitBundles(f_, schedule_, coloring_, chip_, &out_, &block_start);
  }
  if (!CheckSpillSpace()) return false;
  Describe(block_start);
  return true;
}

}  // namespace

bool Assemble(const llo::Function& function, const Chip& chip, const AssembleOptions& options,
              isa::Function* out, int64_t* spill_rows_used, DiagSink* diags) {
  llo::Function f = function;
  std::vector<int> apart;  // loops whose first trip cannot be pipelined with the others
  if (options.opt_level == 0) {
    for (size_t l = 0; l < f.loops.size(); ++l) {
      if (f.loops[l].latch) apart.push_back(static_cast<int>(l));
    }
  }
  for (bool again = true; again;) {
    for (int l : apart) regalloc::PeelLatch(&f, l);
    Assembler assembler(f, chip, options, out, diags);
    bool ok = assembler.Run();
    if (spill_rows_used != nullptr) *spill_rows_used = assembler.spill_rows();
    if (!ok) return false;
    apart = assembler.LatchingLoops();
    again = !apart.empty();
  }
  return true;
}

}  // namespace tpuc
