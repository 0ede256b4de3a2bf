// Communication among devices (run.h), where every group holds one device: all-reduce, all-gather,
// all-to-all and their kin pass values on. Groups of more are a diagnostic.
#include <cctype>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/eval/run.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

// A group names two devices: "{{0,1}}", "[1,2]<=[2]", "mesh['x'=2] {'x'}".
bool HasLargeGroup(absl::string_view groups) {
  if (groups.empty()) return false;
  if (groups[0] == '[') {  // [groups, members]
    const size_t comma = groups.find(',');
    int64_t members = 1;
    return comma != absl::string_view::npos &&
           (!absl::SimpleAtoi(groups.substr(comma + 1, groups.find(']') - comma - 1), &members) ||
            members > 1);
  }
  if (groups[0] != '{') {  // a mesh: an axis of more than one device among those named
    return groups.find("{}") == absl::string_view::npos;
  }
  int depth = 0;
  for (char c : groups) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 2) return true;
  }
  return false;
}

int64_t HeaderNumber(const Module& module, absl::string_view name) {
  for (const auto& [key, value] : module.other_attributes) {
    int64_t number;
    if (key == name && absl::SimpleAtoi(value, &number)) return number;
  }
  return 1;
}

}  // namespace

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
  const absl::string_view groups = in.StringAttr(AttrId::kReplicaGroups);
  const bool all = groups.empty() || groups == "{}";
  const int64_t devices =
      HeaderNumber(module_, "replica_count") * HeaderNumber(module_, "num_partitions");
  if (HasLargeGroup(groups) || (all && devices > 1)) {
    return Unsupported(in, absl::StrCat(OpName(in.op), " among several devices"));
  }
  const AttrValue* pairs = in.Find(AttrId::kSourceTargetPairs);
  if (pairs != nullptr) {
    for (const Ints& pair : std::get<std::vector<Ints>>(*pairs)) {
      if (pair.size() == 2 && pair[0] == 0 && pair[1] == 0) continue;
      return Unsupported(in, absl::StrCat(OpName(in.op), " between devices"));
    }
    if (std::get<std::vector<Ints>>(*pairs).empty() || in.Has(AttrId::kSliceSizes)) {
      return Unsupported(in, absl::StrCat(OpName(in.op), " without a source"));
    }
  }
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
