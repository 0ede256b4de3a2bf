// Products that panels do not pay for (gemm.h): few rows of little depth, as each feature of a
// depthwise convolution is, and few results of much depth, as the gradient of its kernel is. Both
// walk runs of places at one step, so that vectors are loaded from where the operands lie.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/gemm.h"

namespace tpuc {

// Places first, ..., first + count - 1 of a list of offsets lie `step` apart; of two lists,
// `other_step` in the second.
struct OffsetRun {
  int64_t first, count, step = 1, other_step = 1;
};
std::vector<OffsetRun> RunsOf(const std::vector<int64_t>& offsets);
std::vector<OffsetRun> CommonRuns(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// As Gemm; `runs` are those of b.column. Sums over p are made in order.
void ShallowProduct(int64_t m, int64_t n, int64_t k, const Indexed<float>& a,
                    const Indexed<float>& b, absl::Span<const OffsetRun> runs, float* c);
void ShallowProduct(int64_t m, int64_t n, int64_t k, const Indexed<double>& a,
                    const Indexed<double>& b, absl::Span<const OffsetRun> runs, double* c);

// As Gemm; `runs` are those of a.column and b.row.
void DeepProduct(int64_t m, int64_t n, const Indexed<float>& a, const Indexed<float>& b,
                 absl::Span<const OffsetRun> runs, float* c);
void DeepProduct(int64_t m, int64_t n, const Indexed<double>& a, const Indexed<double>& b,
                 absl::Span<const OffsetRun> runs, double* c);

}  // namespace tpuc
