// Elaboration: nodes, constants that take their partner's type, broadcasting (elaborate.h).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/node_shape.h"
#include "backend/kernel/scalar.h"
#include "grammar/kernel/elaborate.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"

namespace tpuc::kernel_text {

using kernel::Node;

namespace {

bool FitsInteger(Type type, int64_t value) {
  if (type == Type::kPred) return value == 0 || value == 1;
  const int bits = BitsOf(type);
  if (ClassOf(type) == TypeClass::kUnsigned) {
    return value >= 0 && (bits >= 63 || value < (int64_t{1} << bits));
  }
  if (bits >= 64) return true;
  return value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << (bits - 1));
}

}  // namespace

std::optional<Literal> ScalarFromText(Type type, const std::string& text) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string digits = negative ? text.substr(1) : text;
  if (type == Type::kPred) {
    if (text == "true" || text == "1") return kernel::ScalarOf(type, int64_t{1});
    if (text == "false" || text == "0") return kernel::ScalarOf(type, int64_t{0});
    return std::nullopt;
  }
  if (IsInteger(type)) {
    int64_t value = 0;
    uint64_t large = 0;
    if (absl::SimpleAtoi(text, &value)) {
      if (!FitsInteger(type, value)) return std::nullopt;
      return kernel::ScalarOf(type, value);
    }
    if (type != Type::kU64 || !absl::SimpleAtoi(text, &large)) return std::nullopt;
    return kernel::ScalarOf(type, static_cast<int64_t>(large));
  }
  if (!IsFloat(type)) return std::nullopt;
  double value = 0;
  if (digits == "inf") {
    value = std::numeric_limits<double>::infinity();
  } else if (digits == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (type == Type::kF32) {  // rounded once
    float f = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), f);
    if (end.ptr != digits.data() + digits.size()) return std::nullopt;
    if (end.ec == std::errc::result_out_of_range) {
      if (!absl::SimpleAtod(digits, &value)) return std::nullopt;
    } else if (end.ec != std::errc()) {
      return std::nullopt;
    } else {
      value = f;
    }
  } else if (!absl::SimpleAtod(digits, &value)) {
    return std::nullopt;
  }
  return kernel::ScalarOf(type, negative ? -value : value);
}

NodeId KernelElaborator::Emit(Node node, Loc loc, size_t position) {
  node.loc = loc;
  node.place = absl::StrCat(context_.source->name, ":", loc.line);
  const NodeId id = static_cast<NodeId>(kernel_.nodes.size());
  kernel_.nodes.push_back(std::move(node));
  region_->nodes.insert(region_->nodes.begin() + static_cast<int64_t>(position), id);
  return id;
}

Value KernelElaborator::NodeValue(NodeId node, Loc loc) {
  Value v;
  v.kind = Value::Kind::kNode;
  v.node = node;
  v.loc = loc;
  v.end = region_->nodes.size();
  return v;
}

Value KernelElaborator::EmitHlo(Node node, Loc loc) {
  std::stable_sort(node.attrs.begin(), node.attrs.end(),
                   [](const Attr& a, const Attr& b) { return a.id < b.id; });
  Shape shape;
  std::string error;
  if (!kernel::InferNodeShape(kernel_, node, &shape, &error)) {
    Error(DiagCode::kKernelShape, loc, std::move(error));
    return {};
  }
  node.shape = std::move(shape);
  return NodeValue(Emit(std::move(node), loc), loc);
}

NodeId KernelElaborator::Materialize(const Value& value, Type type, size_t position) {
  std::optional<Literal> literal;
  std::string text = value.text;
  if (value.kind != Value::Kind::kFloat) text = absl::StrCat(value.integer);
  const bool fits = value.kind == Value::Kind::kBool ? type == Type::kPred
                    : type == Type::kPred            ? false
                                                     : true;
  if (fits) literal = ScalarFromText(type, text);
  if (!literal) {
    if (value.kind == Value::Kind::kBool) text = value.integer != 0 ? "true" : "false";
    Error(DiagCode::kKernelShape, value.loc,
          absl::StrCat(text, " is not a value of type ", std::string(TypeName(type))));
    return -1;
  }
  Node n;
  n.op = Op::kConstant;
  n.shape = Shape::Array(type, {});
  n.literal = std::make_shared<Literal>(*std::move(literal));
  if (value.kind == Value::Kind::kInteger && kernel::UsesParam(value.expr)) {
    n.value_expr = {value.expr};
  }
  return Emit(std::move(n), value.loc, position);
}

bool KernelElaborator::AsNode(Value* value, bool prefers_float) {
  if (!*value) return false;
  if (!value->weak()) return true;
  Type type = Type::kF32;
  if (value->kind == Value::Kind::kInteger && !prefers_float) type = Type::kS32;
  if (value->kind == Value::Kind::kBool) type = Type::kPred;
  const NodeId node = Materialize(*value, type, value->end);
  if (node < 0) return false;
  const size_t end = value->end + 1;
  *value = NodeValue(node, value->loc);
  value->end = end;
  return true;
}

