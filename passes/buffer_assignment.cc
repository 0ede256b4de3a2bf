// buffers. Gives every buffer of the entry an address: in HBM parameters by number, results and
// constants one behind the other, then intermediates, the largest first, at the lowest address free
// over their lives; in VMEM the addresses that memory-space assignment found.
//
//   h.1: 0 to 8192, alive 7-14;  t: 0 to 4096, alive 15-20     (t reuses h's bytes)
//
// HBM that does not suffice is E1000. The result is proved by memory_checker.h before it is used.
#include "passes/buffer_assignment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "passes/address_space.h"
#include "passes/memory_checker.h"
#include "passes/vmem_plan.h"
#include "src/diag/check.h"

namespace tpuc {
namespace {

constexpr int64_t kHbmGranule = 512;

bool InVmem(const LiveBuffer& b) { return b.shape.layout && b.shape.layout->memory_space == 1; }

// Offsets by buffer; -1 where there are none yet.
bool VmemOffsets(const Module& module, const LiveRanges& ranges, const PassContext& context,
                 std::vector<int64_t>* offsets) {
  bool complete = true;
  for (size_t n = 0; n < ranges.buffers.size(); ++n) {
    const LiveBuffer& b = ranges.buffers[n];
    if (!InVmem(b)) continue;
    const AssignedBuffer* found = context.buffers->Find(b.instruction, b.leaf);
    if (found && found->memory_space == 1) {
      (*offsets)[n] = found->offset;
    } else {
      complete = false;
    }
  }
  if (complete) return true;
  std::vector<PlacedBuffer> placed;
  if (!PlaceVmem(module, ranges, context, &placed)) return false;
  for (const PlacedBuffer& p : placed) (*offsets)[p.buffer] = p.offset;
  return true;
}

void ReportFull(const Module& module, const LiveRanges& ranges, int64_t asked, int64_t available,
                DiagSink* diags) {
  Diag& diag = diags->Add(
      DiagCode::kHbmFull, module.source, {},
      absl::StrCat("the program needs ", asked, " bytes of HBM, the chip has ", available));
  std::vector<const LiveBuffer*> largest;
  for (const LiveBuffer& b : ranges.buffers) {
    if (!InVmem(b)) largest.push_back(&b);
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const LiveBuffer* a, const LiveBuffer* b) { return a->bytes > b->bytes; });
  if (largest.size() > 5) largest.resize(5);
  for (const LiveBuffer* b : largest) {
    diag.notes.push_back(
        {b->instruction->loc,
         absl::StrCat(b->instruction->name, " ", ToString(b->shape), ": ", b->bytes, " bytes",
                      b->parameter  ? ", parameter"
                      : b->constant ? ", constant"
                      : b->result   ? ", result"
                                    : ", intermediate")});
  }
}

// Parameters, results and constants take their bytes for the whole run: one behind the other.
std::vector<int> Lasting(const LiveRanges& ranges) {
  std::vector<int> parameters, results, constants;
  for (size_t n = 0; n < ranges.buffers.size(); ++n) {
    const LiveBuffer& b = ranges.buffers[n];
    if (InVmem(b)) continue;
    if (b.parameter) {
      parameters.push_back(static_cast<int>(n));
    } else if (b.constant) {
      constants.push_back(static_cast<int>(n));
    } else if (b.result) {
      results.push_back(static_cast<int>(n));
    }
  }
  std::stable_sort(parameters.begin(), parameters.end(), [&](int a, int b) {
    return ranges.buffers[a].instruction->parameter_number <
           ranges.buffers[b].instruction->parameter_number;
  });
  parameters.insert(parameters.end(), results.begin(), results.end());
  parameters.insert(parameters.end(), constants.begin(), constants.end());
  return parameters;
}

bool HbmOffsets(const Module& module, const LiveRanges& ranges, const PassContext& context,
                std::vector<int64_t>* offsets, int64_t* extent) {
  const int64_t capacity = context.chip->hbm_bytes;
  AddressSpace rounding(capacity, kHbmGranule);
  int64_t at = 0;
  for (int n : Lasting(ranges)) {
    int64_t bytes = rounding.Rounded(ranges.buffers[n].bytes);
    if (bytes > capacity - at) {
      ReportFull(module, ranges, at > INT64_MAX - bytes ? INT64_MAX : at + bytes, capacity,
                 context.diags);
      return false;
    }
    (*offsets)[n] = at;
    at += bytes;
  }
  std::vector<int> temporaries;
  for (size_t n = 0; n < ranges.buffers.size(); ++n) {
    if (!InVmem(ranges.buffers[n]) && (*offsets)[n] < 0) temporaries.push_back(static_cast<int>(n));
  }
  std::stable_sort(temporaries.begin(), temporaries.end(),
                   [&](int a, int b) { return ranges.buffers[a].bytes > ranges.buffers[b].bytes; });
  AddressSpace space(capacity - at, kHbmGranule);
  for (int n : temporaries) {
    const LiveBuffer& b = ranges.buffers[n];
    int64_t offset = space.Place(b.bytes, b.from, b.to);
    if (offset < 0) {
      int64_t asked = std::min(INT64_MAX - at - space.extent(), b.bytes) + at + space.extent();
      ReportFull(module, ranges, asked, capacity, context.diags);
      return false;
    }
    (*offsets)[n] = at + offset;
  }
  *extent = at + space.extent();
  return true;
}

}  // namespace

bool BufferAssignmentPass::Run(Module* module, PassContext* context) {
  if (!context->buffers) return false;
  LiveRanges ranges = ComputeLiveRanges(*module->entry);
  std::vector<int64_t> offsets(ranges.buffers.size(), -1);
  BufferAssignment out;
  if (!VmemOffsets(*module, ranges, *context, &offsets) ||
      !HbmOffsets(*module, ranges, *context, &offsets, &out.hbm_bytes)) {
    return false;
  }
  AddressSpace rounding(context->chip->hbm_bytes, kHbmGranule);
  for (size_t n = 0; n < ranges.buffers.size(); ++n) {
    const LiveBuffer& b = ranges.buffers[n];
    AssignedBuffer a = {
        b.instruction, b.leaf, InVmem(b) ? 1 : 0, offsets[n], rounding.Rounded(b.bytes),
        b.from,        b.to};
    // The next run of the program finds the copy where this one left it.
    if (b.instruction->Has(AttrId::kCrossProgramPrefetchIndex)) a.to = ranges.length - 1;
    if (InVmem(b)) {
      int64_t end = (a.offset + b.bytes + kVmemGranule - 1) / kVmemGranule * kVmemGranule;
      out.vmem_bytes = std::max(out.vmem_bytes, end);
    }
    context->Remark(InVmem(b) ? "VMEM " : "HBM ", a.offset, " ", a.bytes, " ", b.instruction->name,
                    b.instruction->shape.IsTuple() ? absl::StrCat("#", b.leaf) : "", " ", a.from,
                    "-", a.to);
    out.buffers.push_back(a);
  }
  for (const auto& [key, n] : ranges.index) {
    if (n >= 0) out.index[key] = n;
  }
  *context->buffers = std::move(out);
  std::vector<std::string> wrong = CheckBuffers(*module, *context->buffers, *context->chip);
  CHECK_MSG(wrong.empty(), absl::StrJoin(wrong, "; "));
  return false;  // addresses are beside the module
}

}  // namespace tpuc
