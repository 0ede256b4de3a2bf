// Elaboration of masks and of the tables of their blocks (elaborate.h, backend/kernel/mask.h).
//
//   mask M(row, col) over [Sq, Skv] = row >= col && row - col <= window;
//   blocks B of M by (bq, bkv);
//   prefetch kind = B.kind;           a table, as a constant of the kernel
//   s = select(M(r, c), s, -1e30);    the same condition on values in the body
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/mask.h"
#include "backend/kernel/windows.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Blocks;
using kernel::Mask;
using kernel::Ref;

void KernelElaborator::DeclareArray(const ArrayDecl& syntax) {
  kernel::Array a;
  a.name = syntax.name;
  if (!ArrayShape(syntax.array, 0, &a.shape, &a.dim_exprs)) return;
  const std::string set = WordFor(syntax.name);
  a.file = set.empty() ? syntax.file : set;
  const bool scalars = IsInteger(a.shape.type) || a.shape.type == Type::kPred;
  std::string error, hint;
  if (!scalars || BitsOf(a.shape.type) > 32 || a.shape.dims.empty()) {
    error =
        absl::StrCat("of ", ToString(a.shape, false), ": masks read arrays of integers or pred");
  } else if (a.file.empty()) {
    a.values = LiteralFromText(syntax.literal, a.shape, &error, &hint);
    if (a.values != nullptr && a.values->elided()) error = "has no values";
  } else if (!context_.read) {
    error = absl::StrCat("cannot be read from ", a.file, " here");
  } else {
    Shape logical = a.shape;
    logical.layout.reset();
    std::optional<Literal> values = context_.read(a.file, logical, &error);
    if (values) a.values = std::make_shared<Literal>(*std::move(values));
  }
  if (!error.empty()) {
    return Error(DiagCode::kKernelParam, syntax.loc, absl::StrCat("array ", a.name, ": ", error),
                 std::move(hint));
  }
  const Symbol symbol{Symbol::Kind::kArray, static_cast<int64_t>(kernel_.arrays.size()), {}};
  kernel_.arrays.push_back(std::move(a));
  Define(syntax.name, syntax.loc, symbol);
}

// allowed[row / 64, col / 64] in a mask.
bool KernelElaborator::ArrayElement(const Expr& e, int64_t array, bool axes, KernelExpr* result) {
  const Shape& shape = kernel_.arrays[array].shape;
  if (static_cast<int>(e.args.size()) - 1 != shape.rank() || !in_mask_) {
    Error(DiagCode::kKernelShape, e.loc,
          absl::StrCat(PrintSyntax(e), " of ", ToString(shape, false),
                       in_mask_ ? ": one index a dimension" : ": masks alone read arrays"));
    return false;
  }
  std::vector<KernelExpr> args(shape.rank());
  int64_t ignored;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!Static(e.args[d + 1], axes, &args[d], &ignored)) return false;
  }
  *result = kernel::MakeExpr(KernelExpr::Kind::kArray, std::move(args));
  result->value = array;
  return true;
}

void KernelElaborator::DeclareMask(const MaskDecl& syntax) {
  Mask m;
  m.name = syntax.name;
  m.row = syntax.row;
  m.col = syntax.col;
  m.loc = syntax.loc;
  m.extent_exprs.resize(2);
  const bool sized = Static(syntax.extents[0], false, &m.extent_exprs[0], &m.rows) &&
                     Static(syntax.extents[1], false, &m.extent_exprs[1], &m.cols);
  if (sized && (m.rows < 1 || m.cols < 1 || std::max(m.rows, m.cols) > (int64_t{1} << 31))) {
    Error(DiagCode::kKernelParam, syntax.loc,
          absl::StrCat("mask ", m.name, " over [", m.rows, ", ", m.cols, "]"));
  }
  // Parameters keep their meaning; the two variables are known in the condition only.
  scopes_.emplace_back();
  Define(syntax.row, syntax.loc, {Symbol::Kind::kAxis, 0, {}});
  Define(syntax.col, syntax.loc, {Symbol::Kind::kAxis, 1, {}});
  int64_t ignored;
  in_mask_ = true;
  Static(syntax.value, true, &m.value, &ignored);
  in_mask_ = false;
  scopes_.pop_back();
  const Symbol symbol{Symbol::Kind::kMask, static_cast<int64_t>(kernel_.masks.size()), {}};
  mask_values_.push_back(&syntax.value);
  kernel_.masks.push_back(std::move(m));
  Define(syntax.name, syntax.loc, symbol);
}

