// Elaboration of operations written as calls: dot(x, w), sum(x, axis=1), convert(x, bf16) ...
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/node_shape.h"
#include "grammar/kernel/elaborate.h"
#include "grammar/kernel/op_names.h"
#include "src/ir/op_table.h"

namespace tpuc::kernel_text {

using kernel::Node;

const Expr* KernelElaborator::Arguments::Named(absl::string_view name) const {
  for (const auto& [n, e] : named) {
    if (n == name) return e;
  }
  return nullptr;
}

bool KernelElaborator::CheckNamed(const Arguments& args, absl::Span<const absl::string_view> known,
                                  Loc loc) {
  for (const auto& [name, e] : args.named) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::vector<std::string> names(known.begin(), known.end());
    const std::string nearest = NearestName(name, names);
    Error(DiagCode::kKernelName, e->loc, absl::StrCat("no argument is called ", name),
          nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
    return false;
  }
  return true;
}

bool KernelElaborator::CheckCount(const Arguments& args, size_t least, size_t most,
                                  absl::string_view what, Loc loc) {
  const size_t n = args.positional.size();
  if (n >= least && n <= most) return true;
  Error(DiagCode::kKernelShape, loc, absl::StrCat(n, " arguments, expected ", what));
  return false;
}

bool KernelElaborator::TypeArgument(const Expr& e, Type* type) {
  const std::optional<Type> t = e.kind == Expr::Kind::kName ? TypeNamed(e.text) : std::nullopt;
  if (!t || ClassOf(*t) == TypeClass::kOther) {
    Error(DiagCode::kKernelShape, e.loc,
          absl::StrCat("expected an element type such as bf16, found ", PrintSyntax(e)));
    return false;
  }
  *type = *t;
  return true;
}

// f32(0.5): a constant that has its type.
Value KernelElaborator::CallTyped(Type type, const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) || !CheckCount(args, 1, 1, "one constant", loc)) return {};
  const Value v = Eval(*args.positional[0]);
  if (!v) return {};
  if (!v.weak()) {
    Error(DiagCode::kKernelShape, loc, "a type is given to constants only",
          absl::StrCat("convert(..., ", std::string(TypeName(type)), ")"));
    return {};
  }
  const NodeId node = Materialize(v, type, region_->nodes.size());
  return node < 0 ? Value() : NodeValue(node, loc);
}

namespace {

Type DefaultDotType(Type operand) {
  if (IsFloat(operand)) return operand == Type::kF64 ? operand : Type::kF32;
  if (IsInteger(operand) || operand == Type::kPred) {
    return BitsOf(operand) > 32 ? operand : Type::kS32;
  }
  return operand;
}

}  // namespace

