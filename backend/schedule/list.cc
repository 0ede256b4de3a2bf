// The list scheduler. Instructions wait in a calendar until their operands are there, then in one
// heap a resource class; results wait at the head of their queue. Each cycle takes the best head
// that fits.
#include "backend/schedule/list.h"

#include <algorithm>
#include <queue>

#include "backend/schedule/rules.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::Slot;

// Heaps whose members need the same resource, so that if the best does not fit no other would.
enum : int {
  kSaluHeap,
  kValuHeap,
  kEupHeap,
  kLoadHeap,
  kStoreHeap,
  kMiscHeap,
  kMiscStoreHeap,
  kFirstUnitHeap
};

constexpr int kSlotCount = static_cast<int>(Slot::kMiscStore) + 1;

struct Ready {
  int32_t key, node;
  bool operator<(const Ready& o) const { return key != o.key ? key < o.key : node > o.node; }
};

struct XluState {
  int next = 0;        // first cycle of the next command
  int next_xpose = 0;  // of the next transpose
  int open = -1;       // start of a transpose that has not ended
  int last_ready = 0;  // when the newest entry's last result may leave
};

struct QueueState {
  std::vector<int32_t> pushes;  // in order
  size_t head = 0;
  size_t taken = 0;  // results popped of the head
  int entries = 0;
  int next_pop = 0;
  int popped_at = -1, popped = 0;  // pops of the current cycle keep their entries until its end
};

enum class Outcome : uint8_t { kPlaced, kBlocked, kHeld };

class ListScheduler {
 public:
  ListScheduler(const Graph& graph, const Chip& chip, const Policy& policy, int longest,
                BlockSchedule* out)
      : g_(graph), chip_(chip), policy_(policy), longest_(longest), out_(*out) {}
  Listed Run();

 private:
  int HeapOf(int node) const;
  int HeapCount() const { return kFirstUnitHeap + 3 * (chip_.xlus + 1) + 2 * chip_.mxus; }
  int32_t Key(int node) const {
    if (policy_.ordered_pushes && OrderedUnit(node) >= 0) return kNoLimit - node;
    return policy_.oldest_first ? -node : g_.height[node];
  }
  // Whose pushes the scheduler may reorder: 0 EUP, 1 V2S, 2 XLU; -1: the node is no such push.
  int OrderedUnit(int node) const;
  bool InWindow(int node) const { return node - frontier_ < window_; }
  bool IsMember(int node) const { return llo::IsXposeMember(g_.inst(node).op); }
  void Release(int node);
  void AdvanceFrontier();
  void FindHead(int source);
  int BestHead();
  bool Cycle();
  Outcome TryPlace(int node);
  int ChooseXlu(int node);
  bool QueueHasRoom(int node, int unit) const;
  bool RaisesPressure(int node) const;
  bool Starts(int node) const { return g_.reads[node].empty(); }
  void Place(int node, int unit);
  void PlaceOnUnits(int node, int unit);
  void CountLive(int node);
  int HeadPop(int queue) const;
  bool AnythingPending() const;
  int NextEvent() const;
  bool IsTooLong();
  void Start();
  bool Unblock();
  void Finish();

  const Graph& g_;
  const Chip& chip_;
  const Policy& policy_;
  int longest_;
  BlockSchedule& out_;
  int now_ = 0, placed_ = 0, frontier_ = 0;
  int tallest_ = 0;                           // in Graph::by_height: first not yet placed
  std::array<int, kSlotCount> to_come_ = {};  // by slot: not yet placed
  int window_ = 1;
  bool unit_wait_ = false, force_all_ = false;
  int force_node_ = -1;  // may go over the limits: nothing else can be done
  std::vector<int32_t> left_, earliest_, reads_left_;
  std::vector<std::priority_queue<Ready>> heaps_;
  // Of this cycle, by heap, then by queue: the best of each.
  std::vector<Ready> heads_;
  std::vector<char> blocked_;
  std::vector<int> changed_;                  // whose best is to be found again
  using Later = std::pair<int32_t, int32_t>;  // cycle or index, node
  std::priority_queue<Later, std::vector<Later>, std::greater<Later>> calendar_, outside_;
  std::vector<int> held_;  // this cycle, for the sake of registers
  std::vector<XluState> xlus_;
  std::vector<QueueState> queues_;
  std::array<int, 4> live_ = {};
  std::array<std::vector<int>, 3> pushes_;  // by OrderedUnit, in program order
  std::array<size_t, 3> next_push_ = {};
};

