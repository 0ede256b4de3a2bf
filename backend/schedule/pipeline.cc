// Prologue, kernel and epilogue of a pipelined loop, with the names of each trip's values.
#include "backend/schedule/pipeline.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backend/llo/operands.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

class Expander {
 public:
  Expander(const LoopGraph& graph, const ModuloTimes& times, const llo::Block& block, int64_t trips,
           int kernel, const Chip& chip, llo::Function* function, PipelinedLoop* out)
      : g_(graph),
        m_(times),
        block_(block),
        trips_(trips),
        kernel_(kernel),
        chip_(chip),
        f_(*function),
        out_(*out) {}
  bool Run();

 private:
  using RegKey = std::pair<int, int>;  // class, register
  struct Instance {
    int64_t time;
    int node;
    int64_t trip;
  };
  static RegKey KeyOf(Reg r) { return {static_cast<int>(r.cls), r.id}; }
  void Measure();
  bool Split(int copies, int last_rows);
  bool MakeLoop();
  bool MakeFlat();
  void StartBlocks();
  Reg KernelName(int index, int64_t trip);
  Reg NameOf(int index, int64_t trip);
  Inst Instantiate(int node, int64_t trip);
  void Emit(int part, int64_t from, int64_t to);
  void AddInst(int part, int time, const Inst& inst, int unit);
  int FreeSlot(int part, const Inst& inst, int from, int to) const;
  bool CounterFits();
  bool AddCounter();
  void AddLiveOuts();

  const LoopGraph& g_;
  const ModuloTimes& m_;
  const llo::Block& block_;
  int64_t trips_;
  int kernel_;
  const Chip& chip_;
  llo::Function& f_;
  PipelinedLoop& out_;
  Inst count_, test_, branch_;  // of the kernel's trips
  int count_at_ = 0, test_at_ = 0, branch_at_ = 0;
  int copies_ = 1;
  int64_t kernel_start_ = 0, kernel_length_ = 0, epilogue_start_ = 0;
  absl::flat_hash_map<RegKey, int> index_;                     // in g_.registers
  absl::flat_hash_set<std::tuple<int, int, int>> reads_last_;  // node, class, register
  struct Base {
    int index = 0, trips = 0;  // in g_.registers; how many trips newer
    bool of_last = false;
  };
  absl::flat_hash_map<int, Base> bases_;           // by node
  std::vector<int64_t> first_write_, last_event_;  // by register, of trip 0
  absl::flat_hash_map<std::pair<int, int64_t>, Reg> kernel_names_, own_names_;
};

// When each register is first written and last touched, by trip 0.
void Expander::Measure() {
  for (size_t i = 0; i < g_.registers.size(); ++i) {
    const LoopRegister& r = g_.registers[i];
    index_[KeyOf(r.reg)] = i;
    int64_t first = -1, last = 0;
    for (int n : r.writes) {
      if (g_.dead[n]) continue;
      first = first < 0 ? m_.time[n] : std::min<int64_t>(first, m_.time[n]);
      last = std::max<int64_t>(last, m_.time[n]);
    }
    for (int n : r.reads) last = std::max<int64_t>(last, g_.dead[n] ? 0 : m_.time[n]);
    for (int n : r.reads_of_last) {
      last = std::max<int64_t>(last, g_.dead[n] ? 0 : m_.time[n] + m_.ii);
      reads_last_.insert({n, static_cast<int>(r.reg.cls), r.reg.id});
    }
    for (bool of_last : {false, true}) {
      for (int n : of_last ? r.bases_of_last : r.bases) {
        if (g_.dead[n]) continue;
        BaseChoice choice = ChooseBase(g_, m_, r, n, of_last, chip_);
        last = std::max<int64_t>(last, first + choice.age);
        bases_[n] = {static_cast<int>(i), choice.trips, of_last};
      }
    }
    first_write_.push_back(first);
    last_event_.push_back(last);
  }
}

