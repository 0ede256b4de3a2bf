// Elaboration of operations that HLO has no single one for: roll, repeat, cumulative sums, argmax,
// random bits. Each becomes slices, pads, reductions and element-wise operations of HLO.
//
//   roll(x, 3, axis=1)  ->  concat(x[:, 125:128], x[:, 0:125], axis=1)
//   cumsum(x, axis=0)   ->  x + x moved by 1; that + that moved by 2; ...
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/kernel/scalar.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Node;

// The axis that a call names, the last one without; negative counts from the end.
bool KernelElaborator::AxisArgument(const Arguments& args, const Value& v, Loc loc, int64_t* axis) {
  const int rank = ShapeOf(v).rank();
  *axis = rank - 1;
  if (const Expr* e = args.Named("axis")) {
    if (!StaticInt(*e, axis)) return false;
    if (*axis < 0) *axis += rank;
  }
  if (*axis >= 0 && *axis < rank) return true;
  Error(DiagCode::kKernelShape, loc, absl::StrCat("no such axis of ", ToString(ShapeOf(v), false)));
  return false;
}

Value KernelElaborator::PartOf(const Value& v, int64_t axis, int64_t from, int64_t to, Loc loc) {
  Node n;
  n.op = Op::kSlice;
  n.operands = {v.node};
  n.shape = ShapeOf(v);
  std::vector<SliceDim> slices;
  for (int64_t d = 0; d < n.shape.rank(); ++d) {
    slices.push_back({d == axis ? from : 0, d == axis ? to : n.shape.dims[d], 1});
  }
  n.shape.dims[axis] = to - from;
  n.attrs = {{AttrId::kSlice, std::move(slices)}};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::Joined(const std::vector<Value>& parts, int64_t axis, Loc loc) {
  if (parts.size() == 1) return parts[0];
  Node n;
  n.op = Op::kConcatenate;
  for (const Value& v : parts) {
    if (!v) return {};
    n.operands.push_back(v.node);
  }
  n.attrs = {{AttrId::kDimensions, Ints{axis}}};
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::ReduceAlong(Op reducer, const Value& v, int64_t axis, bool keep, Loc loc) {
  Node n;
  n.op = Op::kReduce;
  n.reducer = reducer;
  n.operands = {v.node};
  n.attrs = {{AttrId::kDimensions, Ints{axis}}};
  Shape kept = ShapeOf(v);
  kept.dims[axis] = 1;
  Value r = EmitHlo(std::move(n), loc);
  if (!r || !keep) return r;
  Node reshape;
  reshape.op = Op::kReshape;
  reshape.operands = {r.node};
  reshape.shape = kept;
  return EmitHlo(std::move(reshape), loc);
}

// Each element moved by its distance, halves first: log2(n) steps.
Value KernelElaborator::Cumulative(Op op, Value v, int64_t axis, Loc loc) {
  const Shape shape = ShapeOf(v);
  const int64_t size = shape.dims[axis];
  for (int64_t by = 1; by < size && v; by *= 2) {
    Value part = PartOf(v, axis, 0, size - by, loc);
    if (!part) return {};
    Node start;
    start.op = Op::kConstant;
    start.shape = Shape::Array(shape.type, {});
    start.literal = std::make_shared<Literal>(kernel::IdentityOf(op, shape.type));
    const NodeId identity = Emit(std::move(start), loc);
    Node pad;
    pad.op = Op::kPad;
    pad.operands = {part.node, identity};
    std::vector<PadDim> pads(shape.dims.size());
    pads[axis].low = by;
    pad.attrs = {{AttrId::kPadding, std::move(pads)}};
    Value moved = EmitHlo(std::move(pad), loc);
    v.end = region_->nodes.size();
    v = moved ? Elementwise(op, {v, moved}, {}, loc) : Value();
  }
  return v;
}

// The first index along the axis at which the value is the largest (smallest); s32.
Value KernelElaborator::ArgExtreme(Op reducer, const Value& v, int64_t axis, Loc loc) {
  const Shape shape = ShapeOf(v);
  Value best = ReduceAlong(reducer, v, axis, true, loc);
  if (!best) return {};
  Value is_best =
      Elementwise(Op::kCompare, {v, best}, {{AttrId::kDirection, std::string("EQ")}}, loc);
  Node iota;  // exact in f32, in which lanes are reduced
  iota.op = Op::kIota;
  iota.shape = Shape::Array(Type::kF32, shape.dims);
  iota.attrs = {{AttrId::kIotaDimension, axis}};
  Value index = EmitHlo(std::move(iota), loc);
  if (!is_best || !index) return {};
  Value beyond;
  beyond.kind = Value::Kind::kFloat;
  beyond.text = absl::StrCat(shape.dims[axis], ".0");
  beyond.loc = loc;
  beyond.end = region_->nodes.size();
  is_best.end = index.end = beyond.end;
  Value candidates = Elementwise(Op::kSelect, {is_best, index, beyond}, {}, loc);
  if (!candidates) return {};
  Value first = ReduceAlong(Op::kMinimum, candidates, axis, false, loc);
  if (!first) return {};
  Node n;
  n.op = Op::kConvert;
  n.operands = {first.node};
  n.shape = Shape::Array(Type::kS32, ShapeOf(first).dims);
  return EmitHlo(std::move(n), loc);
}

// random_bits(seed, [8, 128]): u32, from the element's number and an s32 or u32 seed by the 32-bit
// mixer "lowbias32" (C. Wellons, nullprogram.com/blog/2018/07/31).
Value KernelElaborator::RandomBits(const Arguments& args, Loc loc) {
  if (!CheckNamed(args, {}, loc) || !CheckCount(args, 2, 2, "random_bits(seed, [...])", loc)) {
    return {};
  }
  Value seed = Eval(*args.positional[0]);
  if (!AsNode(&seed)) return {};
  const Type given = ShapeOf(seed).type;
  if (!ShapeOf(seed).IsScalar() || (given != Type::kS32 && given != Type::kU32)) {
    Error(DiagCode::kKernelShape, loc, "the seed of random_bits is an s32 or u32 scalar");
    return {};
  }
  Dims dims;
  std::vector<KernelExpr> ignored;
  if (!DimList(*args.positional[1], &dims, &ignored)) return {};
  const auto number = [&](int64_t n) { return Integer(n, loc); };
  const auto binary = [&](Op op, Value a, Value b) {
    if (a) a.end = region_->nodes.size();
    if (b) b.end = region_->nodes.size();
    return a && b ? Elementwise(op, {a, b}, {}, loc) : Value();
  };
  if (given == Type::kS32) {
    Node n;
    n.op = Op::kBitcastConvert;
    n.operands = {seed.node};
    n.shape = Shape::Array(Type::kU32, {});
    seed = EmitHlo(std::move(n), loc);
  }
  Value x = binary(Op::kMultiply, seed, number(0x9e3779b9));
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0 && x; stride *= dims[d]) {
    Node iota;
    iota.op = Op::kIota;
    iota.shape = Shape::Array(Type::kU32, dims);
    iota.attrs = {{AttrId::kIotaDimension, static_cast<int64_t>(d)}};
    Value i = EmitHlo(std::move(iota), loc);
    x = binary(Op::kAdd, x, binary(Op::kMultiply, i, number(stride)));
  }
  for (const auto& [shift, factor] :
       {std::pair<int64_t, int64_t>{16, 0x7feb352d}, {15, 0x846ca68b}, {16, 1}}) {
    x = binary(Op::kXor, x, binary(Op::kShiftRightLogical, x, number(shift)));
    if (factor != 1) x = binary(Op::kMultiply, x, number(factor));
  }
  return x;
}

// Whether `name` is one of these; its value then.
bool KernelElaborator::CallMove(const std::string& name, const Arguments& args, Loc loc,
                                Value* result) {
  static constexpr std::pair<const char*, Op> kCumulative[] = {{"cumsum", Op::kAdd},
                                                               {"cumprod", Op::kMultiply},
                                                               {"cummax", Op::kMaximum},
                                                               {"cummin", Op::kMinimum}};
  *result = Value();
  if (name == "random_bits") {
    *result = RandomBits(args, loc);
    return true;
  }
  const auto* cumulative = std::find_if(std::begin(kCumulative), std::end(kCumulative),
                                        [&](const auto& c) { return name == c.first; });
  const bool running = cumulative != std::end(kCumulative);
  const bool extreme = name == "argmax" || name == "argmin";
  const bool counted = name == "roll" || name == "repeat";
  if (!running && !extreme && !counted) return false;
  static constexpr absl::string_view kNamed[] = {"axis", "keepdims"};
  const size_t count = counted ? 2 : 1;
  if (!CheckNamed(args, absl::MakeConstSpan(kNamed, extreme ? 2 : 1), loc) ||
      !CheckCount(args, count, count, counted ? "a value and a number" : "one value", loc)) {
    return true;
  }
  Value v = Eval(*args.positional[0]);
  int64_t axis = 0, n = 0;
  if (!AsNode(&v) || !AxisArgument(args, v, loc, &axis)) return true;
  if (running) {
    *result = Cumulative(cumulative->second, v, axis, loc);
    return true;
  }
  if (extreme) {
    *result = ArgExtreme(name == "argmax" ? Op::kMaximum : Op::kMinimum, v, axis, loc);
    const Expr* keep = args.Named("keepdims");
    if (*result && keep != nullptr && keep->text == "true") {
      Dims dims = ShapeOf(v).dims;
      dims[axis] = 1;
      *result = NodeValue(ReshapeTo(result->node, dims, loc), loc);
    }
    return true;
  }
  const Value amount = Eval(*args.positional[1]);
  if (!amount) return true;
  if (amount.kind != Value::Kind::kInteger) {
    if (name == "roll" && !amount.weak() && ShapeOf(amount).IsScalar() &&
        ShapeOf(amount).type == Type::kS32) {
      *result = RollBy(v, axis, amount, loc);
      return true;
    }
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat(name, name == "roll" ? " by what is no s32 scalar" : " takes a constant"));
    return true;
  }
  n = amount.integer;
  const int64_t size = ShapeOf(v).dims[axis];
  if (name == "repeat") {
    constexpr int64_t kMost = 256;
    if (n < 1 || n > kMost) {
      Error(DiagCode::kKernelShape, loc, absl::StrCat("repeat ", n, " times: 1 to ", kMost));
      return true;
    }
    *result = Joined(std::vector<Value>(n, v), axis, loc);
    return true;
  }
  *result = Roll(v, axis, size == 0 ? 0 : (n % size + size) % size, loc);
  return true;
}

