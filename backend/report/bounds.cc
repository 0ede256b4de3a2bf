#include "backend/report/bounds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backend/report/columns.h"

namespace tpuc {
namespace {

constexpr size_t kMostKernels = 14;
constexpr char kRow[] = "%s%7s%6s%5s%10s%5s%7s%5s%5s%5s%5s%5s%6s%5s%5s%5s%6s\n";

// "-" where there is nothing to divide by.
std::string Share(double part, double whole) {
  if (whole <= 0) return "-";
  return absl::StrFormat("%.0f%%", 100 * part / whole);
}

std::string Si(double n) {
  for (const char* unit : {"", "k", "M", "G"}) {
    if (n < 1000) return absl::StrFormat("%.*f%s", n < 10 && *unit ? 1 : 0, n, unit);
    n /= 1000;
  }
  return absl::StrFormat("%.1fT", n);
}

// FLOPs of the calls of kernel k.
double Flops(const isa::Program& p, const RunStats& run, size_t k) {
  return static_cast<double>(p.kernels[k].info.flops) * static_cast<double>(run.kernels[k].calls);
}

int64_t HbmBytes(const KernelRun& r) { return r.hbm_read_bytes + r.hbm_written_bytes; }

// `behind`: its copies go on under the kernels that follow, so that its own cycles say nothing
// about them.
std::string Line(const std::string& name, const KernelRun& r, double flops, const Chip& chip,
                 bool behind = false) {
  const double cycles = static_cast<double>(r.cycles);
  const double bytes = static_cast<double>(HbmBytes(r));
  auto slot = [&](int64_t used, int of) { return Share(static_cast<double>(used), cycles * of); };
  return absl::StrFormat(
      kRow, Cell(name, 22), absl::StrFormat("%.2f", cycles / chip.clock_mhz), Si(flops),
      Share(flops, cycles * PeakFlopsPerCycle(chip)), Bytes(HbmBytes(r)),
      behind ? "-" : Share(bytes, cycles * chip.hbm_bytes_per_cycle),
      bytes > 0 && !behind ? Si(flops / bytes) : "-", slot(r.slots.mxu, chip.mxus),
      slot(r.slots.xlu, chip.xlus), slot(r.slots.valu, chip.valu), slot(r.slots.eup, chip.eup),
      slot(r.slots.load, chip.load), slot(r.slots.store, chip.store), slot(r.stalls.dma, 1),
      slot(r.stalls.operand, 1), slot(r.stalls.unit, 1), slot(r.stalls.queue, 1));
}

KernelRun Total(const RunStats& run) {
  KernelRun sum = run.tlp;
  auto add = [](SlotCounts* to, const SlotCounts& s) {
    to->mxu += s.mxu, to->xlu += s.xlu, to->valu += s.valu, to->eup += s.eup;
    to->load += s.load, to->store += s.store, to->salu += s.salu;
  };
  for (const KernelRun& k : run.kernels) {
    sum.stalls.operand += k.stalls.operand, sum.stalls.unit += k.stalls.unit;
    sum.stalls.dma += k.stalls.dma, sum.stalls.queue += k.stalls.queue;
    add(&sum.slots, k.slots);
    sum.hbm_read_bytes += k.hbm_read_bytes, sum.hbm_written_bytes += k.hbm_written_bytes;
  }
  sum.cycles = run.cycles;
  return sum;
}

}  // namespace

double PeakFlopsPerCycle(const Chip& chip) {
  const double rows = static_cast<double>(chip.sublanes) / chip.interval(IntervalKey::kMatmulF32);
  return 2.0 * chip.mxus * rows * chip.mxu_size * chip.mxu_size;
}

std::string BoundsText(const isa::Program& program, const RunStats& run, const Chip& chip) {
  std::string out = "\n";
  out +=
      absl::StrFormat(kRow, Cell("share of", 22), "us", "FLOP", "peak", "HBM", "peak", "FLOP/B",
                      "mxu", "xlu", "valu", "eup", "load", "store", "dma", "reg", "unit", "queue");
  double flops = 0;
  for (size_t k = 0; k < program.kernels.size() && k < run.kernels.size(); ++k) {
    flops += Flops(program, run, k);
    if (k < kMostKernels) {
      out += Line(program.kernels[k].name, run.kernels[k], Flops(program, run, k), chip);
    }
  }
  if (program.kernels.size() > kMostKernels) {
    absl::StrAppend(&out, "... and ", program.kernels.size() - kMostKernels, " more\n");
  }
  out += Line("top-level program", run.tlp, 0, chip, /*behind=*/true);
  out += Line("whole run", Total(run), flops, chip);
  absl::StrAppend(
      &out, absl::StrFormat(
                "dma, reg, unit, queue: cycles that waited for a copy, a register, a busy unit, "
                "a unit's result\nabove %.0f FLOP/B the MXU bounds, below it the HBM\n",
                PeakFlopsPerCycle(chip) / chip.hbm_bytes_per_cycle));
  return out;
}

std::string AdviceText(const isa::Program& program, const RunStats& run, const Chip& chip) {
  struct Loss {
    int64_t cycles;
    std::string where;
    const char* what;
    const char* mend;
  };
  std::vector<Loss> losses;
  auto add = [&](const std::string& where, const KernelRun& r) {
    losses.push_back({r.stalls.dma, where, "waits for copies",
                      "keep its operands in VMEM, start the copy earlier, or use larger or deeper "
                      "buffered blocks"});
    losses.push_back({r.stalls.queue, where, "waits for results of the MXU, XLU or EUP",
                      "give it more independent rows at a time, or fuse it with a neighbour"});
    losses.push_back({r.stalls.unit, where, "waits for busy units",
                      "its work is bound by one unit: see its share in the table"});
    losses.push_back({r.stalls.operand, where, "waits for registers",
                      "a chain of dependent operations: more independent rows at a time"});
    losses.push_back({r.cycles - r.stalls.total(), where, "issues bundles",
                      "fewer operations: the fullest unit in the table bounds it"});
  };
  for (size_t k = 0; k < program.kernels.size() && k < run.kernels.size(); ++k) {
    add(program.kernels[k].name, run.kernels[k]);
  }
  add("the top-level program", run.tlp);
  const Loss& worst = *std::max_element(losses.begin(), losses.end(),
                                        [](auto& a, auto& b) { return a.cycles < b.cycles; });
  if (run.cycles <= 0) return "";
  return absl::StrFormat("first: %s %s in %s of the run's cycles; %s\n", worst.where, worst.what,
                         Share(static_cast<double>(worst.cycles), static_cast<double>(run.cycles)),
                         worst.mend);
}

}  // namespace tpuc