// The kernel of `copies` trips ends `last_rows` cycles after its last trip starts, and begins late
// enough that none of its trips reads what was there before the loop. False if it would not repeat.
bool Expander::Split(int copies, int last_rows) {
  copies_ = copies;
  kernel_length_ = int64_t{copies} * m_.ii;
  epilogue_start_ = (trips_ - 1) * m_.ii + last_rows;
  out_.kernel_trips = (epilogue_start_ - int64_t{m_.Stages()} * m_.ii) / kernel_length_;
  kernel_start_ = epilogue_start_ - out_.kernel_trips * kernel_length_;
  return out_.kernel_trips >= 2;
}

Reg Expander::KernelName(int index, int64_t trip) {
  auto [it, is_new] = kernel_names_.emplace(std::make_pair(index, trip % copies_), Reg());
  if (is_new) it->second = f_.New(g_.registers[index].reg.cls);
  return it->second;
}

// The register that holds a trip's value of a loop register.
Reg Expander::NameOf(int index, int64_t trip) {
  const LoopRegister& r = g_.registers[index];
  if (r.fixed || trip < 0) return r.reg;
  int64_t written = first_write_[index] + trip * m_.ii;
  int64_t last = last_event_[index] + trip * m_.ii;
  bool in_prologue = written < kernel_start_ && last < kernel_start_;
  bool in_epilogue = written >= epilogue_start_;
  // Nobody reads the value from before the loop any more.
  bool last_name = trip == trips_ - 1 && r.live_out && written >= last_event_[index];
  if (last_name && (in_epilogue || out_.kernel_trips == 0)) return r.reg;
  if (!in_prologue && !in_epilogue && out_.kernel_trips > 0) return KernelName(index, trip);
  auto [it, is_new] = own_names_.emplace(std::make_pair(index, trip), Reg());
  if (is_new) it->second = f_.New(r.reg.cls);
  return it->second;
}

Inst Expander::Instantiate(int node, int64_t trip) {
  Inst inst = block_.insts[node];
  auto rename = [&](Reg* r, bool dest) {
    if (!r->valid() || r->cls == RegClass::kToken) return;
    auto it = index_.find(KeyOf(*r));
    if (it == index_.end()) return;
    bool last = !dest && reads_last_.contains({node, static_cast<int>(r->cls), r->id});
    *r = NameOf(it->second, last ? trip - 1 : trip);
  };
  for (Operand& o : inst.src) rename(&o.reg, false);
  if (auto base = bases_.find(node); base != bases_.end()) {
    int64_t own = base->second.of_last ? trip - 1 : trip;
    int64_t newest = std::min(own + base->second.trips, trips_ - 1);
    const LoopRegister& r = g_.registers[base->second.index];
    inst.mem.base.reg = NameOf(base->second.index, newest);
    inst.mem.offset -= static_cast<int32_t>((newest - own) * r.stride);
  } else if (isa::Info(inst.op).has_memory) {
    rename(&inst.mem.base.reg, false);
  }
  rename(&inst.pred, false);
  rename(&inst.dest, true);
  inst.unit = m_.unit[node];
  if (g_.latch && trip == 0 && llo::IsMatmul(inst.op) && g_.latches[inst.unit] == node) {
    inst.op = llo::Latching(inst.op);
  }
  return inst;
}

void Expander::AddInst(int part, int time, const Inst& inst, int unit) {
  BlockSchedule& s = out_.schedules[part];
  out_.blocks[part].insts.push_back(inst);
  s.time.push_back(time);
  s.unit.push_back(unit);
  if (static_cast<int>(s.slots.size()) <= time) s.slots.resize(time + 1);
  s.slots[time].Add(inst);
  s.length = std::max(s.length, time + 1);
}

