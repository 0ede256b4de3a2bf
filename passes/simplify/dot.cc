// Rules on dot: one a line. The matrix unit takes either operand either way round, so transposes of
// operands and of the result go into the dimension numbers.
//
// dot(transpose(x), y) -> dot(x, y) with lhs_contracting_dims={0}
#include <algorithm>

#include "passes/simplify/match.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
I* B(I* i) { return i->operands[1]; }
bool Has(const I* i, Op op) { return i->op == op; }
bool In(const Ints& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); }

Ints Mapped(const Ints& dims, const Ints& permutation) {
  Ints out;
  for (int64_t d : dims) out.push_back(permutation[d]);
  return out;
}

// The free dimensions of a transposed operand stand in the same order without the transpose.
bool FreeDimsInOrder(const I* transpose, const Ints& batch, const Ints& contracting) {
  Ints free;
  const Ints& permutation = transpose->IntsAttr(AttrId::kDimensions);
  for (size_t d = 0; d < permutation.size(); ++d) {
    if (!In(batch, d) && !In(contracting, d)) free.push_back(permutation[d]);
  }
  return std::is_sorted(free.begin(), free.end());
}

I* AbsorbTranspose(Rewriter& r, I* i, int side) {
  AttrId batch_id = side == 0 ? AttrId::kLhsBatchDims : AttrId::kRhsBatchDims;
  AttrId contracting_id = side == 0 ? AttrId::kLhsContractingDims : AttrId::kRhsContractingDims;
  I* transpose = i->operands[side];
  const Ints &batch = i->IntsAttr(batch_id), &contracting = i->IntsAttr(contracting_id);
  if (i->operands.size() != 2 || !Has(transpose, Op::kTranspose) ||
      !FreeDimsInOrder(transpose, batch, contracting)) {
    return nullptr;
  }
  Operands operands = {A(i), B(i)};
  operands[side] = A(transpose);
  I* made = r.MakeLike(*i, operands);
  const Ints& permutation = transpose->IntsAttr(AttrId::kDimensions);
  if (!batch.empty()) made->Set(batch_id, Mapped(batch, permutation));
  if (!contracting.empty()) made->Set(contracting_id, Mapped(contracting, permutation));
  return made;
}

// transpose(dot(a, b)) of a plain matrix product is dot(b, a).
I* TransposeOfDot(Rewriter& r, I* i) {
  I* dot = A(i);
  if (!Has(dot, Op::kDot) || dot->operands.size() != 2 || r.Uses(dot) != 1) return nullptr;
  if (dot->shape.rank() != 2 || A(dot)->shape.rank() != 2 || B(dot)->shape.rank() != 2 ||
      dot->IntsAttr(AttrId::kLhsContractingDims).size() != 1 ||
      i->IntsAttr(AttrId::kDimensions)[0] != 1) {
    return nullptr;
  }
  I* made = r.MakeLike(*dot, {B(dot), A(dot)});
  made->shape = i->shape;
  made->Set(AttrId::kLhsContractingDims, dot->IntsAttr(AttrId::kRhsContractingDims));
  made->Set(AttrId::kRhsContractingDims, dot->IntsAttr(AttrId::kLhsContractingDims));
  if (const AttrValue* value = made->Find(AttrId::kOperandPrecision)) {
    auto words = std::get<std::vector<std::string>>(*value);
    std::reverse(words.begin(), words.end());
    made->Set(AttrId::kOperandPrecision, words);
  }
  return made;
}

}  // namespace

absl::Span<const RuleRow> DotRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"dot(transpose(x),y) -> dot(x,y)",   Op::kDot,       [](Rewriter& r, I* i) { return AbsorbTranspose(r, i, 0); }},
    {"dot(x,transpose(y)) -> dot(x,y)",   Op::kDot,       [](Rewriter& r, I* i) { return AbsorbTranspose(r, i, 1); }},
    {"transpose(dot(x,y)) ~ dot(y,x)",    Op::kTranspose, TransposeOfDot},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
