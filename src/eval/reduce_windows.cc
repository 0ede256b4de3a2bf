// A reduce of one array in the order of XLA's CPU backend. XLA first reduces windows of 32 along
// each long reduced dimension (padded evenly on both sides, the padding takes no part), again until
// none is longer, then what is left; each step rounds to the type.
//
//   s32[65] of zeros by add, from 1: three windows yield 1 each, their sum from 1 is 4
//
// Every window starts from the initial value, which thus enters more than once where it is no
// identity. Found by asking XLA (jax 0.10.2): reduces of all kinds of numbers by operations and by
// other computations, from initial values that are no identity; oracle/corpus, f16 sums of 64 to
// 2^20 elements, equal to the bit.
#include <algorithm>
#include <vector>

#include "src/eval/reduce.h"
#include "src/eval/strided.h"
#include "src/eval/window.h"

namespace tpuc {
namespace {

constexpr int64_t kLongest = 32;  // of a window, along each dimension

// One value of `type` a window, each from the initial value.
bool ReduceStage(const Combiner& combiner, const Literal& x, const Literal& init,
                 const Ints& reduced, const EvalOptions& options, Type type, Literal* out,
                 std::string* error) {
  Dims windows = x.shape().dims;
  Window window;
  window.dims.resize(windows.size());
  for (int64_t d : reduced) {
    WindowDim& w = window.dims[d];
    w.size = w.stride = std::min(windows[d], kLongest);
    const int64_t count = (windows[d] + w.size - 1) / w.size, missing = w.size * count - windows[d];
    w.pad_low = missing / 2;
    w.pad_high = missing - w.pad_low;
    windows[d] = count;
  }
  *out = Literal(Shape::Array(type, windows));
  FillElements(init.bytes(), LiteralBytesOf(type), out->size(), out->bytes());
  const Literal* operands[] = {&x};
  Literal* outs[] = {out};
  return CombineWindows(window, combiner, operands, options, outs, error);
}

}  // namespace

bool EvalReduceInWindows(const Combiner& combiner, const Literal& operand, const Literal& init,
                         const Ints& dimensions, const EvalOptions& options, Literal* out,
                         std::string* error) {
  const Literal* x = &operand;
  const Type type = out->shape().type;
  Literal last, next;
  const auto is_long = [&](int64_t d) { return x->shape().dims[d] > kLongest; };
  while (true) {
    const bool more = std::any_of(dimensions.begin(), dimensions.end(), is_long);
    if (!ReduceStage(combiner, *x, init, dimensions, options, type, &next, error)) return false;
    if (!more) break;
    std::swap(last, next);
    x = &last;
  }
  next.Reinterpret(out->shape());
  *out = std::move(next);
  return true;
}

}  // namespace tpuc
