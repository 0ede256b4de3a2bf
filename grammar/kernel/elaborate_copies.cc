// Elaboration of explicit copies, signals and waits (elaborate.h): names with ranges become views.
//
//   copy x[i * bm :+ bm, :] -> buf[slot, :, :] on sem[slot];
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/points.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Node;
using kernel::Ref;

// `shape`: of the part that the view names, without the dimensions it drops.
bool KernelElaborator::View(const Expr& e, kernel::RefView* view, Shape* shape) {
  const bool index = e.kind == Expr::Kind::kIndex;
  const Expr& name = index ? e.args[0] : e;
  const Symbol* symbol = Find(name.text);
  if (symbol == nullptr || symbol->kind != Symbol::Kind::kRef) {
    Error(DiagCode::kKernelName, name.loc,
          absl::StrCat(name.text, symbol == nullptr ? " is unknown" : " is no array in memory"),
          DidYouMean(name.text));
    return false;
  }
  view->ref = static_cast<int>(symbol->index);
  const Shape block = kernel_.refs[view->ref].BlockShape();
  absl::Span<const Expr> ranges;
  if (index) ranges = absl::Span<const Expr>(e.args.data() + 1, e.args.size() - 1);
  if (!SlicesOf(block, ranges, e.loc, &view->slices, nullptr, &view->dropped, nullptr))
    return false;
  *shape = Shape::Array(block.type, {});
  for (size_t d = 0; d < view->slices.size(); ++d) {
    if (!view->dropped[d]) shape->dims.push_back(view->slices[d].size);
  }
  return true;
}

bool KernelElaborator::SemaphoreView(const Expr& e, kernel::RefView* view) {
  Shape shape;
  if (!View(e, view, &shape)) return false;
  if (kernel_.refs[view->ref].space == Ref::Space::kSemaphore && shape.dims.empty()) return true;
  Error(DiagCode::kKernelMemory, e.loc, absl::StrCat(PrintSyntax(e), " is not one semaphore"),
        "scratch sem: semaphore[2]; sem[i] names one");
  return false;
}

void KernelElaborator::Copy(const Statement& s) {
  Node copy;
  copy.kind = s.kind == Statement::Kind::kCopy ? Node::Kind::kCopyStart : Node::Kind::kCopyWait;
  copy.shape = Shape::Tuple({});
  copy.views.resize(3);
  Shape from, to;
  if (!View(s.views[0], &copy.views[0], &from) || !View(s.views[1], &copy.views[1], &to) ||
      !SemaphoreView(s.views[2], &copy.views[2])) {
    return;
  }
  if (!(from == to)) {
    ok_ = false;
    Diag& d = context_.diags->Add(
        DiagCode::kCopyShape, context_.source, s.loc,
        absl::StrCat("copy of ", ToString(from, false), " to ", ToString(to, false)));
    d.hint = "a plain index drops its dimension: x[3, :] is one row";
    kernel::NoteFirstPoint(kernel_, &d);
    return;
  }
  Emit(std::move(copy), s.loc);
}

void KernelElaborator::Signal(const Statement& s) {
  Node node;
  node.kind = s.kind == Statement::Kind::kSignal ? Node::Kind::kSignal : Node::Kind::kWait;
  node.shape = Shape::Tuple({});
  node.views.resize(1);
  if (!SemaphoreView(s.views[0], &node.views[0])) return;
  Value n = Eval(s.value);
  if (!n) return;
  if (n.weak()) {
    n.node = Materialize(n, Type::kS32, n.end);
    if (n.node < 0) return;
    n.kind = Value::Kind::kNode;
  }
  if (!ShapeOf(n).IsScalar() || ShapeOf(n).type != Type::kS32) {
    Error(DiagCode::kKernelShape, s.value.loc,
          absl::StrCat("a count of type ", ToString(ShapeOf(n), false), ", not s32[]"));
    return;
  }
  node.operands = {n.node};
  Emit(std::move(node), s.loc);
}

bool KernelElaborator::Promise(const Expr& e, const Expr** start, int64_t* multiple) {
  *start = &e;
  if (e.kind != Expr::Kind::kCall || e.text != "multiple_of") return true;
  if (e.args.size() != 2 || e.args[0].kind == Expr::Kind::kNamed ||
      !StaticInt(e.args[1], multiple) || *multiple < 1) {
    Error(DiagCode::kKernelSlice, e.loc, "expected multiple_of(start, n), n a positive constant");
    return false;
  }
  *start = &e.args[0];
  return true;
}

}  // namespace tpuc::kernel_text