void KernelElaborator::DeclareBlocks(const BlocksDecl& syntax) {
  const Symbol* mask = Find(syntax.mask);
  Blocks b;
  b.name = syntax.name;
  b.loc = syntax.loc;
  b.block_exprs.resize(2);
  if (mask == nullptr || mask->kind != Symbol::Kind::kMask) {
    Error(DiagCode::kKernelName, syntax.loc, absl::StrCat(syntax.mask, " is not a mask"),
          DidYouMean(syntax.mask));
    return;
  }
  b.mask = static_cast<int>(mask->index);
  const Mask& m = kernel_.masks[b.mask];
  if (!Static(syntax.sizes[0], false, &b.block_exprs[0], &b.block_rows) ||
      !Static(syntax.sizes[1], false, &b.block_exprs[1], &b.block_cols) || !ok_) {
    return;
  }
  if (b.block_rows < 1 || b.block_cols < 1) {
    return Error(DiagCode::kKernelParam, syntax.loc,
                 absl::StrCat("blocks of ", b.block_rows, " rows and ", b.block_cols, " columns"));
  }
  kernel::MaskProblem problem;
  b.tables =
      kernel::MakeTables(m, kernel_.params, b.block_rows, b.block_cols, &problem, kernel_.arrays);
  if (b.tables == nullptr) {
    if (problem.empty_row) {
      Error(DiagCode::kKernelParam, m.loc,
            absl::StrCat(problem.rows, " of the ", m.rows, " rows of mask ", m.name,
                         " have no column; the first is row ", problem.row));
    } else {
      Error(DiagCode::kKernelParam, m.loc, absl::StrCat("mask ", m.name, ": ", problem.message));
    }
    return;
  }
  const Symbol symbol{Symbol::Kind::kBlocks, static_cast<int64_t>(kernel_.blocks.size()), {}};
  kernel_.blocks.push_back(std::move(b));
  Define(syntax.name, syntax.loc, symbol);
}

bool KernelElaborator::BlocksNumber(const std::string& name, KernelExpr* result) const {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  const Symbol* s = Find(name.substr(0, dot));
  if (s == nullptr || s->kind != Symbol::Kind::kBlocks) return false;
  for (const kernel::BlockCountRow& row : kernel::BlockCounts()) {
    if (row.name != absl::string_view(name).substr(dot + 1)) continue;
    *result = kernel::MakeExpr(KernelExpr::Kind::kBlocks,
                               {KernelExpr::Const(static_cast<int64_t>(row.count))});
    result->value = s->index;
    return true;
  }
  return false;
}

// prefetch kind = B.kind: the array is that table.
bool KernelElaborator::TableArray(const Operand& syntax, Ref* ref) {
  const size_t dot = syntax.table.rfind('.');
  const Symbol* s = dot == std::string::npos ? nullptr : Find(syntax.table.substr(0, dot));
  if (s == nullptr || s->kind != Symbol::Kind::kBlocks) {
    if (ok_) {
      Error(DiagCode::kKernelName, syntax.loc,
            absl::StrCat(syntax.table, " is not a table of a blocks declaration"),
            DidYouMean(syntax.table.substr(0, dot)));
    }
    return false;
  }
  if (ref->role == Ref::Role::kOut) {
    Error(DiagCode::kKernelName, syntax.loc, absl::StrCat("output ", ref->name, " is a constant"));
    return false;
  }
  const std::string table = syntax.table.substr(dot + 1);
  ref->constant = kernel::TableOf(*kernel_.blocks[s->index].tables, table);
  if (ref->constant == nullptr) {
    Error(DiagCode::kKernelName, syntax.loc, absl::StrCat(syntax.table, " is not a table"),
          absl::StrCat("the tables are ", absl::StrJoin(kernel::TableNames(), ", ")));
    return false;
  }
  ref->table = syntax.table;
  ref->shape = kernel::WithDeviceLayout(ref->constant->shape());
  return true;
}

// M(r, c) in a body: the condition on values, and where blocks end past the last column that there
// is such a column.
Value KernelElaborator::CallMask(int64_t mask, const Arguments& args, Loc loc) {
  const Mask& m = kernel_.masks[mask];
  if (!CheckNamed(args, {}, loc) ||
      !CheckCount(args, 2, 2, absl::StrCat(m.name, "(row, column)"), loc)) {
    return {};
  }
  Value values[2];
  for (int i = 0; i < 2; ++i) {
    values[i] = Eval(*args.positional[i]);
    if (!AsNode(&values[i])) return {};
    if (ShapeOf(values[i]).type == Type::kS32) continue;
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat(m.name, " of ", ToString(ShapeOf(values[i]), false), ", not s32"));
    return {};
  }
  // The condition sees the parameters and its two variables only.
  std::vector<absl::flat_hash_map<std::string, Symbol>> outer = std::move(scopes_);
  scopes_.clear();
  scopes_.emplace_back();
  for (const auto& [name, symbol] : outer[0]) {
    if (symbol.kind == Symbol::Kind::kParam || symbol.kind == Symbol::Kind::kBlocks ||
        symbol.kind == Symbol::Kind::kArray) {
      scopes_[0][name] = symbol;
    }
  }
  scopes_[0][m.row] = {Symbol::Kind::kValue, 0, values[0]};
  scopes_[0][m.col] = {Symbol::Kind::kValue, 0, values[1]};
  Value v = Eval(*mask_values_[mask]);
  scopes_ = std::move(outer);
  const bool cut = std::any_of(kernel_.blocks.begin(), kernel_.blocks.end(), [&](const Blocks& b) {
    return b.mask == mask && m.cols % b.block_cols != 0;
  });
  if (!v || !cut) return v;
  Value last;
  last.kind = Value::Kind::kInteger;
  last.integer = m.cols;
  last.expr = m.extent_exprs[1];
  last.loc = loc;
  values[1].end = last.end = region_->nodes.size();
  Value there =
      Elementwise(Op::kCompare, {values[1], last}, {{AttrId::kDirection, std::string("LT")}}, loc);
  if (v.weak()) return v.integer != 0 ? there : v;
  return Elementwise(Op::kAnd, {v, there}, {}, loc);
}

}  // namespace tpuc::kernel_text
