// Rules on reduce with a simple body: one a line.
//
// reduce-max(broadcast(x)) over what was broadcast -> x;  a reduction over dims of size 1 ->
// reshape
#include <algorithm>

#include "passes/simplify/match.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
bool Has(const I* i, Op op) { return i->op == op; }
const Ints& DimsAttr(const I* i) { return i->IntsAttr(AttrId::kDimensions); }
bool In(const Ints& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); }

// The operation of a reduce of one array; false for any other body.
bool ReducerOf(const I* i, Op* op) {
  return i->operands.size() == 2 && i->shape.IsArray() &&
         SimpleReducer(*i->ComputationAttr(AttrId::kToApply), op);
}

// op(x, init) where init may change x.
I* WithInit(Rewriter& r, Op op, I* i, I* x) {
  I* init = i->operands[1];
  if (IsIdentityOf(op, init)) return x;
  I* all = i->shape.dims.empty() ? init : r.Broadcast(init, i->shape.dims, {});
  return r.Make(op, i->shape, {x, all});
}

// How often the initial value enters does not show. (As often as there are windows, on a CPU:
// src/eval/reduce_windows.cc.)
bool InitRepeats(Op op, const I* init) {
  const bool idempotent =
      op == Op::kMaximum || op == Op::kMinimum || op == Op::kAnd || op == Op::kOr;
  return idempotent || IsIdentityOf(op, init);
}

I* MakeReduce(Rewriter& r, const I* like, I* x, Ints dims) {
  Dims kept;
  for (int d = 0; d < x->shape.rank(); ++d) {
    if (!In(dims, d)) kept.push_back(x->shape.dims[d]);
  }
  I* made = r.MakeLike(*like, {x, like->operands[1]});
  made->shape = ArrayShape(like->shape.type, kept);
  if (!like->shape.layout) made->shape.layout.reset();
  made->Set(AttrId::kDimensions, std::move(dims));
  return made;
}

// Only dimensions of size 1 (or none) are reduced.
I* ReduceOfOnes(Rewriter& r, I* i) {
  Op op;
  if (!ReducerOf(i, &op) || A(i)->shape.ElementCount() != i->shape.ElementCount()) return nullptr;
  if (i->shape.ElementCount() == 0) return nullptr;
  return WithInit(r, op, i, r.Reshape(A(i), i->shape.dims));
}

// The reshape only adds or drops dimensions of size 1: reduce what it reshaped.
I* ReduceOfReshape(Rewriter& r, I* i) {
  Op op;
  if (!ReducerOf(i, &op) || !Has(A(i), Op::kReshape)) return nullptr;
  I* x = A(A(i));
  auto match = MatchDegenerate(x->shape.dims, A(i)->shape.dims);
  if (!match) return nullptr;
  Ints dims;
  for (int d = 0; d < x->shape.rank(); ++d) {
    int64_t to = match->map[d];
    if (to < 0 || In(DimsAttr(i), to)) dims.push_back(d);
  }
  return r.Reshape(MakeReduce(r, i, x, dims), i->shape.dims);
}

// Every reduced dimension is one that the broadcast made: n equal elements.
I* ReduceOfBroadcast(Rewriter& r, I* i) {
  Op op;
  if (!ReducerOf(i, &op) || !Has(A(i), Op::kBroadcast) || !InitRepeats(op, i->operands[1])) {
    return nullptr;
  }
  I* broadcast = A(i);
  I* x = A(broadcast);
  Ints dims;  // of the result, by dimension of x
  for (int64_t d : DimsAttr(broadcast)) {
    if (In(DimsAttr(i), d)) return nullptr;
    int64_t before = std::count_if(DimsAttr(i).begin(), DimsAttr(i).end(),
                                   [&](int64_t reduced) { return reduced < d; });
    dims.push_back(d - before);
  }
  I* all = r.Broadcast(x, i->shape.dims, dims);
  switch (op) {
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kAnd:
    case Op::kOr:
      return WithInit(r, op, i, all);
    case Op::kAdd: {
      if (i->shape.type != Type::kF32 && !IsIntegerArray(i)) return nullptr;
      double n = 1;
      for (int64_t d : DimsAttr(i)) n *= static_cast<double>(A(i)->shape.dims[d]);
      if (n > (1 << 24) || (IsIntegerArray(i) && n > 127)) return nullptr;
      I* count = r.Splat(i->shape.type, i->shape.dims, n);
      return r.Make(Op::kMultiply, i->shape, {all, count});
    }
    default:
      return nullptr;
  }
}

I* JoinReduces(Rewriter& r, I* i) {
  Op op, inner_op;
  I* inner = A(i);
  if (!ReducerOf(i, &op) || !Has(inner, Op::kReduce) || !ReducerOf(inner, &inner_op)) {
    return nullptr;
  }
  // Narrow floats round between the two.
  bool narrow = IsFloatArray(i) && BitsOf(i->shape.type) < 32;
  if (op != inner_op || narrow || r.Uses(inner) != 1) return nullptr;
  if (!IsIdentityOf(op, inner->operands[1]) || !InitRepeats(op, i->operands[1])) return nullptr;
  Ints dims = DimsAttr(inner);
  int64_t at = 0;  // dimension of the inner result
  for (int d = 0; d < A(inner)->shape.rank(); ++d) {
    if (In(DimsAttr(inner), d)) continue;
    if (In(DimsAttr(i), at++)) dims.push_back(d);
  }
  std::sort(dims.begin(), dims.end());
  return MakeReduce(r, i, A(inner), dims);
}

// The kept dimensions stand in the same order before the transpose.
I* ReduceOfTranspose(Rewriter& r, I* i) {
  Op op;
  if (!ReducerOf(i, &op) || !Has(A(i), Op::kTranspose)) return nullptr;
  Ints dims, kept;
  for (int d = 0; d < A(i)->shape.rank(); ++d) {
    int64_t from = DimsAttr(A(i))[d];
    (In(DimsAttr(i), d) ? dims : kept).push_back(from);
  }
  if (!std::is_sorted(kept.begin(), kept.end())) return nullptr;
  std::sort(dims.begin(), dims.end());
  return MakeReduce(r, i, A(A(i)), dims);
}

}  // namespace

absl::Span<const RuleRow> ReduceRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"reduce of size-1 dims -> reshape",         Op::kReduce, ReduceOfOnes},
    {"reduce(reshape(x)) -> reduce(x)",          Op::kReduce, ReduceOfReshape},
    {"reduce(broadcast(x)) ~ x, or x*n",         Op::kReduce, ReduceOfBroadcast},
    {"reduce(reduce(x)) ~ reduce(x)",            Op::kReduce, JoinReduces},
    {"reduce(transpose(x)) -> reduce(x)",        Op::kReduce, ReduceOfTranspose},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
