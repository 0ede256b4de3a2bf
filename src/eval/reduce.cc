// Reductions (reduce.h). Simple ones walk the operand once in memory order: runs along a reduced
// dimension fold pairwise, runs along a kept dimension combine with a run of accumulators. General
// ones run the reducer on lanes, one lane an output, or fold pairs where outputs are few.
#include "src/eval/reduce.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/eval/blocks.h"
#include "src/eval/elementwise.h"
#include "src/eval/lanes.h"
#include "src/eval/strided.h"

namespace tpuc {
namespace {

struct Axis {
  int64_t size;
  int64_t stride;  // in the output; 0 for a reduced axis
  bool reduced;
};

bool Contains(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// Axes of the operand, outermost first, neighbours of a kind merged. At least one.
std::vector<Axis> AxesOf(const Dims& dims, const Ints& reduced, const Dims& out_dims) {
  const Dims out_strides = RowMajorStrides(out_dims);
  std::vector<Axis> axes;
  size_t kept = 0;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    const bool is_reduced = Contains(reduced, d);
    const Axis axis{dims[d], is_reduced ? 0 : out_strides[kept], is_reduced};
    if (!is_reduced) ++kept;
    if (!axes.empty() && axes.back().reduced == is_reduced) {
      axes.back() = {axes.back().size * axis.size, axis.stride, is_reduced};
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, 1, false});
  return axes;
}

// f over x[0..n), pairwise, in place. n >= 1.
template <typename A>
A Fold(Op op, int bits, A* x, int64_t n) {
  while (n > 1) {
    const int64_t half = n / 2;
    BinaryBlock(op, bits, x, x + (n - half), half, x);
    n -= half;
  }
  return x[0];
}

// A is the type of the accumulators, T the compute type of the operand.
template <typename A, typename T>
void ReduceInto(Op op, const Literal& operand, const std::vector<Axis>& axes, std::vector<A>* acc) {
  const Type type = operand.shape().type;
  const int bits = ValueBits(type);
  const Axis inner = axes.back();
  std::vector<int64_t> index(axes.size() - 1, 0);
  T wide[kBlock];
  A values[kBlock];
  int64_t at = 0, out = 0;
  const int64_t count = operand.size();
  while (at < count) {
    for (int64_t first = 0; first < inner.size; first += kBlock) {
      const int64_t n = std::min(kBlock, inner.size - first);
      Widen(type, operand.bytes(), at + first, n, wide);
      for (int64_t i = 0; i < n; ++i) values[i] = static_cast<A>(wide[i]);
      A* to = acc->data() + out + first * inner.stride;
      if (inner.reduced) {
        const A folded = Fold(op, bits, values, n);
        BinaryBlock(op, bits, to, &folded, 1, to);
      } else {
        BinaryBlock(op, bits, to, values, n, to);
      }
    }
    at += inner.size;
    for (size_t d = index.size(); d-- > 0;) {
      out += axes[d].stride;
      if (++index[d] < axes[d].size) break;
      out -= axes[d].stride * axes[d].size;
      index[d] = 0;
    }
  }
}

template <typename A, typename T>
void ReduceWith(Op op, const Literal& operand, const Literal& init, const Ints& dimensions,
                Literal* out) {
  T start;
  Widen(operand.shape().type, init.bytes(), 0, 1, &start);
  std::vector<A> acc(out->size(), static_cast<A>(start));
  if (operand.size() > 0) {
    const auto axes = AxesOf(operand.shape().dims, dimensions, out->shape().dims);
    ReduceInto<A, T>(op, operand, axes, &acc);
  }
  ForBlocks(out->size(), [&](Block b) {
    T narrow[kBlock];
    for (int64_t i = 0; i < b.n; ++i) narrow[i] = static_cast<T>(acc[b.first + i]);
    Narrow(out->shape().type, narrow, b.n, out->bytes(), b.first);
  });
}

// Combining with it by a sum or product changes nothing.
bool IsIdentity(Op op, const Literal& init) {
  bool identity = false;
  VisitNumber(init.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value;
    Widen(init.shape().type, init.bytes(), 0, 1, &value);
    identity = value == (op == Op::kMultiply ? T{1} : T{0});
  });
  return identity;
}

// Whether the order of a simple reduce shows in its result where EvalReduceInWindows keeps XLA's.
bool OrderShows(Op op, const Literal& operand, const Literal& init) {
  const Type type = operand.shape().type;
  if (op != Op::kAdd && op != Op::kMultiply && op != Op::kXor) return false;
  if (IsFloat(type) && BitsOf(type) < 32) return true;
  // XLA's CPU backend leaves sums of this many f32 or f64 to a library, in which the initial value
  // enters once (asked: jax 0.10.2; oracle/corpus reduce_row side_output).
  constexpr int64_t kLarge = 4096;
  if (IsFloat(type) && op == Op::kAdd && operand.size() >= kLarge) return false;
  return !IsIdentity(op, init);
}

// Elements data[base[i] + shift] as n lanes.
Literal Gather(const Literal& from, const int64_t* base, int64_t n, int64_t stride, int64_t shift) {
  Literal lanes(Shape::Array(from.shape().type, {n}));
  VisitElementSize(LiteralBytesOf(from.shape().type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = from.data<T>() + shift;
    T* out = lanes.data<T>();
    for (int64_t i = 0; i < n; ++i) out[i] = in[base[i * stride]];
  });
  return lanes;
}

std::vector<const Literal*> Pointers(const std::vector<Literal>& a, const std::vector<Literal>& b) {
  std::vector<const Literal*> all;
  for (const Literal& x : a) all.push_back(&x);
  for (const Literal& x : b) all.push_back(&x);
  return all;
}

struct General {
  const LaneProgram& program;
  absl::Span<const Literal*const> operands, inits;
  const EvalOptions& options;
  std::string* error;