// All that issues in [from, to).
void Expander::Emit(int part, int64_t from, int64_t to) {
  std::vector<Instance> instances;
  for (int n = 0; n < g_.size; ++n) {
    if (g_.dead[n]) continue;
    int64_t low = (from - m_.time[n] + m_.ii - 1) / m_.ii;
    for (int64_t trip = std::max<int64_t>(0, low); trip < trips_; ++trip) {
      int64_t at = m_.time[n] + trip * m_.ii;
      if (at >= to) break;
      if (at >= from) instances.push_back({at - from, n, trip});
    }
  }
  std::sort(instances.begin(), instances.end(), [](const Instance& a, const Instance& b) {
    return std::tie(a.time, a.trip, a.node) < std::tie(b.time, b.trip, b.node);
  });
  for (const Instance& i : instances) {
    AddInst(part, i.time, Instantiate(i.node, i.trip), m_.unit[i.node]);
  }
  out_.schedules[part].length = std::max<int64_t>(out_.schedules[part].length, to - from);
  out_.schedules[part].slots.resize(out_.schedules[part].length);
}

// First cycle of [from, to] where the instruction fits; -1: none.
int Expander::FreeSlot(int part, const Inst& inst, int from, int to) const {
  const std::vector<SlotUse>& slots = out_.schedules[part].slots;
  for (int t = std::max(0, from); t <= to; ++t) {
    if (t >= static_cast<int>(slots.size()) || slots[t].Fits(inst, chip_)) return t;
  }
  return -1;
}

// The kernel's own trip count, counted down: where its instructions go.
bool Expander::CounterFits() {
  branch_at_ = static_cast<int>(kernel_length_) - 1 - chip_.delay_slots;
  count_ = test_ = branch_ = Inst();
  Reg counter = {RegClass::kScalar, 0}, more = {RegClass::kPredicate, 0};
  count_.op = Opcode::kSadd;
  count_.dest = counter;
  count_.src = {Operand(counter), Operand::Imm(-1)};
  test_.op = Opcode::kScmpGt;
  test_.dest = more;
  test_.src = {Operand(counter), Operand::Imm(0)};
  branch_.op = Opcode::kSbr;
  branch_.pred = more;
  branch_.target = kernel_;
  if (FreeSlot(1, branch_, branch_at_, branch_at_) < 0) return false;
  int one = Latency(count_, chip_), two = Latency(test_, chip_);
  std::vector<SlotUse>& slots = out_.schedules[1].slots;
  slots[branch_at_].Add(branch_);
  test_at_ = -1;
  for (int t = branch_at_ - two; t >= one && test_at_ < 0; --t) {
    if (slots[t].Fits(test_, chip_)) test_at_ = t;
  }
  count_at_ = test_at_ < 0 ? -1 : FreeSlot(1, count_, 0, test_at_ - one);
  slots[branch_at_].Remove(branch_);
  return count_at_ >= 0;
}

bool Expander::AddCounter() {
  Inst set;
  set.op = Opcode::kSmov;
  set.src = {Operand::Imm(static_cast<int32_t>(out_.kernel_trips))};
  int at_set = FreeSlot(0, set, 0, out_.schedules[0].length - 1);
  if (at_set < 0) return false;
  Reg counter = f_.New(RegClass::kScalar), more = f_.New(RegClass::kPredicate);
  set.dest = count_.dest = counter;
  count_.src[0] = test_.src[0] = Operand(counter);
  test_.dest = branch_.pred = more;
  AddInst(0, at_set, set, -1);
  AddInst(1, count_at_, count_, -1);
  AddInst(1, test_at_, test_, -1);
  out_.blocks[1].insts.push_back(branch_);
  out_.schedules[1].slots[branch_at_].Add(branch_);
  out_.schedules[1].terminator = branch_at_;
  return true;
}

