// See declaration_printer.h.
#include "grammar/kernel/declaration_printer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/mask.h"
#include "grammar/kernel/body_printer.h"

namespace tpuc::kernel_text {
namespace {

bool SameExprs(const std::vector<kernel::Expr>& a, const std::vector<kernel::Expr>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), kernel::SameExpr);
}

}  // namespace

Expr Make(Expr::Kind kind, std::string text, std::vector<Expr> args) {
  Expr e;
  e.kind = kind;
  e.text = std::move(text);
  for (const Expr& a : args) e.depth = std::max(e.depth, a.depth + 1);
  e.args = std::move(args);
  return e;
}

Expr Name(std::string text) { return Make(Expr::Kind::kName, std::move(text)); }

Expr Call(std::string callee, std::vector<Expr> args) {
  return Make(Expr::Kind::kCall, std::move(callee), std::move(args));
}

Expr StaticSyntax(const kernel::Expr& e, const kernel::Kernel& kernel, const StaticNames& names) {
  using Kind = kernel::Expr::Kind;
  std::vector<Expr> args;
  for (const kernel::Expr& a : e.args) args.push_back(StaticSyntax(a, kernel, names));
  switch (e.kind) {
    case Kind::kConst:
      return IntegerSyntax(e.value);
    case Kind::kAxis:
      return Name(names.axes[e.value]);
    case Kind::kNum:
      args.push_back(Name(names.axes[e.value]));
      return Call("num", std::move(args));
    case Kind::kOperand:
      return Name(names.operands[e.value]);
    case Kind::kParam:
      return Name(kernel.params[e.value].name);
    case Kind::kNeg:
      return Make(Expr::Kind::kUnary, "-", std::move(args));
    case Kind::kAdd:
      return Make(Expr::Kind::kBinary, "+", std::move(args));
    case Kind::kSub:
      return Make(Expr::Kind::kBinary, "-", std::move(args));
    case Kind::kMul:
      return Make(Expr::Kind::kBinary, "*", std::move(args));
    case Kind::kDiv:
      return Make(Expr::Kind::kBinary, "/", std::move(args));
    case Kind::kMod:
      return Make(Expr::Kind::kBinary, "%", std::move(args));
    case Kind::kCdiv:
      return Call("cdiv", std::move(args));
    case Kind::kMin:
      return Call("min", std::move(args));
    case Kind::kMax:
      return Call("max", std::move(args));
    case Kind::kEq:
      return Make(Expr::Kind::kBinary, "==", std::move(args));
    case Kind::kNe:
      return Make(Expr::Kind::kBinary, "!=", std::move(args));
    case Kind::kLt:
      return Make(Expr::Kind::kBinary, "<", std::move(args));
    case Kind::kLe:
      return Make(Expr::Kind::kBinary, "<=", std::move(args));
    case Kind::kGt:
      return Make(Expr::Kind::kBinary, ">", std::move(args));
    case Kind::kGe:
      return Make(Expr::Kind::kBinary, ">=", std::move(args));
    case Kind::kAnd:
      return Make(Expr::Kind::kBinary, "&&", std::move(args));
    case Kind::kOr:
      return Make(Expr::Kind::kBinary, "||", std::move(args));
    case Kind::kNot:
      return Make(Expr::Kind::kUnary, "!", std::move(args));
    case Kind::kBlocks:
      for (const kernel::BlockCountRow& row : kernel::BlockCounts()) {
        if (static_cast<int64_t>(row.count) != e.args[0].value) continue;
        return Name(absl::StrCat(kernel.blocks[e.value].name, ".", row.name));
      }
      return Name("nan");
    case Kind::kSelect:
      return Call("select", std::move(args));
    case Kind::kArray:
      args.insert(args.begin(), Name(kernel.arrays[e.value].name));
      return Make(Expr::Kind::kIndex, "", std::move(args));
    case Kind::kPrefetch:
      args.insert(args.begin(), Name(kernel.refs[e.value].name));
      return Make(Expr::Kind::kIndex, "", std::move(args));
  }
  return Name("nan");
}

StaticNames GridNames(const kernel::Kernel& kernel) {
  StaticNames names;
  for (const kernel::GridAxis& a : kernel.grid) names.axes.push_back(a.name);
  return names;
}

Expr StaticSyntax(const kernel::Expr& e, const kernel::Kernel& kernel) {
  return StaticSyntax(e, kernel, GridNames(kernel));
}

Expr MaskSyntax(const kernel::Mask& mask, const kernel::Kernel& kernel) {
  return StaticSyntax(mask.value, kernel, {{mask.row, mask.col}, {}});
}

Axis AxisSyntax(const kernel::GridAxis& axis, std::string name, const kernel::Kernel& kernel,
                const StaticNames& names) {
  Axis a;
  a.name = std::move(name);
  a.size = StaticSyntax(axis.size, kernel, names);
  if (!axis.most.empty()) a.most.push_back(StaticSyntax(axis.most[0], kernel, names));
  a.parallel = axis.parallel;
  return a;
}

void MovesSyntax(const kernel::Ref& ref, const kernel::Kernel& k, const StaticNames& names,
                 Operand* operand) {
  Operand& o = *operand;
  const size_t rank = ref.shape.dims.size();
  const bool squeezed =
      std::find(ref.squeezed.begin(), ref.squeezed.end(), true) != ref.squeezed.end();
  const bool moved = std::any_of(ref.index.begin(), ref.index.end(), [](const kernel::Expr& e) {
    return e.kind != kernel::Expr::Kind::kConst || e.value != 0;
  });
  o.has_block =
      squeezed || moved || !SameExprs(ref.block_exprs, ref.dim_exprs) ||
      !std::equal(ref.block.begin(), ref.block.end(), ref.shape.dims.begin(), ref.shape.dims.end());
  o.has_at = moved;
  o.element = ref.element_index;
  for (size_t d = 0; d < rank && o.has_block; ++d) {
    if (d < ref.squeezed.size() && ref.squeezed[d]) {
      o.block.push_back(Name("squeeze"));
    } else {
      o.block.push_back(ref.block_exprs.size() == rank ? StaticSyntax(ref.block_exprs[d], k, names)
                                                       : IntegerSyntax(ref.block[d]));
    }
  }
  for (size_t d = 0; d < rank && o.has_at; ++d) {
    o.at.push_back(StaticSyntax(ref.index[d], k, names));
    const int64_t pad = ref.low_pad.empty() ? 0 : ref.low_pad[d];
    o.pads.push_back(pad == 0 ? Expr() : IntegerSyntax(pad));
  }
  if (ref.buffers != 2) o.buffers = absl::StrCat(ref.buffers);
}

}  // namespace tpuc::kernel_text