int ListScheduler::OrderedUnit(int node) const {
  const Inst& inst = g_.inst(node);
  if (!llo::IsPush(inst.op)) return -1;
  switch (isa::Info(inst.op).unit) {
    case isa::Unit::kEup:
      return 0;
    case isa::Unit::kV2s:
      return 1;
    case isa::Unit::kXlu:
      return 2;
    default:
      return -1;  // the MXU's are in program order anyway
  }
}

int ListScheduler::HeapOf(int node) const {
  const Inst& inst = g_.inst(node);
  int units = chip_.xlus + 1, unit = out_.unit[node] + 1;
  switch (isa::Info(inst.op).slot) {
    case Slot::kSalu:
      return kSaluHeap;
    case Slot::kValu:
      return kValuHeap;
    case Slot::kEup:
      return kEupHeap;
    case Slot::kLoad:
      return kLoadHeap;
    case Slot::kStore:
      return kStoreHeap;
    case Slot::kMisc:
      return kMiscHeap;
    case Slot::kMiscStore:
      return kMiscStoreHeap;
    case Slot::kVex:
    case Slot::kPop:
      break;
  }
  if (isa::Info(inst.op).unit == isa::Unit::kMxu) {
    int side = llo::IsLhsSide(inst.op) ? 0 : chip_.mxus;
    return kFirstUnitHeap + 3 * units + side + unit - 1;
  }
  int kind = llo::IsXposeStart(inst.op) ? 1 : IsMember(node) ? 2 : 0;
  return kFirstUnitHeap + kind * units + unit;
}

// All that `node` waits for has been placed.
void ListScheduler::Release(int node) {
  const Inst& inst = g_.inst(node);
  if (llo::IsPop(inst.op)) {  // found at the head of its queue
    changed_.push_back(heaps_.size() + QueueOf(inst, out_.unit[node], chip_));
  } else if (!InWindow(node)) {
    outside_.push({node, node});
  } else if (earliest_[node] > now_) {
    calendar_.push({earliest_[node], node});
  } else {
    int heap = HeapOf(node);
    heaps_[heap].push({Key(node), node});
    changed_.push_back(heap);
  }
}

void ListScheduler::AdvanceFrontier() {
  int before = frontier_;
  while (frontier_ < g_.size && out_.time[frontier_] >= 0) ++frontier_;
  if (frontier_ > before) {
    window_ = std::max(1, policy_.window);
    if (window_ < g_.size) {
      for (size_t q = 0; q < queues_.size(); ++q) changed_.push_back(heaps_.size() + q);
    }
  }
  while (!outside_.empty() && InWindow(outside_.top().second)) {
    int node = outside_.top().second;
    outside_.pop();
    Release(node);
  }
}

// The next result to leave a queue, if it may in this cycle; else -1.
int ListScheduler::HeadPop(int queue) const {
  const QueueState& q = queues_[queue];
  if (q.head == q.pushes.size() || q.next_pop > now_) return -1;
  int pop = g_.pops[q.pushes[q.head]][q.taken];
  if (left_[pop] > 0 || earliest_[pop] > now_ || !InWindow(pop)) return -1;
  return pop;
}

bool ListScheduler::QueueHasRoom(int node, int unit) const {
  const Inst& inst = g_.inst(node);
  int queue = QueueOf(inst, unit, chip_);
  const QueueState& q = queues_[queue];
  int entries = q.entries + (q.popped_at == now_ ? q.popped : 0);
  return entries + llo::ResultsOf(inst.op, chip_.mxu_tiles()) <= QueueDepth(queue, chip_);
}