  std::vector<Literal> Starts(int64_t n) const {
    std::vector<Literal> starts;
    for (const Literal* init : inits) {
      const Type type = init->shape().type;
      Literal lanes(Shape::Array(type, {n}));
      FillElements(init->bytes(), LiteralBytesOf(type), n, lanes.bytes());
      starts.push_back(std::move(lanes));
    }
    return starts;
  }

  // Outputs at kept[0..n): one lane each, reduced elements in order.
  std::optional<std::vector<Literal>> ByLanes(const int64_t* kept, int64_t n,
                                              const std::vector<int64_t>& reduced) const {
    std::vector<Literal> acc = Starts(n);
    for (int64_t shift : reduced) {
      std::vector<Literal> values;
      for (const Literal* x : operands) values.push_back(Gather(*x, kept, n, 1, shift));
      auto next = program.Run(n, Pointers(acc, values), options, error);
      if (!next) return std::nullopt;
      acc = std::move(*next);
    }
    return acc;
  }

  // One output: neighbours combine until one value is left, then with the initial value.
  std::optional<std::vector<Literal>> ByPairs(int64_t kept,
                                              const std::vector<int64_t>& reduced) const {
    std::vector<Literal> values;
    for (const Literal* x : operands) {
      values.push_back(Gather(*x, reduced.data(), static_cast<int64_t>(reduced.size()), 1, kept));
    }
    int64_t n = static_cast<int64_t>(reduced.size());
    while (n > 1) {
      std::vector<int64_t> places(n);
      for (int64_t i = 0; i < n; ++i) places[i] = i;
      std::vector<Literal> left, right;
      for (const Literal& x : values) {
        left.push_back(Gather(x, places.data(), n / 2, 2, 0));
        right.push_back(Gather(x, places.data() + 1, n / 2, 2, 0));
      }
      auto next = program.Run(n / 2, Pointers(left, right), options, error);
      if (!next) return std::nullopt;
      if (n % 2 == 1) {  // the last one waits for the next round
        for (size_t i = 0; i < values.size(); ++i) Extend(values[i], n - 1, &(*next)[i]);
      }
      values = std::move(*next);
      n = n / 2 + n % 2;
    }
    if (n == 0) return Starts(1);
    return program.Run(1, Pointers(Starts(1), values), options, error);
  }

  // Appends element `at` of x to *to.
  static void Extend(const Literal& x, int64_t at, Literal* to) {
    const int64_t n = to->size(), width = LiteralBytesOf(x.shape().type);
    Literal longer(Shape::Array(x.shape().type, {n + 1}));
    std::memcpy(longer.bytes(), to->bytes(), n * width);
    std::memcpy(longer.bytes() + n * width, x.bytes() + at * width, width);
    *to = std::move(longer);
  }
};

}  // namespace

