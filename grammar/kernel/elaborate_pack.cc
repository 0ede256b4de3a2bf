// Elaboration of pack and unpack (elaborate.h): values of 16, 8 or 4 bits side by side in words, as
// integer operations on 32 bits.
//
//   pack(a, b)                    u32: a's bits low, b's high; floats are rounded to bf16
//   pack(a, b, c, d)              integers, the low 8 bits of each
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

// Values of one shape side by side in words: bits of the first lowest.
Value KernelElaborator::CallPackWords(const Arguments& args, Loc loc) {
  const int64_t parts = static_cast<int64_t>(args.positional.size());
  if (!CheckNamed(args, {}, loc)) return {};
  if (parts != 2 && parts != 4 && parts != 8) {
    Error(DiagCode::kKernelShape, loc, absl::StrCat("pack of ", parts, " values: 2, 4 or 8"));
    return {};
  }
  const int bits = static_cast<int>(32 / parts);
  std::vector<Value> values;
  for (const Expr* e : args.positional) {
    Value v = Eval(*e);
    if (!AsNode(&v)) return {};
    const Type type = ShapeOf(v).type;
    const bool floats = parts == 2 && (type == Type::kF32 || type == Type::kBF16);
    const bool integers = IsInteger(type) && (BitsOf(type) == bits || type == Type::kS32);
    if ((!floats && !integers) || (!values.empty() && !(ShapeOf(values[0]) == ShapeOf(v)))) {
      Error(DiagCode::kKernelShape, e->loc,
            absl::StrCat("pack of ", ToString(ShapeOf(v), false), ", ", parts, " to a word"),
            absl::StrCat("of one shape: ", parts == 2 ? "f32 or bf16, or " : "", "integers of ",
                         bits, " bits or s32"));
      return {};
    }
    values.push_back(v);
  }
  Value word;
  for (int64_t i = 0; i < parts; ++i) {
    Value v = values[i];
    if (IsFloat(ShapeOf(v).type)) {  // the upper half of the word is the bf16 number
      v = Convert(Convert(v, Op::kConvert, Type::kBF16, loc), Op::kConvert, Type::kF32, loc);
      v = Convert(v, Op::kBitcastConvert, Type::kS32, loc);
      if (!v) return {};
      v = i == 0 ? Apply(Op::kShiftRightLogical, {v, Integer(16, loc)}, loc)
                 : Apply(Op::kAnd, {v, Integer(-0x10000, loc)}, loc);
    } else {
      v = Convert(v, Op::kConvert, Type::kS32, loc);
      if (!v) return {};
      if (i + 1 < parts) v = Apply(Op::kAnd, {v, Integer((int64_t{1} << bits) - 1, loc)}, loc);
      if (i > 0 && v) v = Apply(Op::kShiftLeft, {v, Integer(bits * i, loc)}, loc);
    }
    if (!v) return {};
    word = i == 0 ? v : Apply(Op::kOr, {word, v}, loc);
    if (!word) return {};
  }
  return Convert(word, Op::kBitcastConvert, Type::kU32, loc);
}

Value KernelElaborator::CallUnpack(const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"type"};
  if (!CheckNamed(args, kNamed, loc) || !CheckCount(args, 2, 2, "words and which part", loc)) {
    return {};
  }
  Value a = Eval(*args.positional[0]);
  Type type = Type::kBF16;
  int64_t part = 0;
  const Expr* named = args.Named("type");
  if (!AsNode(&a) || (named != nullptr && !TypeArgument(*named, &type)) ||
      !StaticInt(*args.positional[1], &part)) {
    return {};
  }
  const bool floats = type == Type::kBF16 || type == Type::kF32;
  const int bits = floats ? 16 : BitsOf(type);
  const bool integers = IsInteger(type) && (bits == 16 || bits == 8 || bits == 4);
  if (ShapeOf(a).type != Type::kU32 || (!floats && !integers) || part < 0 || part >= 32 / bits) {
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat("unpack of ", ToString(ShapeOf(a), false), ", part ", part, ", to ",
                       std::string(TypeName(type))),
          "of u32; parts from 0 on: 2 of bf16, f32, s16 or u16, 4 of s8 or u8, 8 of s4 or u4");
    return {};
  }
  a = Convert(a, Op::kBitcastConvert, Type::kS32, loc);
  if (!a) return {};
  if (floats) {
    a = part == 0 ? Apply(Op::kShiftLeft, {a, Integer(16, loc)}, loc)
                  : Apply(Op::kAnd, {a, Integer(-0x10000, loc)}, loc);
    return Convert(Convert(a, Op::kBitcastConvert, Type::kF32, loc), Op::kConvert, type, loc);
  }
  const int64_t up = 32 - bits * (part + 1);
  if (up > 0) a = Apply(Op::kShiftLeft, {a, Integer(up, loc)}, loc);
  if (!a) return {};
  const bool is_signed = ClassOf(type) == TypeClass::kSigned;
  a = Apply(is_signed ? Op::kShiftRightArithmetic : Op::kShiftRightLogical,
            {a, Integer(32 - bits, loc)}, loc);
  return Convert(a, Op::kConvert, type, loc);
}

}  // namespace tpuc::kernel_text
