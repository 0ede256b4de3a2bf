// Dispatch by operation class (hlo_ops.def), and the entry points on literals that constant folding
// and the block evaluator call.
#include "src/eval/operation.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/dot.h"
#include "src/eval/elementwise.h"
#include "src/eval/move.h"
#include "src/eval/reduce.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

// An allocated literal, or nullopt and *error where it is no array or does not fit.
std::optional<Literal> Allocate(const Shape& shape, const EvalOptions& options,
                                std::string* error) {
  if (!shape.IsArray() || shape.is_dynamic()) {
    *error = absl::StrCat("a result of shape ", ToString(shape, /*with_layout=*/false));
    return std::nullopt;
  }
  const int64_t limit = options.memory_limit > 0 ? options.memory_limit : DefaultMemoryLimit();
  if (shape.LiteralBytes() > limit) {
    *error = absl::StrCat(ToString(shape, /*with_layout=*/false), " takes ", shape.LiteralBytes(),
                          " bytes, ", limit, " are available");
    return std::nullopt;
  }
  return Literal(shape);
}

}  // namespace

int64_t DefaultMemoryLimit() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4 * 3;
}

bool EvalOperation(Op op, absl::Span<const Literal* const> operands, absl::Span<const Attr> attrs,
                   const EvalOptions& options, Literal* out, std::string* error) {
  if (op == Op::kIota) return EvalIota(IntOf(attrs, AttrId::kIotaDimension), out, error);
  if (op == Op::kDot && operands.size() == 2) {
    return EvalDot(*operands[0], *operands[1], attrs, options, out, error);
  }
  const OpClass op_class = InfoOf(op).op_class;
  if (op_class == OpClass::kElementwise && op != Op::kMap) {
    return EvalElementwise(op, operands, attrs, out, error);
  }
  if (op_class == OpClass::kMove && !operands.empty()) {
    return EvalMove(op, operands, attrs, out, error);
  }
  *error = std::string(OpName(op));
  return false;
}

std::optional<Literal> EvaluateOp(Op op, const Shape& shape,
                                  absl::Span<const Literal* const> operands,
                                  absl::Span<const Attr> attrs, const EvalOptions& options,
                                  std::string* error) {
  for (const Literal* operand : operands) {
    if (operand->elided()) {
      *error = "an elided constant has no value";
      return std::nullopt;
    }
  }
  std::optional<Literal> out = Allocate(shape, options, error);
  if (!out || !EvalOperation(op, operands, attrs, options, &*out, error)) return std::nullopt;
  return out;
}

std::optional<Literal> EvaluateReduce(Op reducer, const Shape& shape, const Literal& operand,
                                      const Literal& init, const Ints& dimensions,
                                      std::string* error) {
  if (operand.elided() || init.elided()) {
    *error = "an elided constant has no value";
    return std::nullopt;
  }
  std::optional<Literal> out = Allocate(shape, {}, error);
  if (!out || !EvalSimpleReduce(reducer, operand, init, dimensions, &*out, error)) {
    return std::nullopt;
  }
  return out;
}

}  // namespace tpuc
