#include "backend/report/operations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backend/report/columns.h"

namespace tpuc {
namespace {

constexpr size_t kMostOperations = 8;

// The part of a path behind its last slash.
std::string Short(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Percent(int64_t part, int64_t whole) {
  return part == 0 || whole == 0 ? "-"
                                 : absl::StrFormat("%.0f%%", 100.0 * static_cast<double>(part) /
                                                                 static_cast<double>(whole));
}

}  // namespace

std::vector<OperationShare> OperationsOf(const isa::Program& program, const isa::Function& kernel,
                                         const KernelRun& run) {
  std::vector<OperationShare> shares;
  for (const OperationRun& o : run.operations) {
    if (o.source < 0 || o.source >= static_cast<int>(program.sources.size())) continue;
    const isa::SourceEntry& s = program.sources[o.source];
    OperationShare share;
    share.name = !s.hlo.empty() ? s.hlo : s.op_name;
    share.place = s.place;
    share.instructions = o.instructions;
    share.slots = o.slots;
    for (const isa::DotInfo& d : kernel.info.dots) {
      const bool sizes = d.k > 0 && d.n > 0 && d.k_padded >= d.k && d.n_padded >= d.n;
      if (d.source != o.source || o.slots.mxu == 0 || !sizes) continue;
      share.dot = &d;
      share.on_zeros = 1 - static_cast<double>(d.k) / static_cast<double>(d.k_padded) *
                               static_cast<double>(d.n) / static_cast<double>(d.n_padded);
    }
    shares.push_back(std::move(share));
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.instructions > b.instructions; });
  return shares;
}

double MxuOnZeros(const std::vector<OperationShare>& operations) {
  double zeros = 0, all = 0;
  for (const OperationShare& o : operations) {
    zeros += o.on_zeros * static_cast<double>(o.slots.mxu);
    all += static_cast<double>(o.slots.mxu);
  }
  return all > 0 ? zeros / all : 0;
}

std::string OperationsText(const isa::Program& program, const RunStats& run) {
  size_t most = 0;
  for (size_t k = 0; k < run.kernels.size(); ++k) {
    if (run.kernels[k].cycles > run.kernels[most].cycles) most = k;
  }
  if (most >= run.kernels.size() || most >= program.kernels.size()) return "";
  const KernelRun& r = run.kernels[most];
  const std::vector<OperationShare> operations = OperationsOf(program, program.kernels[most], r);
  if (operations.empty()) return "";
  std::string out =
      absl::StrCat("\n", Cell(absl::StrCat("operations of ", program.kernels[most].name), 56),
                   absl::StrFormat("%6s%6s%6s%6s%6s%6s%6s\n", "issue", "mxu", "xlu", "valu", "eup",
                                   "load", "store"));
  for (size_t i = 0; i < operations.size() && i < kMostOperations; ++i) {
    const OperationShare& o = operations[i];
    const SlotCounts &s = o.slots, &all = r.slots;
    absl::StrAppend(
        &out, "  ", Cell(o.name, 27), " ", Cell(Short(o.place), 25), " ",
        absl::StrFormat("%6s%6s%6s%6s%6s%6s%6s\n", Percent(o.instructions, r.instructions),
                        Percent(s.mxu, all.mxu), Percent(s.xlu, all.xlu), Percent(s.valu, all.valu),
                        Percent(s.eup, all.eup), Percent(s.load, all.load),
                        Percent(s.store, all.store)));
  }
  for (const OperationShare& o : operations) {
    if (o.dot == nullptr || o.on_zeros <= 0) continue;
    const auto padded = [](int64_t n, int64_t to) {
      return n == to ? absl::StrCat(n) : absl::StrCat(n, " of ", to);
    };
    absl::StrAppend(&out, "MXU work on zeros: ", o.name, o.place.empty() ? "" : " ", Short(o.place),
                    absl::StrFormat(" %.0f%%", 100 * o.on_zeros), ", depth ",
                    padded(o.dot->k, o.dot->k_padded), ", columns ",
                    padded(o.dot->n, o.dot->n_padded), "\n");
  }
  if (const double zeros = MxuOnZeros(operations); zeros > 0) {
    absl::StrAppend(&out, absl::StrFormat("MXU work on zeros: %.0f%% of all\n", 100 * zeros));
  }
  return out;
}

}  // namespace tpuc
