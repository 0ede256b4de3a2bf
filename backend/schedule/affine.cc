// Affine forms of scalars in a loop body.
#include "backend/schedule/affine.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "backend/llo/operands.h"

namespace tpuc::schedule {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::Operand;
using isa::RegClass;

class Evaluator {
 public:
  explicit Evaluator(const llo::Block& block, int size) {
    absl::flat_hash_map<int, int> writes;
    for (int n = 0; n < size; ++n) {
      if (block.insts[n].dest.cls == RegClass::kScalar) ++writes[block.insts[n].dest.id];
    }
    writes_ = std::move(writes);
  }
  Affine Of(const Operand& operand) {
    if (operand.is_imm()) return {{}, operand.imm};
    auto it = values_.find(operand.reg.id);
    if (it != values_.end()) return it->second;
    return {{{operand.reg.id, 1}}, 0};
  }
  void Define(const Inst& inst) {
    if (inst.dest.cls != RegClass::kScalar) return;
    values_[inst.dest.id] = Evaluate(inst);
  }
  // By how much a form moves from one trip to the next.
  bool Step(const Affine& form, int64_t* step) const {
    *step = 0;
    if (!form.known) return false;
    for (auto [symbol, factor] : form.terms) {
      if (!writes_.contains(symbol)) continue;  // the same in every trip
      auto it = values_.find(symbol);           // its value at the trip's end
      if (it == values_.end() || !it->second.known) return false;
      Affine next = it->second;
      auto self = next.terms.find(symbol);
      if (next.terms.size() != 1 || self == next.terms.end() || self->second != 1) return false;
      *step += factor * next.constant;
    }
    return true;
  }

 private:
  static Affine Add(Affine a, const Affine& b, int64_t sign) {
    a.known &= b.known;
    a.constant += sign * b.constant;
    for (auto [symbol, factor] : b.terms) {
      int64_t& f = a.terms[symbol];
      f += sign * factor;
      if (f == 0) a.terms.erase(symbol);
    }
    return a;
  }
  static Affine Scale(Affine a, int64_t by) {
    a.constant *= by;
    if (by == 0) a.terms.clear();
    for (auto& [symbol, factor] : a.terms) factor *= by;
    return a;
  }
  Affine Evaluate(const Inst& inst) {
    constexpr int64_t kLargest = 1 << 24;  // factors beyond this are no addresses
    Affine unknown;
    unknown.known = false;
    if (inst.pred.valid() || inst.src.empty()) return unknown;
    Affine a = Of(inst.src[0]);
    Affine b = inst.src.size() > 1 ? Of(inst.src[1]) : Affine{};
    if (!a.known || !b.known) return unknown;
    bool b_constant = b.terms.empty() && std::abs(b.constant) < kLargest;
    bool a_constant = a.terms.empty() && std::abs(a.constant) < kLargest;
    switch (inst.op) {
      case Opcode::kSmov:
        return a;
      case Opcode::kSadd:
        return Add(a, b, 1);
      case Opcode::kSsub:
        return Add(a, b, -1);
      case Opcode::kSmul:
        if (b_constant) return Scale(a, b.constant);
        if (a_constant) return Scale(b, a.constant);
        return unknown;
      case Opcode::kSshll:
        return b_constant && b.constant >= 0 && b.constant < 20 ? Scale(a, int64_t{1} << b.constant)
                                                                : unknown;
      default:
        return unknown;
    }
  }

  absl::flat_hash_map<int, Affine> values_;
  absl::flat_hash_map<int, int> writes_;
};

}  // namespace

std::vector<LoopAccess> FindLoopAccesses(const llo::Block& block, int size) {
  Evaluator evaluator(block, size);
  std::vector<LoopAccess> accesses;
  for (int n = 0; n < size; ++n) {
    const Inst& inst = block.insts[n];
    if (isa::Info(inst.op).has_memory) {
      LoopAccess a;
      a.node = n;
      a.store = llo::IsStore(inst.op);
      a.smem = llo::IsSmem(inst.op);
      a.buffer = inst.mem.buffer;
      a.base = evaluator.Of(inst.mem.base);
      a.base.constant += inst.mem.offset;
      for (int i = 0; i < (a.smem ? 1 : 8); ++i) {
        if (a.smem || inst.mem.sublane_mask >> i & 1) {
          a.rows.push_back(i * int64_t{inst.mem.sublane_stride});
        }
      }
      accesses.push_back(std::move(a));
    }
    evaluator.Define(inst);
  }
  for (LoopAccess& a : accesses) a.step_known = evaluator.Step(a.base, &a.step);
  return accesses;
}

bool Comparable(const LoopAccess& a, const LoopAccess& b) {
  return a.step_known && b.step_known && a.step == b.step && a.base.terms == b.base.terms;
}

