// scatter (index.h). Assignment and simple combiners run along the windows' runs; any other
// computation runs in lanes: the k-th update of an element belongs to round k, so that a round
// touches each element once and the rounds keep the order.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/blocks.h"
#include "src/eval/elementwise.h"
#include "src/eval/index.h"
#include "src/eval/lanes.h"
#include "src/eval/strided.h"

namespace tpuc {
namespace {

// The update itself: to_apply yields its second parameter.
bool Assigns(const Computation& computation) {
  return computation.root->op == Op::kParameter && computation.root->parameter_number == 1;
}

template <typename F>
void ForRuns(const Windows& windows, F&& f) {
  for (size_t w = 0; w < windows.array.size(); ++w) {
    if (windows.array[w] < 0) continue;
    for (size_t r = 0; r < windows.run_array.size(); ++r) {
      f(windows.array[w] + windows.run_array[r], windows.partner[w] + windows.run_partner[r]);
    }
  }
}

void Assign(const Windows& windows, const Literal& updates, Literal* out) {
  VisitElementSize(LiteralBytesOf(out->shape().type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out->data<T>();
    const T* from = updates.data<T>();
    ForRuns(windows, [&](int64_t array, int64_t partner) {
      for (int64_t i = 0; i < windows.run; ++i) {
        to[array + i * windows.array_stride] = from[partner + i * windows.partner_stride];
      }
    });
  });
}

// out = op(out, update), run by run. False where the operation does not exist for the type.
bool Combine(Op op, const Windows& windows, const Literal& updates, Literal* out) {
  const Type type = out->shape().type;
  bool known = true;
  const bool typed = VisitNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t width = LiteralBytesOf(type);
    const bool dense = windows.array_stride == 1 && windows.partner_stride == 1;
    T old[kBlock], update[kBlock];
    ForRuns(windows, [&](int64_t array, int64_t partner) {
      for (int64_t i = 0; known && i < windows.run; i += kBlock) {
        const int64_t n = std::min(kBlock, windows.run - i);
        if (dense && IsNative(type)) {
          T* to = out->data<T>() + array + i;
          known = BinaryBlock(op, ValueBits(type), to, updates.data<T>() + partner + i, n, to);
          continue;
        }
        for (int64_t k = 0; k < n; ++k) {
          Widen(type, out->bytes(), array + (i + k) * windows.array_stride, 1, old + k);
          Widen(type, updates.bytes(), partner + (i + k) * windows.partner_stride, 1, update + k);
        }
        known = BinaryBlock(op, ValueBits(type), old, update, n, old);
        for (int64_t k = 0; k < n; ++k) {
          Narrow(type, old + k, 1, out->bytes(), array + (i + k) * windows.array_stride);
        }
      }
    });
    (void)width;
  });
  return typed && known;
}

}  // namespace

bool ApplyUpdates(const Computation& computation, const std::vector<int64_t>& targets,
                  absl::Span<const Literal* const> updates, const EvalOptions& options,
                  absl::Span<Literal* const> outs, std::string* error) {
  std::optional<LaneProgram> program = LaneProgram::Make(computation, error);
  if (!program) return false;
  // Places of the updates, grouped by round, in order within each.
  std::vector<int32_t> rounds(targets.size()), seen(outs[0]->size(), 0);
  std::vector<int64_t> first{0};
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    rounds[i] = seen[targets[i]]++;
    if (rounds[i] + 2 > static_cast<int32_t>(first.size())) first.push_back(0);
    ++first[rounds[i] + 1];
  }
  for (size_t r = 1; r < first.size(); ++r) first[r] += first[r - 1];
  std::vector<int64_t> sources(first.back()), places(first.back()), next(first);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    const int64_t at = next[rounds[i]]++;
    sources[at] = static_cast<int64_t>(i);
    places[at] = targets[i];
  }
  constexpr int64_t kLanes = 8192;
  for (size_t r = 0; r + 1 < first.size(); ++r) {
    for (int64_t at = first[r]; at < first[r + 1]; at += kLanes) {
      const int64_t n = std::min(kLanes, first[r + 1] - at);
      std::vector<Literal> lanes;
      for (Literal* out : outs) lanes.push_back(TakeElements(*out, &places[at], n));
      for (const Literal* u : updates) lanes.push_back(TakeElements(*u, &sources[at], n));
      std::vector<const Literal*> arguments;
      for (const Literal& x : lanes) arguments.push_back(&x);
      auto results = program->Run(n, arguments, options, error);
      if (!results) return false;
      for (size_t i = 0; i < outs.size(); ++i) {
        PutElements((*results)[i], &places[at], n, outs[i]);
      }
    }
  }
  return true;
}

bool EvalScatter(const Instruction& in, absl::Span<const Literal* const> operands,
                 const EvalOptions& options, absl::Span<Literal* const> outs, std::string* error) {
  const size_t n = outs.size();
  const Literal& indices = *operands[n];
  const Dims &dims = outs[0]->shape().dims, &update_dims = operands[n + 1]->shape().dims;
  if (operands[n + 1]->size() == 0 || outs[0]->size() == 0) return true;
  if (!YieldsTypesOf(*in.ComputationAttr(AttrId::kToApply), outs, error)) return false;
  WindowNumbers numbers;
  numbers.window_dims = in.IntsAttr(AttrId::kUpdateWindowDims);
  numbers.hidden = in.IntsAttr(AttrId::kInsertedWindowDims);
  numbers.array_batch = in.IntsAttr(AttrId::kInputBatchingDims);
  numbers.index_batch = in.IntsAttr(AttrId::kScatterIndicesBatchingDims);
  numbers.hidden.insert(numbers.hidden.end(), numbers.array_batch.begin(),
                        numbers.array_batch.end());
  numbers.index_map = in.IntsAttr(AttrId::kScatterDimsToOperandDims);
  numbers.index_vector_dim = in.IntAttr(AttrId::kIndexVectorDim);
  size_t next = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool hidden =
        std::find(numbers.hidden.begin(), numbers.hidden.end(), d) != numbers.hidden.end();
    numbers.sizes.push_back(hidden ? 1 : update_dims[numbers.window_dims[next++]]);
  }
  const Windows windows = FindWindows(dims, indices, update_dims, numbers, /*clamp=*/false);
  const Computation& computation = *in.ComputationAttr(AttrId::kToApply);
  Op simple;
  if (n == 1 && Assigns(computation)) {
    Assign(windows, *operands[2], outs[0]);
    return true;
  }
  if (n == 1 && SimpleReducer(computation, &simple)) {
    if (Combine(simple, windows, *operands[2], outs[0])) return true;
    *error = absl::StrCat("scatter of ", TypeName(outs[0]->shape().type), " by ", OpName(simple));
    return false;
  }
  std::vector<int64_t> targets(operands[n + 1]->size(), -1);
  ForRuns(windows, [&](int64_t array, int64_t partner) {
    for (int64_t i = 0; i < windows.run; ++i) {
      targets[partner + i * windows.partner_stride] = array + i * windows.array_stride;
    }
  });
  return ApplyUpdates(computation, targets, operands.subspan(n + 1), options, outs, error);
}

}  // namespace tpuc
