// The table of known custom calls (custom_calls.h) and their bodies.
#include "src/eval/custom_calls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/eval/dynamic.h"
#include "src/eval/sort.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

// The only operand that matters is the first, and its shape is the result's. Sources: XLA's
// sharding, host offloading and dynamic shape passes, which remove these calls.
constexpr absl::string_view kPassOn[] = {
    "Sharding",   "SPMDFullToShardShape", "SPMDShardToFullShape",
    "MoveToHost", "MoveToDevice",         "annotate_device_placement",
    "SetBound",   "LayoutConstraint",     "AssumeGatherIndicesInBound",
};
constexpr absl::string_view kTopK = "TopK", kPadToStatic = "PadToStatic",
                            kSliceToDynamic = "SliceToDynamic";

std::optional<std::vector<Literal>> TopK(const Instruction& in, const Literal& operand,
                                         std::string* error) {
  const Shape& shape = in.shape;
  const bool fits = shape.IsTuple() && shape.elements.size() == 2 && operand.shape().rank() > 0 &&
                    shape.elements[1].type == Type::kS32 &&
                    shape.elements[0].dims == shape.elements[1].dims &&
                    shape.elements[0].type == operand.shape().type &&
                    shape.elements[0].rank() == operand.shape().rank();
  if (!fits || shape.elements[0].dims.back() > operand.shape().dims.back() ||
      !std::equal(operand.shape().dims.begin(), operand.shape().dims.end() - 1,
                  shape.elements[0].dims.begin())) {
    *error =
        absl::StrCat("TopK of ", ToString(operand.shape(), false), " to ", ToString(shape, false));
    return std::nullopt;
  }
  std::vector<Literal> results{Literal(shape.elements[0]), Literal(shape.elements[1])};
  if (!EvalTopk(operand, /*largest=*/true, &results[0], &results[1], error)) return std::nullopt;
  return results;
}

// (the array padded to its bounds, then the actual size of each dimension).
std::optional<std::vector<Literal>> PadToStatic(const Instruction& in, const Literal& operand,
                                                std::string* error) {
  const size_t rank = operand.shape().dims.size();
  if (!in.shape.IsTuple() || in.shape.elements.size() != rank + 1 ||
      in.shape.elements[0].dims.size() != rank ||
      in.shape.elements[0].type != operand.shape().type ||
      std::any_of(in.shape.elements.begin() + 1, in.shape.elements.end(),
                  [](const Shape& size) { return !size.IsScalar() || size.type != Type::kS32; })) {
    *error = absl::StrCat("PadToStatic to ", ToString(in.shape, false));
    return std::nullopt;
  }
  std::vector<Literal> results{Resized(operand, in.shape.elements[0])};
  for (size_t d = 0; d < rank; ++d) {
    Literal size(Shape::Array(Type::kS32, {}));
    size.data<int32_t>()[0] = static_cast<int32_t>(operand.shape().dims[d]);
    results.push_back(std::move(size));
  }
  return results;
}

std::optional<std::vector<Literal>> SliceToDynamic(const Instruction& in,
                                                   const std::vector<Literal>& operands,
                                                   std::string* error) {
  const size_t rank = operands[0].shape().dims.size();
  if (operands.size() != rank + 1 || in.shape.dims.size() != rank ||
      in.shape.type != operands[0].shape().type) {
    *error = absl::StrCat("SliceToDynamic of ", operands.size(), " operands to ",
                          ToString(in.shape, false));
    return std::nullopt;
  }
  Shape shape = Shape::Array(operands[0].shape().type, in.shape.dims);
  for (size_t d = 0; d < rank; ++d) {
    const Literal& size = operands[d + 1];
    if (!size.shape().IsScalar()) {
      *error = "SliceToDynamic takes scalars as sizes";
      return std::nullopt;
    }
    shape.dims[d] = std::clamp<int64_t>(ElementAsInt(size.shape().type, size.bytes(), 0), 0,
                                        operands[0].shape().dims[d]);
  }
  return std::vector<Literal>{Resized(operands[0], shape)};
}

}  // namespace

bool PassesOn(const Instruction& in) {
  const absl::string_view target = in.StringAttr(AttrId::kCustomCallTarget);
  return !in.operands.empty() && Compatible(in.operands[0]->shape, in.shape) &&
         std::find(std::begin(kPassOn), std::end(kPassOn), target) != std::end(kPassOn);
}

bool IsKnownCall(const Instruction& in) {
  const absl::string_view target = in.StringAttr(AttrId::kCustomCallTarget);
  return !in.operands.empty() && in.operands[0]->shape.IsArray() &&
         (target == kTopK || target == kPadToStatic || target == kSliceToDynamic);
}

std::optional<std::vector<Literal>> RunKnownCall(const Instruction& in,
                                                 const std::vector<Literal>& operands,
                                                 std::string* error) {
  const absl::string_view target = in.StringAttr(AttrId::kCustomCallTarget);
  if (target == kTopK) return TopK(in, operands[0], error);
  if (target == kPadToStatic) return PadToStatic(in, operands[0], error);
  return SliceToDynamic(in, operands, error);
}

}  // namespace tpuc