// The XLU on which the result of `node` would leave first; -1: none is free now.
int ListScheduler::ChooseXlu(int node) {
  const Inst& inst = g_.inst(node);
  int best = -1, best_ready = 0;
  for (int u = 0; u < chip_.xlus; ++u) {
    const XluState& x = xlus_[u];
    if (out_.unit[node] >= 0 && out_.unit[node] != u) continue;
    if (IsMember(node) ? x.open != g_.push[node] : x.open >= 0) continue;
    if (x.next > now_ || (llo::IsXposeStart(inst.op) && x.next_xpose > now_)) {
      unit_wait_ = true;
      continue;
    }
    if (llo::IsPush(inst.op) && !QueueHasRoom(node, u)) continue;
    int ready = std::max(now_ + Latency(inst, chip_), x.last_ready);
    if (best < 0 || ready < best_ready) {
      best = u;
      best_ready = ready;
    }
  }
  return best;
}

// Would issuing the node now take the live registers of its class above the policy's limit? What
// reads no register of the class (a load) starts something new, and leaves a reserve for what goes
// on.
bool ListScheduler::RaisesPressure(int node) const {
  int value = g_.writes[node];
  if (value < 0) return false;
  int c = ClassIndex(g_.values[value].cls);
  if (policy_.limits[c] == kNoLimit) return false;
  bool starts = policy_.graded > 0 || !llo::IsPop(g_.inst(node).op);
  for (int read : g_.reads[node]) {
    const Value& v = g_.values[read];
    if (ClassIndex(v.cls) != c) continue;
    starts = false;
    if (reads_left_[read] == 1 && !v.live_out) return false;
  }
  constexpr int kMostGraded = 24;
  constexpr int kNear = 8;  // instructions from the oldest: what must come soon anyway
  bool oldest = policy_.order_fits && node - frontier_ <= kNear;
  int reserve = starts && !oldest ? policy_.reserve : 0;
  if (starts && policy_.graded > 0) {
    reserve = std::min(kMostGraded, std::max(0, node - frontier_) / policy_.graded);
  }
  return live_[c] >= policy_.limits[c] - reserve;
}

Outcome ListScheduler::TryPlace(int node) {
  const Inst& inst = g_.inst(node);
  bool force = force_all_ || node == force_node_;
  int ordered = policy_.ordered_pushes ? OrderedUnit(node) : -1;
  if (ordered >= 0 && pushes_[ordered][next_push_[ordered]] != node) return Outcome::kBlocked;
  if (!force && RaisesPressure(node)) return Outcome::kHeld;
  if (static_cast<int>(out_.slots.size()) <= now_) out_.slots.resize(now_ + 1);
  if (!out_.slots[now_].Fits(inst, chip_)) {
    unit_wait_ = true;
    return Outcome::kBlocked;
  }
  int unit = out_.unit[node];
  if (isa::Info(inst.op).unit == isa::Unit::kXlu && !llo::IsPop(inst.op)) {
    unit = ChooseXlu(node);
    if (unit < 0) return Outcome::kBlocked;
  } else if (llo::IsPush(inst.op) && !QueueHasRoom(node, unit)) {
    return Outcome::kBlocked;
  }
  Place(node, unit);
  if (ordered >= 0) ++next_push_[ordered];
  return Outcome::kPlaced;
}

void ListScheduler::CountLive(int node) {
  for (int read : g_.reads[node]) {
    const Value& v = g_.values[read];
    if (--reads_left_[read] == 0 && !v.live_out) --live_[ClassIndex(v.cls)];
  }
  int value = g_.writes[node];
  if (value < 0) return;
  const Value& v = g_.values[value];
  if (v.reads > 0 || v.live_out) ++live_[ClassIndex(v.cls)];
}