Value KernelElaborator::CallDot(const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {
      "lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch", "type",
      "precision",       "algorithm"};
  if (!CheckNamed(args, kNamed, loc) || !CheckCount(args, 2, 2, "dot(lhs, rhs)", loc)) return {};
  Node n;
  n.op = Op::kDot;
  bool transposed[2];
  int ranks[2];
  for (int side = 0; side < 2; ++side) {
    const Expr* e = args.positional[side];
    transposed[side] = e->kind == Expr::Kind::kTranspose;
    Value v = Eval(transposed[side] ? e->args[0] : *e);
    if (!AsNode(&v)) return {};
    ranks[side] = ShapeOf(v).rank();
    if (transposed[side] && ranks[side] != 2) {
      Error(DiagCode::kKernelShape, e->loc, "^T is for values of rank 2");
      return {};
    }
    n.operands.push_back(v.node);
  }
  Type type = DefaultDotType(kernel_.nodes[n.operands[0]].shape.type);
  if (const Expr* e = args.Named("type")) {
    if (!TypeArgument(*e, &type)) return {};
  }
  n.shape = Shape::Array(type, {});
  static constexpr std::pair<const char*, AttrId> kDims[] = {
      {"lhs_batch", AttrId::kLhsBatchDims},
      {"lhs_contracting", AttrId::kLhsContractingDims},
      {"rhs_batch", AttrId::kRhsBatchDims},
      {"rhs_contracting", AttrId::kRhsContractingDims}};
  for (const auto& [name, id] : kDims) {
    const Expr* e = args.Named(name);
    Ints dims;
    if (e != nullptr && !IntList(*e, &dims)) return {};
    if (e != nullptr) n.attrs.push_back({id, dims});
  }
  if (args.Named("lhs_contracting") == nullptr && args.Named("rhs_contracting") == nullptr) {
    if (std::max(ranks[0], ranks[1]) > 2 || std::min(ranks[0], ranks[1]) < 1) {
      Error(DiagCode::kKernelShape, loc, "dot of other ranks than 2 names its dimensions",
            "dot(x, w, lhs_contracting={2}, rhs_contracting={1}, lhs_batch={0}, rhs_batch={0})");
      return {};
    }
    n.attrs.push_back({AttrId::kLhsContractingDims, Ints{transposed[0] ? 0 : ranks[0] - 1}});
    n.attrs.push_back({AttrId::kRhsContractingDims, Ints{transposed[1] ? 1 : 0}});
  } else if (transposed[0] || transposed[1]) {
    Error(DiagCode::kKernelShape, loc, "^T and contracting dimensions in one dot");
    return {};
  }
  for (const auto& [name, id] : {std::pair{"precision", AttrId::kOperandPrecision},
                                 std::pair{"algorithm", AttrId::kAlgorithm}}) {
    const Expr* e = args.Named(name);
    Attr attr;
    if (e == nullptr) continue;
    if (!AttrFromArgument(Op::kDot, std::string(AttrName(id)), *e, &attr)) return {};
    n.attrs.push_back(std::move(attr));
  }
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallReduce(Op reducer, const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"axis", "keepdims", "op"};
  if (!CheckNamed(args, kNamed, loc) || !CheckCount(args, 1, 1, "one value", loc)) return {};
  Value v = Eval(*args.positional[0]);
  if (!AsNode(&v)) return {};
  Node n;
  n.op = Op::kReduce;
  n.reducer = reducer;
  n.operands = {v.node};
  Ints dims;
  if (const Expr* e = args.Named("axis")) {
    if (!IntList(*e, &dims)) return {};
    for (int64_t& d : dims) {
      if (d < 0 && d >= -ShapeOf(v).rank()) d += ShapeOf(v).rank();
    }
  } else {
    for (int d = 0; d < ShapeOf(v).rank(); ++d) dims.push_back(d);
  }
  n.attrs = {{AttrId::kDimensions, dims}};
  const Shape operand = ShapeOf(v);
  Value result = EmitHlo(std::move(n), loc);
  const Expr* keep = args.Named("keepdims");
  if (!result || keep == nullptr || keep->text != "true") return result;
  Node reshape;
  reshape.op = Op::kReshape;
  reshape.operands = {result.node};
  reshape.shape = operand;
  for (int64_t d : dims) reshape.shape.dims[d] = 1;
  return EmitHlo(std::move(reshape), loc);
}

