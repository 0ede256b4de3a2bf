// Dependences of a loop body within a trip (from the block's graph, less the reuse of names) and
// from trip to trip.
#include "backend/schedule/loop_graph.h"

#include <algorithm>
#include <cstdlib>

#include "absl/container/btree_map.h"
#include "backend/llo/operands.h"
#include "backend/schedule/affine.h"
#include "backend/schedule/rules.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Reg;
using isa::RegClass;

class LoopBuilder {
 public:
  LoopBuilder(const BlockContext& context, int block, int64_t trips, const Chip& chip,
              LoopGraph* out)
      : context_(context),
        block_(context.function->blocks[block]),
        block_id_(block),
        trips_(trips),
        chip_(chip),
        g_(*out) {}
  bool Run();

 private:
  const Inst& inst(int node) const { return block_.insts[node]; }
  void Add(int from, int to, int latency, int distance) {
    g_.edges.push_back({from, to, latency, distance});
  }
  bool Supported() const;
  void FindDead();
  void FindRegisters();
  void RegisterEdges(const LoopRegister& r);
  bool MemoryEdges();
  void MxuEdges();
  void TokenEdges();
  bool FindStride(const LoopRegister& r, int64_t* stride) const;
  void FindBases();

  const BlockContext& context_;
  const llo::Block& block_;
  int block_id_;
  int64_t trips_;
  const Chip& chip_;
  LoopGraph& g_;
};

bool LoopBuilder::Supported() const {
  bool transpose = false, reduce = false, permute = false;
  for (int n = 0; n < g_.size; ++n) {
    const Inst& i = inst(n);
    if (llo::IsSync(i.op)) return false;
    if ((llo::IsPush(i.op) || llo::IsPop(i.op)) && i.pred.valid()) return false;
    transpose |= llo::IsXposeStart(i.op);
    if (isa::Info(i.op).unit == isa::Unit::kXlu && llo::IsPush(i.op)) {
      reduce |= isa::Info(i.op).latency == LatencyKey::kXlane;
      permute |= isa::Info(i.op).latency == LatencyKey::kPermute;
    }
  }
  return !(transpose && (reduce || permute));
}

// Registers by their use in a trip. One walk: reads before the first write are of the last trip.
void LoopBuilder::FindRegisters() {
  absl::btree_map<std::pair<int, int>, LoopRegister> found;
  for (int n = 0; n < g_.size; ++n) {
    const Inst& i = inst(n);
    if (i.dest.valid() && i.dest.cls != RegClass::kToken) {
      found[{static_cast<int>(i.dest.cls), i.dest.id}].reg = i.dest;
    }
  }
  for (int n = 0; n < g_.size; ++n) {
    const Inst& i = inst(n);
    llo::ForEachRead(i, [&](Reg r) {
      auto it = found.find({static_cast<int>(r.cls), r.id});
      if (it == found.end()) return;
      auto& list = it->second.writes.empty() ? it->second.reads_of_last : it->second.reads;
      if (list.empty() || list.back() != n) list.push_back(n);
    });
    if (!i.dest.valid() || i.dest.cls == RegClass::kToken) continue;
    LoopRegister& r = found[{static_cast<int>(i.dest.cls), i.dest.id}];
    if (r.writes.empty() && i.pred.valid()) r.fixed = true;
    r.writes.push_back(n);
  }
  for (auto& [key, r] : found) {
    const llo::Liveness* live = context_.live[ClassIndex(r.reg.cls)];
    bool carried = live->in[block_id_].Has(r.reg.id);
    if (!carried) r.fixed = false;  // the old value is nobody's
    if (!carried) r.reads_of_last.clear();
    // Live out of the block means out of the loop here: around it, it is read before it is written.
    for (int s : llo::Successors(*context_.function, block_id_)) {
      if (s == block_id_ || s >= static_cast<int>(context_.function->blocks.size())) continue;
      r.live_out |= live->in[s].Has(r.reg.id);
    }
    if (carried && r.writes.size() > 1) r.fixed = true;
    g_.registers.push_back(std::move(r));
  }
}

// What only feeds the closing branch, which the pipelined loop has no use for.
void LoopBuilder::FindDead() {
  g_.dead.assign(g_.size, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const LoopRegister& r : g_.registers) {
      bool used = r.live_out;
      for (int n : r.reads) used |= !g_.dead[n] && inst(n).dest != r.reg;
      for (int n : r.reads_of_last) used |= !g_.dead[n] && inst(n).dest != r.reg;
      if (used) continue;
      for (int n : r.writes) {
        const Inst& i = inst(n);
        bool pure = !llo::IsPop(i.op) && !llo::IsPush(i.op);
        if (g_.dead[n] || !pure) continue;
        g_.dead[n] = 1;
        changed = true;
      }
    }
  }
}

