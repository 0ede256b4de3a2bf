// Builds the dependence graph in one walk of the block, then heights in reverse topological order.
#include "backend/schedule/graph.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "backend/llo/operands.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Reg;
using isa::RegClass;

static_assert(static_cast<int>(RegClass::kVector) == 1 &&
              static_cast<int>(RegClass::kPredicate) == 4);

class Builder {
 public:
  Builder(const BlockContext& context, int block, const Chip& chip)
      : context_(context), block_id_(block), block_(context.function->blocks[block]), chip_(chip) {}
  Graph Run();

 private:
  struct RegState {
    int def = -1;                         // node of the last write
    int value = -1;                       // in Graph::values
    absl::InlinedVector<int, 3> readers;  // since then
  };
  struct MxuState {
    int lhs = -1, weight = -1, matmul = -1, push = -1, latch = -1;
  };

  void AddEdge(int from, int to, int latency) {
    if (from != to && from >= 0) raw_.push_back({from, {to, latency}});
  }
  RegState& StateOf(Reg r);
  void ReadRegister(int node, Reg r);
  void WriteRegister(int node, const Inst& inst);
  void Queues(int node, const Inst& inst);
  void Mxu(int node, const Inst& inst);
  std::vector<char> Followers(int start, int last) const;
  void TransposeOperands(bool later);
  void Terminator(const Inst& inst);
  void MakeRows();
  void Heights();

  const BlockContext& context_;
  int block_id_;
  const llo::Block& block_;
  const Chip& chip_;
  Graph g_;
  std::vector<std::pair<int, Edge>> raw_;
  absl::flat_hash_map<int64_t, RegState> regs_;
  absl::flat_hash_map<int, int> push_of_token_;
  absl::flat_hash_map<int, std::vector<int>> members_;  // of a transpose, by start
  std::vector<MxuState> mxus_;
  int last_sync_ = -1;
};

Builder::RegState& Builder::StateOf(Reg r) {
  int64_t key = int64_t{static_cast<int>(r.cls)} << 32 | r.id;
  auto [it, is_new] = regs_.emplace(key, RegState());
  const llo::Liveness* live = context_.live[ClassIndex(r.cls)];
  if (is_new && live != nullptr && live->in[block_id_].Has(r.id)) {
    it->second.value = g_.values.size();
    g_.values.push_back({r.cls, r.id, -1, 0, false});
  }
  return it->second;
}

void Builder::ReadRegister(int node, Reg r) {
  RegState& state = StateOf(r);
  if (state.def >= 0) {
    AddEdge(state.def, node, Latency(g_.inst(state.def), chip_));
  } else {
    for (const Arrival& a : context_.arrivals) {
      if (a.reg == r) g_.earliest[node] = std::max(g_.earliest[node], a.cycle);
    }
  }
  if (state.readers.empty() || state.readers.back() != node) {
    state.readers.push_back(node);
    if (state.value >= 0) {
      g_.values[state.value].reads += 1;
      g_.reads[node].push_back(state.value);
    }
  }
}

void Builder::WriteRegister(int node, const Inst& inst) {
  RegState& state = StateOf(inst.dest);
  for (int reader : state.readers) AddEdge(reader, node, 0);
  AddEdge(state.def, node, 1);
  state.readers.clear();
  state.def = node;
  state.value = g_.writes[node] = g_.values.size();
  g_.values.push_back({inst.dest.cls, inst.dest.id, node, 0, false});
}

// Tokens: a push before its pops, results in order, a transpose's pushes in order.
void Builder::Queues(int node, const Inst& inst) {
  if (llo::IsPush(inst.op)) {
    push_of_token_[inst.dest.id] = node;
    if (llo::IsXposeStart(inst.op)) members_[node] = {node};
    return;
  }
  bool member = llo::IsXposeMember(inst.op);
  if (!llo::IsPop(inst.op) && !member) return;
  int push = push_of_token_.at(inst.src[0].reg.id);
  g_.push[node] = push;
  const Inst& push_inst = g_.inst(push);
  if (member) {
    std::vector<int>& members = members_[push];
    AddEdge(members.back(), node, chip_.interval(IntervalKey::kXlu));
    members.push_back(node);
    return;
  }
  std::vector<int32_t>& pops = g_.pops[push];
  if (!pops.empty()) {
    AddEdge(pops.back(), node, PopInterval(QueueOf(push_inst, 0, chip_), chip_));
  }
  int k = pops.size();
  if (llo::IsXposeStart(push_inst.op)) {
    const std::vector<int>& members = members_[push];
    int n = members.size();
    int wait = Latency(push_inst, chip_) - chip_.interval(IntervalKey::kXlu) * n;
    AddEdge(members.back(), node, wait + k * ResultInterval(push_inst, chip_));
  } else {
    AddEdge(push, node, Latency(push_inst, chip_) + k * ResultInterval(push_inst, chip_));
  }
  pops.push_back(node);
}

