#include "tests/modules/builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::random_modules {
namespace {

// f32 and s32 come up as often as all others together.
const std::vector<Type>& OtherTypes() {
  static const auto* types = new std::vector<Type>{
      Type::kPred,   Type::kS1,         Type::kS2,         Type::kS4,        Type::kS8,
      Type::kS16,    Type::kS64,        Type::kU1,         Type::kU2,        Type::kU4,
      Type::kU8,     Type::kU16,        Type::kU32,        Type::kU64,       Type::kF16,
      Type::kF64,    Type::kF8E5M2,     Type::kF8E4M3,     Type::kF8E4M3FN,  Type::kF8E4M3B11FNUZ,
      Type::kF8E3M4, Type::kF8E5M2FNUZ, Type::kF8E4M3FNUZ, Type::kF8E8M0FNU, Type::kF4E2M1FN,
      Type::kC64,    Type::kC128};
  return *types;
}

// One scalar with edge cases among them.
template <typename T>
T Draw(Type type, Random* random) {
  if constexpr (std::is_floating_point_v<T>) {
    static const double kEdges[] = {0.0,  -0.0, 1.0,    -1.0,     0.5,       2.0, 3.0,
                                    64.0, 1e30, -1e-30, INFINITY, -INFINITY, NAN};
    if (random->Chance(30))
      return static_cast<T>(kEdges[random->Below(random->Chance(20) ? 13 : 8)]);
    return static_cast<T>(random->Between(-2048, 2048)) / 512;
  } else {
    if (type == Type::kPred) return static_cast<T>(random->Below(2));
    if (random->Chance(10)) {
      return random->Chance(50) ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    }
    return static_cast<T>(random->Between(std::is_signed_v<T> ? -9 : 0, 17));
  }
}

void Fill(Literal* literal, Random* random) {
  Type type = literal->shape().type;
  int64_t count = literal->size();
  if (ClassOf(type) == TypeClass::kComplex) {
    type = type == Type::kC64 ? Type::kF32 : Type::kF64;
    count *= 2;
  }
  const bool uniform = random->Chance(30);
  VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value = Draw<T>(type, random);
    for (int64_t i = 0; i < count; ++i) {
      if (!uniform) value = Draw<T>(type, random);
      Narrow(type, &value, 1, literal->bytes(), i);
    }
  });
}

}  // namespace

uint64_t Random::Next() {
  uint64_t x = state_ += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

Ints Permutation(int64_t n, Random* random) {
  Ints list(n);
  std::iota(list.begin(), list.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) std::swap(list[i], list[random->Below(i + 1)]);
  return list;
}

Ints Subset(int64_t n, int percent, Random* random) {
  Ints list;
  for (int64_t i = 0; i < n; ++i) {
    if (random->Chance(percent)) list.push_back(i);
  }
  return list;
}

Type Builder::AnyType() {
  const int64_t draw = random->Below(100);
  if (draw < 40) return Type::kF32;
  if (draw < 52) return Type::kS32;
  if (draw < 60) return Type::kBF16;
  return random->OneOf(OtherTypes());
}

int64_t Builder::Size() {
  static const std::vector<int64_t> kSmall{1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16};
  static const std::vector<int64_t> kLarge{17, 31, 64, 127, 128, 129, 130, 251};
  if (random->Chance(2)) return 0;
  return random->Chance(80) ? random->OneOf(kSmall) : random->OneOf(kLarge);
}

Dims Builder::AnyDims(int rank) {
  Dims dims;
  int64_t left = most;
  for (int i = 0; i < rank; ++i) {
    int64_t size = Size();
    while (size > left) size = (size + 1) / 2;
    dims.push_back(size);
    left /= std::max<int64_t>(1, size);
  }
  const Ints order = Permutation(rank, random);
  Dims shuffled;
  for (int64_t d : order) shuffled.push_back(dims[d]);
  return shuffled;
}

Instruction* Builder::Pick(const TypeTest& test, int rank) {
  std::vector<Instruction*> fit;
  for (Instruction* value : values) {
    if (test(value->shape.type) && value->shape.rank() >= rank) fit.push_back(value);
  }
  if (!fit.empty() && random->Chance(85)) {
    const int64_t n = static_cast<int64_t>(fit.size());
    return fit[random->Chance(60) ? n - 1 - random->Below(std::min<int64_t>(n, 4))
                                  : random->Below(n)];
  }
  Type type = AnyType();
  for (int tries = 0; !test(type) && tries < 50; ++tries) type = AnyType();
  for (int64_t next = random->Below(30); !test(type); ++next) {
    type = static_cast<Type>(next % static_cast<int64_t>(Type::kToken));
  }
  return Array(type, AnyDims(rank + static_cast<int>(random->Below(rank == 0 ? 4 : 3))));
}

Instruction* Builder::Array(Type type, const Dims& dims) {
  std::vector<Instruction*> fit;
  for (Instruction* value : values) {
    if (value->shape.type == type && value->shape.dims == dims) fit.push_back(value);
  }
  if (!fit.empty() && random->Chance(70)) return random->OneOf(fit);
  // Of another type, or a scalar.
  for (Instruction* value : values) {
    if (value->shape.dims != dims || value->shape.type == type || !random->Chance(30)) continue;
    if (Instruction* made = Emit(Op::kConvert, {value}, {}, Shape::Array(type, dims))) return made;
  }
  return Leaf(type, dims);
}

Instruction* Builder::Leaf(Type type, const Dims& dims) {
  const int64_t usual = most;
  most = std::max(most, Shape::Array(type, dims).ElementCount());  // who asks has weighed it
  Instruction* made = AnyLeaf(type, dims);
  most = usual;
  return made;
}

Instruction* Builder::AnyLeaf(Type type, const Dims& dims) {
  const int64_t draw = random->Below(10);
  if (is_entry && draw < 6) {
    const int64_t number = static_cast<int64_t>(computation->Parameters().size());
    Instruction* made = computation->Add("p", Op::kParameter, Shape::Array(type, dims), {});
    made->parameter_number = number;
    values.push_back(made);
    return made;
  }
  if (draw < 8 || dims.empty()) return Constant(type, dims);
  if (draw == 8 && type != Type::kPred && ClassOf(type) != TypeClass::kComplex) {
    const int64_t d = random->Below(static_cast<int64_t>(dims.size()));
    return Emit(Op::kIota, {}, {{AttrId::kIotaDimension, d}}, Shape::Array(type, dims));
  }
  return Emit(Op::kBroadcast, {Constant(type, {})}, {{AttrId::kDimensions, Ints{}}},
              Shape::Array(type, dims));
}

Instruction* Builder::Constant(Type type, const Dims& dims) {
  Instruction* made = computation->Add("c", Op::kConstant, Shape::Array(type, dims), {});
  made->literal = std::make_unique<Literal>(made->shape);
  Fill(made->literal.get(), random);
  values.push_back(made);
  return made;
}

Instruction* Builder::Number(Type type, int64_t value) {
  Instruction* made = computation->Add("n", Op::kConstant, Shape::Array(type, {}), {});
  made->literal = std::make_unique<Literal>(made->shape);
  VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T x = static_cast<T>(value);
    Narrow(type, &x, 1, made->literal->bytes(), 0);
  });
  return made;
}

