// Communication among devices (run.h), where every group holds one device: all-reduce, all-gather,
// all-to-all and their kin pass values on. Groups of more are a diagnostic.
#include "absl/strings/str_cat.h"
#include "src/eval/run.h"
#include "src/eval/runnable.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"

namespace tpuc {

std::optional<Value> Run::Collective(const Instruction& in, Operands* operands) {
  switch (in.op) {
    case Op::kAllReduceDone:
      if (!Compatible(in.operands[0]->shape, in.shape)) return (*operands)[0].elements[1];
      return std::move((*operands)[0]);
    case Op::kAllGatherDone:
    case Op::kCollectivePermuteDone:
      if ((*operands)[0].literal) return std::move((*operands)[0]);
      return (*operands)[0].elements[1];
    default:
      break;
  }
  if (!CanRun(module_, in, options_, diags_)) return std::nullopt;
  if (in.op == Op::kRaggedAllToAll) return RaggedAllToAll(in, operands);
  // One device: what each sends is what it gets.
  Shape given = operands->size() == 1 ? in.operands[0]->shape : Shape::Tuple({});
  if (operands->size() != 1) {
    for (const Instruction* operand : in.operands) given.elements.push_back(operand->shape);
  }
  Value value = operands->size() == 1 ? std::move((*operands)[0]) : Value::Tuple(*operands);
  const bool pair = in.op == Op::kAllGatherStart || in.op == Op::kAllReduceStart ||
                    in.op == Op::kCollectivePermuteStart;
  if (pair && in.shape.IsTuple() && in.shape.elements.size() >= 2 &&
      Compatible(in.shape.elements[0], given) && Compatible(in.shape.elements[1], given)) {
    std::vector<Value> parts{value, value};
    for (size_t i = 2; i < in.shape.elements.size(); ++i) {
      parts.push_back(ToValue(Literal(in.shape.elements[i]), in.shape.elements[i]));
    }
    return Value::Tuple(std::move(parts));
  }
  const bool wrapped = in.shape.IsTuple() && in.shape.elements.size() == 1 &&
                       Compatible(in.shape.elements[0], given);
  if (wrapped) return Value::Tuple({value});
  if (Compatible(in.shape, given)) return value;
  return Unsupported(in, absl::StrCat(OpName(in.op), " of ", ToString(given, false), " to ",
                                      ToString(in.shape, false), " on one device"));
}

// Operands: input, output, input offsets, send sizes, output offsets, receive sizes; the slices are
// of the first dimension.
std::optional<Value> Run::RaggedAllToAll(const Instruction& in, Operands* operands) {
  const auto array = [&](int i) -> const Literal& { return *(*operands)[i].literal; };
  const Literal& input = array(0);
  if (!Fits(in, in.shape.LiteralBytes())) return std::nullopt;
  Literal out = array(1);
  const Dims &from_dims = input.shape().dims, &to_dims = out.shape().dims;
  const bool fits = from_dims.size() == to_dims.size() && !to_dims.empty() &&
                    std::equal(from_dims.begin() + 1, from_dims.end(), to_dims.begin() + 1) &&
                    array(2).size() == array(3).size() && array(2).size() == array(4).size();
  if (!fits) return Unsupported(in, "ragged-all-to-all of arrays that differ");
  const int64_t row = RowMajorStrides(from_dims)[0] * LiteralBytesOf(input.shape().type);
  const auto number = [&](int i, int64_t k) {
    return ElementAsInt(array(i).shape().type, array(i).bytes(), k);
  };
  for (int64_t k = 0; k < array(2).size(); ++k) {
    const int64_t from = number(2, k), count = number(3, k), to = number(4, k);
    if (from < 0 || count < 0 || to < 0 || from > from_dims[0] - count || to > to_dims[0] - count) {
      return Unsupported(in, "ragged-all-to-all of slices outside its arrays");
    }
    std::copy_n(input.bytes() + from * row, count * row, out.bytes() + to * row);
  }
  return Value::Array(std::move(out), &memory_);
}

}  // namespace tpuc