Value KernelElaborator::CallBroadcast(const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"dims"};
  if (!CheckNamed(args, kNamed, loc) ||
      !CheckCount(args, 2, 2, "broadcast(x, [...], dims={...})", loc)) {
    return {};
  }
  Value v = Eval(*args.positional[0]);
  if (!AsNode(&v)) return {};
  Dims dims;
  std::vector<KernelExpr> exprs;
  if (!DimList(*args.positional[1], &dims, &exprs)) return {};
  const Expr* e = args.Named("dims");
  if (e == nullptr && ShapeOf(v).rank() > 0) {
    const NodeId node = BroadcastTo(v.node, dims, loc, region_->nodes.size(), exprs);
    return node < 0 ? Value() : NodeValue(node, loc);
  }
  Ints mapping;
  if (e != nullptr && !IntList(*e, &mapping)) return {};
  Node n;
  n.op = Op::kBroadcast;
  n.operands = {v.node};
  n.shape = Shape::Array(ShapeOf(v).type, dims);
  n.attrs = {{AttrId::kDimensions, mapping}};
  n.dim_exprs = std::move(exprs);
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallIota(const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"dim", "type"};
  if (!CheckNamed(args, kNamed, loc) || !CheckCount(args, 1, 1, "iota([...], dim=0)", loc))
    return {};
  Node n;
  n.op = Op::kIota;
  Type type = Type::kS32;
  if (const Expr* e = args.Named("type")) {
    if (!TypeArgument(*e, &type)) return {};
  }
  int64_t dim = 0;
  if (const Expr* e = args.Named("dim")) {
    if (!StaticInt(*e, &dim)) return {};
  }
  n.shape = Shape::Array(type, {});
  if (!DimList(*args.positional[0], &n.shape.dims, &n.dim_exprs)) return {};
  n.attrs = {{AttrId::kIotaDimension, dim}};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallTranspose(const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) || !CheckCount(args, 2, 2, "transpose(x, {1, 0})", loc)) return {};
  Value v = Eval(*args.positional[0]);
  if (!AsNode(&v)) return {};
  Ints permutation;
  if (!IntList(*args.positional[1], &permutation)) return {};
  Node n;
  n.op = Op::kTranspose;
  n.operands = {v.node};
  n.attrs = {{AttrId::kDimensions, permutation}};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallReshape(const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) || !CheckCount(args, 2, 2, "reshape(x, [...])", loc)) return {};
  Value v = Eval(*args.positional[0]);
  if (!AsNode(&v)) return {};
  Node n;
  n.op = Op::kReshape;
  n.operands = {v.node};
  n.shape = Shape::Array(ShapeOf(v).type, {});
  if (!DimList(*args.positional[1], &n.shape.dims, &n.dim_exprs)) return {};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallSlice(const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) || !CheckCount(args, 2, 2, "slice(x, [0:8, :])", loc)) return {};
  Value v = Eval(*args.positional[0]);
  if (!AsNode(&v)) return {};
  const Expr& ranges = *args.positional[1];
  if (ranges.kind != Expr::Kind::kList) {
    Error(DiagCode::kKernelShape, ranges.loc, "expected ranges such as [0:8, :]");
    return {};
  }
  return SliceValue(v, ranges.args, loc);
}

Value KernelElaborator::CallDynamicSlice(const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"sizes"};
  const Expr* sizes = args.Named("sizes");
  if (!CheckNamed(args, kNamed, loc)) return {};
  if (args.positional.empty() || sizes == nullptr) {
    Error(DiagCode::kKernelShape, loc, "expected dynamic_slice(x, i, j, sizes=[...])");
    return {};
  }
  Node n;
  n.op = Op::kDynamicSlice;
  for (const Expr* e : args.positional) {
    Value v = Eval(*e);
    if (!AsNode(&v)) return {};
    n.operands.push_back(v.node);
  }
  n.shape = Shape::Array(kernel_.nodes[n.operands[0]].shape.type, {});
  if (!DimList(*sizes, &n.shape.dims, &n.dim_exprs)) return {};
  n.attrs = {{AttrId::kDynamicSliceSizes, Ints(n.shape.dims.begin(), n.shape.dims.end())}};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallConcat(const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"axis"};
  if (!CheckNamed(args, kNamed, loc)) return {};
  int64_t axis = 0;
  const Expr* e = args.Named("axis");
  if (e != nullptr && !StaticInt(*e, &axis)) return {};
  Node n;
  n.op = Op::kConcatenate;
  for (const Expr* a : args.positional) {
    Value v = Eval(*a);
    if (!AsNode(&v)) return {};
    n.operands.push_back(v.node);
  }
  if (axis < 0 && !n.operands.empty()) axis += kernel_.nodes[n.operands[0]].shape.rank();
  n.attrs = {{AttrId::kDimensions, Ints{axis}}};
  return EmitHlo(std::move(n), loc);
}

