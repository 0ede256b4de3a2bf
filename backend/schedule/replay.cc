// Scoreboard of registers, queues, units and VMEM rows, advanced one bundle at a time.
#include "backend/schedule/replay.h"

#include <algorithm>
#include <array>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "backend/llo/operands.h"
#include "backend/schedule/rules.h"
#include "backend/schedule/scalar_values.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Reg;

constexpr int64_t kLongAgo = -(int64_t{1} << 40);

struct Mxu {
  int64_t lhs = kLongAgo, weight = kLongAgo;   // next command of the side
  int64_t push = kLongAgo, matmul = kLongAgo;  // next push, next matmul
  int64_t latch = kLongAgo;                    // last push's results may be latched
};
struct Xlu {
  int64_t next = kLongAgo, next_xpose = kLongAgo;
  int members = 0;  // pushes of the open transpose
};
struct Queue {
  std::deque<int64_t> ready;  // of each entry
  int64_t next_pop = kLongAgo;
};

class Player {
 public:
  Player(const std::vector<isa::Bundle>& bundles, int args, const std::vector<ReplayLoop>& loops,
         const Chip& chip);
  Replay Run();

 private:
  void Walk(int first, int last, size_t loop);
  void WalkLoop(size_t loop);
  void Issue(int bundle);
  int64_t Earliest(const Inst& inst);
  void Commit(const Inst& inst, int64_t at);
  void CommitUnit(const Inst& inst, int64_t at);
  void CommitQueue(const Inst& inst, int64_t at);
  void KeepStored(const Inst& inst);
  void Define(const Inst& inst);
  template <typename F>
  void ForEachRow(const Inst& inst, F f);

  const std::vector<isa::Bundle>& bundles_;
  const std::vector<ReplayLoop>& loops_;
  const Chip& chip_;
  Replay out_;
  int64_t skipped_ = 0;  // cycles of loop trips that were not walked
  int64_t now_ = 0;      // earliest issue of the next bundle
  uint64_t waits_ = 0;   // fingerprint of how long each bundle of a trip waited
  std::array<std::vector<int64_t>, 4> ready_;
  std::vector<Mxu> mxus_;
  std::vector<Xlu> xlus_;
  std::vector<Queue> queues_;
  absl::flat_hash_map<std::pair<int32_t, int64_t>, int64_t> rows_;  // root, row -> readable from
  ScalarValues values_;
  absl::flat_hash_map<int64_t, ScalarValue> words_;  // of SMEM, where addresses are constants
};

Player::Player(const std::vector<isa::Bundle>& bundles, int args,
               const std::vector<ReplayLoop>& loops, const Chip& chip)
    : bundles_(bundles), loops_(loops), chip_(chip) {
  ready_ = {std::vector<int64_t>(chip.vector_registers, kLongAgo),
            std::vector<int64_t>(chip.mask_registers, kLongAgo),
            std::vector<int64_t>(chip.scalar_registers, kLongAgo),
            std::vector<int64_t>(chip.predicate_registers, kLongAgo)};
  for (int a = 0; a < args && a < chip.scalar_registers; ++a) ready_[2][a] = 1;
  mxus_.resize(chip.mxus);
  xlus_.resize(chip.xlus);
  queues_.resize(QueueCount(chip));
  out_.issue.assign(bundles.size(), -1);
}

template <typename F>
void Player::ForEachRow(const Inst& inst, F f) {
  ScalarValue base = values_.Of(inst.mem.base);
  for (int i = 0; i < 8; ++i) {
    if (!(inst.mem.sublane_mask >> i & 1)) continue;
    f(std::make_pair(base.root,
                     base.offset + inst.mem.offset + i * int64_t{inst.mem.sublane_stride}));
  }
}