void Builder::Mxu(int node, const Inst& inst) {
  if (inst.unit < 0 || isa::Info(inst.op).slot != isa::Slot::kVex) return;
  MxuState& m = mxus_[inst.unit];
  int one = chip_.latency(LatencyKey::kOne);
  if (llo::IsLhsSide(inst.op)) {
    int after =
        m.lhs < 0 || llo::IsMatmul(g_.inst(m.lhs).op) ? one : Latency(g_.inst(m.lhs), chip_);
    AddEdge(m.lhs, node, after);
    m.lhs = node;
    if (!llo::IsMatmul(inst.op)) return;
    if (m.matmul >= 0) AddEdge(m.matmul, node, IssueInterval(g_.inst(m.matmul), chip_));
    m.matmul = node;
    if (!llo::IsLatch(inst.op)) return;
    if (m.push >= 0) AddEdge(m.push, node, Latency(g_.inst(m.push), chip_));
    AddEdge(m.weight, node, one);
    m.latch = node;
  } else {
    bool staged = m.weight >= 0 && llo::IsSubr(g_.inst(m.weight).op);
    AddEdge(m.weight, node, staged ? Latency(g_.inst(m.weight), chip_) : one);
    AddEdge(m.latch, node, one);
    m.weight = node;
    if (!llo::IsWeightPush(inst.op)) return;
    if (m.push >= 0) AddEdge(m.push, node, IssueInterval(g_.inst(m.push), chip_));
    m.push = node;
  }
}

// The nodes up to `last` that must follow `start`.
std::vector<char> Builder::Followers(int start, int last) const {
  std::vector<char> follows(last - start + 1, 0);
  follows[0] = 1;
  std::vector<std::pair<int, int>> edges;
  for (const auto& [from, edge] : raw_) {
    if (from >= start && edge.to <= last && edge.to > from) edges.push_back({from, edge.to});
  }
  std::sort(edges.begin(), edges.end());
  for (auto [from, to] : edges) follows[to - start] |= follows[from - start];
  return follows;
}

// A transpose starts only when all it will take is on its way: its unit is locked until its end,
// and what it waits for may have to come through the same unit. (What follows the start for the
// sake of a name's reuse cannot precede it; `later`: what comes later in program order shall.)
void Builder::TransposeOperands(bool later) {
  int step = chip_.interval(IntervalKey::kXlu);
  absl::flat_hash_map<int, std::pair<int, int>> place;  // member -> start, position
  for (const auto& [start, members] : members_) {
    for (size_t i = 1; i < members.size(); ++i) place[members[i]] = {start, static_cast<int>(i)};
  }
  if (place.empty()) return;
  absl::flat_hash_map<int, std::vector<char>> followers;  // by start, where asked
  size_t n = raw_.size();
  for (size_t e = 0; e < n; ++e) {
    auto [from, edge] = raw_[e];
    auto it = place.find(edge.to);
    if (it == place.end() || place.contains(from)) continue;
    auto [start, position] = it->second;
    if (from == start) continue;
    if (from > start) {
      if (!later) continue;
      auto [set, is_new] = followers.emplace(start, std::vector<char>());
      if (is_new) set->second = Followers(start, members_[start].back());
      if (set->second[from - start]) continue;
    }
    AddEdge(from, start, std::max(0, edge.latency - step * position));
  }
}

void Builder::Terminator(const Inst& inst) {
  llo::ForEachRead(inst, [&](Reg r) {
    RegState& state = StateOf(r);
    int ready = 0;
    if (state.def >= 0) {
      g_.terminator_after.push_back({state.def, Latency(g_.inst(state.def), chip_)});
    } else {
      for (const Arrival& a : context_.arrivals) {
        if (a.reg == r) ready = std::max(ready, a.cycle);
      }
    }
    g_.terminator_ready = std::max(g_.terminator_ready, ready);
    if (state.value >= 0) g_.values[state.value].live_out = true;  // held to the end
  });
}