// pad(x, value, [low:high, low:high:interior])
Value KernelElaborator::CallPad(const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) ||
      !CheckCount(args, 3, 3, "pad(x, value, [low:high, ...])", loc)) {
    return {};
  }
  Value v = Eval(*args.positional[0]);
  if (!AsNode(&v)) return {};
  Value value = Eval(*args.positional[1]);
  if (!value) return {};
  Node n;
  n.op = Op::kPad;
  n.operands = {v.node, value.node};
  if (value.weak()) {
    n.operands[1] = Materialize(value, ShapeOf(v).type, region_->nodes.size());
    if (n.operands[1] < 0) return {};
  }
  std::vector<PadDim> pads;
  for (const Expr& r : args.positional[2]->args) {
    PadDim p;
    const bool range = args.positional[2]->kind == Expr::Kind::kList &&
                       r.kind == Expr::Kind::kRange && r.text == ":";
    if (!range || r.args[0].kind == Expr::Kind::kEmpty || r.args[1].kind == Expr::Kind::kEmpty) {
      Error(DiagCode::kKernelShape, r.loc,
            "padding of a dimension is low:high or low:high:interior");
      return {};
    }
    if (!StaticInt(r.args[0], &p.low) || !StaticInt(r.args[1], &p.high)) return {};
    if (r.args[2].kind != Expr::Kind::kEmpty && !StaticInt(r.args[2], &p.interior)) return {};
    pads.push_back(p);
  }
  n.attrs = {{AttrId::kPadding, std::move(pads)}};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallReverse(const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) || !CheckCount(args, 2, 2, "reverse(x, {0})", loc)) return {};
  Value v = Eval(*args.positional[0]);
  if (!AsNode(&v)) return {};
  Ints dims;
  if (!IntList(*args.positional[1], &dims)) return {};
  Node n;
  n.op = Op::kReverse;
  n.operands = {v.node};
  n.attrs = {{AttrId::kDimensions, dims}};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallConvert(Op op, const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) || !CheckCount(args, 2, 2, "a value and a type", loc)) return {};
  Value v = Eval(*args.positional[0]);
  Type type;
  if (!AsNode(&v) || !TypeArgument(*args.positional[1], &type)) return {};
  Node n;
  n.op = op;
  n.operands = {v.node};
  n.shape = Shape::Array(
      type, op == Op::kBitcastConvert ? kernel::BitcastDims(ShapeOf(v), type) : ShapeOf(v).dims);
  return EmitHlo(std::move(n), loc);
}

// Attributes as HLO names them: {0, 1}, 3, true, a word, {words}.
bool KernelElaborator::AttrFromArgument(Op op, const std::string& name, const Expr& value,
                                        Attr* attr) {
  if (!AttrOf(op, name, &attr->id)) {
    Error(DiagCode::kKernelName, value.loc,
          absl::StrCat(std::string(OpName(op)), " has no attribute ", name));
    return false;
  }
  const auto word = [](const Expr& e) {
    return e.kind == Expr::Kind::kName || e.kind == Expr::Kind::kString;
  };
  switch (InfoOf(attr->id).form) {
    case AttrForm::kInts:
    case AttrForm::kIntsOrLists: {
      Ints ints;
      if (!IntList(value, &ints)) return false;
      attr->value = std::move(ints);
      return true;
    }
    case AttrForm::kInt: {
      int64_t i = 0;
      if (!StaticInt(value, &i)) return false;
      attr->value = i;
      return true;
    }
    case AttrForm::kBool:
      if (!word(value)) break;
      attr->value = value.text == "true";
      return true;
    case AttrForm::kWord:
      if (!word(value)) break;
      attr->value = value.text;
      return true;
    case AttrForm::kWords: {
      std::vector<std::string> words;
      for (const Expr& e : value.args) words.push_back(e.text);
      if (value.kind != Expr::Kind::kSet ||
          !std::all_of(value.args.begin(), value.args.end(), word)) {
        break;
      }
      attr->value = std::move(words);
      return true;
    }
    default:
      break;
  }
  Error(DiagCode::kKernelShape, value.loc,
        absl::StrCat(PrintSyntax(value), " is not a value of the attribute ", name));
  return false;
}

