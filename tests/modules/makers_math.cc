// Contractions, reductions, windows, whole-array mathematics, random numbers (makers.h).
#include <algorithm>

#include "tests/modules/makers.h"

namespace tpuc::random_modules {
namespace {

bool Any(Type) { return true; }
bool IsNumber(Type type) { return type != Type::kPred; }
bool IsComplex(Type type) { return ClassOf(type) == TypeClass::kComplex; }
bool IsFloatOrComplex(Type type) { return IsFloat(type) || IsComplex(type); }

struct Sides {
  Ints lhs_batch, lhs_contract, rhs_batch, rhs_contract;
  Dims rhs;
};

// Dimension numbers of a dot whose left side is `lhs`, and the dimensions of a right side.
Sides DotSides(Builder* b, const Dims& lhs) {
  Sides s;
  for (int64_t d : Permutation(static_cast<int64_t>(lhs.size()), b->random)) {
    const int64_t draw = b->random->Below(10);
    if (draw < 2) s.lhs_batch.push_back(d);
    if (draw >= 2 && draw < 6) s.lhs_contract.push_back(d);
  }
  struct Part {
    int64_t size, batch, contract;
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < s.lhs_batch.size(); ++i) {
    parts.push_back({lhs[s.lhs_batch[i]], static_cast<int64_t>(i), -1});
  }
  for (size_t i = 0; i < s.lhs_contract.size(); ++i) {
    parts.push_back({lhs[s.lhs_contract[i]], -1, static_cast<int64_t>(i)});
  }
  for (int64_t n = b->random->Below(3); n > 0; --n) parts.push_back({b->Size(), -1, -1});
  s.rhs_batch.resize(s.lhs_batch.size());
  s.rhs_contract.resize(s.lhs_contract.size());
  for (int64_t p : Permutation(static_cast<int64_t>(parts.size()), b->random)) {
    const int64_t place = static_cast<int64_t>(s.rhs.size());
    if (parts[p].batch >= 0) s.rhs_batch[parts[p].batch] = place;
    if (parts[p].contract >= 0) s.rhs_contract[parts[p].contract] = place;
    s.rhs.push_back(parts[p].size);
  }
  return s;
}

bool Small(const Dims& dims, int64_t most) {
  int64_t product = 1;
  for (int64_t d : dims) product *= d;
  return product <= most;
}

std::vector<Attr> DotAttrs(const Sides& s) {
  return {{AttrId::kLhsBatchDims, s.lhs_batch},
          {AttrId::kLhsContractingDims, s.lhs_contract},
          {AttrId::kRhsBatchDims, s.rhs_batch},
          {AttrId::kRhsContractingDims, s.rhs_contract}};
}

WindowDim AnyWindowDim(Builder* b, int64_t size) {
  WindowDim w;
  w.size = b->random->Between(1, std::min<int64_t>(4, std::max<int64_t>(1, size)));
  if (b->random->Chance(40)) w.stride = b->random->Between(1, 3);
  if (b->random->Chance(40)) w.pad_low = b->random->Between(-1, 2);
  if (b->random->Chance(40)) w.pad_high = b->random->Between(-1, 2);
  if (b->random->Chance(15)) w.base_dilation = 2;
  if (b->random->Chance(15)) w.window_dilation = 2;
  return w;
}

Instruction* Zero(Builder* b, Type type) {
  return IsComplex(type) ? b->Constant(type, {}) : b->Number(type, b->random->Below(2));
}

}  // namespace

Instruction* Dot(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  Sides s = DotSides(b, x->shape.dims);
  if (!Small(s.rhs, b->most)) return nullptr;
  Instruction* y = b->Array(b->random->Chance(80) ? x->shape.type : b->AnyType(), s.rhs);
  std::vector<Attr> attrs = DotAttrs(s);
  if (b->random->Chance(20)) {
    attrs.push_back({AttrId::kOperandPrecision, std::vector<std::string>{"highest", "highest"}});
  }
  Instruction* made = b->Emit(op, {x, y}, attrs);
  // Accumulated in another precision.
  if (made && IsFloat(made->shape.type) && b->random->Chance(20)) {
    return b->Emit(op, {x, y}, std::move(attrs), Shape::Array(Type::kF32, made->shape.dims));
  }
  return made;
}

Instruction* RaggedDot(Builder* b, Op op) {
  Instruction* x = b->Pick(IsFloat, 2);
  const Dims& lhs = x->shape.dims;
  Sides s;
  s.lhs_contract = {x->shape.rank() - 1};
  const int64_t groups = b->random->Between(1, 3);
  const int64_t ragged = b->random->Below(x->shape.rank() - 1);
  std::vector<Attr> attrs{{AttrId::kLhsRaggedDims, Ints{ragged}}};
  s.rhs = {groups, lhs.back(), b->Size()};
  s.rhs_contract = {1};
  attrs.push_back({AttrId::kRhsGroupDims, Ints{0}});
  if (!Small(s.rhs, b->most)) return nullptr;
  for (Attr& attr : DotAttrs(s)) attrs.push_back(std::move(attr));
  Instruction* sizes = b->Indices(Type::kS32, {groups}, 0, lhs[ragged] / groups, 0);
  return b->Emit(op, {x, b->Array(x->shape.type, s.rhs), sizes}, std::move(attrs));
}

Instruction* ScaledDot(Builder* b, Op op) {
  Instruction* x = b->Pick(IsFloat, 1);
  Sides s = DotSides(b, x->shape.dims);
  if (!Small(s.rhs, b->most)) return nullptr;
  Instruction* y = b->Array(x->shape.type, s.rhs);
  std::vector<Instruction*> operands{x, y};
  for (Instruction* side : {x, y}) {
    Dims blocks;
    for (int64_t size : side->shape.dims) {
      blocks.push_back(size % 2 == 0 && b->random->Chance(50) ? size / 2 : size);
      if (blocks.back() == 0) return nullptr;
    }
    operands.push_back(b->Array(Type::kF32, b->random->Chance(20) ? Dims{} : blocks));
  }
  Instruction probe;
  probe.op = Op::kDot;
  Shape shape = Shape::Array(Type::kF32, {});
  for (int64_t d : s.lhs_batch) shape.dims.push_back(x->shape.dims[d]);
  for (int d = 0; d < x->shape.rank(); ++d) {
    const auto in = [&](const Ints& list) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    if (!in(s.lhs_batch) && !in(s.lhs_contract)) shape.dims.push_back(x->shape.dims[d]);
  }
  for (int64_t d = 0; d < static_cast<int64_t>(s.rhs.size()); ++d) {
    const auto in = [&](const Ints& list) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    if (!in(s.rhs_batch) && !in(s.rhs_contract)) shape.dims.push_back(s.rhs[d]);
  }
  return b->Emit(op, operands, DotAttrs(s), shape);
}

Instruction* Convolution(Builder* b, Op op) {
  const int64_t spatial = b->random->Below(3);
  Instruction* x = nullptr;
  for (Instruction* value : b->values) {
    if (value->shape.rank() == spatial + 2 && IsNumber(value->shape.type)) x = value;
  }
  if (!x)
    x = b->Leaf(b->random->Chance(70) ? Type::kF32 : Type::kS32,
                b->AnyDims(static_cast<int>(spatial) + 2));
  const auto labels = [&](const std::string& letters) {
    std::string text = letters;
    for (int64_t i = 0; i < spatial; ++i) text.push_back(static_cast<char>('0' + i));
    std::string mixed;
    for (int64_t i : Permutation(spatial + 2, b->random)) mixed.push_back(text[i]);
    return mixed;
  };
  const DimLabels names{labels("bf"), labels("io"), labels("bf")};
  const auto size = [&](char c) { return x->shape.dims[names.lhs.find(c)]; };
  int64_t features = 1, batches = 1;
  if (b->random->Chance(25) && size('f') % 2 == 0 && size('f') > 0) features = 2;
  if (features == 1 && b->random->Chance(20) && size('b') % 2 == 0 && size('b') > 0) batches = 2;
  const int64_t outputs = b->random->Between(1, 4) * std::max(features, batches);
  Dims kernel(spatial + 2, 0);
  kernel[names.rhs.find('i')] = size('f') / features;
  kernel[names.rhs.find('o')] = outputs;
  Window window;
  for (int64_t i = 0; i < spatial; ++i) {
    const char digit = static_cast<char>('0' + i);
    window.dims.push_back(AnyWindowDim(b, size(digit)));
    window.dims.back().reversed = b->random->Chance(15);
    kernel[names.rhs.find(digit)] = window.dims.back().size;
  }
  if (!Small(kernel, b->most)) return nullptr;
  std::vector<Attr> attrs{{AttrId::kDimLabels, names}};
  if (spatial > 0) attrs.push_back({AttrId::kWindow, window});
  if (features > 1) attrs.push_back({AttrId::kFeatureGroupCount, features});
  if (batches > 1) attrs.push_back({AttrId::kBatchGroupCount, batches});
  return b->Emit(op, {x, b->Array(x->shape.type, kernel)}, std::move(attrs));
}

namespace {

// An array of square matrices.
Instruction* Matrices(Builder* b) {
  for (Instruction* value : b->values) {
    const Dims& d = value->shape.dims;
    if (d.size() >= 2 && d[d.size() - 1] == d[d.size() - 2] &&
        IsFloatOrComplex(value->shape.type) && b->random->Chance(50)) {
      return value;
    }
  }
  const int64_t n = b->random->Between(1, 9);
  Dims dims{n, n};
  if (b->random->Chance(30)) dims.insert(dims.begin(), b->random->Between(0, 3));
  static const std::vector<Type> kTypes{Type::kF32, Type::kF32, Type::kF64, Type::kC64,
                                        Type::kBF16};
  return b->Leaf(b->random->OneOf(kTypes), dims);
}

}  // namespace

Instruction* Cholesky(Builder* b, Op op) {
  return b->Emit(op, {Matrices(b)}, {{AttrId::kLower, b->random->Chance(50)}});
}

Instruction* TriangularSolve(Builder* b, Op op) {
  static const std::vector<std::string> kTransposes{"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  Instruction* a = Matrices(b);
  const bool left = b->random->Chance(50);
  Dims dims = a->shape.dims;
  dims[left ? dims.size() - 1 : dims.size() - 2] = b->random->Between(1, 5);
  return b->Emit(op, {a, b->Array(a->shape.type, dims)},
                 {{AttrId::kLeftSide, left},
                  {AttrId::kLower, b->random->Chance(50)},
                  {AttrId::kUnitDiagonal, b->random->Chance(30)},
                  {AttrId::kTransposeA, b->random->OneOf(kTransposes)}});
}

Instruction* Fft(Builder* b, Op op) {
  static const std::vector<std::string> kTypes{"FFT", "IFFT", "RFFT", "IRFFT"};
  const std::string& type = b->random->OneOf(kTypes);
  Instruction* x = b->Pick(
      [&](Type t) { return type == "RFFT" ? t == Type::kF32 || t == Type::kF64 : IsComplex(t); },
      1);
  const int64_t count = b->random->Between(1, std::min(3, x->shape.rank()));
  Ints lengths(x->shape.dims.end() - count, x->shape.dims.end());
  if (type == "IRFFT") {
    lengths.back() = std::max<int64_t>(0, 2 * lengths.back() - 1 - b->random->Below(2));
  }
  return b->Emit(op, {x}, {{AttrId::kFftType, type}, {AttrId::kFftLength, lengths}});
}

Instruction* Reduce(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  const Ints dimensions = Subset(x->shape.rank(), 60, b->random);
  if (b->random->Chance(80)) {
    return b->Emit(
        op, {x, Zero(b, x->shape.type)},
        {{AttrId::kDimensions, dimensions}, {AttrId::kToApply, Reducer(b, x->shape.type)}});
  }
  const std::vector<Type> types{x->shape.type, b->AnyType()};
  Instruction* y = b->Array(types[1], x->shape.dims);
  return b->Emit(
      op, {x, y, Zero(b, types[0]), Zero(b, types[1])},
      {{AttrId::kDimensions, dimensions},
       {AttrId::kToApply, ScalarComputation(b, {types[0], types[1], types[0], types[1]}, types)}});
}

Instruction* ReduceWindow(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  Window window;
  for (int64_t size : x->shape.dims) window.dims.push_back(AnyWindowDim(b, size));
  return b->Emit(op, {x, Zero(b, x->shape.type)},
                 {{AttrId::kWindow, window}, {AttrId::kToApply, Reducer(b, x->shape.type)}});
}

Instruction* SelectAndScatter(Builder* b, Op op) {
  Instruction* x = b->Pick([](Type type) { return !IsComplex(type); }, 1);
  Window window;
  Dims windows;
  for (int64_t size : x->shape.dims) {
    WindowDim w;
    w.size = b->random->Between(1, std::min<int64_t>(3, std::max<int64_t>(1, size)));
    w.stride = b->random->Between(1, 2);
    window.dims.push_back(w);
    windows.push_back(size < w.size ? 0 : (size - w.size) / w.stride + 1);
  }
  Instruction* source = b->Array(x->shape.type, windows);
  return b->Emit(op, {x, source, Zero(b, x->shape.type)},
                 {{AttrId::kWindow, window},
                  {AttrId::kSelect, Comparator(b, {x->shape.type})},
                  {AttrId::kScatter, Reducer(b, x->shape.type)}});
}

// to_apply: (slice of the input, carry) -> (slice of an output, carry).
Instruction* Scan(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  const int64_t d = b->random->Below(x->shape.rank());
  if (x->shape.dims[d] > 20) return nullptr;
  Dims slice = x->shape.dims;
  slice.erase(slice.begin() + d);
  const Shape part = Shape::Array(x->shape.type, slice);
  Instruction* carry = b->Array(x->shape.type, slice);
  const Shape result = Shape::Tuple({part, part});
  Computation* body = Body(b, "step", {part, part}, &result);
  return b->Emit(op, {x, carry},
                 {{AttrId::kDimensions, Ints{d}},
                  {AttrId::kNumCarries, int64_t{1}},
                  {AttrId::kIsReverse, b->random->Chance(30)},
                  {AttrId::kToApply, body}});
}

Instruction* Sort(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  std::vector<Instruction*> operands{x};
  std::vector<Type> types{x->shape.type};
  for (int64_t n = b->random->Below(3); n > 0; --n) {
    operands.push_back(b->Array(b->AnyType(), x->shape.dims));
    types.push_back(operands.back()->shape.type);
  }
  return b->Emit(op, operands,
                 {{AttrId::kDimensions, Ints{b->random->Below(x->shape.rank())}},
                  {AttrId::kIsStable, b->random->Chance(70)},
                  {AttrId::kToApply, Comparator(b, types)}});
}

Instruction* Topk(Builder* b, Op op) {
  Instruction* x = b->Pick([](Type type) { return !IsComplex(type); }, 1);
  return b->Emit(op, {x},
                 {{AttrId::kK, b->random->Between(0, x->shape.dims.back())},
                  {AttrId::kLargest, b->random->Chance(60)}});
}

Instruction* BatchNorm(Builder* b, Op op) {
  Instruction* x = b->Pick(IsFloat, 1);
  const int64_t feature = b->random->Below(x->shape.rank());
  const Dims vector{x->shape.dims[feature]};
  std::vector<Instruction*> operands{x};
  const int count = op == Op::kBatchNormTraining ? 3 : 5;
  for (int i = 1; i < count; ++i) {
    const bool whole = op == Op::kBatchNormGrad && i == 4;
    operands.push_back(whole ? b->Like(*x) : b->Array(x->shape.type, vector));
  }
  return b->Emit(op, operands,
                 {{AttrId::kEpsilon, 0.001 * static_cast<double>(b->random->Between(1, 100))},
                  {AttrId::kFeatureIndex, feature}});
}

Instruction* Rng(Builder* b, Op op) {
  static const std::vector<Type> kTypes{Type::kF32, Type::kS32, Type::kU32, Type::kBF16,
                                        Type::kPred};
  const Type type = b->random->OneOf(kTypes);
  const Dims dims = b->AnyDims(static_cast<int>(b->random->Below(3)));
  const bool normal = IsFloat(type) && b->random->Chance(40);
  return b->Emit(op, {b->Number(type, 0), b->Number(type, type == Type::kPred ? 1 : 5)},
                 {{AttrId::kDistribution, std::string(normal ? "rng_normal" : "rng_uniform")}},
                 Shape::Array(type, dims));
}

Instruction* RngBitGenerator(Builder* b, Op op) {
  static const std::vector<std::string> kAlgorithms{"rng_default", "rng_three_fry", "rng_philox"};
  static const std::vector<Type> kTypes{Type::kU32, Type::kU64, Type::kS32, Type::kU16, Type::kU8};
  const std::string& algorithm = b->random->OneOf(kAlgorithms);
  Instruction* state = b->Array(Type::kU64, {algorithm == "rng_three_fry" ? 2 : 3});
  const Dims dims = b->AnyDims(static_cast<int>(b->random->Below(3)));
  return b->Emit(op, {state}, {{AttrId::kRngAlgorithm, algorithm}},
                 Shape::Tuple({Shape::Array(Type::kU64, state->shape.dims),
                               Shape::Array(b->random->OneOf(kTypes), dims)}));
}

Instruction* RngState(Builder* b, Op op) {
  return b->Emit(op, {}, {{AttrId::kDelta, b->random->Between(1, 9)}},
                 Shape::Array(Type::kU64, {2}));
}

}  // namespace tpuc::random_modules