void ListScheduler::PlaceOnUnits(int node, int unit) {
  const Inst& inst = g_.inst(node);
  bool pop = llo::IsPop(inst.op);
  if (llo::IsPush(inst.op)) {
    QueueState& q = queues_[QueueOf(inst, unit, chip_)];
    q.pushes.push_back(node);
    q.entries += llo::ResultsOf(inst.op, chip_.mxu_tiles());
    for (int p : g_.pops[node]) out_.unit[p] = unit;
  } else if (pop) {
    QueueState& q = queues_[QueueOf(inst, unit, chip_)];
    if (q.popped_at != now_) q.popped = 0;
    q.popped_at = now_;
    ++q.popped;
    --q.entries;
    q.next_pop = now_ + PopInterval(QueueOf(inst, unit, chip_), chip_);
    if (++q.taken == g_.pops[q.pushes[q.head]].size()) {
      ++q.head;
      q.taken = 0;
    }
  }
  if (pop || isa::Info(inst.op).unit != isa::Unit::kXlu) return;
  XluState& x = xlus_[unit];
  x.next = now_ + IssueInterval(inst, chip_);
  if (llo::IsXposeStart(inst.op)) {
    x.next_xpose = now_ + chip_.interval(IntervalKey::kXposeGroup);
    x.open = node;
  }
  if (llo::IsXposeEnd(inst.op)) x.open = -1;
  if (llo::IsPush(inst.op)) {
    int results = llo::ResultsOf(inst.op, chip_.mxu_tiles()) - 1;
    x.last_ready = std::max(x.last_ready, now_ + Latency(inst, chip_)) +
                   (results + 1) * chip_.interval(IntervalKey::kXluPop);
  }
}

void ListScheduler::Place(int node, int unit) {
  out_.time[node] = now_;
  out_.unit[node] = unit;
  out_.slots[now_].Add(g_.inst(node));
  ++placed_;
  --to_come_[static_cast<int>(isa::Info(g_.inst(node).op).slot)];
  PlaceOnUnits(node, unit);
  if (llo::IsXposeStart(g_.inst(node).op)) {
    for (const Edge& e : g_.Out(node)) {
      if (g_.push[e.to] == node) out_.unit[e.to] = unit;
    }
  } else if (IsMember(node)) {
    for (const Edge& e : g_.Out(node)) {
      if (IsMember(e.to) && g_.push[e.to] == g_.push[node]) out_.unit[e.to] = unit;
    }
  }
  CountLive(node);
  for (const Edge& e : g_.Out(node)) {
    earliest_[e.to] = std::max(earliest_[e.to], now_ + e.latency);
    if (--left_[e.to] == 0) Release(e.to);
  }
  AdvanceFrontier();
}

constexpr Ready kNobody = {std::numeric_limits<int32_t>::min(), kNoLimit};

void ListScheduler::FindHead(int source) {
  int heaps = heaps_.size();
  heads_[source] = kNobody;
  if (blocked_[source]) return;
  if (source < heaps) {
    if (!heaps_[source].empty()) heads_[source] = heaps_[source].top();
  } else if (int pop = HeadPop(source - heaps); pop >= 0) {
    heads_[source] = {Key(pop), pop};
  }
}

// The heap or queue with the most urgent of all; -1: there is none.
int ListScheduler::BestHead() {
  for (int source : changed_) FindHead(source);
  changed_.clear();
  int best = 0;
  for (int source = 1; source < static_cast<int>(heads_.size()); ++source) {
    if (heads_[best] < heads_[source]) best = source;
  }
  return heads_[best].node == kNobody.node ? -1 : best;
}

// One cycle. False if nothing could be placed.
bool ListScheduler::Cycle() {
  constexpr int kMaxHeld = 24;  // looked past in one cycle
  int heaps = heaps_.size(), sources = heaps + queues_.size();
  bool any = false;
  held_.clear();
  unit_wait_ = false;
  heads_.resize(sources);
  blocked_.assign(sources, 0);
  changed_.clear();
  for (int source = 0; source < sources; ++source) FindHead(source);
  for (int best = BestHead(); best >= 0; best = BestHead()) {
    Ready ready = heads_[best];
    if (best < heaps) heaps_[best].pop();
    Outcome outcome = TryPlace(ready.node);
    if (outcome == Outcome::kPlaced) {
      any = true;
      force_all_ = false;
      force_node_ = -1;
    } else if (outcome == Outcome::kBlocked || best >= heaps || held_.size() >= kMaxHeld) {
      blocked_[best] = 1;
      if (best < heaps) heaps_[best].push(ready);
    }
    if (outcome == Outcome::kHeld && !(best < heaps && blocked_[best])) held_.push_back(ready.node);
    changed_.push_back(best);
  }
  return any;
}