int64_t Player::Earliest(const Inst& inst) {
  int64_t at = now_;
  llo::ForEachRead(inst,
                   [&](Reg r) { at = std::max(at, ready_[static_cast<int>(r.cls) - 1][r.id]); });
  if (inst.op == Opcode::kVld) {
    ForEachRow(inst, [&](auto row) {
      auto it = rows_.find(row);
      if (it != rows_.end()) at = std::max(at, it->second);
    });
  }
  if (int queue = QueueOf(inst, inst.unit, chip_); queue >= 0 && llo::IsPop(inst.op)) {
    const Queue& q = queues_[queue];
    at = std::max(at, q.next_pop);
    if (!q.ready.empty()) at = std::max(at, q.ready.front());
  }
  const isa::OpInfo& info = isa::Info(inst.op);
  if (info.slot != isa::Slot::kVex) return at;
  if (info.unit == isa::Unit::kXlu) {
    const Xlu& x = xlus_[inst.unit];
    at = std::max(at, x.next);
    return llo::IsXposeStart(inst.op) ? std::max(at, x.next_xpose) : at;
  }
  const Mxu& m = mxus_[inst.unit];
  if (llo::IsWeightSide(inst.op)) {
    at = std::max(at, m.weight);
    return llo::IsWeightPush(inst.op) ? std::max(at, m.push) : at;
  }
  at = std::max(at, m.lhs);
  if (llo::IsMatmul(inst.op)) at = std::max(at, m.matmul);
  return llo::IsLatch(inst.op) ? std::max(at, m.latch) : at;
}

void Player::CommitQueue(const Inst& inst, int64_t at) {
  int queue = QueueOf(inst, inst.unit, chip_);
  if (queue < 0) return;
  Queue& q = queues_[queue];
  if (llo::IsPop(inst.op)) {
    if (!q.ready.empty()) q.ready.pop_front();
    q.next_pop = at + PopInterval(queue, chip_);
    return;
  }
  if (llo::IsPush(inst.op)) {
    for (int k = 0; k < llo::ResultsOf(inst.op, chip_.mxu_tiles()); ++k) {
      q.ready.push_back(at + Latency(inst, chip_) + k * ResultInterval(inst, chip_));
    }
    if (llo::IsXposeStart(inst.op)) xlus_[inst.unit].members = 0;
  }
  if (isa::Info(inst.op).latency != LatencyKey::kXpose) return;
  int n = ++xlus_[inst.unit].members;
  int results = llo::ResultsOf(Opcode::kVxposeStart, chip_.mxu_tiles());
  int64_t first = at + chip_.latency(LatencyKey::kXpose) - n * chip_.interval(IntervalKey::kXlu);
  size_t size = q.ready.size();
  for (int k = 0; k < results && size >= static_cast<size_t>(results); ++k) {
    q.ready[size - results + k] = first + k * chip_.interval(IntervalKey::kXluPop);
  }
}

void Player::CommitUnit(const Inst& inst, int64_t at) {
  const isa::OpInfo& info = isa::Info(inst.op);
  if (info.slot != isa::Slot::kVex) return;
  if (info.unit == isa::Unit::kXlu) {
    Xlu& x = xlus_[inst.unit];
    x.next = at + IssueInterval(inst, chip_);
    if (llo::IsXposeStart(inst.op)) x.next_xpose = at + chip_.interval(IntervalKey::kXposeGroup);
    return;
  }
  Mxu& m = mxus_[inst.unit];
  int one = chip_.latency(LatencyKey::kOne);
  if (llo::IsSubr(inst.op)) {
    m.weight = at + Latency(inst, chip_);
  } else if (llo::IsWeightPush(inst.op)) {
    m.weight = at + one;
    m.push = at + IssueInterval(inst, chip_);
    m.latch = at + Latency(inst, chip_);
  } else if (llo::IsMubr(inst.op)) {
    m.lhs = at + Latency(inst, chip_);
  } else {
    m.lhs = at + one;
    m.matmul = at + IssueInterval(inst, chip_);
    if (llo::IsLatch(inst.op)) m.weight = std::max(m.weight, at + one);
  }
}

void Player::Commit(const Inst& inst, int64_t at) {
  CommitUnit(inst, at);
  CommitQueue(inst, at);
  if (isa::Info(inst.op).slot == isa::Slot::kStore) {
    ForEachRow(inst, [&](auto row) { rows_[row] = at + chip_.latency(LatencyKey::kVst); });
  }
  if (inst.dest.valid()) {
    int64_t& ready = ready_[static_cast<int>(inst.dest.cls) - 1][inst.dest.id];
    ready = std::max(ready, at + Latency(inst, chip_));
  }
  if (inst.op == Opcode::kVdelay && inst.src[0].is_imm()) {
    now_ = std::max(now_, at + inst.src[0].imm);
  }
}

