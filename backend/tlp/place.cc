#include "backend/tlp/place.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tpuc {
namespace {

constexpr int64_t kHbmAlignment = 512;    // a VMEM row; DMA granules are smaller
constexpr int64_t kVmemAlignment = 4096;  // one 8 x 128 tile of 32 bits

int64_t SpaceOf(const kernel::Buffer& b) {
  return b.shape.layout ? b.shape.layout->memory_space : 0;
}

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

std::string LargestBuffers(const kernel::Program& program, int64_t memory_space) {
  std::vector<const kernel::Buffer*> all;
  for (const kernel::Buffer& b : program.buffers) {
    if (SpaceOf(b) == memory_space) all.push_back(&b);
  }
  std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->bytes > b->bytes; });
  std::string text;
  for (size_t i = 0; i < all.size() && i < 5; ++i) {
    absl::StrAppend(&text, i ? ", " : "", all[i]->name, " ", ToString(all[i]->shape), " (",
                    all[i]->bytes, " B)");
  }
  return text;
}

bool PlaceBuffers(kernel::Program* program, const Chip& chip, Placement* placement,
                  DiagSink* diags) {
  for (int64_t space : {0, 1}) {
    int64_t alignment = space == 0 ? kHbmAlignment : kVmemAlignment;
    int64_t capacity = space == 0 ? chip.hbm_bytes : chip.vmem_bytes;
    int64_t end = 0;
    for (kernel::Buffer& b : program->buffers) {
      if (SpaceOf(b) != space) continue;
      if (b.bytes == 0) {
        int64_t bytes = DeviceBytes(b.shape);
        b.bytes = bytes > (int64_t{1} << 55) ? bytes : RoundUp(bytes, kHbmAlignment);
      }
      if (b.offset >= 0) end = std::max(end, b.offset + b.bytes);
    }
    end = RoundUp(end, alignment);
    bool fits = true;
    for (kernel::Buffer& b : program->buffers) {
      if (SpaceOf(b) != space || b.offset >= 0) continue;
      b.offset = end;
      if (b.bytes > capacity - end) {
        fits = false;
        break;
      }
      end = RoundUp(end + b.bytes, alignment);
    }
    if (!fits || end > capacity) {
      int64_t asked = 0;
      for (const kernel::Buffer& b : program->buffers) {
        if (SpaceOf(b) == space) asked += std::min(b.bytes, int64_t{1} << 55);
      }
      asked = std::max(asked, end);
      Diag& d = diags->Add(space == 0 ? DiagCode::kHbmFull : DiagCode::kVmemBudget,
                           absl::StrCat("the program's buffers need ", asked, " B of ",
                                        space == 0 ? "HBM" : "VMEM", ", the chip has ", capacity,
                                        " B (", asked - capacity, " B too many)"));
      d.notes.push_back({{}, "largest: " + LargestBuffers(*program, space)});
      return false;
    }
    (space == 0 ? placement->hbm_bytes : placement->vmem_bytes) = end;
  }
  return true;
}

}  // namespace tpuc