// Will anything change if the clock goes on?
bool ListScheduler::AnythingPending() const {
  if (unit_wait_ || !calendar_.empty()) return true;
  for (size_t q = 0; q < queues_.size(); ++q) {
    const QueueState& s = queues_[q];
    if (s.head == s.pushes.size()) continue;
    int pop = g_.pops[s.pushes[s.head]][s.taken];
    if (left_[pop] == 0 && InWindow(pop) && std::max(s.next_pop, earliest_[pop]) > now_)
      return true;
  }
  return false;
}

// The next cycle in which something may issue that may not now.
int ListScheduler::NextEvent() const {
  for (const auto& heap : heaps_) {
    if (!heap.empty()) return now_ + 1;  // waits for a slot, a unit, a queue or a register
  }
  int next = calendar_.empty() ? kNoLimit : calendar_.top().first;
  for (const QueueState& q : queues_) {
    if (q.head == q.pushes.size()) continue;
    int pop = g_.pops[q.pushes[q.head]][q.taken];
    if (left_[pop] == 0 && InWindow(pop))
      next = std::min(next, std::max(earliest_[pop], q.next_pop));
  }
  return next == kNoLimit ? now_ + 1 : std::max(now_ + 1, next);
}

void ListScheduler::Finish() {
  int last = -1;
  for (int t : out_.time) last = std::max(last, t);
  out_.length = last + 1;
  if (g_.terminator >= 0) {
    int ready = g_.terminator_ready;
    for (auto [node, latency] : g_.terminator_after) {
      ready = std::max(ready, out_.time[node] + latency);
    }
    const Inst& inst = g_.block->insts[g_.terminator];
    bool call = inst.op == isa::Opcode::kCall;
    int t = std::max(ready, call ? last + 1 : last - chip_.delay_slots);
    t = std::max(t, 0);
    while (t < static_cast<int>(out_.slots.size()) && !out_.slots[t].Fits(inst, chip_)) ++t;
    out_.terminator = t;
    out_.length = t + 1 + (call ? 0 : chip_.delay_slots);
  }
  if (static_cast<int>(out_.slots.size()) < out_.length) out_.slots.resize(out_.length);
  if (g_.terminator >= 0) out_.slots[out_.terminator].Add(g_.block->insts[g_.terminator]);
  out_.max_live = MaxLive(g_, out_);
}

// Do the latencies and slots of what is left take it past the longest schedule wanted?
bool ListScheduler::IsTooLong() {
  if (longest_ == kNoLimit) return false;
  while (tallest_ < g_.size && out_.time[g_.by_height[tallest_]] >= 0) ++tallest_;
  if (tallest_ < g_.size && now_ + g_.height[g_.by_height[tallest_]] >= longest_) return true;
  auto left = [&](Slot slot) { return to_come_[static_cast<int>(slot)]; };
  int loads = left(Slot::kLoad) + left(Slot::kMisc);
  int stores = left(Slot::kStore) + left(Slot::kMiscStore);
  int space = longest_ - now_;
  auto over = [&](int count, int slots) { return count > int64_t{slots} * space; };
  return over(left(Slot::kValu) + left(Slot::kEup), chip_.valu) ||
         over(left(Slot::kEup), chip_.eup) || over(left(Slot::kVex), chip_.vex) ||
         over(left(Slot::kPop), chip_.pop) || over(left(Slot::kSalu), chip_.salu) ||
         over(loads, chip_.load) || over(stores, chip_.store) ||
         over(loads + stores, chip_.memory_total);
}

