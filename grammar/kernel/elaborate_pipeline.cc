// Elaboration of nested pipelines and of setup (elaborate.h): a grid, windows of arrays in HBM, and
// a body that runs at each of its points.
//
//   pipeline k: K / bk {
//     in a of x block [bm, bk] at (i, k);
//     acc[:] += dot(a[:], b[:]);
//   }
//
// Sizes and index maps may name values of the body before it; those become operands of its node.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Node;
using kernel::Ref;

void KernelElaborator::Setup(const std::vector<Statement>& statements) {
  in_setup_ = true;
  kernel_.setup = Inner(statements);
  in_setup_ = false;
}

// The pipeline whose axis it is; -1: the grid's.
int KernelElaborator::PipelineOf(int64_t axis) const {
  for (auto p = pipelines_.rbegin(); p != pipelines_.rend(); ++p) {
    if (axis >= kernel_.pipelines[*p].first_axis) return *p;
  }
  return -1;
}

// A grid index, or its extent.
Value KernelElaborator::AxisValue(Node::Kind kind, int64_t axis, Loc loc) {
  if (in_setup_) {
    Error(
        DiagCode::kKernelName, loc,
        absl::StrCat(axes_[axis].name, " has no value in setup, which runs once, before the grid"));
    return {};
  }
  Node n;
  n.kind = kind;
  n.axis = static_cast<int>(axis);
  n.pipeline = PipelineOf(axis);
  n.shape = Shape::Array(Type::kS32, {});
  return NodeValue(Emit(std::move(n), loc), loc);
}

// A value of the body, or the counter of a loop, that a size or an index map names.
bool KernelElaborator::OperandName(const Expr& e, KernelExpr* result) {
  int64_t index = 0;
  for (; index < static_cast<int64_t>(operands_->size()); ++index) {
    if ((*operands_)[index].first == e.text) break;
  }
  if (index == static_cast<int64_t>(operands_->size())) {
    const Value v = EvalName(e);
    if (v.kind == Value::Kind::kInteger) {
      *result = v.expr;
      return true;
    }
    if (!v) return false;
    if (v.weak() || !ShapeOf(v).IsScalar() || ShapeOf(v).type != Type::kS32) {
      Error(DiagCode::kKernelShape, e.loc, absl::StrCat(e.text, " is not an s32 scalar"));
      return false;
    }
    operands_->push_back({e.text, v.node});
  }
  *result = KernelExpr::Const(index);
  result->kind = KernelExpr::Kind::kOperand;
  return true;
}

void KernelElaborator::DeclareWindow(const Operand& syntax, int pipeline) {
  const Symbol* array = Find(syntax.of);
  const bool known = array != nullptr && array->kind == Symbol::Kind::kRef;
  const bool out = syntax.role == "out";
  Ref ref;
  ref.name = syntax.name;
  ref.loc = syntax.loc;
  ref.role = out ? Ref::Role::kOut : Ref::Role::kIn;
  ref.pipeline = pipeline;
  ref.shape = Shape::Array(Type::kF32, {});
  if (!known) {
    Error(DiagCode::kKernelName, syntax.loc, absl::StrCat(syntax.of, " is no array in memory"),
          DidYouMean(syntax.of));
  } else if (kernel_.refs[array->index].space != Ref::Space::kHbm) {
    Error(DiagCode::kKernelMemory, syntax.loc,
          absl::StrCat(syntax.of, " does not stay in HBM: a pipeline moves blocks from there"),
          absl::StrCat("declare it hbm, without block and index map"));
  } else if (out && kernel_.refs[array->index].role == Ref::Role::kIn) {
    Error(DiagCode::kKernelBody, syntax.loc,
          absl::StrCat(syntax.of, " is an input: inputs are read only (PS-3.7)"));
  } else {
    ref.window_of = static_cast<int>(array->index);
    ref.shape = kernel_.refs[ref.window_of].shape;
    ref.dim_exprs = kernel_.refs[ref.window_of].dim_exprs;
    DeclareMoves(syntax, &ref);
    DeclareIndex(syntax, &ref);
  }
  Define(syntax.name, syntax.loc,
         {Symbol::Kind::kRef, static_cast<int64_t>(kernel_.refs.size()), {}});
  kernel_.pipelines[pipeline].windows.push_back(static_cast<int>(kernel_.refs.size()));
  kernel_.refs.push_back(std::move(ref));
}

void KernelElaborator::Pipeline(const Statement& s) {
  const int number = static_cast<int>(kernel_.pipelines.size());
  Node node;
  node.kind = Node::Kind::kPipeline;
  node.shape = Shape::Tuple({});
  node.pipeline = number;
  kernel_.pipelines.emplace_back();
  kernel_.pipelines[number].around = pipelines_.empty() ? -1 : pipelines_.back();
  kernel_.pipelines[number].first_axis = static_cast<int>(axes_.size());
  if (in_setup_) {
    Error(DiagCode::kKernelBody, s.loc, "a pipeline in setup",
          "setup is for scalars and copies; a pipeline may stand in the body");
    return;
  }
  scopes_.emplace_back();
  std::vector<std::pair<std::string, NodeId>> operands;
  auto* outer_operands = operands_;
  operands_ = &operands;
  std::vector<kernel::GridAxis> grid;
  Grid(s.axes, &grid);
  kernel_.pipelines[number].grid = std::move(grid);
  for (const Operand& w : s.windows) DeclareWindow(w, number);
  operands_ = outer_operands;
  for (const auto& [name, id] : operands) node.operands.push_back(id);
  pipelines_.push_back(number);
  node.regions.push_back(Inner(s.blocks[0]));
  pipelines_.pop_back();
  axes_.resize(kernel_.pipelines[number].first_axis);
  scopes_.pop_back();
  Emit(std::move(node), s.loc);
}

}  // namespace tpuc::kernel_text
