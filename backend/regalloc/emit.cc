// Packing of coloured instructions into bundles.
#include "backend/regalloc/emit.h"

#include <algorithm>

#include "backend/llo/operands.h"
#include "src/diag/check.h"

namespace tpuc::regalloc {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;
using schedule::BlockSchedule;
using schedule::ClassIndex;

namespace {

void Rename(const Coloring& coloring, Reg* r) {
  if (!r->valid()) return;
  int physical = coloring.physical[ClassIndex(r->cls)][r->id];
  CHECK(physical >= 0);
  r->id = physical;
}

Inst Physical(Inst inst, int unit, const Coloring& coloring) {
  inst.unit = unit;
  auto is_token = [](const Operand& o) { return o.reg.cls == RegClass::kToken; };
  inst.src.erase(std::remove_if(inst.src.begin(), inst.src.end(), is_token), inst.src.end());
  if (inst.dest.cls == RegClass::kToken) inst.dest = Reg();
  for (Operand& o : inst.src) Rename(coloring, &o.reg);
  if (isa::Info(inst.op).has_memory) Rename(coloring, &inst.mem.base.reg);
  Rename(coloring, &inst.pred);
  Rename(coloring, &inst.dest);
  inst.mem.buffer = -1;
  return inst;
}

}  // namespace

void ResolveBranches(const std::vector<int>& block_start, isa::Function* out) {
  bool to_end = false;
  for (isa::Bundle& bundle : out->bundles) {
    for (Inst& inst : bundle.insts) {
      if (inst.op != Opcode::kSbr) continue;
      inst.target = block_start[inst.target];
      to_end |= inst.target == block_start.back();
    }
  }
  if (to_end) out->bundles.emplace_back();  // a branch needs a bundle to go to
}

void EmitBundles(const llo::Function& function, const schedule::FunctionSchedule& schedule,
                 const Coloring& coloring, const Chip& chip, isa::Function* out,
                 std::vector<int>* block_start) {
  block_start->clear();
  for (size_t b = 0; b < function.blocks.size(); ++b) {
    const llo::Block& block = function.blocks[b];
    const BlockSchedule& s = schedule.blocks[b];
    int terminator = schedule.graphs[b].terminator;
    std::vector<isa::Bundle> cycles(s.length);
    for (int i = 0; i < static_cast<int>(block.insts.size()); ++i) {
      bool last = i == terminator;
      int unit = last ? -1 : s.unit[i];
      cycles[last ? s.terminator : s.time[i]].insts.push_back(
          Physical(block.insts[i], unit, coloring));
    }
    block_start->push_back(out->bundles.size());
    bool branch = terminator >= 0 && block.insts[terminator].op == Opcode::kSbr;
    for (int t = 0; t < s.length; ++t) {
      bool delay_slot = branch && t > s.terminator && t <= s.terminator + chip.delay_slots;
      if (!cycles[t].insts.empty() || delay_slot) out->bundles.push_back(std::move(cycles[t]));
    }
  }
  block_start->push_back(out->bundles.size());
  ResolveBranches(*block_start, out);
}

void CheckColoring(const llo::Function& function, const schedule::FunctionSchedule& schedule,
                   const Coloring& coloring, const FixedScalars& fixed, const Chip& chip) {
  constexpr int kUnset = -1, kUnknown = -2, kUnvisited = -3;
  int n = function.blocks.size();
  std::array<int, 4> registers = schedule::RegistersOf(chip);
  using State = std::array<std::vector<int>, 4>;  // virtual register held, by class and register
  State top;
  for (int c = 0; c < 4; ++c) top[c].assign(registers[c], kUnvisited);
  std::vector<State> in(n, top);
  std::vector<std::vector<std::pair<int, int>>> orders(n);
  for (int b = 0; b < n; ++b) {
    const BlockSchedule& s = schedule.blocks[b];
    for (int i = 0; i < static_cast<int>(function.blocks[b].insts.size()); ++i) {
      orders[b].push_back({i == schedule.graphs[b].terminator ? s.terminator : s.time[i], i});
    }
    std::sort(orders[b].begin(), orders[b].end());
  }
  auto flow = [&](int b, bool check) {
    State state = in[b];
    const llo::Block& block = function.blocks[b];
    for (size_t low = 0, high; low < orders[b].size(); low = high) {
      for (high = low; high < orders[b].size() && orders[b][high].first == orders[b][low].first;) {
        ++high;
      }
      for (size_t k = low; k < high && check; ++k) {
        Inst inst = block.insts[orders[b][k].second];
        if (inst.pred.valid()) inst.dest = Reg();  // its old value may never have been written
        llo::ForEachRead(inst, [&](Reg r) {
          if (r.cls == RegClass::kToken) return;
          int c = ClassIndex(r.cls), p = coloring.physical[c][r.id];
          CHECK_MSG(p >= 0 && state[c][p] == r.id, "a register does not hold the value read");
        });
      }
      for (size_t k = low; k < high; ++k) {
        const Inst& inst = block.insts[orders[b][k].second];
        if (!inst.dest.valid() || inst.dest.cls == RegClass::kToken) continue;
        int c = ClassIndex(inst.dest.cls);
        state[c][coloring.physical[c][inst.dest.id]] = inst.dest.id;
      }
    }
    return state;
  };
  if (n == 0) return;
  for (int c = 0; c < 4; ++c) in[0][c].assign(registers[c], kUnset);
  for (auto [reg, place] : fixed) {
    if (reg < function.args && place < registers[2]) in[0][2][place] = reg;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int b = 0; b < n; ++b) {
      if (in[b][0][0] == kUnvisited) continue;
      State out = flow(b, false);
      for (int next : llo::Successors(function, b)) {
        if (next >= n) continue;
        for (int c = 0; c < 4; ++c) {
          for (int p = 0; p < registers[c]; ++p) {
            int& held = in[next][c][p];
            int merged = held == kUnvisited || held == out[c][p] ? out[c][p] : kUnknown;
            changed |= merged != held;
            held = merged;
          }
        }
      }
    }
  }
  for (int b = 0; b < n; ++b) {
    if (in[b][0][0] != kUnvisited) flow(b, true);
  }
}

}  // namespace tpuc::regalloc
