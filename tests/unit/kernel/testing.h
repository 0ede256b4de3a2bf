// Shared by the kernel tests: sources, chips, programs and literals from short texts.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/chip/chip.h"
#include "backend/kernel/kernel.h"
#include "grammar/kernel/parser.h"
#include "gtest/gtest.h"
#include "src/eval/inputs.h"
#include "src/ir/native.h"
#include "src/ir/literal.h"

namespace tpuc {

using Sets = std::vector<std::pair<std::string, int64_t>>;

inline std::shared_ptr<const Source> Text(std::string text, std::string name = "t.tk") {
  return std::make_shared<Source>(Source{std::move(name), std::move(text)});
}

// Memory sizes of no chip in particular.
inline Chip SmallChip() {
  Chip chip;
  chip.name = "small";
  chip.hbm_bytes = int64_t{1} << 34;
  chip.vmem_bytes = int64_t{128} << 20;
  chip.scoped_vmem_bytes = int64_t{1} << 20;
  chip.smem_bytes = 1 << 20;
  chip.sync_flags = 512;
  return chip;
}

inline std::unique_ptr<kernel::Program> Kernels(const std::string& text, const Sets& set = {}) {
  DiagSink diags;
  auto program = ParseKernels(Text(text), set, &diags);
  EXPECT_NE(program, nullptr) << diags.Render();
  return program;
}

// All diagnostics as text; "" where there are none.
inline std::string KernelErrors(const std::string& text, const Sets& set = {}) {
  DiagSink diags;
  ParseKernels(Text(text), set, &diags);
  return diags.Render();
}

inline Literal F32(Dims dims, std::vector<float> values) {
  Literal l(Shape::Array(Type::kF32, std::move(dims)));
  std::copy(values.begin(), values.end(), l.data<float>());
  return l;
}

inline std::vector<float> Floats(const Literal& l) {
  return std::vector<float>(l.data<float>(), l.data<float>() + l.size());
}

// Largest difference over the largest finite value; infinite where NaNs or infinities differ.
inline double RelativeError(const Literal& got, const Literal& want) {
  if (got.shape().dims != want.shape().dims || got.shape().type != want.shape().type)
    return HUGE_VAL;
  const Type type = want.shape().type;
  double scale = 1e-30, worst = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double w = ElementAsDouble(type, want.bytes(), i);
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  }
  for (int64_t i = 0; i < want.size(); ++i) {
    const double w = ElementAsDouble(type, want.bytes(), i);
    const double g = ElementAsDouble(type, got.bytes(), i);
    if (std::isnan(w) && std::isnan(g)) continue;
    if (std::isfinite(w) != std::isfinite(g)) return HUGE_VAL;
    if (std::isfinite(w)) worst = std::max(worst, std::abs(w - g));
    if (!std::isfinite(w) && w != g) return HUGE_VAL;
  }
  return worst / scale;
}

}  // namespace tpuc
