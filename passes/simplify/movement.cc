// Rules on broadcast, reshape, transpose, iota, reverse and dense constants: one a line.
//
// reshape(broadcast(x [16,1]) to [16]) -> x as [16]: what JAX prints for `keepdims` arithmetic
#include <algorithm>

#include "passes/simplify/match.h"
#include "src/ir/native.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
bool Has(const I* i, Op op) { return i->op == op; }
const Ints& DimsAttr(const I* i) { return i->IntsAttr(AttrId::kDimensions); }
bool Increasing(const Ints& v) { return std::is_sorted(v.begin(), v.end()); }

// ---- broadcast ----

I* IdentityBroadcast(Rewriter&, I* i) {
  return A(i)->shape.dims == i->shape.dims && IsIota(DimsAttr(i)) ? A(i) : nullptr;
}

I* JoinBroadcasts(Rewriter& r, I* i) {
  if (!Has(A(i), Op::kBroadcast)) return nullptr;
  Ints dims;
  for (int64_t d : DimsAttr(A(i))) dims.push_back(DimsAttr(i)[d]);
  return r.Broadcast(A(A(i)), i->shape.dims, dims);
}

// An element-free shape apart, a broadcast of dims that all have size 1 fills with one value; so
// does a constant of one element.
I* BroadcastOne(Rewriter& r, I* i) {
  I* x = A(i);
  if (x->shape.dims.empty() || x->shape.ElementCount() != 1) return nullptr;
  return r.Broadcast(r.Reshape(x, {}), i->shape.dims, {});
}

// broadcast(reshape(x)) where the reshape only added dimensions of size 1.
I* BroadcastOfReshape(Rewriter& r, I* i) {
  I* reshape = A(i);
  if (!Has(reshape, Op::kReshape)) return nullptr;
  I* x = A(reshape);
  auto match = MatchDegenerate(x->shape.dims, reshape->shape.dims);
  if (!match) return nullptr;
  Ints dims;
  for (int64_t to : match->map) {
    if (to < 0) return nullptr;
    dims.push_back(DimsAttr(i)[to]);
  }
  return r.Broadcast(x, i->shape.dims, dims);
}

I* BroadcastOfIota(Rewriter& r, I* i) {
  if (!Has(A(i), Op::kIota)) return nullptr;
  I* made = r.Make(Op::kIota, i->shape, {});
  made->Set(AttrId::kIotaDimension, DimsAttr(i)[A(i)->IntAttr(AttrId::kIotaDimension)]);
  return made;
}

// ---- reshape ----

I* JoinReshapes(Rewriter& r, I* i) {
  return Has(A(i), Op::kReshape) ? r.Reshape(A(A(i)), i->shape.dims) : nullptr;
}

// Dimensions of size 1 dropped from or added to what a broadcast made.
I* ReshapeOfBroadcast(Rewriter& r, I* i) {
  I* broadcast = A(i);
  if (!Has(broadcast, Op::kBroadcast)) return nullptr;
  I* x = A(broadcast);
  if (x->shape.dims.empty()) return r.Broadcast(x, i->shape.dims, {});
  auto match = MatchDegenerate(broadcast->shape.dims, i->shape.dims);
  if (!match) return nullptr;
  Dims kept;
  Ints dims;
  for (int d = 0; d < x->shape.rank(); ++d) {
    int64_t to = match->map[DimsAttr(broadcast)[d]];
    if (to < 0) continue;
    kept.push_back(x->shape.dims[d]);
    dims.push_back(to);
  }
  return r.Broadcast(r.Reshape(x, kept), i->shape.dims, dims);
}

I* ReshapeOfIota(Rewriter& r, I* i) {
  if (!Has(A(i), Op::kIota)) return nullptr;
  auto match = MatchDegenerate(A(i)->shape.dims, i->shape.dims);
  if (!match) return nullptr;
  int64_t to = match->map[A(i)->IntAttr(AttrId::kIotaDimension)];
  if (to < 0) return r.Splat(i->shape.type, i->shape.dims, 0);
  I* made = r.Make(Op::kIota, i->shape, {});
  made->Set(AttrId::kIotaDimension, to);
  return made;
}

// ---- transpose ----

