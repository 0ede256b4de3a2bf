// What lives in VMEM (vmem_plan.h). Three kinds of buffers ask for room, in this order:
//
//   1. one parameter, the largest of the first kernel that reads any: copied in before the
//      program's first kernel (by the previous program, if it was this one), kept to the end so
//      that the next run finds it
//   2. intermediates, by saved bytes per byte of room: every write and read of a buffer in VMEM
//      saves its bytes at HBM's rate, so the one with most uses comes first, the larger of equals
//      before
//   3. parameters, constants and evicted buffers, by their first read: copied in one behind the
//      other (vmem_copies.cc), not before the first kernel (whose operands would wait behind the
//      copy), if that saves more than it makes its reader wait
//
// An intermediate with no room for all its life may have it until one of its reads, and is then
// copied out (evicted) for the reads that follow.
#include "passes/vmem_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "passes/kernel_time.h"
#include "passes/op_cost.h"
#include "passes/vmem_planner.h"
#include "src/ir/kernel_call.h"

namespace tpuc {

int64_t VmemForBuffers(const Chip& chip) {
  return std::max<int64_t>(0, chip.vmem_bytes - chip.scoped_vmem_bytes);
}

std::vector<double> StartTimes(const Computation& entry, const Chip& chip) {
  std::vector<double> start = {0};
  for (const auto& i : entry.instructions) start.push_back(start.back() + KernelCycles(*i, chip));
  return start;
}

namespace vmem {

std::string NameOf(const LiveBuffer& b) {
  return b.leaf == 0 && !b.instruction->shape.IsTuple()
             ? b.instruction->name
             : absl::StrCat(b.instruction->name, "_", b.leaf);
}

// Made and read by kernels only (or a parameter or constant read by them), and no result.
bool Planner::MayLiveInVmem(const LiveBuffer& b) const {
  if (b.bytes == 0 || b.result || b.reads.empty()) return false;
  if (b.shape.layout && b.shape.layout->memory_space != 0) return false;
  if (!b.parameter && !b.constant && !IsKernel(*b.instruction)) return false;
  if (b.parameter && b.instruction->shape.IsTuple()) return false;
  if (IsKernelCall(*b.instruction) &&
      !(context_.result_in_vmem && context_.result_in_vmem(*b.instruction, b.leaf))) {
    return false;
  }
  for (int64_t read : b.reads) {
    if (!IsKernel(At(read)) || !CallTakes(At(read), b)) return false;
  }
  return true;
}

// A call of a kernel file can have the buffer in VMEM wherever it reads it.
bool Planner::CallTakes(const Instruction& reader, const LiveBuffer& b) const {
  if (!IsKernelCall(reader)) return true;
  for (size_t n = 0; n < reader.operands.size(); ++n) {
    const int buffer = ranges_.Find(reader.operands[n]);
    if (buffer < 0 || &ranges_.buffers[buffer] != &b) continue;
    if (!context_.operand_in_vmem || !context_.operand_in_vmem(reader, static_cast<int64_t>(n))) {
      return false;
    }
  }
  return true;
}

int64_t Planner::FindFirstKernel() const {
  for (int64_t n = 0; n < ranges_.length; ++n) {
    if (IsKernel(At(n))) return n;
  }
  return ranges_.length;
}

void Planner::Stay(const VmemStay& stay) {
  stays_.push_back(stay);
  stays_of_[stay.buffer] = 1;
  if (!stay.prefetch) return;
  begun_.Add(stay.from);
  read_.Add(stay.first_read);
}

void Planner::CrossProgram() {
  int64_t first = ranges_.length;  // the first kernel that reads a parameter at all
  for (const LiveBuffer& b : ranges_.buffers) {
    if (b.parameter && MayLiveInVmem(b)) first = std::min(first, b.reads[0]);
  }
  int best = -1;
  for (size_t n = 0; n < ranges_.buffers.size(); ++n) {
    const LiveBuffer& b = ranges_.buffers[n];
    if (!b.parameter || !MayLiveInVmem(b) || b.reads[0] != first) continue;
    if (best >= 0 && b.bytes <= ranges_.buffers[best].bytes) continue;
    if (space_.Find(b.bytes, 0, ranges_.length - 1) < 0) {
      context_.Remark(NameOf(b), ": no cross-program copy, ", b.bytes, " bytes asked, ",
                      space_.LargestGap(0, ranges_.length - 1), " available");
      continue;
    }
    best = static_cast<int>(n);
  }
  if (best < 0) return;
  const LiveBuffer& b = ranges_.buffers[best];
  VmemStay stay;
  stay.buffer = best;
  stay.from = 0;
  stay.to = ranges_.length - 1;
  stay.offset = space_.Place(b.bytes, stay.from, stay.to);
  stay.prefetch = stay.cross_program = true;
  stay.first_read = b.reads[0];
  Stay(stay);
  context_.Remark(
      absl::StrFormat("%s: VMEM %d, %d bytes, cross-program copy: the largest parameter of "
                      "the first kernel that reads any",
                      NameOf(b), stay.offset, b.bytes));
}

void Planner::Intermediates() {
  std::vector<int> order;
  for (size_t n = 0; n < ranges_.buffers.size(); ++n) {
    const LiveBuffer& b = ranges_.buffers[n];
    if (!b.parameter && !b.constant && MayLiveInVmem(b)) order.push_back(static_cast<int>(n));
  }
  // Saved bytes over bytes of room: the number of times the buffer is written and read.
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
    const LiveBuffer &a = ranges_.buffers[x], &b = ranges_.buffers[y];
    return std::make_pair(a.reads.size(), a.bytes) > std::make_pair(b.reads.size(), b.bytes);
  });
  for (int n : order) {
    const LiveBuffer& b = ranges_.buffers[n];
    VmemStay stay;
    stay.buffer = n;
    stay.from = b.from;
    stay.to = b.to;
    stay.offset = space_.Place(b.bytes, b.from, b.to);
    if (stay.offset >= 0) Stay(stay);
    const bool evicted = stay.offset < 0 && TryEvict(n);
    if (!context_.remarks || evicted) continue;
    double saved = HbmCycles(b.bytes, chip_) * (1 + b.reads.size());
    std::string what = absl::StrFormat(
        "%s: %d bytes, written once, read %d times, alive %d-%d, "
        "saves %.1f cycles",
        NameOf(b), b.bytes, b.reads.size(), b.from, b.to, saved);
    if (stay.offset >= 0) {
      context_.Remark(what, ": VMEM ", stay.offset);
    } else {
      context_.Remark(what, ": stays in HBM, largest gap ", space_.LargestGap(b.from, b.to));
    }
  }
}