Value KernelElaborator::CallOp(Op op, const Arguments& args, Loc loc) {
  Node n;
  n.op = op;
  for (const auto& [name, e] : args.named) {
    Attr attr;
    if (!AttrFromArgument(op, name, *e, &attr)) return {};
    n.attrs.push_back(std::move(attr));
  }
  std::vector<Value> values;
  for (const Expr* e : args.positional) {
    values.push_back(Eval(*e));
    if (!values.back()) return {};
    values.back().end = region_->nodes.size();
  }
  const OpInfo& info = InfoOf(op);
  if (info.op_class == OpClass::kElementwise) {
    if (static_cast<int>(values.size()) != info.min_operands) {
      Error(DiagCode::kKernelShape, loc,
            absl::StrCat(CallName(op), " takes ", info.min_operands, " arguments, not ",
                         values.size()));
      return {};
    }
    return Elementwise(op, std::move(values), std::move(n.attrs), loc);
  }
  for (size_t i = values.size(); i-- > 0;) {
    if (!AsNode(&values[i])) return {};
  }
  for (const Value& v : values) n.operands.push_back(v.node);
  if (op == Op::kDynamicUpdateSlice && !values.empty()) n.shape = ShapeOf(values[0]);
  return EmitHlo(std::move(n), loc);
}

// What parameters decide is not looked at.
Value KernelElaborator::CallSelect(const Arguments& args, Loc loc) {
  std::vector<Value> values;
  for (const Expr* e : args.positional) {
    values.push_back(Eval(*e));
    if (!values.back()) return {};
    values.back().end = region_->nodes.size();
    if (values.size() == 1 && values[0].kind == Value::Kind::kBool) {
      return Eval(*args.positional[values[0].integer != 0 ? 1 : 2]);
    }
  }
  return Elementwise(Op::kSelect, std::move(values), {}, loc);
}

