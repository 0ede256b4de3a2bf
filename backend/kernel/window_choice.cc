// The search for windows (window_choice.h): all combinations of a few block sizes a class and all
// orders of the axes, each priced by arithmetic on tiles.
#include "backend/kernel/window_choice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/windows.h"
#include "backend/kernel/work_estimate.h"
#include "src/ir/tiling.h"

namespace tpuc::kernel {
namespace {

constexpr int64_t kSearchBytes = 2 << 20;  // kernels that move less stay one step
constexpr double kStepCycles = 100;          // control of a grid step
constexpr double kStartCycles = 8;           // one more transfer of a window
constexpr double kTransfers = 64;            // most of one window
constexpr double kGain = 1.0;                // a grid must take less than this of one step's time
constexpr int kMostBuffers = 4;
constexpr double kShows = 0.3;  // of the shorter of work and DMA
constexpr size_t kMostPlans = 20000;
constexpr size_t kTableRows = 8;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a ref lies in memory, reduced to what sizes and transfers depend on.
struct Place {
  int lane = -1, sub = -1;
  int64_t tile_sub = 8, bits = 32;
  bool view = false;  // in VMEM already
  bool scratch = false, output = false, flat = false;
  std::vector<int> order;  // dimensions, most major first
};

Place PlaceOf(const Ref& ref) {
  Place p;
  const Shape shape = WithDeviceLayout(ref.shape);
  const int rank = shape.rank();
  p.bits = std::max(BitsOf(shape.type), 32 / PackedElements(shape.type));
  p.scratch = ref.role == Ref::Role::kScratch;
  p.output = ref.role == Ref::Role::kOut;
  p.view = !p.scratch && ref.InVmem();
  p.flat = rank < 2;
  for (int i = rank; i-- > 0;) p.order.push_back(static_cast<int>(shape.layout->minor_to_major[i]));
  if (rank >= 1) p.lane = p.order.back();
  if (rank >= 2) {
    p.sub = p.order[rank - 2];
    if (!shape.layout->tiles.empty() && shape.layout->tiles[0].dims.size() == 2) {
      p.tile_sub = shape.layout->tiles[0].dims[0];
    }
  }
  return p;
}

class Chooser {
 public:
  Chooser(const Kernel& k, const DimClasses& classes, const Chip& chip, int64_t budget)
      : k_(k), classes_(classes), chip_(chip), budget_(budget), work_(k, chip) {
    for (const Ref& r : k.refs) places_.push_back(PlaceOf(r));
    block_.reserve(classes.classes.size());
    for (const DimClass& c : classes.classes) block_.push_back(c.extent);
  }
  WindowChoice Run(bool want_table);

 private:
  bool MaySqueeze(int cls) const;
  bool Allowed(int cls, int64_t block) const;
  std::vector<int64_t> Candidates(int cls) const;
  bool Gathers(const std::vector<int>& reduced);
  void Enumerate(const std::vector<int>& classes, size_t next);
  void Orders();
  bool Visits(const Blocking& order) const;
  bool Price(Blocking order, WindowPlan* plan) const;
  int64_t WindowBytes(size_t r) const;
  double Transfers(size_t r) const;
  int64_t Steps(int cls) const { return CeilDiv(classes_.classes[cls].extent, block_[cls]); }
  std::string Line(const WindowPlan& plan) const;
  std::string BlockText(const WindowPlan& plan) const;

  const Kernel& k_;
  const DimClasses& classes_;
  const Chip& chip_;
  const int64_t budget_;
  WorkEstimate work_;
  std::vector<Place> places_;
  std::map<int, std::vector<int64_t>> candidates_;
  std::map<std::vector<int>, bool> gathers_;
  std::vector<int64_t> block_;  // by class, of the plan at hand
  std::vector<WindowPlan> plans_;
};

// Single elements of it may be blocks: it leads in every array, or is the sublane dimension of a
// 32-bit array in VMEM.
bool Chooser::MaySqueeze(int cls) const {
  if (!classes_.classes[cls].reducers.empty()) return false;
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    const std::vector<int>& of = classes_.of_ref[r];
    for (size_t d = 0; d < of.size(); ++d) {
      if (of[d] != cls) continue;
      if (static_cast<int>(d) == places_[r].lane) return false;
      const bool row = static_cast<int>(d) == places_[r].sub;
      if (row && !(places_[r].view && places_[r].bits == 32)) return false;
    }
  }
  return true;
}

bool Chooser::Allowed(int cls, int64_t block) const {
  const int64_t extent = classes_.classes[cls].extent;
  if (block == extent) return true;
  if (block < 1 || block > extent) return false;
  if (block == 1) return MaySqueeze(cls);
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    const Place& p = places_[r];
    const std::vector<int>& of = classes_.of_ref[r];
    for (int d = 0; d < static_cast<int>(of.size()); ++d) {
      if (of[d] != cls) continue;
      int64_t unit = 1;
      if (p.flat) {
        unit = 128 * std::max<int64_t>(1, 32 / p.bits);
        const bool power = (block & (block - 1)) == 0 && block >= unit;
        if (block % 1024 != 0 && !power) return false;
      } else if (d == p.lane) {
        unit = 128;
      } else if (d == p.sub) {
        if (p.tile_sub < 8) return false;
        unit = p.tile_sub;
      }
      if (block % unit != 0) return false;
      // Blocks of a view may not run past its tiles.
      if (p.view && CeilDiv(extent, block) * block > CeilDiv(extent, unit) * unit) return false;
    }
  }
  return true;
}

