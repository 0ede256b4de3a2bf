// Rules on operations that are something simpler in disguise: map, sort of one element, parts of
// complex values, sizes of dimensions that do not change. One a line.
//
// map(x, y), to_apply={a * b + 1} -> add(multiply(x, y), broadcast(1))
#include "passes/simplify/match.h"
#include "src/ir/op_table.h"

namespace tpuc::simplify {
namespace {

I* A(I* i) { return i->operands[0]; }
I* B(I* i) { return i->operands[1]; }
bool Has(const I* i, Op op) { return i->op == op; }

// Every instruction of the body is element-wise on scalars, a parameter or a constant.
bool IsScalarBody(const Computation& body) {
  constexpr size_t kMostSteps = 64;
  if (body.instructions.size() > kMostSteps) return false;
  for (const auto& i : body.instructions) {
    const bool known = i->op == Op::kParameter || (i->op == Op::kConstant && !i->literal->elided());
    const bool step = InfoOf(i->op).op_class == OpClass::kElementwise && i->op != Op::kMap &&
                      !i->Has(AttrId::kControlPredecessors);
    if (!i->shape.IsScalar() || (!known && !step)) return false;
  }
  return body.root->op != Op::kConstant;
}

I* InlineMap(Rewriter& r, I* i) {
  const Computation& body = *i->ComputationAttr(AttrId::kToApply);
  if (i->shape.is_dynamic() || !IsScalarBody(body)) return nullptr;
  for (const I* parameter : body.Parameters()) {  // floats of another precision are let pass
    if (parameter->shape.type != i->operands[parameter->parameter_number]->shape.type) {
      return nullptr;
    }
  }
  if (body.root->shape.type != i->shape.type) return nullptr;
  absl::flat_hash_map<const I*, I*> made;
  for (const auto& step : body.instructions) {
    I*& whole = made[step.get()];
    if (step->op == Op::kParameter) {
      whole = i->operands[step->parameter_number];
    } else if (step->op == Op::kConstant) {
      whole = r.SplatLiteral(*step->literal, i->shape.dims);
    } else {
      Operands operands;
      for (const I* operand : step->operands) operands.push_back(made.at(operand));
      whole = r.Make(step->op, ArrayShape(step->shape.type, i->shape.dims), std::move(operands));
      whole->attrs = step->attrs;
    }
  }
  return made.at(body.root);
}

I* SortOfOne(Rewriter&, I* i) {
  if (i->operands.size() != 1 || i->shape.is_dynamic()) return nullptr;
  return i->shape.dims[i->IntsAttr(AttrId::kDimensions)[0]] <= 1 ? A(i) : nullptr;
}

I* PartOfComplex(Rewriter&, I* i) {
  if (!Has(A(i), Op::kComplex)) return nullptr;
  return i->op == Op::kReal ? A(A(i)) : B(A(i));
}

I* ComplexOfParts(Rewriter&, I* i) {
  const bool parts = Has(A(i), Op::kReal) && Has(B(i), Op::kImag) && A(A(i)) == A(B(i));
  return parts && A(A(i))->shape.type == i->shape.type ? A(A(i)) : nullptr;
}

I* SizeOfStatic(Rewriter& r, I* i) {
  if (A(i)->shape.is_dynamic()) return nullptr;
  return r.Splat(Type::kS32, {},
                 static_cast<double>(A(i)->shape.dims[i->IntsAttr(AttrId::kDimensions)[0]]));
}

}  // namespace

absl::Span<const RuleRow> WholeRules() {
  // clang-format off
  static const auto* rules = new std::vector<RuleRow>{
    {"map(x) -> what it applies",        Op::kMap,              InlineMap},
    {"sort along size 1 -> x",           Op::kSort,             SortOfOne},
    {"real(complex(x,y)) -> x",          Op::kReal,             PartOfComplex},
    {"imag(complex(x,y)) -> y",          Op::kImag,             PartOfComplex},
    {"complex(real(z),imag(z)) -> z",    Op::kComplex,          ComplexOfParts},
    {"size of a static dimension -> constant", Op::kGetDimensionSize, SizeOfStatic},
  };
  // clang-format on
  return *rules;
}

}  // namespace tpuc::simplify