bool EvalSimpleReduce(Op reducer, const Literal& operand, const Literal& init,
                      const Ints& dimensions, Literal* out, std::string* error) {
  const Type type = operand.shape().type;
  bool known = true;
  const bool typed = VisitNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T probe[1] = {T{1}};
    known = BinaryBlock(reducer, ValueBits(type), probe, probe, 1, probe);
    if (!known) return;
    if constexpr (std::is_same_v<T, float>) {
      if (reducer == Op::kAdd) {
        return ReduceWith<double, float>(reducer, operand, init, dimensions, out);
      }
    }
    ReduceWith<T, T>(reducer, operand, init, dimensions, out);
  });
  if (!typed || !known) {
    *error = absl::StrCat("reduce of ", TypeName(type), " by ", OpName(reducer));
  }
  return typed && known;
}

bool EvalReduceInstruction(const Instruction& in, absl::Span<const Literal* const> operands,
                           const EvalOptions& options, absl::Span<Literal* const> outs,
                           std::string* error) {
  const Computation& reducer = *in.ComputationAttr(AttrId::kToApply);
  const Ints& dimensions = in.IntsAttr(AttrId::kDimensions);
  const size_t n = operands.size() / 2;
  const Literal &operand = *operands[0], &init = *operands[n];
  Op op;
  const bool same_types = init.shape().type == operand.shape().type &&
                          outs[0]->shape().type == operand.shape().type &&
                          reducer.root->shape.type == operand.shape().type;
  const bool simple =
      n == 1 && SimpleReducer(reducer, &op) && init.shape().IsScalar() && same_types;
  const bool like_xla =
      options.numbers == Numbers::kIeee && n == 1 && operand.size() > 0 && init.shape().IsScalar();
  if (like_xla && (!simple || OrderShows(op, operand, init))) {
    if (!YieldsTypesOf(reducer, outs, error)) return false;
    const std::optional<Combiner> combiner = Combiner::Make(reducer, 1, error);
    if (!combiner) return false;
    const std::optional<Literal> start = StartAs(outs[0]->shape().type, init, error);
    return start &&
           EvalReduceInWindows(*combiner, operand, *start, dimensions, options, outs[0], error);
  }
  if (simple) return EvalSimpleReduce(op, operand, init, dimensions, outs[0], error);
  return EvalGeneralReduce(reducer, operands.subspan(0, n), operands.subspan(n), dimensions,
                           options, outs, error);
}

bool EvalGeneralReduce(const Computation& computation, absl::Span<const Literal* const> operands,
                       absl::Span<const Literal* const> inits, const Ints& dimensions,
                       const EvalOptions& options, absl::Span<Literal* const> outs,
                       std::string* error) {
  if (!YieldsTypesOf(computation, outs, error)) return false;
  std::optional<LaneProgram> program = LaneProgram::Make(computation, error);
  if (!program) return false;
  const Dims& dims = operands[0]->shape().dims;
  Ints kept_dims;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    if (!Contains(dimensions, d)) kept_dims.push_back(d);
  }
  Ints sorted = dimensions;
  std::sort(sorted.begin(), sorted.end());
  const auto kept = IndexOffsets(dims, kept_dims), reduced = IndexOffsets(dims, sorted);
  const General general{*program, operands, inits, options, error};
  const int64_t count = static_cast<int64_t>(kept.size());
  constexpr int64_t kLanes = 4096, kFew = 16;
  const bool pairs = count < kFew && reduced.size() > 64;
  for (int64_t first = 0; first < count; first += pairs ? 1 : kLanes) {
    const int64_t n = pairs ? 1 : std::min(kLanes, count - first);
    auto results =
        pairs ? general.ByPairs(kept[first], reduced) : general.ByLanes(&kept[first], n, reduced);
    if (!results) return false;
    for (size_t i = 0; i < outs.size(); ++i) {
      const int64_t width = LiteralBytesOf(outs[i]->shape().type);
      std::memcpy(outs[i]->bytes() + first * width, (*results)[i].bytes(), n * width);
    }
  }
  return true;
}

}  // namespace tpuc