// By 0 to the dimension's size - 1.
Value KernelElaborator::Roll(const Value& v, int64_t axis, int64_t shift, Loc loc) {
  if (shift == 0) return v;
  const int64_t size = ShapeOf(v).dims[axis];
  Value tail = PartOf(v, axis, size - shift, size, loc);
  Value head = PartOf(v, axis, 0, size - shift, loc);
  return Joined({tail, head}, axis, loc);
}

Value KernelElaborator::Integer(int64_t value, Loc loc) const {
  Value v;
  v.kind = Value::Kind::kInteger;
  v.integer = value;
  v.expr = KernelExpr::Const(value);
  v.loc = loc;
  v.end = region_->nodes.size();
  return v;
}

// By an amount known at run time: one roll for each bit of it, taken where the bit is set.
Value KernelElaborator::RollBy(const Value& v, int64_t axis, const Value& amount, Loc loc) {
  const int64_t size = ShapeOf(v).dims[axis];
  if (size < 2) return v;
  Value rest = Apply(Op::kRemainder, {amount, Integer(size, loc)}, loc);
  if (!rest) return {};
  Value positive = Apply(Op::kAdd, {rest, Integer(size, loc)}, loc);
  Value below =
      Apply(Op::kCompare, {rest, Integer(0, loc)}, loc, {{AttrId::kDirection, std::string("LT")}});
  if (!positive || !below) return {};
  Value shift = Apply(Op::kSelect, {below, positive, rest}, loc);
  Value result = v;
  for (int64_t bit = 1; bit < size && shift && result; bit *= 2) {
    Value set = Apply(Op::kAnd, {shift, Integer(bit, loc)}, loc);
    if (!set) return {};
    set =
        Apply(Op::kCompare, {set, Integer(0, loc)}, loc, {{AttrId::kDirection, std::string("NE")}});
    Value rolled = Roll(result, axis, bit, loc);
    if (!set || !rolled) return {};
    result = Apply(Op::kSelect, {set, rolled, result}, loc);
  }
  return shift ? result : Value();
}

}  // namespace tpuc::kernel_text