// The last trip's values that are read after the loop go back to their own registers.
void Expander::AddLiveOuts() {
  for (size_t i = 0; i < g_.registers.size(); ++i) {
    const LoopRegister& r = g_.registers[i];
    if (!r.live_out || r.fixed || first_write_[i] < 0) continue;
    Reg name = NameOf(i, trips_ - 1);
    if (name == r.reg) continue;
    Inst move;
    switch (r.reg.cls) {
      case RegClass::kVector:
        move.op = Opcode::kVmov;
        break;
      case RegClass::kMask:
        move.op = Opcode::kVmmov;
        break;
      case RegClass::kScalar:
        move.op = Opcode::kSmov;
        break;
      default:
        move.op = Opcode::kPmov;
    }
    move.dest = r.reg;
    move.src = {Operand(name)};
    // The register itself may still be read by early trips.
    int part = out_.kernel_trips == 0 ? 0 : 2;
    int64_t ready = part == 0 ? last_event_[i] + 1 : 0;
    int64_t start = part == 0 ? 0 : epilogue_start_;
    for (int n : r.writes) {
      if (g_.dead[n]) continue;
      int64_t at = m_.time[n] + (trips_ - 1) * m_.ii + Latency(block_.insts[n], chip_);
      ready = std::max(ready, at - start);
    }
    int end = std::max<int64_t>(out_.schedules[part].length, ready);
    AddInst(part, FreeSlot(part, move, ready, end), move, -1);
  }
}

void Expander::StartBlocks() {
  kernel_names_.clear();
  own_names_.clear();
  const char* names[3] = {".prologue", "", ".epilogue"};
  int64_t around = block_.trips > 0 ? std::max<int64_t>(1, block_.trips / trips_) : block_.trips;
  for (int part = 0; part < 3; ++part) {
    out_.blocks[part] = llo::Block();
    out_.schedules[part] = BlockSchedule();
    out_.blocks[part].label = block_.label + names[part];
    out_.blocks[part].in_grid_loop = block_.in_grid_loop;
    out_.blocks[part].trips = part == 1 && around > 0 ? around * out_.kernel_trips : around;
  }
}

// Prologue, kernel, epilogue. The kernel's counter must find room: another first row or one more
// copy may have it.
bool Expander::MakeLoop() {
  constexpr int64_t kMostInstructions = 40000;
  int shortest = chip_.delay_slots + 4;  // sadd, scmp, sbr.rel and its slots
  int copies = std::max(CopiesNeeded(g_, m_, chip_), (shortest + m_.ii - 1) / m_.ii);
  for (int c = copies; c <= copies + 2; ++c) {
    int tries = std::min(m_.ii, 16);
    for (int rows = m_.ii; rows > m_.ii - tries; --rows) {
      if (!Split(c, rows)) continue;
      if ((kernel_start_ / m_.ii + c + m_.Stages()) * g_.size > kMostInstructions) continue;
      StartBlocks();
      Emit(1, kernel_start_, kernel_start_ + kernel_length_);
      if (!CounterFits()) continue;
      Emit(0, 0, kernel_start_);
      Emit(2, epilogue_start_, std::max(epilogue_start_, m_.last + (trips_ - 1) * m_.ii + 1));
      if (AddCounter()) return true;
    }
  }
  return false;
}

bool Expander::MakeFlat() {
  constexpr int64_t kMostInstructions = 20000;
  if (trips_ * g_.size > kMostInstructions) return false;
  int64_t end = m_.last + (trips_ - 1) * m_.ii + 1;
  kernel_start_ = epilogue_start_ = end + 1;
  out_.kernel_trips = 0;
  StartBlocks();
  out_.blocks[0].label = block_.label;
  Emit(0, 0, end);
  return true;
}

bool Expander::Run() {
  out_ = PipelinedLoop();
  Measure();
  if (!MakeLoop() && !MakeFlat()) return false;
  AddLiveOuts();
  for (const BlockSchedule& s : out_.schedules) out_.cycles += s.length;
  out_.cycles += out_.schedules[1].length * std::max<int64_t>(0, out_.kernel_trips - 1);
  return true;
}

}  // namespace

bool PipelineLoop(const LoopGraph& graph, const ModuloTimes& times, const llo::Block& block,
                  int64_t trips, int kernel, const Chip& chip, llo::Function* function,
                  PipelinedLoop* out) {
  return Expander(graph, times, block, trips, kernel, chip, function, out).Run();
}

}  // namespace tpuc::schedule
