// Node shapes (node_shape.h): operations whose shape HLO infers go to InferShape through
// instructions made for the purpose; the others are checked here.
#include "backend/kernel/node_shape.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::kernel {
namespace {

std::string Text(const Shape& s) { return ToString(s, false); }

bool InRange(const Ints& dims, int rank, std::string* error) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank) {
      *error = absl::StrCat("dimension ", dims[i], " of a value of rank ", rank);
      return false;
    }
    if (std::find(dims.begin(), dims.begin() + i, dims[i]) != dims.begin() + i) {
      *error = absl::StrCat("dimension ", dims[i], " named twice");
      return false;
    }
  }
  return true;
}

bool ReduceShape(const Shape& operand, const Node& n, Shape* shape, std::string* error) {
  const Ints& dims = n.IntsAttr(AttrId::kDimensions);
  if (!InRange(dims, operand.rank(), error)) return false;
  *shape = Shape::Array(operand.type, {});
  for (int d = 0; d < operand.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end())
      shape->dims.push_back(operand.dims[d]);
  }
  const bool bits = n.reducer == Op::kAnd || n.reducer == Op::kOr || n.reducer == Op::kXor;
  if (bits && !IsInteger(operand.type) && operand.type != Type::kPred) {
    *error = absl::StrCat("reduction by ", std::string(OpName(n.reducer)), " of ", Text(operand));
    return false;
  }
  return true;
}

bool BroadcastFits(const Shape& from, const Node& n, std::string* error) {
  const Ints& dims = n.IntsAttr(AttrId::kDimensions);
  if (static_cast<int>(dims.size()) != from.rank()) {
    *error = absl::StrCat("broadcast of ", Text(from), " names ", dims.size(), " dimensions");
    return false;
  }
  if (!InRange(dims, n.shape.rank(), error)) return false;
  for (size_t e = 0; e < dims.size(); ++e) {
    if (from.dims[e] != n.shape.dims[dims[e]]) {
      *error = absl::StrCat("broadcast of ", Text(from), " to ", Text(n.shape), ": dimension ", e,
                            " has ", from.dims[e], " elements, dimension ", dims[e],
                            " of the result ", n.shape.dims[dims[e]]);
      return false;
    }
  }
  return true;
}

bool SliceFits(const Shape& from, const Node& n, std::string* error) {
  const AttrValue* v = n.Find(AttrId::kSlice);
  const auto* dims = v == nullptr ? nullptr : std::get_if<std::vector<SliceDim>>(v);
  if (dims == nullptr || static_cast<int>(dims->size()) != from.rank() ||
      n.shape.rank() != from.rank()) {
    *error = absl::StrCat("slice needs one range for each dimension of ", Text(from));
    return false;
  }
  for (int d = 0; d < from.rank(); ++d) {
    const SliceDim& s = (*dims)[d];
    const bool inside =
        s.start >= 0 && s.start <= s.limit && s.limit <= from.dims[d] && s.stride > 0;
    if (!inside || n.shape.dims[d] != (s.limit - s.start + s.stride - 1) / s.stride) {
      *error = absl::StrCat("slice [", s.start, ":", s.limit, ":", s.stride, "] of dimension ", d,
                            " of ", Text(from));
      return false;
    }
  }
  return true;
}

bool DynamicSliceFits(const Kernel& k, const Node& n, std::string* error) {
  const Shape& from = k.nodes[n.operands[0]].shape;
  if (static_cast<int>(n.operands.size()) != from.rank() + 1 || n.shape.rank() != from.rank()) {
    *error =
        absl::StrCat("dynamic_slice of ", Text(from), " needs ", from.rank(), " start indices");
    return false;
  }
  for (int d = 0; d < from.rank(); ++d) {
    if (n.shape.dims[d] > from.dims[d] || !k.nodes[n.operands[d + 1]].shape.IsScalar()) {
      *error =
          absl::StrCat("dynamic_slice of ", Text(from), " to ", Text(n.shape), ": dimension ", d);
      return false;
    }
  }
  return true;
}

bool UpdateFits(const Kernel& k, const Node& n, std::string* error) {
  const Shape& from = k.nodes[n.operands[0]].shape;
  const Shape& update = k.nodes[n.operands[1]].shape;
  bool fits = from.dims == n.shape.dims && update.type == from.type &&
              update.rank() == from.rank() &&
              static_cast<int>(n.operands.size()) == from.rank() + 2;
  for (int d = 0; d < from.rank() && fits; ++d) {
    fits = update.dims[d] <= from.dims[d] && k.nodes[n.operands[d + 2]].shape.IsScalar();
  }
  if (!fits) {
    *error = absl::StrCat("dynamic_update_slice of ", Text(from), " with ", Text(update), " and ",
                          n.operands.size() - 2, " start indices");
  }
  return fits;
}