NodeId KernelElaborator::BroadcastTo(NodeId node, const Dims& dims, Loc loc, size_t position,
                                     const std::vector<KernelExpr>& dim_exprs) {
  const Shape from = kernel_.nodes[node].shape;
  if (from.dims == dims && dim_exprs.empty()) return node;
  const int shift = static_cast<int>(dims.size()) - from.rank();
  Ints mapping;
  Dims kept;
  bool fits = shift >= 0;
  for (int e = 0; e < from.rank() && fits; ++e) {
    if (from.dims[e] == 1 && dims[e + shift] != 1) continue;  // stretched
    fits = from.dims[e] == dims[e + shift];
    mapping.push_back(e + shift);
    kept.push_back(from.dims[e]);
  }
  if (!fits) {
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat(ToString(from, false), " does not stretch to ",
                       ToString(Shape::Array(from.type, dims), false)),
          "shapes align at the last dimension; broadcast(x, [...], dims={0}) aligns otherwise");
    return -1;
  }
  if (kept.size() != from.dims.size()) {
    Node reshape;
    reshape.op = Op::kReshape;
    reshape.operands = {node};
    reshape.shape = Shape::Array(from.type, kept);
    node = Emit(std::move(reshape), loc, position++);
  }
  Node broadcast;
  broadcast.op = Op::kBroadcast;
  broadcast.operands = {node};
  broadcast.shape = Shape::Array(from.type, dims);
  broadcast.attrs = {{AttrId::kDimensions, mapping}};
  broadcast.dim_exprs = dim_exprs;
  return Emit(std::move(broadcast), loc, position);
}

namespace {

// Operations whose constants are fractions by nature: sqrt(64) is of f32.
bool WantsFloat(Op op) {
  switch (op) {
    case Op::kAbs:
    case Op::kSign:
    case Op::kNegate:
    case Op::kNot:
    case Op::kPopcnt:
    case Op::kCountLeadingZeros:
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kShiftLeft:
    case Op::kShiftRightArithmetic:
    case Op::kShiftRightLogical:
    case Op::kCompare:
    case Op::kSelect:
    case Op::kClamp:
    case Op::kMulhi:
      return false;
    default:
      return true;
  }
}

// The dimensions that all operands stretch to, as NumPy has them; false with the two that differ.
bool StretchedDims(const std::vector<const Shape*>& shapes, Dims* result) {
  for (const Shape* s : shapes) {
    while (result->size() < s->dims.size()) result->insert(result->begin(), 1);
  }
  for (const Shape* s : shapes) {
    const size_t shift = result->size() - s->dims.size();
    for (size_t e = 0; e < s->dims.size(); ++e) {
      int64_t& d = (*result)[e + shift];
      if (d == 1) {
        d = s->dims[e];
      } else if (s->dims[e] != 1 && s->dims[e] != d) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Value KernelElaborator::Elementwise(Op op, std::vector<Value> args, std::vector<Attr> attrs,
                                    Loc loc) {
  // The predicate of a select has a type of its own; the others share one.
  const size_t group = op == Op::kSelect ? 1 : 0;
  std::optional<Type> type;
  bool any_float = WantsFloat(op);
  for (size_t i = group; i < args.size(); ++i) {
    if (!args[i]) return {};
    if (!args[i].weak() && !type) type = ShapeOf(args[i]).type;
    any_float |= args[i].kind == Value::Kind::kFloat;
  }
  if (group == 1 && !args.empty() && !args[0]) return {};
  if (!type && group < args.size()) {
    type = args[group].kind == Value::Kind::kBool ? Type::kPred
           : any_float                            ? Type::kF32
                                                  : Type::kS32;
  }
  std::vector<const Shape*> shapes;
  std::vector<Shape> held;
  for (const Value& v : args) {
    if (!v.weak()) held.push_back(ShapeOf(v));
  }
  for (const Shape& s : held) shapes.push_back(&s);
  Dims dims;
  if (!StretchedDims(shapes, &dims)) {
    std::string list;
    for (const Shape& s : held) {
      absl::StrAppend(&list, list.empty() ? "" : " and ", ToString(s, false));
    }
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat("operands of ", std::string(OpName(op)),
                       " do not stretch to one shape: ", list),
          "shapes align at the last dimension; broadcast(x, [...], dims={0}) aligns otherwise");
    return {};
  }
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.operands.resize(args.size());
  // From the last to the first: positions before stay valid.
  for (size_t i = args.size(); i-- > 0;) {
    Value& v = args[i];
    NodeId id = v.node;
    size_t position = v.end;
    if (v.weak()) {
      id = Materialize(v, i < group ? Type::kPred : *type, position++);
      if (id < 0) return {};
    }
    node.operands[i] = BroadcastTo(id, dims, loc, position);
    if (node.operands[i] < 0) return {};
  }
  if (op == Op::kReducePrecision) {
    node.shape = Shape::Array(*type, dims);
  }
  return EmitHlo(std::move(node), loc);
}

}  // namespace tpuc::kernel_text