I* JoinTransposes(Rewriter& r, I* i) {
  if (!Has(A(i), Op::kTranspose)) return nullptr;
  Ints dims;
  for (int64_t d : DimsAttr(i)) dims.push_back(DimsAttr(A(i))[d]);
  I* made = r.Make(Op::kTranspose, i->shape, {A(A(i))});
  made->Set(AttrId::kDimensions, dims);
  return made;
}

I* TransposeOfBroadcast(Rewriter& r, I* i) {
  I* broadcast = A(i);
  if (!Has(broadcast, Op::kBroadcast)) return nullptr;
  Ints where(i->shape.rank());
  for (size_t n = 0; n < where.size(); ++n) where[DimsAttr(i)[n]] = n;
  Ints dims;
  for (int64_t d : DimsAttr(broadcast)) dims.push_back(where[d]);
  return Increasing(dims) ? r.Broadcast(A(broadcast), i->shape.dims, dims) : nullptr;
}

I* TransposeOfIota(Rewriter& r, I* i) {
  if (!Has(A(i), Op::kIota)) return nullptr;
  const Ints& dims = DimsAttr(i);
  int64_t from = A(i)->IntAttr(AttrId::kIotaDimension);
  I* made = r.Make(Op::kIota, i->shape, {});
  made->Set(AttrId::kIotaDimension, std::find(dims.begin(), dims.end(), from) - dims.begin());
  return made;
}

// Only dimensions of size 1 move: the elements stay in order.
I* TransposeOfOnes(Rewriter& r, I* i) {
  Ints moved;
  for (int64_t d : DimsAttr(i)) {
    if (A(i)->shape.dims[d] != 1) moved.push_back(d);
  }
  return Increasing(moved) && !IsIota(DimsAttr(i)) ? r.Reshape(A(i), i->shape.dims) : nullptr;
}

// ---- reverse ----

I* JoinReverses(Rewriter&, I* i) {
  return Has(A(i), Op::kReverse) && DimsAttr(A(i)) == DimsAttr(i) ? A(A(i)) : nullptr;
}

I* ReverseOfOnes(Rewriter& r, I* i) {
  Ints kept;
  for (int64_t d : DimsAttr(i)) {
    if (i->shape.dims[d] != 1) kept.push_back(d);
  }
  if (kept.size() == DimsAttr(i).size()) return nullptr;
  if (kept.empty()) return A(i);
  I* made = r.MakeLike(*i, {A(i)});
  made->Set(AttrId::kDimensions, kept);
  return made;
}

// ---- constants ----

// All elements equal: a broadcast of one.
I* ConstantSplat(Rewriter& r, I* i) {
  if (!i->literal || i->literal->elided() || !i->shape.IsArray()) return nullptr;
  int64_t count = i->shape.ElementCount();
  int64_t size = LiteralBytesOf(i->shape.type);
  const uint8_t* bytes = i->literal->bytes();
  if (count < 2 || memcmp(bytes, bytes + size, (count - 1) * size) != 0) return nullptr;
  Literal one(ArrayShape(i->shape.type, {}));
  memcpy(one.bytes(), bytes, size);
  return r.SplatLiteral(one, i->shape.dims);
}

// 0, 1, 2, ... of rank 1.
I* ConstantIota(Rewriter& r, I* i) {
  if (!i->literal || i->literal->elided() || !i->shape.IsArray() || i->shape.rank() != 1) {
    return nullptr;
  }
  if (i->shape.dims[0] < 8 || ComputeOf(i->shape.type) == Compute::kNone) return nullptr;
  for (int64_t n = 0; n < i->shape.dims[0]; ++n) {
    double v = IsFloat(i->shape.type)
                   ? ElementAsDouble(i->shape.type, i->literal->bytes(), n)
                   : static_cast<double>(ElementAsInt(i->shape.type, i->literal->bytes(), n));
    if (v != static_cast<double>(n)) return nullptr;
  }
  I* made = r.Make(Op::kIota, i->shape, {});
  made->Set(AttrId::kIotaDimension, int64_t{0});
  return made;
}

// ---- bitcast ----

// Dimensions major to minor, as the layout has them; nullopt where it names tiles.
std::optional<Ints> MajorToMinor(const Shape& shape) {
  const Layout layout = shape.layout.value_or(DefaultLayout(shape.rank()));
  if (!layout.tiles.empty()) return std::nullopt;
  return Ints(layout.minor_to_major.rbegin(), layout.minor_to_major.rend());
}