void LoopBuilder::RegisterEdges(const LoopRegister& r) {
  // Within the trip, in program order: as always.
  std::vector<int> readers;
  int last = -1;
  std::vector<std::pair<int, bool>> events;  // node, write
  for (int n : r.reads_of_last) events.push_back({n, false});
  for (int n : r.reads) events.push_back({n, false});
  for (int n : r.writes) events.push_back({n, true});
  std::sort(events.begin(), events.end());  // a node that does both reads first
  for (auto [n, write] : events) {
    if (!write) {
      if (last >= 0 && last != n) Add(last, n, Latency(inst(last), chip_), 0);
      readers.push_back(n);
      continue;
    }
    // Reads of the last trip's value are of another register, unless the name is fixed.
    for (int reader : readers) {
      if (reader != n && (last >= 0 || r.fixed)) Add(reader, n, 0, 0);
    }
    if (last >= 0) Add(last, n, 1, 0);
    readers.clear();
    last = n;
  }
  for (int n : r.reads_of_last) Add(last, n, Latency(inst(last), chip_), 1);
  if (!r.fixed) return;
  int first = r.writes.front();
  Add(last, first, 1, 1);
  for (int n : r.reads) Add(n, first, 0, 1);
  for (int n : r.reads_of_last) Add(n, first, 0, 1);
}

bool LoopBuilder::MemoryEdges() {
  MemoryOrder order(*context_.function, *context_.targets, chip_,
                    [this](int from, int to, int latency) {
                      if (from >= 0 && from != to) Add(from, to, latency, 0);
                    });
  for (int n = 0; n < g_.size; ++n) {
    if (!g_.dead[n]) order.Visit(n, inst(n));  // no chain of orders may lead through what goes
  }
  std::vector<LoopAccess> accesses = FindLoopAccesses(block_, g_.size);
  accesses.erase(std::remove_if(accesses.begin(), accesses.end(),
                                [&](const LoopAccess& a) { return g_.dead[a.node] != 0; }),
                 accesses.end());
  std::vector<LoopConflict> conflicts;
  if (!FindConflicts(accesses, trips_, &conflicts)) return false;
  for (const LoopConflict& c : conflicts) {
    const LoopAccess &a = accesses[c.earlier], &b = accesses[c.later];
    int latency = !a.store            ? 0
                  : b.store || a.smem ? chip_.latency(LatencyKey::kOne)
                                      : chip_.latency(LatencyKey::kVst);
    Add(a.node, b.node, latency, c.distance);
  }
  return true;
}

void LoopBuilder::MxuEdges() {
  int one = chip_.latency(LatencyKey::kOne);
  for (int u = 0; u < chip_.mxus; ++u) {
    std::vector<int> lhs, weight, matmuls, pushes, latches;
    for (int n = 0; n < g_.size; ++n) {
      const Inst& i = inst(n);
      if (isa::Info(i.op).unit != isa::Unit::kMxu || llo::IsPop(i.op) || i.unit != u) continue;
      (llo::IsLhsSide(i.op) ? lhs : weight).push_back(n);
      if (llo::IsMatmul(i.op)) matmuls.push_back(n);
      if (llo::IsWeightPush(i.op)) pushes.push_back(n);
      if (llo::IsLatch(i.op)) latches.push_back(n);
    }
    g_.latches.push_back(matmuls.empty() ? -1 : matmuls.front());
    if (g_.latch && !matmuls.empty() && !weight.empty()) {
      // What is pushed in the first trip comes behind its latch.
      Add(matmuls.front(), weight.front(), one, 0);
    }
    // Neighbours of a list, the last and the first of the next trip among them.
    auto chain = [&](const std::vector<int>& list, auto latency) {
      for (size_t k = 0; k < list.size(); ++k) {
        bool wraps = k + 1 == list.size();
        Add(list[k], list[wraps ? 0 : k + 1], latency(list[k]), wraps ? 1 : 0);
      }
    };
    auto staging = [&](int n) {
      bool prep = llo::IsMubr(inst(n).op) || llo::IsSubr(inst(n).op);
      return prep ? Latency(inst(n), chip_) : one;
    };
    auto interval = [&](int n) { return IssueInterval(inst(n), chip_); };
    chain(lhs, staging);
    chain(weight, staging);
    chain(matmuls, interval);
    chain(pushes, interval);
    for (int latch : latches) {
      int push = -1, next = -1;
      for (int p : pushes) push = p < latch ? p : push;
      for (int w : weight) next = next < 0 && w > latch ? w : next;
      if (push >= 0) Add(push, latch, Latency(inst(push), chip_), 0);
      if (push < 0 && !pushes.empty()) {
        Add(pushes.back(), latch, Latency(inst(pushes.back()), chip_), 1);
      }
      if (next >= 0) Add(latch, next, one, 0);
      if (next < 0 && !weight.empty()) Add(latch, weight.front(), one, 1);
    }
  }
}

