// Evaluation of kernel index expressions (expr.h). Overflow and division by zero give no value;
// they never trap.
#include "backend/kernel/expr.h"

#include <algorithm>

#include "backend/kernel/mask.h"
#include "src/ir/native.h"

namespace tpuc::kernel {
namespace {

std::optional<int64_t> FloorDiv(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  int64_t q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

std::optional<int64_t> Apply(Expr::Kind kind, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (kind) {
    case Expr::Kind::kAdd:
      return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional<int64_t>(r);
    case Expr::Kind::kSub:
      return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional<int64_t>(r);
    case Expr::Kind::kMul:
      return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional<int64_t>(r);
    case Expr::Kind::kDiv:
      return FloorDiv(a, b);
    case Expr::Kind::kCdiv: {
      std::optional<int64_t> q = FloorDiv(a, b);
      if (!q) return q;
      return *q * b == a ? *q : *q + 1;
    }
    case Expr::Kind::kMod: {
      std::optional<int64_t> q = FloorDiv(a, b);
      if (!q) return q;
      return a - *q * b;
    }
    case Expr::Kind::kMin:
      return std::min(a, b);
    case Expr::Kind::kMax:
      return std::max(a, b);
    case Expr::Kind::kEq:
      return a == b;
    case Expr::Kind::kNe:
      return a != b;
    case Expr::Kind::kLt:
      return a < b;
    case Expr::Kind::kLe:
      return a <= b;
    case Expr::Kind::kGt:
      return a > b;
    case Expr::Kind::kGe:
      return a >= b;
    case Expr::Kind::kAnd:
      return a != 0 && b != 0;
    case Expr::Kind::kOr:
      return a != 0 || b != 0;
    default:
      return std::nullopt;
  }
}

// Element args of a prefetched array; nothing where it has no values or the element is outside.
std::optional<int64_t> PrefetchedScalar(const Expr& e, const ExprValues& values) {
  if (e.value < 0 || e.value >= static_cast<int64_t>(values.arrays.size())) return std::nullopt;
  const Literal* array = values.arrays[e.value];
  if (array == nullptr || !IsInteger(array->shape().type) || array->elided()) return std::nullopt;
  const Dims& dims = array->shape().dims;
  if (dims.size() != e.args.size()) return std::nullopt;
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const std::optional<int64_t> i = EvaluateExpr(e.args[d], values);
    if (!i || *i < 0 || *i >= dims[d]) return std::nullopt;
    at = at * dims[d] + *i;
  }
  return ElementAsInt(array->shape().type, array->bytes(), at);
}

}  // namespace

std::optional<int64_t> EvaluateExpr(const Expr& e, const ExprValues& values) {
  const auto in = [&](size_t size) { return e.value >= 0 && e.value < static_cast<int64_t>(size); };
  switch (e.kind) {
    case Expr::Kind::kConst:
      return e.value;
    case Expr::Kind::kAxis:
      if (!in(values.point.size())) return std::nullopt;
      return values.point[e.value];
    case Expr::Kind::kNum:
      if (in(values.extents.size())) return values.extents[e.value];
      if (!in(values.grid.size())) return std::nullopt;
      return values.grid[e.value].extent;
    case Expr::Kind::kParam:
      if (!in(values.params.size())) return std::nullopt;
      return values.params[e.value].value;
    case Expr::Kind::kPrefetch:
      return PrefetchedScalar(e, values);
    case Expr::Kind::kOperand:
      if (!in(values.operands.size())) return std::nullopt;
      return values.operands[e.value];
    case Expr::Kind::kArray:
      return std::nullopt;
    case Expr::Kind::kBlocks:
      if (!in(values.blocks.size()) || e.args.empty() || !values.blocks[e.value].tables) {
        return std::nullopt;
      }
      return values.blocks[e.value].tables->Count(e.args[0].value);
    default:
      break;
  }
  if (e.args.empty()) return std::nullopt;
  if (e.kind == Expr::Kind::kSelect && e.args.size() == 3) {
    const std::optional<int64_t> condition = EvaluateExpr(e.args[0], values);
    if (!condition) return std::nullopt;
    return EvaluateExpr(e.args[*condition != 0 ? 1 : 2], values);
  }
  std::optional<int64_t> result = EvaluateExpr(e.args[0], values);
  if (e.kind == Expr::Kind::kNeg) {
    return result ? Apply(Expr::Kind::kSub, 0, *result) : std::nullopt;
  }
  if (e.kind == Expr::Kind::kNot) {
    return result ? std::optional<int64_t>(*result == 0) : std::nullopt;
  }
  for (size_t i = 1; i < e.args.size() && result; ++i) {
    std::optional<int64_t> b = EvaluateExpr(e.args[i], values);
    result = b ? Apply(e.kind, *result, *b) : std::nullopt;
  }
  return result;
}

bool UsesAxis(const Expr& e, int64_t first) {
  if (e.kind == Expr::Kind::kAxis) return e.value >= first;
  return std::any_of(e.args.begin(), e.args.end(),
                     [&](const Expr& a) { return UsesAxis(a, first); });
}

bool UsesOperand(const Expr& e) {
  if (e.kind == Expr::Kind::kOperand) return true;
  return std::any_of(e.args.begin(), e.args.end(), UsesOperand);
}

bool UsesParam(const Expr& e) {
  if (e.kind == Expr::Kind::kParam) return true;
  return std::any_of(e.args.begin(), e.args.end(), UsesParam);
}

bool UsesRef(const Expr& e, int ref) {
  if (e.kind == Expr::Kind::kPrefetch && e.value == ref) return true;
  return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return UsesRef(a, ref); });
}