// The whole, then n equal pieces in units that every array allows.
std::vector<int64_t> Chooser::Candidates(int cls) const {
  const DimClass& c = classes_.classes[cls];
  std::vector<int64_t> list = {c.extent};
  if (c.whole || c.extent < 2) return list;
  std::set<int64_t> seen = {c.extent};
  for (int64_t unit :
       {int64_t{1}, int64_t{8}, int64_t{32}, int64_t{128}, int64_t{256}, int64_t{1024}}) {
    for (int64_t n = 2; n <= 4096; n = n < 8 ? n + 1 : n + n / 4) {
      const int64_t block = CeilDiv(CeilDiv(c.extent, n), unit) * unit;
      if (Allowed(cls, block) && seen.insert(block).second) list.push_back(block);
      if (block <= unit) break;
    }
    if (unit > 1 && list.size() > 1) break;
  }
  for (int64_t block = 64; block < c.extent; block *= 2) {
    if (Allowed(cls, block) && seen.insert(block).second) list.push_back(block);
  }
  if (Allowed(cls, 1) && seen.insert(1).second) list.push_back(1);
  std::sort(list.begin(), list.end(), std::greater<int64_t>());
  return list;
}

bool Chooser::Gathers(const std::vector<int>& reduced) {
  if (reduced.empty()) return true;
  const auto it = gathers_.find(reduced);
  if (it != gathers_.end()) return it->second;
  return gathers_[reduced] = MayGather(k_, classes_, reduced);
}

int64_t Chooser::WindowBytes(size_t r) const {
  const Place& p = places_[r];
  const std::vector<int>& of = classes_.of_ref[r];
  double bytes = static_cast<double>(p.bits) / 8;
  for (size_t d = 0; d < of.size(); ++d) {
    int64_t n = block_[of[d]], unit = 1;
    if (p.flat) {
      unit = 128 * std::max<int64_t>(1, 32 / p.bits);
    } else if (static_cast<int>(d) == p.lane) {
      unit = 128;
    } else if (static_cast<int>(d) == p.sub) {
      unit = p.tile_sub;
    }
    bytes *= static_cast<double>(CeilDiv(n, unit) * unit);
  }
  return bytes > 9e18 ? INT64_MAX / 4 : std::max<int64_t>(512, static_cast<int64_t>(bytes));
}

// Separate transfers of one window: levels beyond one run and one stride.
double Chooser::Transfers(size_t r) const {
  const Place& p = places_[r];
  const std::vector<int>& of = classes_.of_ref[r];
  double transfers = 1;
  bool run = true, strided = false;
  for (size_t i = p.order.size(); i-- > 0;) {  // minor first
    const int d = p.order[i];
    int64_t unit = d == p.lane ? 128 : d == p.sub ? p.tile_sub : 1;
    const int64_t n = CeilDiv(block_[of[d]], unit);
    const int64_t all = CeilDiv(classes_.classes[of[d]].extent, unit);
    if (n == 1 && all > 1) run = false;
    if (n == 1) continue;
    if (run) {
      run = n == all;
      continue;
    }
    if (strided) transfers *= static_cast<double>(n);
    strided = true;
  }
  return transfers;
}

// Every block of every output is visited once, in steps that follow each other.
bool Chooser::Visits(const Blocking& order) const {
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    if (!places_[r].output) continue;
    bool missing = false;
    for (const CutAxis& a : order) {
      const std::vector<int>& of = classes_.of_ref[r];
      const bool has = std::find(of.begin(), of.end(), a.cls) != of.end();
      if (has && missing) return false;
      missing |= !has;
    }
  }
  return true;
}

