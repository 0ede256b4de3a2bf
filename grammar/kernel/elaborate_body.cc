// Elaboration of statements and of expressions that are not calls (elaborate.h).
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/mask.h"
#include "grammar/kernel/elaborate.h"
#include "grammar/kernel/op_names.h"

namespace tpuc::kernel_text {

using kernel::Node;
using kernel::Ref;
using kernel::Slice;

void KernelElaborator::Body(const std::vector<Statement>& statements) {
  for (const Statement& s : statements) {
    switch (s.kind) {
      case Statement::Kind::kAssign:
        Assign(s);
        break;
      case Statement::Kind::kStore:
        Store(s);
        break;
      case Statement::Kind::kWhen:
        When(s);
        break;
      case Statement::Kind::kFor:
        For(s);
        break;
      case Statement::Kind::kCopy:
      case Statement::Kind::kWaitCopy:
        Copy(s);
        break;
      case Statement::Kind::kSignal:
      case Statement::Kind::kWait:
        Signal(s);
        break;
      case Statement::Kind::kWhile:
        While(s);
        break;
      case Statement::Kind::kPipeline:
        Pipeline(s);
        break;
      case Statement::Kind::kCall:
        CallStatement(s);
        break;
      case Statement::Kind::kAssert:
        Assert(s);
        break;
    }
  }
}

void KernelElaborator::Assign(const Statement& s) {
  Value v = Eval(s.value);
  if (!v) {  // what uses it is not reported again
    if (Find(s.name) == nullptr) scopes_.back()[s.name] = {Symbol::Kind::kValue, 0, {}};
    return;
  }
  if (!v.weak() && kernel_.nodes[v.node].name.empty()) kernel_.nodes[v.node].name = s.name;
  Define(s.name, s.loc, {Symbol::Kind::kValue, 0, std::move(v)});
}

// A value as what a store to `shape` takes: constants by its type, scalars and smaller blocks
// stretched.
NodeId KernelElaborator::StoreValue(Value value, const Shape& shape, Loc loc) {
  if (!value) return -1;
  if (value.weak()) {
    value.node = Materialize(value, shape.type, value.end);
    if (value.node < 0) return -1;
    value.kind = Value::Kind::kNode;
    value.end += 1;
  }
  if (ShapeOf(value).type != shape.type) {
    Error(
        DiagCode::kKernelShape, loc,
        absl::StrCat("store of ", ToString(ShapeOf(value), false), " to ", ToString(shape, false)),
        absl::StrCat("convert(..., ", std::string(TypeName(shape.type)), ")"));
    return -1;
  }
  return BroadcastTo(value.node, shape.dims, loc, value.end);
}

void KernelElaborator::Store(const Statement& s) {
  const Expr& name = s.target.args[0];
  const Symbol* symbol = Find(name.text);
  if (symbol == nullptr || symbol->kind != Symbol::Kind::kRef) {
    Error(
        DiagCode::kKernelName, name.loc,
        absl::StrCat(name.text, symbol == nullptr ? " is unknown" : " is not an output or scratch"),
        DidYouMean(name.text));
    return;
  }
  const int ref = static_cast<int>(symbol->index);
  if (kernel_.refs[ref].role == Ref::Role::kIn || kernel_.refs[ref].role == Ref::Role::kPrefetch) {
    Error(DiagCode::kKernelBody, name.loc,
          absl::StrCat(name.text, " is an input: inputs are read only (PS-3.7)"));
    return;
  }
  if (!Addressable(ref, name.loc)) return;
  const Shape block = kernel_.refs[ref].BlockShape();
  const absl::Span<const Expr> ranges(s.target.args.data() + 1, s.target.args.size() - 1);
  Node store;
  store.kind = Node::Kind::kStore;
  store.ref = ref;
  store.shape = Shape::Tuple({});
  std::vector<bool> dropped;
  std::vector<SliceDim> strides;
  Picked picked;
  const bool smem = kernel_.refs[ref].space == Ref::Space::kSmem;
  if (!SlicesOf(block, ranges, s.loc, &store.slices, &strides, &dropped,
                smem ? nullptr : &picked)) {
    return;
  }
  if (picked.dim >= 0 && s.op != "=") {
    return Error(DiagCode::kKernelBody, s.loc,
                 absl::StrCat(s.op, " to rows picked by a vector: a row may be named twice"),
                 "for i in 0..n { o[t[i], :] += v[i, :]; } does one after the other");
  }
  Shape shape = Shape::Array(block.type, {});
  Dims full;
  if (smem && !OneScalar(store, dropped, s.loc)) return;
  for (size_t d = 0; d < store.slices.size() && !smem; ++d) {
    const int64_t step = strides[d].stride;
    full.push_back((store.slices[d].size + step - 1) / step);
    if (picked.dim == static_cast<int>(d)) full.back() = kernel_.nodes[picked.index].shape.dims[0];
    if (!dropped[d]) shape.dims.push_back(full.back());
  }
  Value value;
  if (s.op == "=") {
    value = Eval(s.value);
  } else {
    Value old = EvalIndex(s.target);
    Value right = Eval(s.value);
    if (!old || !right) return;
    Op op;
    if (!OpOfInfix(absl::string_view(s.op).substr(0, 1), &op)) return;
    std::vector<Value> args;
    args.push_back(std::move(old));
    args.push_back(std::move(right));
    value = Elementwise(op, std::move(args), {}, s.loc);
  }
  NodeId node = StoreValue(std::move(value), shape, s.loc);
  if (node < 0) return;
  NodeId mask = -1;
  if (!s.where.empty()) {
    mask = StoreValue(Eval(s.where[0]), Shape::Array(Type::kPred, shape.dims), s.loc);
    if (mask < 0) return;
  }
  if (full.size() != shape.dims.size()) {  // x[3, :] = row
    node = ReshapeTo(node, full, s.loc);
    if (mask >= 0) mask = ReshapeTo(mask, full, s.loc);
  }
  if (picked.dim >= 0) return StoreRows(std::move(store), picked, node, mask, s.loc);
  if (!Spread(strides, s.loc, &node, &mask)) return;
  store.operands = {node};
  if (mask >= 0) store.operands.push_back(mask);
  Emit(std::move(store), s.loc);
}

void KernelElaborator::Assert(const Statement& s) {
  kernel::Assert a;
  a.message = s.message;
  a.cmp = s.value.text;
  if (s.value.kind != Expr::Kind::kBinary || DirectionOf(a.cmp).empty()) {
    Error(DiagCode::kKernelParam, s.loc, "assert needs a comparison of integer expressions");
    return;
  }
  int64_t l = 0, r = 0;
  if (!Static(s.value.args[0], false, &a.lhs, &l) || !Static(s.value.args[1], false, &a.rhs, &r)) {
    return;
  }
  const bool holds = a.cmp == "=="   ? l == r
                     : a.cmp == "!=" ? l != r
                     : a.cmp == "<"  ? l < r
                     : a.cmp == "<=" ? l <= r
                     : a.cmp == ">"  ? l > r
                                     : l >= r;
  if (!holds) {
    Error(DiagCode::kKernelAssert, s.loc,
          absl::StrCat(a.message, ": ", PrintSyntax(s.value), " is ", l, " ", a.cmp, " ", r));
  }
  kernel_.asserts.push_back(std::move(a));
}

Value KernelElaborator::EvalName(const Expr& e) {
  Value v;
  v.loc = e.loc;
  v.end = region_->nodes.size();
  if (e.text == "true" || e.text == "false") {
    v.kind = Value::Kind::kBool;
    v.integer = e.text == "true";
    return v;
  }
  if (e.text == "inf" || e.text == "nan") {
    v.kind = Value::Kind::kFloat;
    v.text = e.text;
    return v;
  }
  const Symbol* s = Find(e.text);
  if (s == nullptr && BlocksNumber(e.text, &v.expr)) {
    v.kind = Value::Kind::kInteger;
    v.integer = kernel_.blocks[v.expr.value].tables->Count(v.expr.args[0].value);
    return v;
  }
  if (s == nullptr) {
    Error(DiagCode::kKernelName, e.loc, absl::StrCat("unknown name ", e.text), DidYouMean(e.text));
    return {};
  }
  Node n;
  switch (s->kind) {
    case Symbol::Kind::kParam:
      v.kind = Value::Kind::kInteger;
      v.expr = KernelExpr::Param(s->index);
      v.integer = kernel_.params[s->index].value;
      return v;
    case Symbol::Kind::kRef:
      Error(DiagCode::kKernelBody, e.loc, absl::StrCat(e.text, " is an operand, not a value"),
            absl::StrCat("load it: ", e.text, "[:]"));
      return {};
    case Symbol::Kind::kNumber:
    case Symbol::Kind::kValue:
      v = s->value;
      v.loc = e.loc;
      v.end = region_->nodes.size();
      return v;
    case Symbol::Kind::kArray:
      Error(DiagCode::kKernelBody, e.loc,
            absl::StrCat(e.text, " is an array for masks, which a body cannot read"),
            "mixed blocks of a mask are a table: in p = B.patterns block [squeeze, bq, bkv] "
            "at (next[t], 0, 0)");
      return {};
    case Symbol::Kind::kType:
    case Symbol::Kind::kMask:
    case Symbol::Kind::kBlocks:
      Error(DiagCode::kKernelBody, e.loc, absl::StrCat(e.text, " is not a value"));
      return {};
    case Symbol::Kind::kAxis:
      return AxisValue(Node::Kind::kAxis, s->index, e.loc);
    case Symbol::Kind::kLoop:
      n.kind = Node::Kind::kLoopIndex;
      n.axis = loops_ - 1 - static_cast<int>(s->index);
      break;
  }
  n.shape = Shape::Array(Type::kS32, {});
  return NodeValue(Emit(std::move(n), e.loc), e.loc);
}

Value KernelElaborator::EvalUnary(const Expr& e) {
  Value v = Eval(e.args[0]);
  if (!v) return {};
  const bool minus = e.text == "-";
  if (v.kind == Value::Kind::kInteger && minus) {
    if (v.expr.kind == KernelExpr::Kind::kConst) {
      v.expr.value = -v.expr.value;
    } else {
      v.expr = kernel::MakeExpr(KernelExpr::Kind::kNeg, {v.expr});
    }
    v.integer = static_cast<int64_t>(0 - static_cast<uint64_t>(v.integer));
    return v;
  }
  if (v.kind == Value::Kind::kFloat && minus) {
    v.text = v.text[0] == '-' ? v.text.substr(1) : absl::StrCat("-", v.text);
    return v;
  }
  if (v.kind == Value::Kind::kBool && !minus) {
    v.integer = !v.integer;
    return v;
  }
  std::vector<Value> args;
  args.push_back(std::move(v));
  return Elementwise(minus ? Op::kNegate : Op::kNot, std::move(args), {}, e.loc);
}

namespace {

template <typename T>
bool Holds(const std::string& op, T x, T y) {
  return op == "=="   ? x == y
         : op == "!=" ? x != y
         : op == "<"  ? x < y
         : op == "<=" ? x <= y
         : op == ">"  ? x > y
                      : x >= y;
}

}  // namespace

Value KernelElaborator::FoldIntegers(const std::string& op, const Value& a, const Value& b,
                                     Loc loc) {
  Value v;
  v.loc = loc;
  v.end = b.end;
  if (!DirectionOf(op).empty()) {
    v.kind = Value::Kind::kBool;
    v.integer = Holds(op, a.integer, b.integer);
    return v;
  }
  static constexpr std::pair<const char*, KernelExpr::Kind> kOps[] = {
      {"+", KernelExpr::Kind::kAdd},   {"-", KernelExpr::Kind::kSub},
      {"*", KernelExpr::Kind::kMul},   {"/", KernelExpr::Kind::kDiv},
      {"%", KernelExpr::Kind::kMod},   {"cdiv", KernelExpr::Kind::kCdiv},
      {"min", KernelExpr::Kind::kMin}, {"max", KernelExpr::Kind::kMax}};
  for (const auto& [text, kind] : kOps) {
    if (op != text) continue;
    v.kind = Value::Kind::kInteger;
    v.expr = kernel::MakeExpr(kind, {a.expr, b.expr});
    const auto result = kernel::EvaluateExpr(v.expr, KnownValues());
    if (!result || (op == "/" && a.integer % b.integer != 0)) {
      Error(DiagCode::kKernelParam, loc,
            absl::StrCat(a.integer, " ", op, " ", b.integer,
                         result ? " does not divide" : " has no value"),
            result ? "cdiv(a, b) rounds up; 1.0 / 64 is a fraction" : "");
      return {};
    }
    // Constants fold; what names a parameter stays as written.
    if (!kernel::UsesParam(v.expr)) v.expr = KernelExpr::Const(*result);
    v.integer = *result;
    return v;
  }
  Error(DiagCode::kKernelShape, loc, absl::StrCat("'", op, "' of constants"));
  return {};
}

// Arithmetic on numbers without a type is done at once, in f64.
Value KernelElaborator::FoldBinary(const std::string& op, const Value& a, const Value& b, Loc loc) {
  if (a.kind == Value::Kind::kInteger && b.kind == Value::Kind::kInteger) {
    return FoldIntegers(op, a, b, loc);
  }
  const auto number = [](const Value& v) {
    double d = static_cast<double>(v.integer);
    if (v.kind == Value::Kind::kFloat && !absl::SimpleAtod(v.text, &d)) d = 0;
    return d;
  };
  Value v;
  v.loc = loc;
  v.end = b.end;
  if (a.kind == Value::Kind::kBool && b.kind == Value::Kind::kBool && op != "^" &&
      op.find_first_not_of("&|") == std::string::npos) {
    v.kind = Value::Kind::kBool;
    v.integer = op[0] == '&' ? a.integer & b.integer : a.integer | b.integer;
    return v;
  }
  const double x = number(a), y = number(b);
  if (!DirectionOf(op).empty() && a.kind != Value::Kind::kBool && b.kind != Value::Kind::kBool) {
    v.kind = Value::Kind::kBool;
    v.integer = Holds(op, x, y);
    return v;
  }
  if (a.kind == Value::Kind::kBool || b.kind == Value::Kind::kBool || op.size() != 1 ||
      absl::string_view("+-*/").find(op[0]) == absl::string_view::npos) {
    Error(DiagCode::kKernelShape, loc, absl::StrCat("'", op, "' of constants"),
          "give one of them a type: f32(...)");
    return {};
  }
  const double r = op == "+" ? x + y : op == "-" ? x - y : op == "*" ? x * y : x / y;
  char text[40];
  snprintf(text, sizeof text, "%.17g", r);
  v.kind = Value::Kind::kFloat;
  v.text = text;
  return v;
}

Value KernelElaborator::EvalBinary(const Expr& e) {
  Value a = Eval(e.args[0]);
  if (a) a.end = region_->nodes.size();
  const bool logical = e.text == "&&" || e.text == "||";
  if (logical && a.kind == Value::Kind::kBool) {  // what parameters decide is not looked at
    const bool neutral = e.text == "&&";
    return (a.integer != 0) == neutral ? Eval(e.args[1]) : a;
  }
  Value b = Eval(e.args[1]);
  if (!a || !b) return {};
  if (logical && b.kind == Value::Kind::kBool) return (b.integer != 0) == (e.text == "&&") ? a : b;
  if (a.weak() && b.weak()) return FoldBinary(e.text, a, b, e.loc);
  if (logical) {
    for (const Value& v : {a, b}) {
      if (v.weak() || ShapeOf(v).type == Type::kPred) continue;
      Error(DiagCode::kKernelShape, e.loc,
            absl::StrCat("'", e.text, "' of ", ToString(ShapeOf(v), false), ": conditions only"));
      return {};
    }
  }
  std::vector<Value> args;
  args.push_back(std::move(a));
  args.push_back(std::move(b));
  const absl::string_view direction = DirectionOf(e.text);
  if (!direction.empty()) {
    return Elementwise(Op::kCompare, std::move(args),
                       {{AttrId::kDirection, std::string(direction)}}, e.loc);
  }
  Op op;
  if (!OpOfInfix(e.text == "&&" ? "&" : e.text == "||" ? "|" : e.text, &op)) return {};
  return Elementwise(op, std::move(args), {}, e.loc);
}

bool KernelElaborator::OneRange(const Expr& range, int64_t size, int dimension, Slice* slice,
                                SliceDim* stride, Picked* picked) {
  const auto bad = [&](std::string why) {
    Error(DiagCode::kKernelSlice, range.loc,
          absl::StrCat("range ", PrintSyntax(range), " of dimension ", dimension, " (", size,
                       " elements): ", why));
    return false;
  };
  int64_t limit = size;
  KernelExpr e;
  stride->stride = 1;
  if (range.kind != Expr::Kind::kRange ||
      range.text == ":+") {  // x[i] is x[i:+1] without the dimension
    const bool one = range.kind != Expr::Kind::kRange;
    slice->size = 1;
    if (!one && !Static(range.args[1], false, &e, &slice->size)) return false;
    if (!one && kernel::UsesParam(e)) slice->size_expr = {e};
    if (!one && range.args.size() > 2) {
      if (!StaticInt(range.args[2], &stride->stride)) return false;
      if (stride->stride < 1) return bad("the stride is not positive");
      slice->size = slice->size > 0 ? (slice->size - 1) * stride->stride + 1 : 0;
      if (stride->stride > 1) slice->size_expr.clear();
    }
    const Expr* text = nullptr;
    if (!Promise(one ? range : range.args[0], &text, &slice->multiple_of)) return false;
    Value start = Eval(*text);
    if (!start) return false;
    if (start.kind == Value::Kind::kInteger && start.integer % slice->multiple_of != 0) {
      return bad(
          absl::StrCat("the start ", start.integer, " is not a multiple of ", slice->multiple_of));
    }
    if (start.kind == Value::Kind::kInteger) slice->multiple_of = 1;  // seen, not promised
    if (start.kind == Value::Kind::kInteger) {
      slice->start = start.integer;
      if (kernel::UsesParam(start.expr)) slice->start_expr = {start.expr};
      limit = slice->start + slice->size;
    } else {
      const bool vector = one && picked != nullptr && !start.weak() && ShapeOf(start).rank() == 1;
      if (start.weak() || (!vector && !ShapeOf(start).IsScalar()) ||
          ShapeOf(start).type != Type::kS32) {
        return bad(one ? "the index is not an s32 scalar or vector"
                       : "the start is not an s32 scalar");
      }
      if (vector && picked->dim >= 0) return bad("a second index that is a vector");
      if (vector) {
        *picked = {dimension, start.node};
        slice->size = size;
        *stride = {0, size, 1};
        return true;
      }
      slice->start_node = start.node;
      limit = slice->size;
    }
  } else {
    if (range.args[0].kind != Expr::Kind::kEmpty) {
      if (!Static(range.args[0], false, &e, &slice->start)) return false;
      if (kernel::UsesParam(e)) slice->start_expr = {e};
    }
    KernelExpr end;
    if (range.args[1].kind != Expr::Kind::kEmpty) {
      if (!Static(range.args[1], false, &end, &limit)) return false;
    }
    if (range.args[2].kind != Expr::Kind::kEmpty && !StaticInt(range.args[2], &stride->stride)) {
      return false;
    }
    slice->size = limit - slice->start;
    // The size keeps its text only where it is that of one parameter: a:b has no other short form.
    if (kernel::UsesParam(end) && slice->start == 0 && slice->start_expr.empty()) {
      slice->size_expr = {end};
    }
  }
  if (slice->start < 0) return bad("the start is negative");
  if (slice->size < 0 || limit > size) {
    return bad(absl::StrCat("ends at ", limit, ", outside [0, ", size, "]"));
  }
  if (stride->stride < 1) return bad("the stride is not positive");
  if (stride->stride > 1 && slice->size > 0) {  // up to the last element that it takes
    slice->size = (slice->size - 1) / stride->stride * stride->stride + 1;
    slice->size_expr.clear();
  }
  stride->start = slice->start;
  stride->limit = limit;
  return true;
}

// One slice a dimension; what is not named is taken whole. `strides` null: no strides allowed.
bool KernelElaborator::SlicesOf(const Shape& block, absl::Span<const Expr> ranges, Loc loc,
                                std::vector<Slice>* slices, std::vector<SliceDim>* strides,
                                std::vector<bool>* dropped, Picked* picked) {
  if (static_cast<int>(ranges.size()) > std::max(block.rank(), 1)) {
    Error(DiagCode::kKernelSlice, loc,
          absl::StrCat(ranges.size(), " ranges for a block of rank ", block.rank()));
    return false;
  }
  for (int d = 0; d < block.rank(); ++d) {
    Slice slice;
    SliceDim stride{0, block.dims[d], 1};
    slice.size = block.dims[d];
    bool drop = false;
    if (d < static_cast<int>(ranges.size())) {
      drop = ranges[d].kind != Expr::Kind::kRange;
      if (!OneRange(ranges[d], block.dims[d], d, &slice, &stride, picked)) return false;
      drop = drop && (picked == nullptr || picked->dim != d);
      if (strides == nullptr && stride.stride != 1) {
        Error(DiagCode::kKernelSlice, ranges[d].loc, "copies take no stride");
        return false;
      }
    }
    dropped->push_back(drop);
    slices->push_back(std::move(slice));
    if (strides != nullptr) strides->push_back(stride);
  }
  return true;
}

Value KernelElaborator::SliceValue(const Value& base, absl::Span<const Expr> ranges, Loc loc) {
  std::vector<Slice> slices;
  std::vector<SliceDim> strides;
  std::vector<bool> dropped;
  Picked picked;
  const Shape from = ShapeOf(base);  // nodes move while ranges are read
  if (!SlicesOf(from, ranges, loc, &slices, &strides, &dropped, &picked)) return {};
  const bool found =
      std::any_of(slices.begin(), slices.end(), [](const Slice& s) { return s.start_node >= 0; });
  Node n;
  n.op = Op::kSlice;
  n.operands = {base.node};
  n.shape = Shape::Array(from.type, {});
  Dims kept;
  bool all = true;
  for (size_t d = 0; d < strides.size(); ++d) {
    const SliceDim& s = strides[d];
    if (found && s.stride != 1) {
      Error(DiagCode::kKernelSlice, loc, "a start known at run time and a stride, of a value");
      return {};
    }
    n.shape.dims.push_back(found ? slices[d].size : (s.limit - s.start + s.stride - 1) / s.stride);
    all = all && n.shape.dims.back() == from.dims[d];
    if (!dropped[d]) kept.push_back(n.shape.dims.back());
  }
  n.attrs = {{AttrId::kSlice, std::move(strides)}};
  Value v = found                    ? DynamicPart(base, slices, loc)
            : picked.dim >= 0 && all ? base
                                     : EmitHlo(std::move(n), loc);
  if (v && kept.size() != dropped.size()) v = NodeValue(ReshapeTo(v.node, kept, loc), loc);
  return TakeFrom(v, picked, dropped, loc);
}

Value KernelElaborator::EvalIndex(const Expr& e) {
  const absl::Span<const Expr> ranges(e.args.data() + 1, e.args.size() - 1);
  const Symbol* s = e.args[0].kind == Expr::Kind::kName ? Find(e.args[0].text) : nullptr;
  if (s == nullptr || s->kind != Symbol::Kind::kRef) {
    const Value base = Eval(e.args[0]);
    if (!base) return {};
    if (base.weak()) {
      Error(DiagCode::kKernelShape, e.loc, "a constant has no elements to index");
      return {};
    }
    return SliceValue(base, ranges, e.loc);
  }
  Node load;
  load.kind = Node::Kind::kLoad;
  load.ref = static_cast<int>(s->index);
  if (!Addressable(load.ref, e.loc)) return {};
  const Shape block = kernel_.refs[load.ref].BlockShape();
  load.shape = Shape::Array(block.type, {});
  std::vector<bool> dropped;
  std::vector<SliceDim> strides;
  Picked picked;
  const bool smem = kernel_.refs[load.ref].space == Ref::Space::kSmem;
  if (!SlicesOf(block, ranges, e.loc, &load.slices, &strides, &dropped, smem ? nullptr : &picked)) {
    return {};
  }
  if (smem) {
    if (!OneScalar(load, dropped, e.loc)) return {};
    return NodeValue(Emit(std::move(load), e.loc), e.loc);
  }
  Dims kept;
  for (size_t d = 0; d < load.slices.size(); ++d) {
    load.shape.dims.push_back(load.slices[d].size);
    const int64_t step = strides[d].stride;
    if (!dropped[d]) kept.push_back((load.slices[d].size + step - 1) / step);
  }
  Value v = NodeValue(Emit(std::move(load), e.loc), e.loc);
  v = Thinned(v, strides, e.loc);
  if (v && kept.size() != dropped.size()) v = NodeValue(ReshapeTo(v.node, kept, e.loc), e.loc);
  return TakeFrom(v, picked, dropped, e.loc);
}

Value KernelElaborator::Eval(const Expr& e) {
  Value v;
  v.loc = e.loc;
  v.end = region_->nodes.size();
  switch (e.kind) {
    case Expr::Kind::kInteger:
      if (!absl::SimpleAtoi(e.text, &v.integer)) {
        // Beyond s64: u64 constants and floats.
        v.kind = Value::Kind::kFloat;
        v.text = e.text;
        return v;
      }
      v.kind = Value::Kind::kInteger;
      v.expr = KernelExpr::Const(v.integer);
      return v;
    case Expr::Kind::kNumber:
      v.kind = Value::Kind::kFloat;
      v.text = e.text;
      return v;
    case Expr::Kind::kName:
      return EvalName(e);
    case Expr::Kind::kUnary:
      return EvalUnary(e);
    case Expr::Kind::kBinary:
      return EvalBinary(e);
    case Expr::Kind::kCall:
      return EvalCall(e);
    case Expr::Kind::kIndex:
      return EvalIndex(e);
    case Expr::Kind::kTranspose: {
      const Value base = Eval(e.args[0]);
      if (!base) return {};
      if (base.weak() || ShapeOf(base).rank() != 2) {
        Error(DiagCode::kKernelShape, e.loc, "^T is for values of rank 2",
              "transpose(x, {0, 2, 1}) says which dimensions go where");
        return {};
      }
      Node n;
      n.op = Op::kTranspose;
      n.operands = {base.node};
      n.attrs = {{AttrId::kDimensions, Ints{1, 0}}};
      return EmitHlo(std::move(n), e.loc);
    }
    default:
      Error(DiagCode::kKernelShape, e.loc, absl::StrCat(PrintSyntax(e), " is not a value"));
      return {};
  }
}

}  // namespace tpuc::kernel_text