Instruction* Builder::Indices(Type type, const Dims& dims, int64_t low, int64_t high,
                              int64_t beyond) {
  Instruction* made = computation->Add("i", Op::kConstant, Shape::Array(type, dims), {});
  made->literal = std::make_unique<Literal>(made->shape);
  for (int64_t i = 0; i < made->literal->size(); ++i) {
    const int64_t drawn = random->Chance(15) ? random->Between(low - beyond, high + beyond)
                                             : random->Between(low, std::max(low, high));
    VisitCompute(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T x = static_cast<T>(drawn);
      Narrow(type, &x, 1, made->literal->bytes(), i);
    });
  }
  return made;
}

Instruction* Builder::Emit(Op op, std::vector<Instruction*> operands, std::vector<Attr> attrs,
                           const Shape& written) {
  Instruction* made =
      computation->Add(std::string(OpName(op)), op, written,
                       absl::InlinedVector<Instruction*, 2>(operands.begin(), operands.end()));
  made->attrs = std::move(attrs);
  Shape shape;
  std::string error;
  bool ok = InferShape(*made, &shape, &error);
  if (ok && written.IsTuple() && written.elements.empty()) made->shape = shape;
  const OpClass op_class = InfoOf(op).op_class;
  const bool passes_on = op_class == OpClass::kTuple || op_class == OpClass::kCall;
  std::vector<const Shape*> arrays{&made->shape};
  for (const Shape& element : made->shape.elements) arrays.push_back(&element);
  for (const Shape* array : arrays) {
    if (!passes_on && array->IsArray() && array->ElementCount() > most) ok = false;
  }
  if (!ok) {
    computation->names->Release(made->name);
    computation->instructions.pop_back();
    return nullptr;
  }
  if (made->shape.IsArray()) {
    if (!made->shape.is_dynamic()) values.push_back(made);
  } else if (made->shape.IsTuple() && op != Op::kTuple) {
    TakeApart(made);
  }
  return made;
}

Instruction* Builder::Element(Instruction* tuple, int64_t index) {
  Instruction* made =
      computation->Add("element", Op::kGetTupleElement, tuple->shape.elements[index], {tuple});
  made->shape = shape_rules::WithoutLayout(made->shape);
  made->Set(AttrId::kIndex, index);
  if (made->shape.IsArray() && !made->shape.is_dynamic()) values.push_back(made);
  return made;
}

void Builder::TakeApart(Instruction* tuple) {
  for (size_t i = 0; i < tuple->shape.elements.size(); ++i) {
    if (!tuple->shape.elements[i].IsArray() || random->Chance(10)) continue;
    Element(tuple, static_cast<int64_t>(i));
  }
}

}  // namespace tpuc::random_modules
