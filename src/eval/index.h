// Operations that address arrays by computed indices: dynamic-slice, dynamic-update-slice, gather,
// scatter.
//
//   gather f32[5,3] with indices {4,0}, slice_sizes={1,3}: two windows, at offsets 12 and 0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"

namespace tpuc {

// Starts are clamped so that the slice lies within the operand. starts: a scalar a dimension, or
// one vector of them. *out is allocated; of an update it may be the operand itself.
bool EvalDynamicSlice(absl::Span<const Literal* const> operands, Literal* out, std::string* error);
bool EvalDynamicUpdateSlice(absl::Span<const Literal* const> operands, Literal* out,
                            std::string* error);

bool EvalGather(const Literal& operand, const Literal& indices, absl::Span<const Attr> attrs,
                Literal* out, std::string* error);

// operands: n arrays, the indices, n updates. outs: n arrays that hold the operands' values.
// Windows that do not lie wholly inside are left out; updates apply in row-major order.
bool EvalScatter(const Instruction& in, absl::Span<const Literal* const> operands,
                 const EvalOptions& options, absl::Span<Literal* const> outs, std::string* error);

// Updates of single elements by a computation on scalars: element targets[i] of each of outs
// becomes computation(outs..., updates...[i]), in order of i; targets below 0 are left out.
bool ApplyUpdates(const Computation& computation, const std::vector<int64_t>& targets,
                  absl::Span<const Literal* const> updates, const EvalOptions& options,
                  absl::Span<Literal* const> outs, std::string* error);

// A copy of elements x[places[i]], as an array of n.
Literal TakeElements(const Literal& x, const int64_t* places, int64_t n);
// x[places[i]] = from[i].
void PutElements(const Literal& from, const int64_t* places, int64_t n, Literal* x);

// How windows of an array and of its partner (a gather's result, a scatter's updates) meet: window
// w of the array starts at array[w], its partner at partner[w]; both hold the same runs.
struct Windows {
  std::vector<int64_t> array, partner;          // array[w] < 0: left out
  std::vector<int64_t> run_array, run_partner;  // offsets of the runs in a window
  int64_t run = 1, array_stride = 1, partner_stride = 1;
};

// What gather and scatter call their dimensions, in one vocabulary.
struct WindowNumbers {
  Ints window_dims;  // of the partner
  Ints hidden;       // dimensions of the array that the partner does not have
  Ints index_map;    // array dimension of each index component
  Ints array_batch, index_batch;
  int64_t index_vector_dim = 0;
  Dims sizes;  // of a window, a dimension of the array each
};
Windows FindWindows(const Dims& array, const Literal& indices, const Dims& partner,
                    const WindowNumbers& numbers, bool clamp);

}  // namespace tpuc
