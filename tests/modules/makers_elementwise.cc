// Element-wise opcodes, and computations of scalars made of them (makers.h, builder.h).
#include <algorithm>

#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"
#include "tests/modules/generator.h"
#include "tests/modules/makers.h"

namespace tpuc::random_modules {
namespace {

bool Any(Type) { return true; }

// Operand types that the opcode takes, by HLO's own rule.
bool Takes(Op op, Type type) {
  Instruction operand, instruction;
  operand.op = Op::kParameter;
  operand.shape = Shape::Array(type, {});
  instruction.op = op;
  instruction.shape = operand.shape;
  for (int i = 0; i < InfoOf(op).min_operands; ++i) instruction.operands.push_back(&operand);
  Shape shape;
  std::string error;
  return shape_rules::Elementwise(instruction, &shape, &error);
}

}  // namespace

Instruction* Unary(Builder* b, Op op) {
  Instruction* x = b->Pick([&](Type type) { return Takes(op, type); });
  return b->Emit(op, {x});
}

Instruction* Binary(Builder* b, Op op) {
  Instruction* x = b->Pick([&](Type type) { return Takes(op, type); });
  // One rounding of 1e30 is all there is of its remainder: of floats that were computed it says
  // nothing.
  if (op == Op::kRemainder && IsFloat(x->shape.type)) {
    const Shape shape = x->shape;
    return b->Emit(op, {b->Leaf(shape.type, shape.dims), b->Leaf(shape.type, shape.dims)});
  }
  Instruction* y = b->Like(*x);
  return b->random->Chance(50) ? b->Emit(op, {x, y}) : b->Emit(op, {y, x});
}

Instruction* Compare(Builder* b, Op op) {
  static const std::vector<std::string> kDirections{"EQ", "NE", "LT", "LE", "GT", "GE"};
  Instruction* x = b->Pick(Any);
  const bool complex = ClassOf(x->shape.type) == TypeClass::kComplex;
  std::vector<Attr> attrs{{AttrId::kDirection, complex ? kDirections[b->random->Below(2)]
                                                       : b->random->OneOf(kDirections)}};
  if (IsFloat(x->shape.type) && b->random->Chance(20)) {
    attrs.push_back({AttrId::kCompareType, std::string("TOTALORDER")});
  }
  return b->Emit(op, {x, b->Like(*x)}, std::move(attrs));
}

Instruction* Select(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  const Dims scalar, dims = x->shape.dims;
  Instruction* choice = b->Array(Type::kPred, b->random->Chance(20) ? scalar : dims);
  return b->Emit(op, {choice, x, b->Like(*x)});
}

Instruction* Clamp(Builder* b, Op op) {
  Instruction* x = b->Pick([](Type type) { return ClassOf(type) != TypeClass::kComplex; });
  const Dims bound = b->random->Chance(50) ? Dims{} : x->shape.dims;
  Instruction* low = b->Array(x->shape.type, bound);
  return b->Emit(op, {low, x, b->Array(x->shape.type, bound)});
}

Instruction* Convert(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  return b->Emit(op, {x}, {}, Shape::Array(b->AnyType(), x->shape.dims));
}

Instruction* BitcastConvert(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  Type to = b->AnyType();
  for (int tries = 0; tries < 20 && BitsOf(to) != BitsOf(x->shape.type); ++tries) to = b->AnyType();
  const int from_bits = BitsOf(x->shape.type), to_bits = BitsOf(to);
  const bool pred = (x->shape.type == Type::kPred) != (to == Type::kPred);
  if (pred || std::max(from_bits, to_bits) % std::min(from_bits, to_bits) != 0) return nullptr;
  Dims dims = x->shape.dims;
  if (from_bits > to_bits) dims.push_back(from_bits / to_bits);
  if (from_bits < to_bits) {
    if (dims.empty() || dims.back() != to_bits / from_bits) return nullptr;
    dims.pop_back();
  }
  return b->Emit(op, {x}, {}, Shape::Array(to, dims));
}

Instruction* StochasticConvert(Builder* b, Op op) {
  Instruction* x = b->Pick([](Type type) { return IsFloat(type) && BitsOf(type) >= 8; });
  const int bits = BitsOf(x->shape.type);
  const Type random = bits == 8    ? Type::kU8
                      : bits == 16 ? Type::kU16
                      : bits == 32 ? Type::kU32
                                   : Type::kU64;
  static const std::vector<Type> kTo{Type::kS8, Type::kS16, Type::kS32, Type::kU8};
  return b->Emit(op, {x, b->Array(random, x->shape.dims)}, {},
                 Shape::Array(b->random->OneOf(kTo), x->shape.dims));
}

Instruction* ReducePrecision(Builder* b, Op op) {
  Instruction* x = b->Pick(IsFloat);
  return b->Emit(op, {x},
                 {{AttrId::kExponentBits, b->random->Between(2, 8)},
                  {AttrId::kMantissaBits, b->random->Between(0, 10)}},
                 Shape::Array(x->shape.type, x->shape.dims));
}

Instruction* Map(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  std::vector<Instruction*> operands{x};
  std::vector<Type> types{x->shape.type};
  for (int64_t n = b->random->Below(3); n > 0; --n) {
    operands.push_back(
        b->Array(b->random->Chance(50) ? x->shape.type : b->AnyType(), x->shape.dims));
    types.push_back(operands.back()->shape.type);
  }
  const Type result = b->random->Chance(70) ? x->shape.type : b->AnyType();
  Ints dimensions(x->shape.rank());
  for (int i = 0; i < x->shape.rank(); ++i) dimensions[i] = i;
  return b->Emit(op, std::move(operands),
                 {{AttrId::kDimensions, dimensions},
                  {AttrId::kToApply, ScalarComputation(b, types, {result})}});
}

// ---- computations of scalars ----

namespace {

constexpr Op kScalarOps[] = {
    Op::kAdd,    Op::kSubtract, Op::kMultiply, Op::kMaximum, Op::kMinimum, Op::kNegate,   Op::kAbs,
    Op::kSelect, Op::kCompare,  Op::kClamp,    Op::kConvert, Op::kAnd,     Op::kOr,       Op::kNot,
    Op::kTanh,   Op::kDivide,   Op::kSign,     Op::kFloor,   Op::kXor,     Op::kRemainder};

Maker ScalarMaker(Op op) {
  switch (op) {
    case Op::kSelect:
      return Select;
    case Op::kCompare:
      return Compare;
    case Op::kClamp:
      return Clamp;
    case Op::kConvert:
      return Convert;
    default:
      return InfoOf(op).min_operands == 1 ? Unary : Binary;
  }
}

Builder Inside(Builder* b, const std::string& name) {
  Builder inner;
  inner.random = b->random;
  inner.computation = b->computation->module->AddComputation(name);
  inner.depth = b->depth + 1;
  inner.most = b->most;
  return inner;
}

Instruction* AddParameter(Builder* b, const Shape& shape) {
  const int64_t number = static_cast<int64_t>(b->computation->Parameters().size());
  Instruction* made = b->computation->Add("p", Op::kParameter, shape, {});
  made->parameter_number = number;
  if (shape.IsArray()) b->values.push_back(made);
  return made;
}

// The newest value of the type, converted where there is none.
Instruction* Scalar(Builder* b, Type type) {
  for (size_t i = b->values.size(); i-- > 0;) {
    if (b->values[i]->shape.type == type) return b->values[i];
  }
  Instruction* from = b->values.back();
  Instruction* made = b->Emit(Op::kConvert, {from}, {}, Shape::Array(type, {}));
  return made ? made : b->Constant(type, {});
}

}  // namespace

Computation* ScalarComputation(Builder* b, const std::vector<Type>& parameters,
                               const std::vector<Type>& results) {
  Builder inner = Inside(b, "scalar");
  inner.most = 1;
  for (Type type : parameters) AddParameter(&inner, Shape::Array(type, {}));
  for (int64_t n = b->random->Between(1, 4); n > 0; --n) {
    const Op op = kScalarOps[b->random->Below(std::size(kScalarOps))];
    // Only what is there: Pick would otherwise make arrays.
    Instruction* made = nullptr;
    const bool fits = std::any_of(inner.values.begin(), inner.values.end(), [&](Instruction* x) {
      return op == Op::kCompare || op == Op::kSelect || op == Op::kConvert || op == Op::kClamp ||
             Takes(op, x->shape.type);
    });
    if (fits) made = ScalarMaker(op)(&inner, op);
    (void)made;
  }
  inner.values.erase(std::remove_if(inner.values.begin(), inner.values.end(),
                                    [](Instruction* x) { return !x->shape.IsScalar(); }),
                     inner.values.end());
  std::vector<Instruction*> roots;
  for (Type type : results) roots.push_back(Scalar(&inner, type));
  inner.computation->root = roots.size() == 1 ? roots[0] : inner.Emit(Op::kTuple, roots);
  return inner.computation;
}

Computation* Reducer(Builder* b, Type type) {
  static const std::vector<Op> kOps{Op::kAdd,     Op::kAdd,     Op::kMultiply, Op::kMaximum,
                                    Op::kMinimum, Op::kAnd,     Op::kOr,       Op::kXor,
                                    Op::kMaximum, Op::kMinimum, Op::kAdd};
  if (b->random->Chance(20)) return ScalarComputation(b, {type, type}, {type});
  Op op = b->random->OneOf(kOps);
  if (!Takes(op, type)) op = Op::kAdd;
  Builder inner = Inside(b, "reducer");
  Instruction* x = AddParameter(&inner, Shape::Array(type, {}));
  Instruction* y = AddParameter(&inner, Shape::Array(type, {}));
  inner.computation->root = inner.Emit(op, {x, y});
  return inner.computation;
}

Computation* Comparator(Builder* b, const std::vector<Type>& types) {
  static const std::vector<std::string> kDirections{"LT", "GT", "LE", "GE"};
  Builder inner = Inside(b, "comparator");
  std::vector<Instruction*> sides;
  for (Type type : types) {
    for (int side = 0; side < 2; ++side) {
      sides.push_back(AddParameter(&inner, Shape::Array(type, {})));
    }
  }
  const int64_t key = b->random->Below(static_cast<int64_t>(types.size()));
  const bool complex = ClassOf(types[key]) == TypeClass::kComplex;
  std::vector<Attr> attrs{
      {AttrId::kDirection, complex ? std::string("NE") : kDirections[b->random->Below(2)]}};
  if (IsFloat(types[key]) && b->random->Chance(50)) {
    attrs.push_back({AttrId::kCompareType, std::string("TOTALORDER")});
  }
  inner.computation->root =
      inner.Emit(Op::kCompare, {sides[2 * key], sides[2 * key + 1]}, std::move(attrs));
  return inner.computation;
}

Computation* Body(Builder* b, const std::string& name, const std::vector<Shape>& parameters,
                  const Shape* result) {
  Builder inner = Inside(b, name);
  for (const Shape& shape : parameters) {
    Instruction* made = AddParameter(&inner, shape);
    if (!shape.IsTuple()) continue;
    for (size_t i = 0; i < shape.elements.size(); ++i) inner.Element(made, static_cast<int64_t>(i));
  }
  RandomSteps(&inner, b->random->Between(1, 4));
  if (!result) {
    inner.computation->root = inner.values.back();
  } else if (!result->IsTuple()) {
    inner.computation->root = inner.Array(result->type, result->dims);
  } else {
    std::vector<Instruction*> roots;
    for (const Shape& shape : result->elements)
      roots.push_back(inner.Array(shape.type, shape.dims));
    inner.computation->root = inner.Emit(Op::kTuple, roots);
  }
  return inner.computation;
}

}  // namespace tpuc::random_modules