void ListScheduler::Start() {
  int n = g_.size;
  out_ = BlockSchedule();
  out_.time.assign(n, -1);
  out_.unit.resize(n);
  for (int i = 0; i < n; ++i) {
    out_.unit[i] = g_.inst(i).unit;
    ++to_come_[static_cast<int>(isa::Info(g_.inst(i).op).slot)];
  }
  left_ = g_.preds;
  earliest_ = g_.earliest;
  for (const Value& v : g_.values) {
    reads_left_.push_back(v.reads);
    if (v.def < 0 && (v.reads > 0 || v.live_out)) ++live_[ClassIndex(v.cls)];
  }
  for (int c = 0; c < 4; ++c) live_[c] += g_.through[c];
  heaps_.resize(HeapCount());
  xlus_.resize(chip_.xlus);
  queues_.resize(QueueCount(chip_));
  window_ = std::max(1, policy_.window);
  for (int i = 0; i < n; ++i) {
    if (int unit = OrderedUnit(i); unit >= 0) pushes_[unit].push_back(i);
  }
  for (int i = 0; i < n; ++i) {
    if (left_[i] == 0) Release(i);
  }
}

// Nothing can issue, now or later, under the policy: goes over its limits or widens its window.
bool ListScheduler::Unblock() {
  int oldest = -1;
  for (int node : held_) {
    if (oldest < 0 || Starts(node) < Starts(oldest) ||
        (Starts(node) == Starts(oldest) && node < oldest)) {
      oldest = node;
    }
  }
  if (oldest >= 0 || force_node_ >= 0) {
    force_all_ = force_node_ >= 0;
    force_node_ = oldest;
    return true;
  }
  int n = g_.size;
  if (outside_.empty() && window_ > n) return false;
  window_ = window_ > n ? n + 1 : window_ * 2;
  AdvanceFrontier();
  return true;
}

Listed ListScheduler::Run() {
  if (g_.cyclic) return Listed::kStuck;
  Start();
  while (placed_ < g_.size) {
    if (IsTooLong()) return Listed::kTooLong;
    while (!calendar_.empty() && calendar_.top().first <= now_) {
      int node = calendar_.top().second;
      calendar_.pop();
      heaps_[HeapOf(node)].push({Key(node), node});
    }
    bool any = Cycle();
    for (int node : held_) {
      if (!llo::IsPop(g_.inst(node).op)) heaps_[HeapOf(node)].push({Key(node), node});
    }
    if (!any && !AnythingPending()) {
      if (!Unblock()) return Listed::kStuck;
      continue;
    }
    now_ = any ? now_ + 1 : NextEvent();
  }
  Finish();
  return out_.length > longest_ ? Listed::kTooLong : Listed::kDone;
}

}  // namespace

std::array<int, 4> MaxLive(const Graph& g, const BlockSchedule& s) {
  std::array<std::vector<int>, 4> change;
  for (auto& c : change) c.assign(s.length + 2, 0);
  std::vector<int> last(g.values.size(), -1);
  for (int n = 0; n < g.size; ++n) {
    for (int v : g.reads[n]) last[v] = std::max(last[v], s.time[n]);
  }
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Value& v = g.values[i];
    // Held from the cycle after the write to the cycle of the last read.
    int from = v.def < 0 ? 0 : s.time[v.def] + 1;
    int to = v.live_out ? s.length : std::max(last[i], v.def < 0 ? -1 : from);
    if (to < from) continue;
    ++change[ClassIndex(v.cls)][from];
    --change[ClassIndex(v.cls)][to + 1];
  }
  std::array<int, 4> max = {};
  for (int c = 0; c < 4; ++c) {
    int live = g.through[c];
    max[c] = live;
    for (int d : change[c]) {
      live += d;
      max[c] = std::max(max[c], live);
    }
  }
  return max;
}

Listed ListSchedule(const Graph& graph, const Chip& chip, const Policy& policy, int longest,
                    BlockSchedule* out) {
  return ListScheduler(graph, chip, policy, longest, out).Run();
}

}  // namespace tpuc::schedule
