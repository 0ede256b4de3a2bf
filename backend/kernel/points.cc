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

}  // namespace tpuc::kernel
