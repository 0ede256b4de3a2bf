// Contractions: dot, ragged-dot, scaled-dot and convolution, any pair of numeric types. Floats up
// to f32 accumulate in f32, f64 in f64, integers modulo the result type's width, complex in
// complex.
//
// An operand is a matrix for each batch index, addressed through tables of offsets; a convolution's
// windows are such a table too, so that all of them share one blocked product.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/elements.h"
#include "src/eval/evaluator.h"
#include "src/eval/narrow_product.h"

namespace tpuc {

// Element (i, p) of batch b is at batch[b] + free[i] + contract[p].
struct Side {
  std::vector<int64_t> batch, free, contract;
};
Side SideOf(const Dims& dims, const Ints& batch_dims, const Ints& contract_dims);

// What contractions of the same free and contract tables find out about them once.
struct SideRuns {
  bool found = false;
  std::vector<OffsetRun> free;      // of the right side
  std::vector<OffsetRun> contract;  // of both, where the product walks along them
};

// out[b][i][j] = sum over p of lhs(b, i, p) * rhs(b, j, p). *out is allocated with that many
// elements in that order, whatever its dimensions (start: in its elements from there on). round:
// f32 operands round to bf16. False and *error where the types are not supported. `runs`: of these
// sides, for the next call; null: nothing is kept.
bool Contract(const Literal& lhs, const Literal& rhs, const Side& left, const Side& right,
              bool round, Literal* out, std::string* error, int64_t start = 0,
              SideRuns* runs = nullptr);
// The same of one batch, added to what *out holds. All of one type, f32 or f64.
void AddContract(const Literal& lhs, const Literal& rhs, const Side& left, const Side& right,
                 Literal* out);

// *out is allocated: dimensions batch, lhs free, rhs free.
bool EvalDot(const Literal& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
             const EvalOptions& options, Literal* out, std::string* error);
// lhs, rhs, group sizes. The ragged dimension of lhs (its only one) is free, contracting or batch.
bool EvalRaggedDot(absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                   const EvalOptions& options, Literal* out, std::string* error);
// lhs, rhs, lhs scale, rhs scale: each scale element holds for a block of its operand.
bool EvalScaledDot(absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                   const EvalOptions& options, Literal* out, std::string* error);
// A computed lhs is read a few images at a time, or a few features where they lie further apart.
bool EvalConvolution(const Elements& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
                     const EvalOptions& options, Literal* out, std::string* error);

// Do the operands of a dot or convolution round to bf16 in chip numbers? Yes where an operand is
// f32 at default precision and no algorithm asks for more.
bool RoundsToBF16(absl::Span<const Attr> attrs, const EvalOptions& options);

}  // namespace tpuc