bool Fits(bool ok, const Shape& from, const Node& n, std::string* error) {
  if (!ok) {
    *error = absl::StrCat(std::string(OpName(n.op)), " of ", Text(from), " to ", Text(n.shape));
  }
  return ok;
}

// Operations with a written result shape. The element type goes through except for conversions.
bool CheckWritten(const Kernel& k, const Node& n, std::string* error) {
  const Shape none;
  const Shape& from = n.operands.empty() ? none : k.nodes[n.operands[0]].shape;
  const bool converts = n.op == Op::kConvert || n.op == Op::kBitcastConvert || n.op == Op::kDot;
  if (!n.operands.empty() && !converts && n.shape.type != from.type) {
    return Fits(false, from, n, error);
  }
  switch (n.op) {
    case Op::kBroadcast:
      return BroadcastFits(from, n, error);
    case Op::kReshape:
      return Fits(from.ElementCount() == n.shape.ElementCount(), from, n, error);
    case Op::kConvert:
    case Op::kReducePrecision:
      return Fits(from.dims == n.shape.dims, from, n, error);
    case Op::kBitcastConvert:
      return Fits(n.shape.dims == BitcastDims(from, n.shape.type) &&
                      (n.shape.dims.empty() || n.shape.dims.back() >= 0),
                  from, n, error);
    case Op::kSlice:
      return SliceFits(from, n, error);
    case Op::kDynamicSlice:
      return DynamicSliceFits(k, n, error);
    case Op::kDynamicUpdateSlice:
      return UpdateFits(k, n, error);
    case Op::kIota: {
      const AttrValue* v = n.Find(AttrId::kIotaDimension);
      const int64_t* d = v == nullptr ? nullptr : std::get_if<int64_t>(v);
      if (d != nullptr && *d >= 0 && *d < n.shape.rank()) return true;
      *error = absl::StrCat("iota of ", Text(n.shape), " along a dimension it does not have");
      return false;
    }
    case Op::kConstant:
      if (n.literal != nullptr && Compatible(n.literal->shape(), n.shape)) return true;
      *error = "constant without a value of its shape";
      return false;
    default:
      *error = absl::StrCat(std::string(OpName(n.op)), " has no form in kernels");
      return false;
  }
}

}  // namespace

Dims BitcastDims(const Shape& from, Type to) {
  Dims dims = from.dims;
  const int narrow = std::min(BitsOf(from.type), BitsOf(to));
  const int wide = std::max(BitsOf(from.type), BitsOf(to));
  if (narrow == wide || narrow == 0) return dims;
  if (BitsOf(to) == narrow) {
    dims.push_back(wide / narrow);
  } else if (!dims.empty() && dims.back() == wide / narrow) {
    dims.pop_back();
  } else {
    dims.push_back(-1);  // no such value
  }
  return dims;
}

bool InferNodeShape(const Kernel& kernel, const Node& node, Shape* shape, std::string* error) {
  const OpInfo& info = InfoOf(node.op);
  const int count = static_cast<int>(node.operands.size());
  const bool reduce = node.op == Op::kReduce;
  const int least = reduce ? 1 : info.min_operands;
  if (count < least || ((info.exact_operands || reduce) && count > least)) {
    *error =
        absl::StrCat(std::string(info.name), " takes ", least,
                     info.exact_operands || reduce ? "" : " or more", " operands, not ", count);
    return false;
  }
  for (NodeId o : node.operands) {
    if (!kernel.nodes[o].shape.IsArray()) {
      *error = absl::StrCat("operand of ", std::string(info.name), " is not a value");
      return false;
    }
  }
  if (reduce) return ReduceShape(kernel.nodes[node.operands[0]].shape, node, shape, error);
  if (info.shape == ShapeRule::kWritten) {
    *shape = node.shape;
    return CheckWritten(kernel, node, error);
  }
  if (info.op_class != OpClass::kElementwise && info.op_class != OpClass::kMove &&
      info.op_class != OpClass::kContract) {
    *error = absl::StrCat(std::string(info.name), " has no form in kernels");
    return false;
  }
  Instruction instruction;
  instruction.op = node.op;
  instruction.shape = node.shape;
  instruction.attrs = node.attrs;
  std::deque<Instruction> operands;
  for (NodeId o : node.operands) {
    operands.emplace_back();
    operands.back().op = Op::kParameter;
    operands.back().shape = kernel.nodes[o].shape;
    operands.back().name = kernel.nodes[o].name.empty() ? "value" : kernel.nodes[o].name;
    instruction.operands.push_back(&operands.back());
  }
  if (!InferShape(instruction, shape, error)) return false;
  shape->layout.reset();
  // The element type of a dot is written: what it accumulates and rounds to.
  if (info.op_class == OpClass::kContract && node.shape.IsArray()) shape->type = node.shape.type;
  return true;
}

}  // namespace tpuc::kernel
