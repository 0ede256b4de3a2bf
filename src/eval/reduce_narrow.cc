// Sums and products step by step (narrow floats round after each) in the order of XLA's CPU
// backend, which first reduces windows of 32 along each long reduced dimension (padded evenly on
// both sides) and repeats until none is longer, then reduces what is left from the initial value.
// Order found from results: oracle/corpus, f16 reductions over 64 to 2^20 elements, equal to the
// bit. Windows of integers start from the initial value, which thus enters more than once where it
// is no identity (found from oracle/corpus reduce_row, u32; not of f32). A stage is written as pad,
// strided slices and element-wise steps over whole arrays.
#include <algorithm>
#include <vector>

#include "src/eval/elementwise.h"
#include "src/eval/move.h"
#include "src/eval/reduce.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

constexpr int64_t kWindow = 32;

struct Stage {
  Dims window;   // 1 along kept dimensions
  Dims windows;  // how many along each dimension
};

Stage StageOf(const Dims& dims, const Ints& reduced) {
  Stage stage{Dims(dims.size(), 1), dims};
  for (int64_t d : reduced) {
    stage.window[d] = std::min(dims[d], kWindow);
    stage.windows[d] = (dims[d] + stage.window[d] - 1) / stage.window[d];
  }
  return stage;
}

// x with every dimension a whole number of windows.
bool PadToWindows(const Literal& x, const Literal& identity, const Stage& stage, Literal* padded,
                  std::string* error) {
  Dims dims = x.shape().dims;
  std::vector<PadDim> padding(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t missing = stage.window[d] * stage.windows[d] - dims[d];
    padding[d] = {missing / 2, missing - missing / 2, 0};
    dims[d] += missing;
  }
  *padded = Literal(Shape::Array(x.shape().type, dims));
  const Literal* operands[] = {&x, &identity};
  const Attr attrs[] = {{AttrId::kPadding, padding}};
  return EvalMove(Op::kPad, operands, attrs, padded, error);
}

// One value a window, starting from `start`.
bool RunStage(Op op, const Literal& x, const Literal& identity, const Literal& start,
              const Ints& reduced, Literal* out, std::string* error) {
  const Type type = x.shape().type;
  const Stage stage = StageOf(x.shape().dims, reduced);
  Literal padded;
  if (!PadToWindows(x, identity, stage, &padded, error)) return false;
  *out = Literal(Shape::Array(type, stage.windows));
  const Literal* scalar[] = {&start};
  if (!EvalMove(Op::kBroadcast, scalar, {}, out, error)) return false;
  Literal slice(out->shape());
  const Literal* whole[] = {&padded};
  Dims at(stage.window.size(), 0);  // place in the window, row major
  while (true) {
    std::vector<SliceDim> slices;
    for (size_t d = 0; d < at.size(); ++d) {
      slices.push_back({at[d], padded.shape().dims[d], stage.window[d]});
    }
    const Attr attrs[] = {{AttrId::kSlice, slices}};
    if (!EvalMove(Op::kSlice, whole, attrs, &slice, error)) return false;
    if (!EvalBinary(op, *out, slice, out, error)) return false;
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == stage.window[d - 1]) at[--d] = 0;
    if (d == 0) return true;
  }
}

}  // namespace

bool EvalNarrowReduce(Op reducer, const Literal& operand, const Literal& init,
                      const Ints& dimensions, Literal* out, std::string* error) {
  const Type type = operand.shape().type;
  Literal identity(init.shape());
  VisitCompute(type, [&](auto tag) {
    const typename decltype(tag)::type value = reducer == Op::kMultiply ? 1 : 0;
    Narrow(type, &value, 1, identity.bytes(), 0);
  });
  // Of floats, the initial value enters once, in the last stage.
  const Literal& start = IsFloat(type) ? identity : init;
  const Literal* x = &operand;
  Literal last, next;
  const auto is_long = [&](int64_t d) { return x->shape().dims[d] > kWindow; };
  while (std::any_of(dimensions.begin(), dimensions.end(), is_long)) {
    if (!RunStage(reducer, *x, identity, start, dimensions, &next, error)) return false;
    last = std::move(next);
    x = &last;
  }
  if (!RunStage(reducer, *x, identity, init, dimensions, &next, error)) return false;
  next.Reinterpret(out->shape());
  *out = std::move(next);
  return true;
}

}  // namespace tpuc
