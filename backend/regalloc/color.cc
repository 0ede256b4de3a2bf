// Live ranges and linear scan. Positions: 2 * cycle for reads, 2 * cycle + 1 for writes.
#include "backend/regalloc/color.h"

#include <algorithm>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "backend/llo/liveness.h"
#include "backend/llo/operands.h"

namespace tpuc::regalloc {
namespace {

using isa::Inst;
using isa::Reg;
using isa::RegClass;
using schedule::BlockSchedule;
using schedule::ClassIndex;

struct Range {
  int64_t from, to;  // half open
};
using Ranges = absl::InlinedVector<Range, 1>;  // rising, disjoint; most have one

class Colorer {
 public:
  Colorer(const llo::Function& f, const schedule::FunctionSchedule& s, const FixedScalars& fixed,
          const Chip& chip)
      : f_(f), s_(s), fixed_(fixed), registers_(schedule::RegistersOf(chip)) {}
  Coloring Run();

 private:
  std::vector<Ranges> FindRanges(RegClass cls) const;
  void BlockRanges(int b, RegClass cls, const llo::Liveness& live, int64_t start,
                   std::vector<Ranges>* ranges) const;
  int MaxLive(const std::vector<Ranges>& ranges) const;
  void Assign(RegClass cls, const std::vector<Ranges>& ranges);

  const llo::Function& f_;
  const schedule::FunctionSchedule& s_;
  const FixedScalars& fixed_;
  std::array<int, 4> registers_;
  Coloring out_;
};

// One physical register: what it holds and when.
class Occupancy {
 public:
  bool Free(const Ranges& ranges) const {
    if (ranges[0].from >= end_) return true;
    for (const Range& r : ranges) {
      auto it = taken_.lower_bound(r.from);
      if (it != taken_.end() && it->first < r.to) return false;
      if (it != taken_.begin() && std::prev(it)->second > r.from) return false;
    }
    return true;
  }
  void Take(const Ranges& ranges) {
    for (const Range& r : ranges) taken_.emplace(r.from, r.to);
    end_ = std::max(end_, ranges.back().to);
  }
  // End of what it held last before `at`; -1: nothing.
  int64_t LastUse(int64_t at) const {
    if (at >= end_) return end_;
    auto it = taken_.lower_bound(at);
    return it == taken_.begin() ? -1 : std::prev(it)->second;
  }

