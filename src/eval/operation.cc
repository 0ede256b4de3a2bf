// Dispatch by operation class (hlo_ops.def), and the entry points on literals that constant folding
// and the block evaluator call.
#include "src/eval/operation.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/contract.h"
#include "src/eval/elementwise.h"
#include "src/eval/index.h"
#include "src/eval/lanes.h"
#include "src/eval/linalg.h"
#include "src/eval/move.h"
#include "src/eval/norm.h"
#include "src/eval/random.h"
#include "src/eval/reduce.h"
#include "src/eval/sort.h"
#include "src/eval/window.h"
#include "src/ir/op_table.h"
#include "src/num/flush.h"

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
  const auto flag = [&](AttrId id) {
    const bool* value = FindAttr<bool>(attrs, id);
    return value != nullptr && *value;
  };
  switch (op) {
    case Op::kIota:
      return EvalIota(IntOf(attrs, AttrId::kIotaDimension), out, error);
    case Op::kDot:
      if (operands.size() != 2) break;
      return EvalDot(*operands[0], *operands[1], attrs, options, out, error);
    case Op::kRaggedDot:
      return EvalRaggedDot(operands, attrs, options, out, error);
    case Op::kScaledDot:
      return EvalScaledDot(operands, attrs, options, out, error);
    case Op::kConvolution:
      if (operands.size() != 2) break;
      return EvalConvolution(*operands[0], *operands[1], attrs, options, out, error);
    case Op::kDynamicSlice:
      return EvalDynamicSlice(operands, out, error);
    case Op::kDynamicUpdateSlice:
      return EvalDynamicUpdateSlice(operands, out, error);
    case Op::kGather:
      return out->size() == 0 || EvalGather(*operands[0], *operands[1], attrs, out, error);
    case Op::kGetDimensionSize:
      out->data<int32_t>()[0] =
          static_cast<int32_t>(operands[0]->shape().dims[IntsOf(attrs, AttrId::kDimensions)[0]]);
      return true;
    case Op::kSetDimensionSize:
    case Op::kDynamicReshape:
      return EvalResize(op, *operands[0], out, error);
    case Op::kCholesky:
      return out->size() == 0 || EvalCholesky(*operands[0], flag(AttrId::kLower), out, error);
    case Op::kTriangularSolve:
      return out->size() == 0 || EvalTriangularSolve(*operands[0], *operands[1], attrs, out, error);
    case Op::kFft:
      return EvalFft(*operands[0], WordOf(attrs, AttrId::kFftType),
                     IntsOf(attrs, AttrId::kFftLength), out, error);
    default:
      break;
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

bool EvalInstruction(const Instruction& in, absl::Span<const Literal* const> operands,
                     const EvalOptions& options, absl::Span<Literal* const> outs,
                     std::string* error) {
  switch (in.op) {
    case Op::kBitcast:  // the operand's layout is what the program says, not what made the value
      if (outs[0]->size() == 0) return true;
      return EvalBitcast(*operands[0], in.operands[0]->shape.layout, outs[0], error);
    case Op::kMap:
      return EvalMap(*in.ComputationAttr(AttrId::kToApply), operands, options, outs[0], error);
    case Op::kReduce:
      return EvalReduceInstruction(in, operands, options, outs, error);
    case Op::kReduceWindow:
      return EvalReduceWindow(in, operands, options, outs, error);
    case Op::kSelectAndScatter:
      return EvalSelectAndScatter(in, *operands[0], *operands[1], *operands[2], options, outs[0],
                                  error);
    case Op::kScatter:
      return EvalScatter(in, operands, options, outs, error);
    case Op::kSort:
      return EvalSort(in, operands, options, outs, error);
    case Op::kTopk:
      return EvalTopk(*operands[0], in.BoolAttr(AttrId::kLargest, true), outs[0], outs[1], error);
    case Op::kScan:
      return EvalScan(in, operands, options, outs, error);
    case Op::kBatchNormTraining:
    case Op::kBatchNormInference:
    case Op::kBatchNormGrad:
      return EvalBatchNorm(in, operands, outs, error);
    case Op::kRngBitGenerator: {
      Literal state = outs.size() == 1 ? *operands[0] : Literal();
      return EvalRngBitGenerator(*operands[0], in.StringAttr(AttrId::kRngAlgorithm),
                                 outs.size() == 1 ? &state : outs[0], outs.back(), error);
    }
    default:
      if (outs.size() == 1) {
        return EvalOperation(in.op, operands, in.attrs, options, outs[0], error);
      }
      *error = std::string(OpName(in.op));
      return false;
  }
}

std::optional<Literal> EvaluateOp(Op op, const Shape& shape,
                                  absl::Span<const Literal* const> operands,
                                  absl::Span<const Attr> attrs, const EvalOptions& options,
                                  std::string* error) {
  const FlushScope flush;
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

std::optional<Literal> EvaluateReduce(const Instruction& reduce, const Literal& operand,
                                      const Literal& init, const EvalOptions& options,
                                      std::string* error) {
  const FlushScope flush;
  if (operand.elided() || init.elided()) {
    *error = "an elided constant has no value";
    return std::nullopt;
  }
  std::optional<Literal> out = Allocate(reduce.shape, options, error);
  if (!out) return std::nullopt;
  const Literal* operands[] = {&operand, &init};
  Literal* outs[] = {&*out};
  if (!EvalReduceInstruction(reduce, operands, options, outs, error)) return std::nullopt;
  return out;
}

std::optional<Literal> EvaluateReduce(Op reducer, const Shape& shape, const Literal& operand,
                                      const Literal& init, const Ints& dimensions,
                                      std::string* error) {
  const FlushScope flush;
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