bool Chooser::Price(Blocking order, WindowPlan* plan) const {
  plan->steps = 1;
  for (const CutAxis& a : order) {
    plan->steps *= Steps(a.cls);
    if (plan->steps > (int64_t{1} << 24)) return false;
  }
  plan->blocking = std::move(order);
  const double rate = std::max(1.0, chip_.hbm_bytes_per_cycle);
  double first = 0, last = 0, starts = 0, moved = 0, deep = 0;
  plan->buffers.assign(k_.refs.size(), 2);
  double vmem = static_cast<double>(work_.TemporaryBytes(block_));
  bool reduced = false;
  for (const CutAxis& a : plan->blocking) reduced |= a.reduced;
  if (reduced) vmem += static_cast<double>(work_.GatherBytes(block_));
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    if (places_[r].view) continue;
    const double bytes = static_cast<double>(WindowBytes(r));
    const std::vector<int>& of = classes_.of_ref[r];
    // Times the window changes: steps of all axes down to the last that it depends on.
    double fetches = 1, upto = 1;
    for (const CutAxis& a : plan->blocking) {
      upto *= static_cast<double>(Steps(a.cls));
      if (std::find(of.begin(), of.end(), a.cls) != of.end()) fetches = upto;
    }
    vmem += bytes * (fetches > 1 ? 2 : 1);
    // A window that changes with every step may be copied several steps ahead.
    if (!places_[r].output && fetches > 1 && fetches == static_cast<double>(plan->steps)) {
      deep += bytes;
      plan->buffers[r] = 0;
    }
    const double transfers = Transfers(r);
    if (transfers > kTransfers) return false;
    starts += fetches * transfers * kStartCycles;
    double all = 1;  // blocks at the edge are cut: count elements, not blocks
    for (int c : of)
      all *= static_cast<double>(classes_.classes[c].extent) / (block_[c] * Steps(c));
    moved += fetches * bytes * all;
    (places_[r].output ? last : first) += bytes / rate;
  }
  plan->vmem_bytes = static_cast<int64_t>(std::min(vmem, 9e18));
  plan->hbm_bytes = static_cast<int64_t>(moved);
  const double steps = static_cast<double>(plan->steps);
  // Gathering loads, adds to and stores every register of the sums.
  const double gather = reduced ? static_cast<double>(work_.GatherBytes(block_)) / 4096 : 0;
  plan->work =
      steps * (work_.Cycles(block_) + gather + (plan->steps > 1 ? kStepCycles : 0)) + starts;
  plan->dma = moved / rate;
  const double fixed = chip_.dma_fixed_cycles;
  const double in = first > 0 ? fixed + first : 0, out = last > 0 ? fixed + last : 0;
  if (plan->steps == 1) {
    plan->time = in + plan->work + out;
  } else {
    // With n buffers a copy starts n - 1 steps ahead: its start is covered by those steps only.
    int depth = 2;
    const auto step_with = [&](int n) {
      const double lone = deep > 0 ? (fixed + deep / rate) / (n - 1) : 0;
      return std::max({plan->work / steps, moved / rate / steps, lone});
    };
    while (deep > 0 && depth < kMostBuffers && steps > depth &&
           step_with(depth + 1) < 0.99 * step_with(depth) &&
           vmem + deep <= static_cast<double>(budget_)) {
      vmem += deep;
      ++depth;
    }
    for (int& b : plan->buffers) b = b == 0 ? depth : b;
    plan->vmem_bytes = static_cast<int64_t>(vmem);
    if (deep > 0) plan->dma = std::max(plan->dma, steps * (fixed + deep / rate) / (depth - 1));
    // The ends that nothing covers: the first copies in and the last ones out around the work, or
    // a step's work around the copies. What is shorter still shows where the two do not overlap.
    plan->time = std::max(in + plan->work + out, fixed + plan->dma + plan->work / steps) +
                 kShows * std::min(plan->work, moved / rate);
  }
  return true;
}

void Chooser::Orders() {
  std::vector<int> kept, reduced;
  for (size_t c = 0; c < block_.size(); ++c) {
    if (block_[c] == classes_.classes[c].extent) continue;
    (classes_.classes[c].reducers.empty() ? kept : reduced).push_back(static_cast<int>(c));
  }
  if (kept.empty() && reduced.empty()) return;
  if (!Gathers(reduced)) return;
  std::sort(kept.begin(), kept.end());
  do {
    Blocking order;
    for (int c : kept) order.push_back({c, block_[c], block_[c] == 1, false});
    for (int c : reduced) order.push_back({c, block_[c], false, true});
    if (!Visits(order)) continue;
    WindowPlan plan;
    if (Price(std::move(order), &plan) && plan.vmem_bytes <= budget_) {
      plans_.push_back(std::move(plan));
    }
  } while (std::next_permutation(kept.begin(), kept.end()));
}