 private:
  absl::btree_map<int64_t, int64_t> taken_;  // from -> to
  int64_t end_ = -1;                         // of all it holds
};

void Colorer::BlockRanges(int b, RegClass cls, const llo::Liveness& live, int64_t start,
                          std::vector<Ranges>* ranges) const {
  const llo::Block& block = f_.blocks[b];
  const BlockSchedule& s = s_.blocks[b];
  int n = block.insts.size();
  std::vector<std::pair<int, int>> order;  // cycle, instruction
  for (int i = 0; i < n; ++i) {
    order.push_back({i == s_.graphs[b].terminator ? s.terminator : s.time[i], i});
  }
  std::sort(order.begin(), order.end());
  // Backward walk; `end` of a register that is live below, by register.
  absl::btree_map<int, int64_t> end;
  int64_t block_end = 2 * (start + s.length);
  live.out[b].ForEach([&](int r) { end[r] = block_end; });
  llo::BitSet written = live.in[b];  // on some path so far
  std::vector<char> first_write(n, 0);
  for (const auto& [cycle, i] : order) {
    Reg dest = block.insts[i].dest;
    if (dest.cls != cls) continue;
    if (!written.Has(dest.id)) first_write[i] = 1;
    written.Add(dest.id);
  }
  auto close = [&](int reg, int64_t from, int64_t to) { (*ranges)[reg].push_back({from, to}); };
  size_t low = order.size();
  for (size_t high = order.size(); high > 0; high = low) {  // one cycle: writes, then reads
    low = high;
    int cycle = order[high - 1].first;
    while (low > 0 && order[low - 1].first == cycle) --low;
    int64_t at = 2 * (start + cycle);
    for (size_t k = low; k < high; ++k) {
      const Inst& inst = block.insts[order[k].second];
      if (inst.dest.cls != cls) continue;
      bool whole = !inst.pred.valid() || first_write[order[k].second];
      auto it = end.find(inst.dest.id);
      if (it == end.end()) {
        close(inst.dest.id, at + 1, at + 2);  // nobody reads it, yet it is written
      } else if (whole) {
        close(inst.dest.id, at + 1, it->second);
        end.erase(it);
      }
    }
    for (size_t k = low; k < high; ++k) {
      int i = order[k].second;
      Inst inst = block.insts[i];
      if (first_write[i]) inst.dest = Reg();
      llo::ForEachRead(inst, [&](Reg r) {
        if (r.cls == cls) end.emplace(r.id, at + 1);
      });
    }
  }
  for (auto [reg, to] : end) {
    if (2 * start < to) close(reg, 2 * start, to);
  }
}

std::vector<Ranges> Colorer::FindRanges(RegClass cls) const {
  llo::Liveness live = llo::ComputeLiveness(f_, cls);
  std::vector<Ranges> ranges(f_.registers[static_cast<int>(cls)]);
  int64_t start = 0;
  for (size_t b = 0; b < f_.blocks.size(); ++b) {
    BlockRanges(b, cls, live, start, &ranges);
    start += s_.blocks[b].length;
  }
  for (Ranges& r : ranges) {
    std::sort(r.begin(), r.end(), [](const Range& a, const Range& b) { return a.from < b.from; });
    size_t kept = 0;
    for (size_t i = 0; i < r.size(); ++i) {
      if (kept > 0 && r[i].from <= r[kept - 1].to) {
        r[kept - 1].to = std::max(r[kept - 1].to, r[i].to);
      } else {
        r[kept++] = r[i];
      }
    }
    r.resize(kept);
  }
  return ranges;
}

int Colorer::MaxLive(const std::vector<Ranges>& ranges) const {
  std::vector<std::pair<int64_t, int>> events;
  for (const Ranges& r : ranges) {
    for (const Range& range : r) {
      events.push_back({range.from, 1});
      events.push_back({range.to, -1});
    }
  }
  std::sort(events.begin(), events.end());
  int live = 0, max = 0;
  for (const auto& [at, change] : events) max = std::max(max, live += change);
  return max;
}

void Colorer::Assign(RegClass cls, const std::vector<Ranges>& ranges) {
  int c = ClassIndex(cls);
  out_.max_live[c] = MaxLive(ranges);
  std::vector<int>& physical = out_.physical[c];
  physical.assign(ranges.size(), -1);
  std::vector<Occupancy> files(registers_[c]);
  if (cls == RegClass::kScalar) {
    for (auto [reg, place] : fixed_) {
      if (ranges[reg].empty()) continue;
      if (place >= registers_[c] || !files[place].Free(ranges[reg])) {
        out_.failed[c] = true;
        continue;
      }
      physical[reg] = place;
      files[place].Take(ranges[reg]);
    }
  }
  std::vector<int> order;
  for (size_t r = 0; r < ranges.size(); ++r) {
    if (!ranges[r].empty() && physical[r] < 0) order.push_back(r);
  }
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    int64_t x = ranges[a][0].from, y = ranges[b][0].from;
    return x != y ? x < y : a < b;
  });
  for (int reg : order) {
    int best = -1;
    int64_t best_use = 0;
    for (int p = 0; p < registers_[c]; ++p) {
      if (!files[p].Free(ranges[reg])) continue;
      int64_t use = files[p].LastUse(ranges[reg][0].from);
      if (best < 0 || use < best_use) {
        best = p;
        best_use = use;
      }
    }
    if (best < 0) {
      out_.failed[c] = true;
      continue;
    }
    physical[reg] = best;
    files[best].Take(ranges[reg]);
  }
}

Coloring Colorer::Run() {
  for (RegClass cls : schedule::kClasses) Assign(cls, FindRanges(cls));
  return std::move(out_);
}

}  // namespace

Coloring Color(const llo::Function& function, const schedule::FunctionSchedule& schedule,
               const FixedScalars& fixed, const Chip& chip) {
  return Colorer(function, schedule, fixed, chip).Run();
}

}  // namespace tpuc::regalloc