bool UsesPrefetch(const Expr& e) {
  if (e.kind == Expr::Kind::kPrefetch) return true;
  return std::any_of(e.args.begin(), e.args.end(), UsesPrefetch);
}

bool KnownBeforeRun(const Kernel& kernel, const Expr& e) {
  if (e.kind == Expr::Kind::kPrefetch && kernel.refs[e.value].constant == nullptr) return false;
  if (e.kind == Expr::Kind::kOperand) return false;
  if (e.kind == Expr::Kind::kNum && e.value >= static_cast<int64_t>(kernel.grid.size())) {
    return false;
  }
  if (e.kind == Expr::Kind::kNum && e.value < static_cast<int64_t>(kernel.grid.size()) &&
      !kernel.grid[e.value].most.empty()) {
    return false;
  }
  return std::all_of(e.args.begin(), e.args.end(),
                     [&](const Expr& a) { return KnownBeforeRun(kernel, a); });
}

ExprValues ValuesOf(const Kernel& kernel, absl::Span<const int64_t> point,
                    std::vector<const Literal*>* arrays) {
  arrays->assign(kernel.refs.size(), nullptr);
  for (size_t r = 0; r < kernel.refs.size(); ++r) {
    if (kernel.refs[r].role == Ref::Role::kPrefetch) (*arrays)[r] = kernel.refs[r].constant.get();
  }
  return {kernel.params, point, kernel.grid, {}, *arrays, kernel.blocks};
}

bool SameExpr(const Expr& a, const Expr& b) {
  return a.kind == b.kind && a.value == b.value && a.args.size() == b.args.size() &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), SameExpr);
}

bool ReevaluateWindows(Kernel* kernel) {
  bool ok = true;
  const ExprValues values{kernel->params, {}, {}, {}, {}, kernel->blocks};
  const auto set = [&](const Expr& e, int64_t* out, int64_t least) {
    std::optional<int64_t> v = EvaluateExpr(e, values);
    if (!v || *v < least) {
      ok = false;
    } else {
      *out = *v;
    }
  };
  const auto set_grid = [&](std::vector<GridAxis>* grid) {
    for (GridAxis& axis : *grid) {
      set(axis.most.empty() ? axis.size : axis.most[0], &axis.extent, 0);
    }
  };
  set_grid(&kernel->grid);
  for (Pipeline& p : kernel->pipelines) set_grid(&p.grid);
  for (Ref& ref : kernel->refs) {
    for (size_t d = 0; d < ref.dim_exprs.size() && d < ref.shape.dims.size(); ++d) {
      set(ref.dim_exprs[d], &ref.shape.dims[d], 0);
    }
    for (size_t d = 0; d < ref.block_exprs.size() && d < ref.block.size(); ++d) {
      set(ref.block_exprs[d], &ref.block[d], 0);
    }
  }
  return ok;
}

Expr MakeExpr(Expr::Kind kind, std::vector<Expr> args) {
  Expr e;
  e.kind = kind;
  e.args = std::move(args);
  return e;
}

}  // namespace tpuc::kernel
