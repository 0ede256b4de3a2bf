// Rules on slice, concatenate, pad, dynamic-slice and dynamic-update-slice: one a line.
//
// slice(concatenate(a, b)) within b -> slice(b);  pad by nothing -> its operand
#include <algorithm>

#include "passes/simplify/match.h"
#include "src/ir/native.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
bool Has(const I* i, Op op) { return i->op == op; }

const std::vector<SliceDim>& SliceOf(const I* i) {
  return std::get<std::vector<SliceDim>>(*i->Find(AttrId::kSlice));
}
const std::vector<PadDim>& PadOf(const I* i) {
  return std::get<std::vector<PadDim>>(*i->Find(AttrId::kPadding));
}

I* MakeSlice(Rewriter& r, I* x, std::vector<SliceDim> dims) {
  Dims sizes;
  for (const SliceDim& d : dims) sizes.push_back((d.limit - d.start + d.stride - 1) / d.stride);
  I* made = r.Make(Op::kSlice, ArrayShape(x->shape.type, sizes), {x});
  made->Set(AttrId::kSlice, std::move(dims));
  return made;
}

std::vector<SliceDim> Whole(const Shape& shape) {
  std::vector<SliceDim> dims;
  for (int64_t d : shape.dims) dims.push_back({0, d, 1});
  return dims;
}

I* JoinSlices(Rewriter& r, I* i) {
  if (!Has(A(i), Op::kSlice)) return nullptr;
  std::vector<SliceDim> dims = SliceOf(A(i));
  for (size_t d = 0; d < dims.size(); ++d) {
    const SliceDim& outer = SliceOf(i)[d];
    SliceDim& inner = dims[d];
    int64_t start = inner.start + outer.start * inner.stride;
    int64_t stride;
    if (__builtin_mul_overflow(inner.stride, outer.stride, &stride)) return nullptr;
    // The limit is the last element taken, plus one.
    inner = {start, start + (i->shape.dims[d] - 1) * stride + 1, stride};
  }
  return MakeSlice(r, A(A(i)), dims);
}

I* SliceOfBroadcast(Rewriter& r, I* i) {
  I* broadcast = A(i);
  if (!Has(broadcast, Op::kBroadcast)) return nullptr;
  I* x = A(broadcast);
  const Ints& map = broadcast->IntsAttr(AttrId::kDimensions);
  std::vector<SliceDim> dims;
  bool whole = true;
  for (int64_t d : map) {
    dims.push_back(SliceOf(i)[d]);
    whole &= i->shape.dims[d] == broadcast->shape.dims[d];
  }
  return r.Broadcast(whole ? x : MakeSlice(r, x, dims), i->shape.dims, map);
}

// A slice that lies within one operand of a concatenation.
I* SliceOfConcatenate(Rewriter& r, I* i) {
  I* concat = A(i);
  if (!Has(concat, Op::kConcatenate)) return nullptr;
  int64_t d = concat->IntsAttr(AttrId::kDimensions)[0];
  std::vector<SliceDim> dims = SliceOf(i);
  int64_t at = 0;
  for (I* operand : concat->operands) {
    int64_t size = operand->shape.dims[d];
    if (dims[d].start >= at && dims[d].limit <= at + size) {
      dims[d].start -= at;
      dims[d].limit -= at;
      return MakeSlice(r, operand, dims);
    }
    at += size;
  }
  return nullptr;
}

// ---- concatenate ----

I* JoinConcatenates(Rewriter& r, I* i) {
  Operands flat;
  bool nested = false;
  for (I* operand : i->operands) {
    bool same = Has(operand, Op::kConcatenate) && r.Uses(operand) == 1 &&
                operand->IntsAttr(AttrId::kDimensions) == i->IntsAttr(AttrId::kDimensions);
    nested |= same;
    if (same) {
      flat.insert(flat.end(), operand->operands.begin(), operand->operands.end());
    } else {
      flat.push_back(operand);
    }
  }
  return nested ? r.MakeLike(*i, flat) : nullptr;
}

// Neighbouring slices of one array: their union.
I* ConcatenateOfSlices(Rewriter& r, I* i) {
  int64_t d = i->IntsAttr(AttrId::kDimensions)[0];
  Operands joined;
  std::vector<SliceDim> last;
  I* source = nullptr;
  bool found = false;
  for (I* operand : i->operands) {
    if (!Has(operand, Op::kSlice) || SliceOf(operand)[d].stride != 1) {
      source = nullptr;
      joined.push_back(operand);
      continue;
    }
    std::vector<SliceDim> dims = SliceOf(operand);
    bool follows = source == A(operand) && source && dims[d].start == last[d].limit;
    for (size_t n = 0; follows && n < dims.size(); ++n) {
      follows = n == d || (dims[n].start == last[n].start && dims[n].limit == last[n].limit &&
                           dims[n].stride == last[n].stride);
    }
    if (follows) {
      dims[d].start = last[d].start;
      joined.back() = MakeSlice(r, source, dims);
      found = true;
    } else {
      joined.push_back(operand);
    }
    source = A(operand);
    last = dims;
  }
  if (!found) return nullptr;
  return joined.size() == 1 ? joined[0] : r.MakeLike(*i, joined);
}