int ConflictDistance(const LoopAccess& earlier, const LoopAccess& later) {
  if (earlier.smem != later.smem) return 0;
  if (earlier.buffer >= 0 && later.buffer >= 0 && earlier.buffer != later.buffer) return 0;
  if (!Comparable(earlier, later)) return 1;
  int64_t apart = later.base.constant - earlier.base.constant, step = later.step;
  int64_t least = 0;
  for (int64_t x : earlier.rows) {
    for (int64_t y : later.rows) {  // x == y + apart + distance * step
      int64_t gap = x - y - apart;
      if (step == 0) {
        if (gap == 0) return 1;
        continue;
      }
      int64_t distance = gap / step;
      if (gap % step != 0 || distance < 1) continue;
      least = least == 0 ? distance : std::min(least, distance);
    }
  }
  return static_cast<int>(std::min<int64_t>(least, 1 << 20));
}

namespace {

// Accesses to rows that are the same in some trips, by what the rows have in common.
using Places = absl::flat_hash_map<int64_t, std::vector<int>>;

Places PlacesOf(const std::vector<LoopAccess>& accesses, const std::vector<int>& members) {
  Places places;
  for (int i : members) {
    const LoopAccess& a = accesses[i];
    for (int64_t row : a.rows) {
      int64_t place = row + a.base.constant, step = std::abs(a.step);
      if (step != 0) place = (place % step + step) % step;
      std::vector<int>& there = places[place];
      if (there.empty() || there.back() != i) there.push_back(i);
    }
  }
  return places;
}

constexpr size_t kMostConflicts = 1 << 19;

// Of accesses that move alike. A row of one is met by those that `distance` trips later are there.
bool ConflictsInBuffer(const std::vector<LoopAccess>& accesses, const std::vector<int>& members,
                       int64_t trips, std::vector<LoopConflict>* conflicts) {
  constexpr int64_t kFew = 64;
  absl::flat_hash_set<std::pair<int, int>> done;
  auto add = [&](int a, int b) {
    if (!accesses[a].store && !accesses[b].store) return;
    if (!done.insert({a, b}).second) return;
    int distance = ConflictDistance(accesses[a], accesses[b]);
    if (distance > 0) conflicts->push_back({a, b, distance});
  };
  int64_t step = accesses[members[0]].step, low = 0, high = 0;
  absl::flat_hash_map<int64_t, std::vector<int>> rows;
  for (int i : members) {
    for (int64_t offset : accesses[i].rows) {
      int64_t row = offset + accesses[i].base.constant;
      low = rows.empty() ? row : std::min(low, row);
      high = rows.empty() ? row : std::max(high, row);
      std::vector<int>& there = rows[row];
      if (there.empty() || there.back() != i) there.push_back(i);
    }
  }
  int64_t most = step == 0 ? 0 : std::min(trips - 1, (high - low) / std::abs(step));
  if (trips > 1 && step != 0 && most <= kFew) {
    for (int a : members) {
      for (int64_t offset : accesses[a].rows) {
        int64_t row = offset + accesses[a].base.constant;
        for (int64_t d = 1; d <= most; ++d) {
          auto it = rows.find(row - d * step);
          if (it == rows.end()) continue;
          for (int b : it->second) add(a, b);
        }
      }
      if (conflicts->size() > kMostConflicts) return false;
    }
    return true;
  }
  for (const auto& [place, there] : PlacesOf(accesses, members)) {
    bool store = std::any_of(there.begin(), there.end(), [&](int i) { return accesses[i].store; });
    if (!store) continue;
    if (there.size() * there.size() + conflicts->size() > kMostConflicts) return false;
    for (int a : there) {
      for (int b : there) add(a, b);
    }
  }
  return true;
}

}  // namespace

bool FindConflicts(const std::vector<LoopAccess>& accesses, int64_t trips,
                   std::vector<LoopConflict>* conflicts) {
  absl::btree_map<std::pair<bool, int>, std::vector<int>> by_buffer;
  bool unknown[2] = {false, false};
  for (const LoopAccess& a : accesses) unknown[a.smem] |= a.buffer < 0;
  for (size_t i = 0; i < accesses.size(); ++i) {
    bool smem = accesses[i].smem;
    by_buffer[{smem, unknown[smem] ? -1 : accesses[i].buffer}].push_back(i);
  }
  auto add = [&](int a, int b) {
    if (!accesses[a].store && !accesses[b].store) return;
    int distance = ConflictDistance(accesses[a], accesses[b]);
    if (distance > 0) conflicts->push_back({a, b, distance});
  };
  for (const auto& [buffer, members] : by_buffer) {
    bool stores = false, comparable = buffer.second >= 0;
    for (int i : members) {
      stores |= accesses[i].store;
      comparable &= Comparable(accesses[members[0]], accesses[i]);
    }
    if (!stores) continue;
    if (!comparable) {
      if (members.size() * members.size() > kMostConflicts) return false;
      for (int a : members) {
        for (int b : members) add(a, b);
      }
      continue;
    }
    if (!ConflictsInBuffer(accesses, members, trips, conflicts)) return false;
    if (conflicts->size() > kMostConflicts) return false;
  }
  std::sort(conflicts->begin(), conflicts->end(), [](const LoopConflict& a, const LoopConflict& b) {
    return std::tie(a.earlier, a.later) < std::tie(b.earlier, b.later);
  });
  return true;
}

}  // namespace tpuc::schedule
