// Sinking, one pass from the last instruction to the first: a producer's readers have moved before
// it.
#include "backend/schedule/sink.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "backend/llo/operands.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::RegClass;
using isa::Slot;

class Sinker {
 public:
  Sinker(const Graph& graph, const Chip& chip, BlockSchedule* schedule)
      : g_(graph), chip_(chip), s_(*schedule) {}
  void Run();

 private:
  bool MayMove(int node) const;
  int Latest(int node) const;
  int Gain(int node, int to) const;
  bool QueueHolds(int node, int to) const;
  void Move(int node, int to);
  void CollectReaders();
  void CollectQueues();

  const Graph& g_;
  const Chip& chip_;
  BlockSchedule& s_;
  std::vector<absl::InlinedVector<int, 4>> readers_;  // by value
  std::vector<int> next_pop_;                // by node: the pop that leaves its queue after it
  std::vector<std::vector<int>> occupancy_;  // by queue and cycle
};

bool Sinker::MayMove(int node) const {
  const Inst& inst = g_.inst(node);
  if (llo::IsPush(inst.op) || llo::IsXposeMember(inst.op)) return false;
  if (g_.writes[node] < 0) return false;
  const Value& value = g_.values[g_.writes[node]];
  if (value.live_out || value.reads == 0) return false;
  if (value.cls != RegClass::kVector && value.cls != RegClass::kMask) return false;
  Slot slot = isa::Info(inst.op).slot;
  return slot == Slot::kLoad || slot == Slot::kPop || slot == Slot::kValu;
}

int Sinker::Latest(int node) const {
  int latest = s_.length - 1;
  for (const Edge& e : g_.Out(node)) latest = std::min(latest, s_.time[e.to] - e.latency);
  if (next_pop_[node] >= 0) {
    int queue = QueueOf(g_.inst(node), s_.unit[node], chip_);
    latest = std::min(latest, s_.time[next_pop_[node]] - PopInterval(queue, chip_));
  }
  return latest;
}

// Register cycles saved by moving the node to cycle `to`, less those its operands are held longer.
int Sinker::Gain(int node, int to) const {
  RegClass cls = g_.values[g_.writes[node]].cls;
  int gain = to - s_.time[node];
  for (int read : g_.reads[node]) {
    const Value& v = g_.values[read];
    if (v.live_out) continue;
    if (v.cls != cls && v.cls != RegClass::kVector && v.cls != RegClass::kMask) continue;
    int held = s_.time[node];
    for (int reader : readers_[read]) {
      if (reader != node) held = std::max(held, s_.time[reader]);
    }
    // A mask register is as scarce as four vectors.
    int weight = v.cls == RegClass::kMask && cls == RegClass::kVector ? 4 : 1;
    gain -= weight * std::max(0, to - held);
  }
  return gain;
}

// A pop that waits keeps its entry: does the queue still hold all that is pushed meanwhile?
bool Sinker::QueueHolds(int node, int to) const {
  int queue = QueueOf(g_.inst(node), s_.unit[node], chip_);
  if (queue < 0) return true;
  int depth = QueueDepth(queue, chip_);
  for (int t = s_.time[node] + 1; t <= to; ++t) {
    if (occupancy_[queue][t] >= depth) return false;
  }
  return true;
}

void Sinker::Move(int node, int to) {
  int queue = QueueOf(g_.inst(node), s_.unit[node], chip_);
  for (int t = s_.time[node] + 1; queue >= 0 && t <= to; ++t) ++occupancy_[queue][t];
  s_.slots[s_.time[node]].Remove(g_.inst(node));
  s_.slots[to].Add(g_.inst(node));
  s_.time[node] = to;
}

void Sinker::CollectReaders() {
  readers_.resize(g_.values.size());
  for (int n = 0; n < g_.size; ++n) {
    for (int v : g_.reads[n]) readers_[v].push_back(n);
  }
}

void Sinker::CollectQueues() {
  next_pop_.assign(g_.size, -1);
  int queues = QueueCount(chip_);
  occupancy_.assign(queues, std::vector<int>(s_.length + 1, 0));
  std::vector<std::vector<int>> pops(queues);
  for (int n = 0; n < g_.size; ++n) {
    int queue = QueueOf(g_.inst(n), s_.unit[n], chip_);
    if (queue < 0 || !llo::IsPop(g_.inst(n).op)) continue;
    pops[queue].push_back(n);
    // Counted from its push up to and with the cycle of its pop.
    for (int t = s_.time[g_.push[n]]; t <= s_.time[n]; ++t) ++occupancy_[queue][t];
  }
  for (auto& list : pops) {
    std::sort(list.begin(), list.end(), [&](int a, int b) { return s_.time[a] < s_.time[b]; });
    for (size_t i = 0; i + 1 < list.size(); ++i) next_pop_[list[i]] = list[i + 1];
  }
}

void Sinker::Run() {
  CollectReaders();
  CollectQueues();
  std::vector<int> order;
  for (int n = 0; n < g_.size; ++n) {
    if (MayMove(n)) order.push_back(n);
  }
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return s_.time[a] != s_.time[b] ? s_.time[a] > s_.time[b] : a > b;
  });
  constexpr int kTries = 64;  // cycles looked at, from the latest down
  for (int node : order) {
    int latest = Latest(node), from = s_.time[node];
    for (int to = latest; to > from && to > latest - kTries; --to) {
      if (Gain(node, to) <= 0 || !s_.slots[to].Fits(g_.inst(node), chip_)) continue;
      if (!QueueHolds(node, to)) continue;
      Move(node, to);
      break;
    }
  }
  s_.max_live = MaxLive(g_, s_);
}

}  // namespace

void SinkTowardsReaders(const Graph& graph, const Chip& chip, BlockSchedule* schedule) {
  Sinker(graph, chip, schedule).Run();
}

}  // namespace tpuc::schedule
