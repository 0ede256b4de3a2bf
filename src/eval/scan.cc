// scan (operation.h): to_apply on one slice of every input and the carries, along one dimension,
// forwards or backwards; it yields a slice of every output and the next carries.
//
//   (y, c) = scan(x, c0): y[i], c = to_apply(x[i], c)
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/eval/operation.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

struct Slicer {
  int64_t dimension;
  View At(const Literal& x, int64_t i) const {
    View view{0, RowMajorStrides(x.shape().dims)};
    view.offset = i * view.strides[dimension];
    view.strides.erase(view.strides.begin() + dimension);
    return view;
  }
  Dims SliceDims(const Literal& x) const {
    Dims dims = x.shape().dims;
    dims.erase(dims.begin() + dimension);
    return dims;
  }
  Literal Get(const Literal& x, int64_t i) const {
    Literal slice(Shape::Array(x.shape().type, SliceDims(x)));
    CopyStrided(SliceDims(x), x.bytes(), At(x, i), slice.bytes(),
                {0, RowMajorStrides(SliceDims(x))}, LiteralBytesOf(x.shape().type));
    return slice;
  }
  void Put(const Literal& slice, int64_t i, Literal* x) const {
    CopyStrided(SliceDims(*x), slice.bytes(), {0, RowMajorStrides(SliceDims(*x))}, x->bytes(),
                At(*x, i), LiteralBytesOf(x->shape().type));
  }
};

}  // namespace

bool EvalScan(const Instruction& in, absl::Span<const Literal* const> operands,
              const EvalOptions& options, absl::Span<Literal* const> outs, std::string* error) {
  const size_t carries = static_cast<size_t>(in.IntAttr(AttrId::kNumCarries));
  const size_t inputs = operands.size() - carries, outputs = outs.size() - carries;
  const Slicer slicer{in.IntsAttr(AttrId::kDimensions)[0]};
  const int64_t n = inputs > 0    ? operands[0]->shape().dims[slicer.dimension]
                    : outputs > 0 ? outs[0]->shape().dims[slicer.dimension]
                                  : 0;
  std::vector<Literal> state;
  for (size_t c = 0; c < carries; ++c) state.push_back(*operands[inputs + c]);
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = in.BoolAttr(AttrId::kIsReverse) ? n - 1 - step : step;
    std::vector<Literal> arguments;
    for (size_t k = 0; k < inputs; ++k) arguments.push_back(slicer.Get(*operands[k], i));
    for (Literal& c : state) arguments.push_back(std::move(c));
    auto results = EvaluateComputation(*in.ComputationAttr(AttrId::kToApply), std::move(arguments),
                                       options, error);
    if (!results) return false;
    for (size_t k = 0; k < outputs; ++k) slicer.Put((*results)[k], i, outs[k]);
    for (size_t c = 0; c < carries; ++c) state[c] = std::move((*results)[outputs + c]);
  }
  for (size_t c = 0; c < carries; ++c) {
    std::copy_n(state[c].bytes(), state[c].byte_size(), outs[outputs + c]->bytes());
  }
  return true;
}

}  // namespace tpuc
