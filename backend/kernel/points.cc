// See points.h.
#include "backend/kernel/points.h"

#include "absl/strings/str_cat.h"

namespace tpuc::kernel {

std::string FirstPoint(const Kernel& kernel) {
  std::string text;
  for (const GridAxis& a : kernel.grid) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", a.name, "=0");
  }
  return text;
}

void NoteFirstPoint(const Kernel& kernel, Diag* diag) {
  const std::string point = FirstPoint(kernel);
  if (point.empty()) return;
  diag->notes.push_back({{}, absl::StrCat("from the first grid point, ", point, ", on")});
}

int64_t BlocksOf(const Ref& ref) {
  int64_t blocks = 1;
  for (size_t d = 0; d < ref.block.size(); ++d) {
    const int64_t n = (ref.shape.dims[d] + ref.block[d] - 1) / ref.block[d];
    if (n == 0) return 0;
    if (__builtin_mul_overflow(blocks, n, &blocks)) blocks = INT64_MAX;
  }
  return blocks;
}

}  // namespace tpuc::kernel