// A scalar that was spilled comes back as the same value.
void Player::KeepStored(const Inst& inst) {
  const bool store = inst.op == Opcode::kSst;
  const ScalarValue base = store ? values_.Of(inst.mem.base) : ScalarValue();
  if (store && base.root == 0 && !inst.pred.valid()) {
    words_[base.offset + inst.mem.offset] = values_.Of(inst.src[0]);
  } else if (store || inst.op == Opcode::kDmaHbmToSmem || inst.op == Opcode::kDmaVmemToSmem ||
             inst.op == Opcode::kCall) {
    words_.clear();
  }
}

void Player::Define(const Inst& inst) {
  const bool load = inst.op == Opcode::kSld && !inst.pred.valid();
  const ScalarValue base = load ? values_.Of(inst.mem.base) : ScalarValue();
  values_.Define(inst);
  auto it = load && base.root == 0 ? words_.find(base.offset + inst.mem.offset) : words_.end();
  if (it != words_.end()) values_.Assign(inst.dest, it->second);
}

void Player::Issue(int bundle) {
  int64_t at = now_;
  for (const Inst& inst : bundles_[bundle].insts) at = std::max(at, Earliest(inst));
  waits_ = waits_ * 1000003 + (at - now_) + 1;
  now_ = at + 1;
  for (const Inst& inst : bundles_[bundle].insts) Commit(inst, at);
  for (const Inst& inst : bundles_[bundle].insts) KeepStored(inst);
  for (const Inst& inst : bundles_[bundle].insts) Define(inst);
  if (out_.issue[bundle] < 0) out_.issue[bundle] = at + skipped_;
}

// Trips are walked until they repeat: the same waits of every bundle, for longer than any latency
// reaches. The rest take as long as the last.
void Player::WalkLoop(size_t loop) {
  constexpr int64_t kReach = 1024, kFewest = 4;  // cycles; trips
  const ReplayLoop& l = loops_[loop];
  int64_t trips = std::max<int64_t>(1, l.trips);
  int64_t step = 0, same_for = 0;
  uint64_t last_waits = 0, outer_waits = waits_;
  for (int64_t i = 0; i < trips; ++i) {
    int64_t before = now_ + skipped_;
    waits_ = 0;
    Walk(l.first, l.last, loop);
    step = now_ + skipped_ - before;
    same_for = waits_ == last_waits ? same_for + step : 0;
    last_waits = waits_;
    outer_waits = outer_waits * 1000003 + waits_;
    if (i + 1 < kFewest || same_for < kReach) continue;
    skipped_ += step * (trips - 1 - i);
    break;
  }
  waits_ = outer_waits;
  if (l.is_grid) out_.grid_step = step;
}

// Bundles [first, last], which is all of loop `loop` or (loops_.size()) the function.
void Player::Walk(int first, int last, size_t loop) {
  for (int b = first; b <= last;) {
    size_t inner = loops_.size();
    for (size_t l = 0; l < loops_.size(); ++l) {  // the outermost that starts here
      bool inside = loop == loops_.size() ||
                    (loops_[l].first >= loops_[loop].first && loops_[l].last <= loops_[loop].last &&
                     loops_[l].last - loops_[l].first < loops_[loop].last - loops_[loop].first);
      if (!inside || loops_[l].first != b || loops_[l].last < b) continue;
      if (inner == loops_.size() || loops_[l].last > loops_[inner].last) inner = l;
    }
    if (inner < loops_.size()) {
      WalkLoop(inner);
      b = loops_[inner].last + 1;
    } else {
      Issue(b++);
    }
  }
}

Replay Player::Run() {
  Walk(0, static_cast<int>(bundles_.size()) - 1, loops_.size());
  out_.cycles = now_ + skipped_;
  return std::move(out_);
}

}  // namespace

Replay ReplayTiming(const std::vector<isa::Bundle>& bundles, int args,
                    const std::vector<ReplayLoop>& loops, const Chip& chip) {
  return Player(bundles, args, loops, chip).Run();
}

}  // namespace tpuc::schedule