void Builder::MakeRows() {
  g_.first.assign(g_.size + 1, 0);
  g_.preds.assign(g_.size, 0);
  for (const auto& [from, edge] : raw_) {
    ++g_.first[from + 1];
    ++g_.preds[edge.to];
  }
  for (int n = 0; n < g_.size; ++n) g_.first[n + 1] += g_.first[n];
  std::vector<int32_t> at(g_.first.begin(), g_.first.end() - 1);
  g_.edges.resize(raw_.size());
  for (const auto& [from, edge] : raw_) g_.edges[at[from]++] = edge;
}

void Builder::Heights() {
  std::vector<int32_t> left = g_.preds, order;
  order.reserve(g_.size);
  for (int n = 0; n < g_.size; ++n) {
    if (left[n] == 0) order.push_back(n);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (const Edge& e : g_.Out(order[i])) {
      if (--left[e.to] == 0) order.push_back(e.to);
    }
  }
  g_.cyclic = static_cast<int>(order.size()) < g_.size;
  g_.height.assign(g_.size, 0);
  for (auto [node, latency] : g_.terminator_after) {
    g_.height[node] = std::max(g_.height[node], latency + chip_.delay_slots);
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    int h = g_.height[*it];
    int value = g_.writes[*it];
    // What leaves the block late delays the next one.
    if (value >= 0 && g_.values[value].live_out) h = std::max(h, Latency(g_.inst(*it), chip_) - 1);
    for (const Edge& e : g_.Out(*it)) h = std::max(h, e.latency + g_.height[e.to]);
    g_.height[*it] = h;
  }
  g_.by_height.resize(g_.size);
  for (int n = 0; n < g_.size; ++n) g_.by_height[n] = n;
  std::stable_sort(g_.by_height.begin(), g_.by_height.end(),
                   [&](int a, int b) { return g_.height[a] > g_.height[b]; });
}

Graph Builder::Run() {
  g_.block = &block_;
  g_.size = block_.insts.size();
  if (g_.size > 0) {
    Opcode last = block_.insts.back().op;
    if (last == Opcode::kSbr || last == Opcode::kCall) g_.terminator = --g_.size;
  }
  g_.earliest.assign(g_.size, 0);
  g_.push.assign(g_.size, -1);
  g_.pops.resize(g_.size);
  g_.reads.resize(g_.size);
  g_.writes.assign(g_.size, -1);
  mxus_.resize(chip_.mxus);
  MemoryOrder memory(*context_.function, *context_.targets, chip_,
                     [this](int from, int to, int latency) { AddEdge(from, to, latency); });
  for (int node = 0; node < g_.size; ++node) {
    const Inst& inst = block_.insts[node];
    llo::ForEachRead(inst, [&](Reg r) {
      if (r.cls != RegClass::kToken) ReadRegister(node, r);
    });
    if (inst.dest.valid() && inst.dest.cls != RegClass::kToken) WriteRegister(node, inst);
    Queues(node, inst);
    Mxu(node, inst);
    memory.Visit(node, inst);
    if (llo::IsSync(inst.op)) {
      AddEdge(last_sync_, node, chip_.latency(LatencyKey::kOne));
      last_sync_ = node;
    }
  }
  size_t edges = raw_.size();
  TransposeOperands(true);
  if (g_.terminator >= 0) Terminator(block_.insts[g_.terminator]);
  for (auto& [key, state] : regs_) {
    if (state.value < 0) continue;
    Value& value = g_.values[state.value];
    const llo::Liveness* live = context_.live[ClassIndex(value.cls)];
    if (live != nullptr && live->out[block_id_].Has(value.reg)) value.live_out = true;
  }
  for (int c = 0; c < 4; ++c) {
    const llo::Liveness* live = context_.live[c];
    if (live != nullptr) g_.through[c] = live->in[block_id_].Count();
  }
  for (const Value& value : g_.values) {
    if (value.def < 0) --g_.through[ClassIndex(value.cls)];
  }
  MakeRows();
  Heights();
  if (g_.cyclic) {  // two transposes wait for each other: program order, then
    raw_.resize(edges);
    TransposeOperands(false);
    MakeRows();
    Heights();
  }
  return std::move(g_);
}

}  // namespace

Graph BuildGraph(const BlockContext& context, int block, const Chip& chip) {
  return Builder(context, block, chip).Run();
}

}  // namespace tpuc::schedule