// The operand as it lies in memory, cut into the result's dimensions as they lie there.
I* BitcastToMoves(Rewriter& r, I* i) {
  I* x = A(i);
  if (!x->shape.IsArray() || !i->shape.IsArray() || x->shape.is_dynamic() ||
      i->shape.is_dynamic() || LiteralBytesOf(x->shape.type) != LiteralBytesOf(i->shape.type) ||
      x->shape.ElementCount() != i->shape.ElementCount()) {
    return nullptr;
  }
  const std::optional<Ints> from = MajorToMinor(x->shape), to = MajorToMinor(i->shape);
  if (!from || !to) return nullptr;
  const auto transpose = [&](I* operand, const Ints& order) {
    if (IsIota(order)) return operand;
    I* made = r.Make(Op::kTranspose,
                     ArrayShape(operand->shape.type, Pick(operand->shape.dims, order)), {operand});
    made->Set(AttrId::kDimensions, order);
    return made;
  };
  x = transpose(x, *from);
  if (x->shape.type != i->shape.type) {
    x = r.Make(Op::kBitcastConvert, ArrayShape(i->shape.type, x->shape.dims), {x});
  }
  x = r.Reshape(x, Pick(i->shape.dims, *to));
  Ints back(to->size());
  for (size_t n = 0; n < to->size(); ++n) back[(*to)[n]] = static_cast<int64_t>(n);
  I* made = transpose(x, back);
  if (made == A(i)) return made;
  made->shape.layout = i->shape.layout;
  return made;
}

bool SameArray(const I* i) {
  return A(const_cast<I*>(i))->shape.dims == i->shape.dims &&
         A(const_cast<I*>(i))->shape.type == i->shape.type;
}

}  // namespace

absl::Span<const RuleRow> BitcastRules() {
  static const auto* rules = new std::vector<RuleRow>{
      {"bitcast(x) -> transpose, reshape, transpose", Op::kBitcast, BitcastToMoves}};
  return *rules;
}

absl::Span<const RuleRow> MovementRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"broadcast(x) to its dims -> x",   Op::kBroadcast, IdentityBroadcast},
    {"broadcast(broadcast(x)) -> broadcast(x)", Op::kBroadcast, JoinBroadcasts},
    {"broadcast(x [1,1]) -> broadcast(x [])", Op::kBroadcast, BroadcastOne},
    {"broadcast(reshape(x)) -> broadcast(x)", Op::kBroadcast, BroadcastOfReshape},
    {"broadcast(iota) -> iota",         Op::kBroadcast, BroadcastOfIota},

    {"reshape(x) to its dims -> x",     Op::kReshape,   [](Rewriter&, I* i) { return SameArray(i) ? A(i) : nullptr; }},
    {"reshape(reshape(x)) -> reshape(x)", Op::kReshape, JoinReshapes},
    {"reshape(broadcast(x)) -> broadcast(x)", Op::kReshape, ReshapeOfBroadcast},
    {"reshape(iota) -> iota",           Op::kReshape,   ReshapeOfIota},

    {"transpose(x) in order -> x",      Op::kTranspose, [](Rewriter&, I* i) { return IsIota(DimsAttr(i)) ? A(i) : nullptr; }},
    {"transpose(transpose(x)) -> transpose(x)", Op::kTranspose, JoinTransposes},
    {"transpose of size-1 dims -> reshape", Op::kTranspose, TransposeOfOnes},
    {"transpose(broadcast(x)) -> broadcast(x)", Op::kTranspose, TransposeOfBroadcast},
    {"transpose(iota) -> iota",         Op::kTranspose, TransposeOfIota},

    {"reverse(reverse(x)) -> x",        Op::kReverse,   JoinReverses},
    {"reverse of size-1 dims -> x",     Op::kReverse,   ReverseOfOnes},
    {"reverse(splat) -> splat",         Op::kReverse,   [](Rewriter&, I* i) { return IsSplat(A(i)) ? A(i) : nullptr; }},

    {"constant of equal elements -> splat", Op::kConstant, ConstantSplat},
    {"constant 0,1,2,... -> iota",      Op::kConstant,  ConstantIota},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