Value KernelElaborator::EvalCall(const Expr& e) {
  Arguments args;
  for (const Expr& a : e.args) {
    if (a.kind == Expr::Kind::kNamed) {
      args.named.push_back({a.text, &a.args[0]});
    } else {
      args.positional.push_back(&a);
    }
  }
  const std::string& f = e.text;
  const auto function = functions_.find(f);
  if (function != functions_.end()) return CallFunction(*function->second, args, e.loc);
  if (f == "multiple_of") {
    Error(DiagCode::kKernelSlice, e.loc,
          "multiple_of stands at the start of a range: x[multiple_of(i, 8) :+ 8, :]");
    return {};
  }
  if (f == "num" || f == "num_programs" || f == "program_id") {
    const Expr* axis = args.positional.size() == 1 ? args.positional[0] : nullptr;
    const Symbol* s =
        axis != nullptr && axis->kind == Expr::Kind::kName ? Find(axis->text) : nullptr;
    if (s == nullptr || s->kind != Symbol::Kind::kAxis) {
      Error(DiagCode::kKernelName, e.loc, absl::StrCat(f, " takes the name of a grid axis"));
      return {};
    }
    const bool id = f == "program_id";
    return AxisValue(id ? Node::Kind::kAxis : Node::Kind::kNumAxis, s->index, e.loc);
  }
  if (f == "take") return CallTake(args, e.loc);
  if (f == "pack") return CallPackWords(args, e.loc);
  if (f == "unpack") return CallUnpack(args, e.loc);
  if (const std::optional<Type> type = TypeNamed(f)) return CallTyped(*type, args, e.loc);
  if (const Symbol* s = Find(f); s != nullptr && s->kind == Symbol::Kind::kMask) {
    return CallMask(s->index, args, e.loc);
  }
  Op reducer;
  if (ReducerOf(f, &reducer) && args.positional.size() == 1) {
    return CallReduce(reducer, args, e.loc);
  }
  if (f == "reduce") {
    const Expr* op = args.Named("op");
    if (op == nullptr || !OpOfCall(op->text, &reducer) ||
        (reducer != Op::kAdd && reducer != Op::kMultiply && reducer != Op::kMaximum &&
         reducer != Op::kMinimum && reducer != Op::kAnd && reducer != Op::kOr &&
         reducer != Op::kXor)) {
      Error(DiagCode::kKernelShape, e.loc,
            "reduce needs op=add, multiply, maximum, minimum, and, or, xor");
      return {};
    }
    return CallReduce(reducer, args, e.loc);
  }
  if ((f == "cdiv" || f == "min" || f == "max") && args.positional.size() == 2 &&
      args.named.empty()) {
    Value a = Eval(*args.positional[0]);
    if (a) a.end = region_->nodes.size();
    Value b = Eval(*args.positional[1]);
    if (!a || !b) return {};
    if (a.kind == Value::Kind::kInteger && b.kind == Value::Kind::kInteger) {
      return FoldIntegers(f, a, b, e.loc);
    }
    if (f == "cdiv") {
      Error(DiagCode::kKernelShape, e.loc, "cdiv is for integers known before the kernel runs");
      return {};
    }
    std::vector<Value> values;
    values.push_back(std::move(a));
    values.push_back(std::move(b));
    return Elementwise(f == "min" ? Op::kMinimum : Op::kMaximum, std::move(values), {}, e.loc);
  }
  if (f == "exp2" && args.positional.size() == 1 && args.named.empty()) {
    Value two;
    two.kind = Value::Kind::kFloat;
    two.text = "2";
    two.loc = e.loc;
    two.end = region_->nodes.size();
    return Elementwise(Op::kPower, {two, Eval(*args.positional[0])}, {}, e.loc);
  }
  if (f == "select" && args.positional.size() == 3 && args.named.empty()) {
    return CallSelect(args, e.loc);
  }
  Value moved;
  if (CallMove(f, args, e.loc, &moved)) return moved;
  Op op;
  if (!OpOfCall(f, &op)) {
    std::vector<std::string> known = {
        "exp2",   "sum",         "prod",   "max",    "min",     "all",       "any",    "cdiv",
        "num",    "roll",        "repeat", "cumsum", "cumprod", "cummax",    "cummin", "argmax",
        "argmin", "random_bits", "pack",   "unpack", "take",    "program_id"};
    for (const OpInfo& info : OpTable()) known.push_back(CallName(info.op));
    const std::string nearest = NearestName(f, known);
    Error(DiagCode::kKernelName, e.loc, absl::StrCat("no operation is called ", f),
          nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
    return {};
  }
  switch (op) {
    case Op::kDot:
      return CallDot(args, e.loc);
    case Op::kBroadcast:
      return CallBroadcast(args, e.loc);
    case Op::kIota:
      return CallIota(args, e.loc);
    case Op::kTranspose:
      return CallTranspose(args, e.loc);
    case Op::kReshape:
      return CallReshape(args, e.loc);
    case Op::kSlice:
      return CallSlice(args, e.loc);
    case Op::kDynamicSlice:
      return CallDynamicSlice(args, e.loc);
    case Op::kConcatenate:
      return CallConcat(args, e.loc);
    case Op::kPad:
      return CallPad(args, e.loc);
    case Op::kReverse:
      return CallReverse(args, e.loc);
    case Op::kConvert:
    case Op::kBitcastConvert:
      return CallConvert(op, args, e.loc);
    default:
      return CallOp(op, args, e.loc);
  }
}

}  // namespace tpuc::kernel_text