I* ConcatenateOfSplats(Rewriter& r, I* i) {
  const Literal* first = SplatOf(A(i));
  if (!first) return nullptr;
  for (I* operand : i->operands) {
    const Literal* other = SplatOf(operand);
    if (!other || memcmp(first->bytes(), other->bytes(), first->byte_size()) != 0) return nullptr;
  }
  return r.SplatLiteral(*first, i->shape.dims);
}

// ---- pad ----

I* PadByNothing(Rewriter&, I* i) {
  for (const PadDim& d : PadOf(i)) {
    if (d.low != 0 || d.high != 0 || d.interior != 0) return nullptr;
  }
  return A(i);
}

I* PadByLess(Rewriter& r, I* i) {
  std::vector<SliceDim> dims = Whole(A(i)->shape);
  for (size_t n = 0; n < dims.size(); ++n) {
    const PadDim& d = PadOf(i)[n];
    if (d.low > 0 || d.high > 0 || d.interior != 0) return nullptr;
    dims[n].start -= d.low;
    dims[n].limit += d.high;
    if (dims[n].limit <= dims[n].start) return nullptr;
  }
  return MakeSlice(r, A(i), dims);
}

I* PadOfSplat(Rewriter& r, I* i) {
  const Literal *x = SplatOf(A(i)), *value = SplatOf(i->operands[1]);
  if (!x || !value || memcmp(x->bytes(), value->bytes(), x->byte_size()) != 0) return nullptr;
  return r.SplatLiteral(*x, i->shape.dims);
}

// ---- dynamic slices at constant places ----

// The start of dimension d, clamped so that `size` elements fit; -1 where it is not constant.
int64_t ConstantStart(const I* start, int64_t dim, int64_t size) {
  const Literal* literal = SplatOf(start);
  if (!literal) return -1;
  int64_t v = ElementAsInt(literal->shape().type, literal->bytes(), 0);
  return std::clamp<int64_t>(v, 0, dim - size);
}

I* ConstantDynamicSlice(Rewriter& r, I* i) {
  if (static_cast<int>(i->operands.size()) != i->shape.rank() + 1) return nullptr;
  std::vector<SliceDim> dims;
  for (int d = 0; d < i->shape.rank(); ++d) {
    int64_t start = ConstantStart(i->operands[d + 1], A(i)->shape.dims[d], i->shape.dims[d]);
    if (start < 0) return nullptr;
    dims.push_back({start, start + i->shape.dims[d], 1});
  }
  return MakeSlice(r, A(i), dims);
}

bool SameDimensions(const I* a, const I* b) { return a->shape.dims == b->shape.dims; }

}  // namespace

absl::Span<const RuleRow> SliceRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"slice(x) of all -> x",               Op::kSlice,       [](Rewriter&, I* i) { return SameDimensions(A(i), i) ? A(i) : nullptr; }},
    {"slice(slice(x)) -> slice(x)",        Op::kSlice,       JoinSlices},
    {"slice(broadcast(x)) -> broadcast(slice(x))", Op::kSlice, SliceOfBroadcast},
    {"slice(concatenate(..,x,..)) -> slice(x)", Op::kSlice,  SliceOfConcatenate},

    {"concatenate(x) -> x",                Op::kConcatenate, [](Rewriter&, I* i) { return i->operands.size() == 1 ? A(i) : nullptr; }},
    {"concatenate(concatenate(..),..) -> concatenate(..)", Op::kConcatenate, JoinConcatenates},
    {"concatenate(x[0:a],x[a:b]) -> x[0:b]", Op::kConcatenate, ConcatenateOfSlices},
    {"concatenate of one splat -> splat",  Op::kConcatenate, ConcatenateOfSplats},

    {"pad(x) by nothing -> x",             Op::kPad,         PadByNothing},
    {"pad(x) by negative -> slice(x)",     Op::kPad,         PadByLess},
    {"pad(splat) with itself -> splat",    Op::kPad,         PadOfSplat},

    {"dynamic-slice at constants -> slice", Op::kDynamicSlice, ConstantDynamicSlice},
    {"dynamic-update-slice of all -> update", Op::kDynamicUpdateSlice, [](Rewriter&, I* i) { return SameDimensions(i->operands[1], i) ? i->operands[1] : nullptr; }},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
