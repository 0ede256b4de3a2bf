// Integer expressions of kernels (kernel.h Expr): evaluation over parameter values, grid indices
// and grid extents.
//
//   cdiv(M, bm) with M = 500, bm = 128 is 4; i * 2 + 1 at grid point {3} is 7.
//
// Division rounds towards minus infinity, as Python's //; there is no overflow: it is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

struct ExprValues {
  absl::Span<const Param> params;
  absl::Span<const int64_t> point = {};          // grid indices; empty where none may be used
  absl::Span<const GridAxis> grid = {};          // for num(axis)
  absl::Span<const int64_t> extents = {};        // .. where axes have other extents in this run
  absl::Span<const Literal* const> arrays = {};  // by ref: what prefetched scalars are read from
  absl::Span<const Blocks> blocks = {};
  absl::Span<const int64_t> operands = {};  // of the pipeline around
};
// Of a kernel before it runs: prefetched scalars have values where they are constants. `arrays` is
// filled and must live as long as the result.
ExprValues ValuesOf(const Kernel& kernel, absl::Span<const int64_t> point,
                    std::vector<const Literal*>* arrays);

// Nothing on division by zero, overflow, or a name without a value.
std::optional<int64_t> EvaluateExpr(const Expr& e, const ExprValues& values);
bool UsesAxis(const Expr& e, int64_t first = 0);           // any grid index from `first` on
bool UsesOperand(const Expr& e);                           // any value of the body
bool UsesRef(const Expr& e, int ref);                      // any scalar of this one
bool UsesPrefetch(const Expr& e);                          // any prefetched scalar
bool KnownBeforeRun(const Kernel& kernel, const Expr& e);  // no scalar that an input holds
bool UsesParam(const Expr& e);
bool SameExpr(const Expr& a, const Expr& b);
// After a change of parameter values: grid extents and the shapes and blocks of refs that are
// written with parameters take their new values; the body does not. False where an expression has
// no value or a size is negative.
bool ReevaluateWindows(Kernel* kernel);
Expr MakeExpr(Expr::Kind kind, std::vector<Expr> args);

}  // namespace tpuc::kernel
