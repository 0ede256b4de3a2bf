// Elaboration of pack and unpack (elaborate.h): two values of 16 bits in the halves of words, as
// integer operations on 32 bits.
//
//   pack(a, b)                    u32: a's bits low, b's high; floats are rounded to bf16
//   unpack(x, 1, type=bf16)       the high half again
#include "absl/strings/str_cat.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Node;

Value KernelElaborator::Convert(const Value& v, Op op, Type type, Loc loc) {
  if (!v || ShapeOf(v).type == type) return v;
  Node n;
  n.op = op;
  n.operands = {v.node};
  n.shape = Shape::Array(type, ShapeOf(v).dims);
  return EmitHlo(std::move(n), loc);
}

Value KernelElaborator::CallPack(bool pack, const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"type"};
  if (!CheckNamed(args, kNamed, loc) ||
      !CheckCount(args, 2, 2, pack ? "two values" : "a value and the half, 0 or 1", loc)) {
    return {};
  }
  Value a = Eval(*args.positional[0]);
  if (!AsNode(&a)) return {};
  if (pack) {
    Value b = Eval(*args.positional[1]);
    if (!AsNode(&b)) return {};
    const Type type = ShapeOf(a).type;
    const bool floats = type == Type::kF32 || type == Type::kBF16;
    const bool integers = type == Type::kS16 || type == Type::kU16 || type == Type::kS32;
    if (!(ShapeOf(a) == ShapeOf(b)) || (!floats && !integers) || args.Named("type") != nullptr) {
      Error(DiagCode::kKernelShape, loc,
            absl::StrCat("pack of ", ToString(ShapeOf(a), false), " and ",
                         ToString(ShapeOf(b), false)),
            "two of one shape: f32 or bf16, or integers of 16 bits or s32");
      return {};
    }
    for (Value* v : {&a, &b}) {
      if (floats) {
        *v = Convert(*v, Op::kConvert, Type::kBF16, loc);
        *v = Convert(*v, Op::kConvert, Type::kF32, loc);
        *v = Convert(*v, Op::kBitcastConvert, Type::kS32, loc);
      } else {
        *v = Convert(*v, Op::kConvert, Type::kS32, loc);
      }
      if (!*v) return {};
    }
    a = floats ? Apply(Op::kShiftRightLogical, {a, Integer(16, loc)}, loc)
               : Apply(Op::kAnd, {a, Integer(0xffff, loc)}, loc);
    b = floats ? Apply(Op::kAnd, {b, Integer(-0x10000, loc)}, loc)
               : Apply(Op::kShiftLeft, {b, Integer(16, loc)}, loc);
    if (!a || !b) return {};
    return Convert(Apply(Op::kOr, {a, b}, loc), Op::kBitcastConvert, Type::kU32, loc);
  }
  Type type = Type::kBF16;
  int64_t half = 0;
  const Expr* named = args.Named("type");
  if ((named != nullptr && !TypeArgument(*named, &type)) ||
      !StaticInt(*args.positional[1], &half)) {
    return {};
  }
  const bool floats = type == Type::kBF16 || type == Type::kF32;
  if (ShapeOf(a).type != Type::kU32 || half < 0 || half > 1 ||
      (!floats && type != Type::kS16 && type != Type::kU16)) {
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat("unpack of ", ToString(ShapeOf(a), false), ", half ", half, ", to ",
                       std::string(TypeName(type))),
          "of u32, half 0 or 1, to bf16, f32, s16 or u16");
    return {};
  }
  a = Convert(a, Op::kBitcastConvert, Type::kS32, loc);
  if (!a) return {};
  if (floats) {
    a = half == 0 ? Apply(Op::kShiftLeft, {a, Integer(16, loc)}, loc)
                  : Apply(Op::kAnd, {a, Integer(-0x10000, loc)}, loc);
    return Convert(Convert(a, Op::kBitcastConvert, Type::kF32, loc), Op::kConvert, type, loc);
  }
  if (half == 0) a = Apply(Op::kShiftLeft, {a, Integer(16, loc)}, loc);
  if (!a) return {};
  a = Apply(type == Type::kS16 ? Op::kShiftRightArithmetic : Op::kShiftRightLogical,
            {a, Integer(16, loc)}, loc);
  return Convert(a, Op::kConvert, type, loc);
}

}  // namespace tpuc::kernel_text
