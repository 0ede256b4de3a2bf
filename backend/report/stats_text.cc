// The table that `tpuc run --stats` prints: one screen about one run.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backend/report/bounds.h"
#include "backend/report/columns.h"
#include "backend/report/operations.h"
#include "backend/report/stats.h"

namespace tpuc {
namespace {

constexpr size_t kMostKernels = 14, kMostBuffers = 10, kMostCopies = 6;

// The operations that compute something; all of them where none does.
std::string Computing(const std::vector<std::string>& ops) {
  std::vector<std::string> some;
  for (const std::string& op : ops) {
    if (op != "broadcast" && op != "constant" && op != "iota") some.push_back(op);
  }
  return absl::StrJoin(some.empty() ? ops : some, " ");
}

void AppendKernels(const isa::Program& p, const RunStats* run, size_t width, std::string* out) {
  size_t fixed = 5 + 6 + 8 + 7 + 9 + 2 + 17, name = 23, ops = width - fixed - name;
  absl::StrAppend(out, Cell("kernel", name), Cell("operations", ops),
                  absl::StrFormat("%5s%6s%8s%7s%9s  %s\n", "calls", "steps", "bundles", "spills",
                                  run ? "cycles" : "schedule", run ? "bound by" : ""));
  std::vector<int64_t> calls = StaticCalls(p);
  for (size_t k = 0; k < p.kernels.size(); ++k) {
    if (k == kMostKernels) {
      absl::StrAppend(out, "... and ", p.kernels.size() - k, " more\n");
      return;
    }
    const isa::Function& f = p.kernels[k];
    const KernelRun* r = run && k < run->kernels.size() ? &run->kernels[k] : nullptr;
    absl::StrAppend(
        out, Cell(f.name, name - 1), " ", Cell(Computing(f.info.ops), ops - 1), " ",
        absl::StrFormat("%5d%6d%8d%7d%9s  %s\n", r ? r->calls : calls[k], f.info.grid_steps,
                        f.bundles.size(), f.info.spills,
                        Count(r ? r->cycles : f.info.schedule_cycles), r ? BoundBy(*r) : ""));
  }
  if (run) {
    absl::StrAppend(out, Cell("top-level program", name + ops),
                    absl::StrFormat("%6s%7s%9d%8s%10s  %s\n", "", "", p.tlp.bundles.size(), "",
                                    Count(run->tlp.cycles), BoundBy(run->tlp)));
  }
}

// One line a VMEM buffer: place, size, and when it lives as a bar over the schedule.
void AppendVmem(const isa::Program& p, size_t width, std::string* out) {
  std::vector<const isa::Buffer*> buffers;
  int64_t last = 1, end = 0;
  for (const isa::Buffer& b : p.buffers) {
    if (b.memory != isa::Memory::kVmem) continue;
    buffers.push_back(&b);
    last = std::max(last, b.to + 1);
    end = std::max(end, b.offset + b.bytes);
  }
  if (buffers.empty()) return;
  std::stable_sort(buffers.begin(), buffers.end(), [](auto* a, auto* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->from < b->from;
  });
  absl::StrAppend(out, "\nVMEM, ", Bytes(end), " in use; lifetimes over ", last,
                  " schedule positions\n");
  size_t name = 34, bar = width - 2 - name - 12 - 12;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (i == kMostBuffers) {
      absl::StrAppend(out, "  ... and ", buffers.size() - i, " more\n");
      return;
    }
    const isa::Buffer& b = *buffers[i];
    std::string line(bar, '.');
    size_t from = static_cast<size_t>(std::max<int64_t>(0, b.from)) * bar / last;
    size_t to = std::min(bar, static_cast<size_t>(std::max<int64_t>(0, b.to) + 1) * bar / last);
    for (size_t k = std::min(from, bar); k < std::max(to, std::min(from + 1, bar)); ++k)
      line[k] = '#';
    absl::StrAppend(out, "  ", Cell(b.name, name - 1), " ", Cell(absl::StrCat("@", b.offset), 11),
                    " ", Cell(Bytes(b.bytes), 11), " ", line, "\n");
  }
}

// The kernels that ran while the copy was under way, each once.
std::string Overlapped(const isa::Program& p, const RunStats& run, const CopyRun& copy) {
  std::vector<std::string> names;
  for (const KernelSpan& s : run.spans) {
    bool known = s.kernel >= 0 && s.kernel < static_cast<int>(p.kernels.size());
    if (!known || s.end <= copy.start || s.start >= copy.done) continue;
    const std::string& name = p.kernels[s.kernel].name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names.empty() ? "no kernel" : absl::StrJoin(names, ", ");
}

std::string CopyTimes(const isa::Program& p, const RunStats* run, size_t i) {
  const isa::Copy& c = p.copies[i];
  std::string place = absl::StrCat("positions ", c.start, "-", c.done);
  if (c.cross_program) place = absl::StrCat("before the program, needed at ", c.done);
  if (!run || i >= run->copies.size() || run->copies[i].start < 0) return place;
  const CopyRun& r = run->copies[i];
  return absl::StrCat("cycles ", Count(r.start), "-", Count(r.done), ", ", Count(r.wait_stall),
                      " waited; under ", Overlapped(p, *run, r));
}

void AppendCopies(const isa::Program& p, const RunStats* run, size_t width, std::string* out) {
  if (p.copies.empty()) return;
  absl::StrAppend(out, "\ncopies\n");
  for (size_t i = 0; i < p.copies.size(); ++i) {
    if (i == kMostCopies) {
      absl::StrAppend(out, "  ... and ", p.copies.size() - i, " more\n");
      return;
    }
    const isa::Copy& c = p.copies[i];
    size_t name = 24, bytes = 11;
    std::string times = CopyTimes(p, run, i);
    size_t room = width - 2 - name - bytes;
    if (times.size() > room) times = Cell(times, room);
    absl::StrAppend(out, "  ", Cell(c.name, name - 1), " ", Cell(Bytes(c.bytes), bytes), times,
                    "\n");
  }
}

// Innermost loops, those that take longest first: trips, cycles from one to the next, and the least
// possible where that is less.
void AppendLoops(const isa::Program& p, size_t width, std::string* out) {
  constexpr int kLines = 2;
  struct Entry {
    const std::string* kernel;
    const isa::LoopInfo* loop;
    int64_t cycles;
  };
  std::vector<Entry> entries;
  for (const isa::Function& f : p.kernels) {
    for (const isa::LoopInfo& l : f.info.loops) {
      entries.push_back({&f.name, &l, l.ii * std::max<int64_t>(1, l.trips)});
    }
  }
  if (entries.empty()) return;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.cycles > b.cycles; });
  std::string line = "loops: ";
  int lines = 0;
  *out += "\n";
  for (size_t i = 0; i < entries.size(); ++i) {
    const isa::LoopInfo& l = *entries[i].loop;
    std::string text =
        absl::StrCat(*entries[i].kernel, " ", l.trips < 0 ? "?" : absl::StrCat(l.trips), " x ",
                     l.ii, l.ii > l.mii ? absl::StrCat(" (MII ", l.mii, ")") : "", " ",
                     l.bound.substr(0, l.bound.find_first_of(",;")));
    std::string rest = absl::StrCat("; ", entries.size() - i, " more");
    if (line.size() + text.size() + rest.size() + 2 > width) {
      if (++lines == kLines) {
        absl::StrAppend(out, line, rest, "\n");
        return;
      }
      absl::StrAppend(out, line, ";\n");
      line = "  ";
    } else if (i > 0) {
      line += "; ";
    }
    line += text;
  }
  absl::StrAppend(out, line, "\n");
}

}  // namespace