void Chooser::Enumerate(const std::vector<int>& classes, size_t next) {
  if (next == classes.size()) return Orders();
  const int cls = classes[next];
  for (int64_t block : candidates_[cls]) {
    block_[cls] = block;
    Enumerate(classes, next + 1);
  }
  block_[cls] = classes_.classes[cls].extent;
}

std::string Chooser::BlockText(const WindowPlan& plan) const {
  std::vector<std::string> parts;
  for (const CutAxis& a : plan.blocking) {
    parts.push_back(
        absl::StrCat(classes_.classes[a.cls].extent, "/", a.block, a.reduced ? "+" : ""));
  }
  return parts.empty() ? "whole arrays" : absl::StrJoin(parts, " ");
}

std::string Chooser::Line(const WindowPlan& plan) const {
  return absl::StrFormat("%8d %10.1f %10.1f %12.0f %12.0f %12.0f  %s\n", plan.steps,
                         plan.vmem_bytes / 1048576.0, plan.hbm_bytes / 1e6, plan.work, plan.dma,
                         plan.time, BlockText(plan));
}

WindowChoice Chooser::Run(bool want_table) {
  WindowChoice choice;
  WindowPlan one;
  const bool priced = Price({}, &one);
  const bool whole_fits = priced && one.vmem_bytes <= budget_;
  // What takes windows alone beyond the limit is refused; temporaries are only estimated.
  int64_t windows = 0;
  for (size_t r = 0; r < k_.refs.size(); ++r) {
    if (!places_[r].view) windows += std::min<int64_t>(WindowBytes(r), INT64_MAX / 1024);
  }
  choice.fits = windows <= budget_;
  choice.plan = one;
  if (whole_fits && windows < kSearchBytes) return choice;
  std::vector<int> cuttable;
  size_t count = 1;
  for (size_t c = 0; c < classes_.classes.size(); ++c) {
    std::vector<int64_t> list = Candidates(static_cast<int>(c));
    if (list.size() < 2) continue;
    cuttable.push_back(static_cast<int>(c));
    candidates_[static_cast<int>(c)] = std::move(list);
  }
  const auto total = [&] {
    count = 1;
    for (const auto& [c, list] : candidates_) count *= list.size();
    return count;
  };
  while (total() > kMostPlans) {  // every other size of the class with most
    auto most = std::max_element(candidates_.begin(), candidates_.end(), [](auto& a, auto& b) {
      return a.second.size() < b.second.size();
    });
    std::vector<int64_t> thinned;
    for (size_t i = 0; i < most->second.size(); i += 2) thinned.push_back(most->second[i]);
    if (thinned.size() < 2) break;
    most->second = std::move(thinned);
  }
  if (!cuttable.empty()) Enumerate(cuttable, 0);
  std::stable_sort(plans_.begin(), plans_.end(), [](const WindowPlan& a, const WindowPlan& b) {
    return std::make_pair(a.time, a.steps) < std::make_pair(b.time, b.steps);
  });
  if (!plans_.empty() && (!whole_fits || plans_[0].time < kGain * one.time)) {
    choice.plan = plans_[0];
    choice.fits = true;
  }
  if (!want_table) return choice;
  absl::StrAppend(&choice.table, "windows of ", k_.name,
                  " (cycles are estimates; + gathers sums)\n",
                  "   steps   VMEM MiB     HBM MB         work          DMA         time  "
                  "extent/block, outermost first\n");
  absl::StrAppend(&choice.table, Line(choice.plan));
  for (size_t i = 0; i < plans_.size() && i < kTableRows; ++i) {
    if (i > 0 || choice.plan.blocking.empty()) absl::StrAppend(&choice.table, Line(plans_[i]));
  }
  if (!choice.plan.blocking.empty()) {
    absl::StrAppend(&choice.table, Line(one));
    if (!whole_fits) {
      absl::StrAppend(&choice.table, "         (does not fit: the limit is ", budget_ / 1048576,
                      " MiB)\n");
    }
  }
  absl::StrAppend(&choice.table, "   ", plans_.size(), " plans that fit\n");
  return choice;
}

}  // namespace

WindowChoice ChooseWindows(const Kernel& kernel, const DimClasses& classes, const Chip& chip,
                           int64_t budget, bool want_table) {
  return Chooser(kernel, classes, chip, budget).Run(want_table);
}

}  // namespace tpuc::kernel
