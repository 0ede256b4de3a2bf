// degenerate-dims. An element-wise operation whose operands were all made by adding dimensions of
// size 1 works on the arrays without them, and the reshape moves behind it:
//
//   r = f32[16,1] reshape(f32[16] s); q = sqrt(r)     becomes     q = f32[16] sqrt(s); f32[16,1]
//   reshape(q)
//
// On the device f32[16,1] takes 16 rows of 128 lanes and f32[16] one. Splats and small constants
// follow; a parameter does not (to drop its dimension is a copy). The reshapes left over cancel.
#include "passes/degenerate_dims.h"

#include "passes/algebraic_simplifier.h"
#include "passes/simplify/match.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

using simplify::Operands;
using simplify::Rewriter;
using simplify::RuleRow;

Dims WithoutOnes(const Dims& dims) {
  Dims out;
  for (int64_t d : dims) {
    if (d != 1) out.push_back(d);
  }
  return out;
}

// x without its dimensions of size 1, where that costs nothing; else null.
Instruction* Squeezed(Rewriter& r, Instruction* x, const Dims& dims) {
  if (x->shape.dims.empty()) return x;  // the scalar of select and clamp
  if (x->op == Op::kReshape &&
      WithoutOnes(x->operands[0]->shape.dims) == x->operands[0]->shape.dims) {
    return r.Reshape(x->operands[0], dims);
  }
  if (x->op == Op::kBroadcast || x->op == Op::kIota) return r.Reshape(x, dims);
  if (x->op == Op::kConstant && !x->literal->elided()) {
    Instruction* made = r.Make(Op::kConstant, simplify::ArrayShape(x->shape.type, dims), {});
    made->literal = std::make_unique<Literal>(*x->literal);
    made->literal->Reinterpret(made->shape);
    return made;
  }
  return nullptr;
}

bool CanSqueeze(const Instruction* x) {
  if (x->shape.dims.empty() || x->op == Op::kBroadcast || x->op == Op::kIota) return true;
  if (x->op == Op::kConstant) return !x->literal->elided();
  return x->op == Op::kReshape &&
         WithoutOnes(x->operands[0]->shape.dims) == x->operands[0]->shape.dims;
}

Instruction* MoveBehind(Rewriter& r, Instruction* i) {
  Dims dims = WithoutOnes(i->shape.dims);
  if (dims == i->shape.dims || i->operands.empty() || i->op == Op::kMap) return nullptr;
  bool reshape = false;
  for (const Instruction* operand : i->operands) {
    if (!CanSqueeze(operand)) return nullptr;
    // Operands of another shape (stochastic-convert, bitcast-convert) are left alone.
    if (!operand->shape.dims.empty() && operand->shape.dims != i->shape.dims) return nullptr;
    reshape |= operand->op == Op::kReshape;
  }
  if (!reshape) return nullptr;
  Operands operands;
  for (Instruction* operand : i->operands) operands.push_back(Squeezed(r, operand, dims));
  Instruction* made = r.MakeLike(*i, operands);
  made->shape = simplify::ArrayShape(i->shape.type, dims);
  if (!i->shape.layout) made->shape.layout.reset();
  return r.Reshape(made, i->shape.dims);
}

std::vector<RuleRow> Rules() {
  std::vector<RuleRow> rules;
  for (const OpInfo& info : OpTable()) {
    if (info.op_class == OpClass::kElementwise) {
      rules.push_back({"size-1 dims move behind", info.op, MoveBehind});
    }
  }
  auto movement = simplify::MovementRules();
  rules.insert(rules.end(), movement.begin(), movement.end());
  return rules;
}

}  // namespace

bool DegenerateDims::Run(Module* module, PassContext* context) {
  static const auto* rules = new std::vector<RuleRow>(Rules());
  int applied = 0;
  for (Computation* computation : SimplifiableComputations(*module)) {
    applied += simplify::ApplyRules(computation, *rules, context->remarks);
  }
  return applied > 0;
}

}  // namespace tpuc