std::string BoundBy(const KernelRun& r) {
  if (r.cycles <= 0) return "-";
  struct Cause {
    const char* name;
    int64_t cycles;
  };
  Cause causes[] = {{"waits for DMA", r.stalls.dma},
                    {"operands", r.stalls.operand},
                    {"busy units", r.stalls.unit},
                    {"unit results", r.stalls.queue},
                    {"issue", r.cycles - r.stalls.total()}};
  const Cause* top = std::max_element(std::begin(causes), std::end(causes),
                                      [](auto& a, auto& b) { return a.cycles < b.cycles; });
  return absl::StrFormat("%s %d%%", top->name, 100 * top->cycles / r.cycles);
}

std::string StatsText(const isa::Program& program, const RunStats* run, const CheckResult* check,
                      const Chip* chip, int width) {
  size_t columns = static_cast<size_t>(std::max(width, 90));
  std::string out = absl::StrCat(program.module, " on ", program.chip_name, ", ", program.options);
  if (run) {
    absl::StrAppend(&out, ": ", Count(run->cycles), " cycles, ",
                    absl::StrFormat("%.2f", run->time_us), " us, ", Bytes(run->hbm_bytes),
                    " through HBM");
  }
  out += "\n\n";
  AppendKernels(program, run, columns, &out);
  if (run && chip) out += BoundsText(program, *run, *chip);
  if (run) out += OperationsText(program, *run);
  AppendLoops(program, columns, &out);
  AppendVmem(program, columns, &out);
  AppendCopies(program, run, columns, &out);
  if (check) {
    absl::StrAppend(&out, "\ncheck against the evaluator: ", check->ok ? "ok" : "FAILED",
                    absl::StrFormat(", max abs error %.3g, max rel error %.3g, rms %.3g of scale\n",
                                    check->max_abs, check->max_rel, check->rms));
  }
  if (run && chip) absl::StrAppend(&out, "\n", AdviceText(program, *run, *chip));
  return out;
}

}  // namespace tpuc