// Room until one of the reads, the longest such stay, and a copy out for the rest.
bool Planner::TryEvict(int buffer) {
  const LiveBuffer& b = ranges_.buffers[buffer];
  const int64_t kept = LastWhere(1, static_cast<int64_t>(b.reads.size()) - 1, [&](int64_t n) {
    return space_.Find(b.bytes, b.from, b.reads[n - 1]) >= 0;
  });
  if (kept < 1) return false;
  // The copy out must have time: it is waited for right behind the last read from VMEM.
  double time = start_[b.reads[kept - 1] + 1] - start_[b.from + 1];
  if (time < chip_.dma_fixed_cycles + HbmCycles(b.bytes, chip_)) return false;
  VmemStay stay;
  stay.buffer = buffer;
  stay.from = b.from;
  stay.to = b.reads[kept - 1];
  stay.offset = space_.Place(b.bytes, stay.from, stay.to);
  stay.evict = true;
  Stay(stay);
  in_hbm_from_[buffer] = b.reads[kept - 1] + 1;
  context_.Remark(
      absl::StrFormat("%s: VMEM %d for its first %d reads, then evicted: no gap of %d "
                      "bytes for all of its life",
                      NameOf(b), stay.offset, kept, b.bytes));
  return true;
}

std::vector<VmemStay> Planner::Plan() {
  CrossProgram();
  Intermediates();
  Prefetches();
  context_.CountSteps(space_.steps());
  return std::move(stays_);
}
}  // namespace vmem

std::vector<VmemStay> PlanVmem(const Computation& entry, const LiveRanges& ranges,
                               const PassContext& context) {
  return vmem::Planner(entry, ranges, context).Plan();
}

bool PlaceVmem(const Module& module, const LiveRanges& ranges, const PassContext& context,
               std::vector<PlacedBuffer>* placed) {
  auto rank = [](const LiveBuffer& b) {
    if (b.instruction->Has(AttrId::kCrossProgramPrefetchIndex)) return 0;
    return b.instruction->op == Op::kCopyStart ? 2 : 1;
  };
  std::vector<int> order;
  for (size_t n = 0; n < ranges.buffers.size(); ++n) {
    const LiveBuffer& b = ranges.buffers[n];
    if (b.shape.layout && b.shape.layout->memory_space == 1) order.push_back(static_cast<int>(n));
  }
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
    const LiveBuffer &a = ranges.buffers[x], &b = ranges.buffers[y];
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (rank(a) == 2) {
      int64_t first_a = a.reads.empty() ? a.from : a.reads[0];
      int64_t first_b = b.reads.empty() ? b.from : b.reads[0];
      return first_a < first_b;
    }
    return std::make_pair(a.reads.size(), a.bytes) > std::make_pair(b.reads.size(), b.bytes);
  });
  AddressSpace space(VmemForBuffers(*context.chip), kVmemGranule);
  for (int n : order) {
    const LiveBuffer& b = ranges.buffers[n];
    int64_t to = rank(b) == 0 ? ranges.length - 1 : b.to;
    int64_t offset = space.Place(b.bytes, b.from, to);
    if (offset >= 0) {
      placed->push_back({n, offset});
      continue;
    }
    Diag& diag = context.diags->Add(
        DiagCode::kVmemBudget, module.source, b.instruction->loc,
        absl::StrFormat("no room in VMEM for %s: %d bytes asked, %d of %d available in one piece",
                        vmem::NameOf(b), b.bytes, space.LargestGap(b.from, to),
                        VmemForBuffers(*context.chip)));
    std::vector<PlacedBuffer> largest = *placed;
    std::stable_sort(largest.begin(), largest.end(), [&](auto& x, auto& y) {
      return ranges.buffers[x.buffer].bytes > ranges.buffers[y.buffer].bytes;
    });
    if (largest.size() > 5) largest.resize(5);
    for (const PlacedBuffer& p : largest) {
      const LiveBuffer& other = ranges.buffers[p.buffer];
      diag.notes.push_back(
          {other.instruction->loc,
           absl::StrFormat("%s takes %d bytes at %d", vmem::NameOf(other), other.bytes, p.offset)});
    }
    diag.hint = "leave S(1) out of the layout, or make the array smaller";
    return false;
  }
  return true;
}

}  // namespace tpuc