void LoopBuilder::TokenEdges() {
  g_.push.assign(g_.size, -1);
  g_.pops.resize(g_.size);
  g_.members.resize(g_.size);
  absl::btree_map<int, int> push_of;
  for (int n = 0; n < g_.size; ++n) {
    const Inst& i = inst(n);
    if (llo::IsPush(i.op)) {
      push_of[i.dest.id] = n;
      if (llo::IsXposeStart(i.op)) g_.members[n].push_back(n);
    } else if (llo::IsPop(i.op) || llo::IsXposeMember(i.op)) {
      int push = g_.push[n] = push_of.at(i.src[0].reg.id);
      (llo::IsPop(i.op) ? g_.pops : g_.members)[push].push_back(n);
    }
  }
}

// By how much the register, written once a trip, grows each trip; false: not always by the same.
bool LoopBuilder::FindStride(const LoopRegister& r, int64_t* stride) const {
  const Inst& i = inst(r.writes[0]);
  auto of = [&](int k, int64_t* by) {
    *by = 0;
    if (i.src[k].is_imm()) return true;
    for (const LoopRegister& other : g_.registers) {
      if (!(other.reg == i.src[k].reg)) continue;
      *by = other.stride;
      return other.affine;
    }
    return true;  // not written in the loop
  };
  int64_t a = 0, b = 0;
  switch (i.op) {
    case Opcode::kSadd:
      if (i.src[0].reg == r.reg && i.src[1].is_imm()) {
        *stride = static_cast<int32_t>(i.src[1].imm);
        return true;
      }
      if (!of(0, &a) || !of(1, &b)) return false;
      *stride = a + b;
      return true;
    case Opcode::kSsub:
      if (!of(0, &a) || !of(1, &b)) return false;
      *stride = a - b;
      return true;
    case Opcode::kSmul:
      if (!i.src[1].is_imm() || !of(0, &a)) return false;
      *stride = a * static_cast<int32_t>(i.src[1].imm);
      return true;
    case Opcode::kSshll:
      if (!i.src[1].is_imm() || i.src[1].imm > 30 || !of(0, &a)) return false;
      *stride = a << i.src[1].imm;
      return true;
    default:
      return false;
  }
}

// Which reads are of addresses that a later trip's value gives as well.
void LoopBuilder::FindBases() {
  constexpr int64_t kLargest = 1 << 20;
  for (bool changed = true; changed;) {
    changed = false;
    for (LoopRegister& r : g_.registers) {
      bool once = r.writes.size() == 1 && !r.fixed && r.reg.cls == RegClass::kScalar;
      if (r.affine || !once || g_.dead[r.writes[0]] || inst(r.writes[0]).pred.valid()) continue;
      if (!FindStride(r, &r.stride) || std::abs(r.stride) > kLargest) continue;
      r.affine = changed = true;
    }
  }
  for (LoopRegister& r : g_.registers) {
    if (!r.affine) continue;
    auto only_base = [&](int n) {
      const Inst& i = inst(n);
      if (!isa::Info(i.op).has_memory || !(i.mem.base.reg == r.reg)) return false;
      return std::none_of(i.src.begin(), i.src.end(),
                          [&](const isa::Operand& o) { return o.reg == r.reg; });
    };
    auto move = [&](std::vector<int>* from, std::vector<int>* to) {
      auto kept =
          std::stable_partition(from->begin(), from->end(), [&](int n) { return !only_base(n); });
      to->assign(kept, from->end());
      from->erase(kept, from->end());
    };
    move(&r.reads, &r.bases);
    move(&r.reads_of_last, &r.bases_of_last);
  }
}

bool LoopBuilder::Run() {
  g_ = LoopGraph();
  g_.block = &block_;
  g_.size = static_cast<int>(block_.insts.size()) - 1;  // without the branch
  for (const llo::Loop& l : context_.function->loops) {
    g_.latch |= l.latch && l.first == block_id_ && l.last == block_id_;
  }
  if (!Supported()) return false;
  FindRegisters();
  FindDead();
  for (const LoopRegister& r : g_.registers) RegisterEdges(r);
  if (!MemoryEdges()) return false;
  MxuEdges();
  TokenEdges();
  FindBases();
  auto is_dead = [&](const LoopEdge& e) { return g_.dead[e.from] || g_.dead[e.to]; };
  g_.edges.erase(std::remove_if(g_.edges.begin(), g_.edges.end(), is_dead), g_.edges.end());
  return true;
}

}  // namespace

bool BuildLoopGraph(const BlockContext& context, int block, int64_t trips, const Chip& chip,
                    LoopGraph* out) {
  return LoopBuilder(context, block, trips, chip, out).Run();
}

}  // namespace tpuc::schedule
