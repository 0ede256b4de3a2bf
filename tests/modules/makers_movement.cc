// Opcodes that move data (makers.h).
#include <algorithm>

#include "tests/modules/makers.h"

namespace tpuc::random_modules {
namespace {

bool Any(Type) { return true; }
bool IsIndex(Type type) { return type == Type::kS32 || type == Type::kU32 || type == Type::kS64; }

int64_t Product(const Dims& dims) {
  int64_t product = 1;
  for (int64_t d : dims) product *= d;
  return product;
}

// Other dimensions of as many elements.
Dims Refactored(const Dims& dims, Random* random) {
  if (Product(dims) == 0) return dims;
  Dims to(random->Between(0, 4), 1);
  if (Product(dims) > 1 && to.empty()) to.push_back(1);
  int64_t left = Product(dims);
  for (int64_t factor = 2; left > 1; ++factor) {
    for (; left % factor == 0; left /= factor) {
      to[random->Below(static_cast<int64_t>(to.size()))] *= factor;
    }
  }
  return to;
}

Type IndexType(Random* random) {
  static const std::vector<Type> kTypes{Type::kS32, Type::kS32, Type::kS32,
                                        Type::kU32, Type::kS64, Type::kU8};
  return random->OneOf(kTypes);
}

// A start index for each dimension, within [0, most[d]] or somewhat beyond.
void AddStarts(Builder* b, const Dims& most, std::vector<Instruction*>* operands) {
  const Type type = IndexType(b->random);
  for (int64_t limit : most) {
    Instruction* start = nullptr;
    for (Instruction* value : b->values) {
      const bool fits = IsIndex(type) && value->shape.type == type && value->shape.IsScalar();
      if (fits && b->random->Chance(30)) start = value;
    }
    operands->push_back(start ? start : b->Indices(type, {}, 0, limit, 3));
  }
}

}  // namespace

Instruction* Source(Builder* b, Op) {
  return b->Leaf(b->AnyType(), b->AnyDims(static_cast<int>(b->random->Below(5))));
}

Instruction* Broadcast(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  const int64_t rank = x->shape.rank() + b->random->Below(3);
  Ints places = b->random->Chance(80) ? Subset(rank, 60, b->random) : Permutation(rank, b->random);
  while (static_cast<int>(places.size()) < x->shape.rank()) {
    places.push_back(-1);
    Ints all = Permutation(rank, b->random);
    places.assign(all.begin(), all.begin() + x->shape.rank());
  }
  places.resize(x->shape.rank());
  Dims dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(b->Size());
  for (size_t i = 0; i < places.size(); ++i) dims[places[i]] = x->shape.dims[i];
  return b->Emit(op, {x}, {{AttrId::kDimensions, places}}, Shape::Array(x->shape.type, dims));
}

Instruction* Reshape(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  return b->Emit(op, {x}, {}, Shape::Array(x->shape.type, Refactored(x->shape.dims, b->random)));
}

Instruction* DynamicReshape(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  Shape to = Shape::Array(x->shape.type, Refactored(x->shape.dims, b->random));
  std::vector<Instruction*> operands{x};
  for (int64_t size : to.dims) operands.push_back(b->Number(Type::kS32, size));
  return b->Emit(op, operands, {}, to);
}

Instruction* Transpose(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, static_cast<int>(b->random->Below(3)));
  return b->Emit(op, {x}, {{AttrId::kDimensions, Permutation(x->shape.rank(), b->random)}});
}

Instruction* Reverse(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  return b->Emit(op, {x}, {{AttrId::kDimensions, Subset(x->shape.rank(), 50, b->random)}});
}

Instruction* Slice(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  std::vector<SliceDim> ranges;
  Dims dims;
  for (int64_t size : x->shape.dims) {
    SliceDim r{0, size, 1};
    if (b->random->Chance(50)) r.start = b->random->Below(size + 1);
    if (b->random->Chance(50)) r.limit = b->random->Between(r.start, size);
    if (b->random->Chance(20)) r.stride = b->random->Between(2, 4);
    ranges.push_back(r);
    dims.push_back((r.limit - r.start + r.stride - 1) / r.stride);
  }
  return b->Emit(op, {x}, {{AttrId::kSlice, ranges}}, Shape::Array(x->shape.type, dims));
}

Instruction* DynamicSlice(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  Dims dims, most;
  for (int64_t size : x->shape.dims) {
    dims.push_back(b->random->Chance(40) ? size : b->random->Between(0, size));
    most.push_back(size - dims.back());
  }
  std::vector<Instruction*> operands{x};
  AddStarts(b, most, &operands);
  return b->Emit(op, operands, {{AttrId::kDynamicSliceSizes, Ints(dims.begin(), dims.end())}},
                 Shape::Array(x->shape.type, dims));
}

Instruction* DynamicUpdateSlice(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  Dims dims, most;
  for (int64_t size : x->shape.dims) {
    dims.push_back(b->random->Chance(40) ? size : b->random->Between(0, size));
    most.push_back(size - dims.back());
  }
  std::vector<Instruction*> operands{x, b->Array(x->shape.type, dims)};
  AddStarts(b, most, &operands);
  return b->Emit(op, operands, {}, Shape::Array(x->shape.type, x->shape.dims));
}

Instruction* Concatenate(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  const int64_t d = b->random->Below(x->shape.rank());
  std::vector<Instruction*> operands{x};
  for (int64_t n = b->random->Below(4); n > 0; --n) {
    Dims dims = x->shape.dims;
    if (b->random->Chance(60)) dims[d] = b->Size();
    if (Product(dims) <= b->most) operands.push_back(b->Array(x->shape.type, dims));
  }
  return b->Emit(op, operands, {{AttrId::kDimensions, Ints{d}}});
}

Instruction* Pad(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  std::vector<PadDim> padding;
  for (int i = 0; i < x->shape.rank(); ++i) {
    PadDim p;
    if (b->random->Chance(50)) p.low = b->random->Between(-2, 5);
    if (b->random->Chance(50)) p.high = b->random->Between(-2, 5);
    if (b->random->Chance(20)) p.interior = b->random->Between(1, 3);
    padding.push_back(p);
  }
  return b->Emit(op, {x, b->Array(x->shape.type, {})}, {{AttrId::kPadding, padding}});
}

// A reshape, or a transpose into another layout: the same bytes in memory.
Instruction* Bitcast(Builder* b, Op op) {
  Instruction* x = b->Pick(Any);
  if (b->random->Chance(60)) {
    return b->Emit(op, {x}, {}, Shape::Array(x->shape.type, Refactored(x->shape.dims, b->random)));
  }
  // Dimension i of the result is dimension order[i] of x, and lies where that does.
  const Ints order = Permutation(x->shape.rank(), b->random);
  Shape to = Shape::Array(x->shape.type, {});
  Layout layout;
  for (int64_t d : order) to.dims.push_back(x->shape.dims[d]);
  for (int d = x->shape.rank() - 1; d >= 0; --d) {
    layout.minor_to_major.push_back(std::find(order.begin(), order.end(), d) - order.begin());
  }
  to.layout = layout;
  Instruction* made = b->Emit(op, {x}, {}, to);
  if (made && b->random->Chance(70)) {  // back to where dimensions lie in order
    b->Emit(Op::kCopy, {made}, {}, Shape::Array(to.type, to.dims));
  }
  return made;
}

Instruction* Copy(Builder* b, Op op) { return b->Emit(op, {b->Pick(Any)}); }

Instruction* Gather(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  const int64_t rank = x->shape.rank();
  Ints sizes, map = Subset(rank, 60, b->random), collapsed, offset;
  if (b->random->Chance(30)) std::reverse(map.begin(), map.end());
  Dims most;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = x->shape.dims[d];
    const bool hide = size > 0 && b->random->Chance(40);
    sizes.push_back(hide ? 1 : b->random->Chance(50) ? size : b->random->Between(0, size));
    if (hide) collapsed.push_back(d);
  }
  for (int64_t d : map) most.push_back(x->shape.dims[d] - sizes[d]);
  Dims batch = b->AnyDims(static_cast<int>(b->random->Below(3)));
  for (int64_t& n : batch) n = std::min<int64_t>(n, 9);
  const int64_t vector_dim = map.size() == 1 && b->random->Chance(30)
                                 ? static_cast<int64_t>(batch.size())
                                 : b->random->Below(static_cast<int64_t>(batch.size()) + 1);
  const bool implicit =
      map.size() == 1 && vector_dim == static_cast<int64_t>(batch.size()) && b->random->Chance(50);
  Dims dims = batch;
  if (!implicit) dims.insert(dims.begin() + vector_dim, static_cast<int64_t>(map.size()));
  const int64_t window = rank - static_cast<int64_t>(collapsed.size());
  const int64_t out_rank = static_cast<int64_t>(batch.size()) + window;
  offset = Permutation(out_rank, b->random);
  offset.resize(window);
  std::sort(offset.begin(), offset.end());
  const int64_t largest = most.empty() ? 0 : *std::max_element(most.begin(), most.end());
  Instruction* indices = b->Indices(IndexType(b->random), dims, 0, largest, 3);
  return b->Emit(op, {x, indices},
                 {{AttrId::kOffsetDims, offset},
                  {AttrId::kCollapsedSliceDims, collapsed},
                  {AttrId::kStartIndexMap, map},
                  {AttrId::kIndexVectorDim, vector_dim},
                  {AttrId::kSliceSizes, sizes}});
}

Instruction* Scatter(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  const int64_t rank = x->shape.rank();
  Ints map = Subset(rank, 60, b->random), inserted = Subset(rank, 40, b->random), window;
  Dims batch = b->AnyDims(static_cast<int>(b->random->Below(3)));
  for (int64_t& n : batch) n = std::min<int64_t>(n, 9);
  const int64_t windows = rank - static_cast<int64_t>(inserted.size());
  const int64_t out_rank = static_cast<int64_t>(batch.size()) + windows;
  window = Permutation(out_rank, b->random);
  window.resize(windows);
  std::sort(window.begin(), window.end());
  Dims updates(out_rank, 0);
  size_t next = 0;
  int64_t d = 0;
  for (int64_t i = 0; i < out_rank; ++i) {
    if (!std::binary_search(window.begin(), window.end(), i)) {
      updates[i] = batch[next++];
      continue;
    }
    while (std::binary_search(inserted.begin(), inserted.end(), d)) ++d;
    const int64_t size = x->shape.dims[d++];
    updates[i] = b->random->Chance(50) ? size : b->random->Between(0, size);
  }
  if (Product(updates) > b->most) return nullptr;
  Dims index_dims = batch;
  const int64_t vector_dim = b->random->Below(static_cast<int64_t>(batch.size()) + 1);
  index_dims.insert(index_dims.begin() + vector_dim, static_cast<int64_t>(map.size()));
  int64_t largest = 0;
  for (int64_t m : map) largest = std::max(largest, x->shape.dims[m] - 1);
  const bool two = b->random->Chance(15);
  std::vector<Instruction*> operands{x};
  if (two) operands.push_back(b->Array(b->AnyType(), x->shape.dims));
  std::vector<Type> types;
  for (Instruction* o : operands) types.push_back(o->shape.type);
  operands.push_back(b->Indices(IndexType(b->random), index_dims, 0, largest, 3));
  for (Type type : types) operands.push_back(b->Array(type, updates));
  std::vector<Type> twice = types;
  twice.insert(twice.end(), types.begin(), types.end());
  return b->Emit(
      op, operands,
      {{AttrId::kUpdateWindowDims, window},
       {AttrId::kInsertedWindowDims, inserted},
       {AttrId::kScatterDimsToOperandDims, map},
       {AttrId::kIndexVectorDim, vector_dim},
       {AttrId::kToApply, two ? ScalarComputation(b, twice, types) : Reducer(b, types[0])}});
}

Instruction* DimensionSize(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  const int64_t d = b->random->Below(x->shape.rank());
  const std::vector<Attr> attrs{{AttrId::kDimensions, Ints{d}}};
  if (op == Op::kGetDimensionSize) return b->Emit(op, {x}, attrs);
  Instruction* size = b->Indices(Type::kS32, {}, 0, x->shape.dims[d], 2);
  Instruction* made = b->Emit(op, {x, size}, attrs);
  if (!made) return nullptr;
  // What is dynamic ends here: its size, or the array after an operation that keeps it so.
  Instruction* other = b->Emit(Op::kNegate, {made});
  return b->Emit(Op::kGetDimensionSize, {other ? other : made}, attrs);
}

}  // namespace tpuc::random_modules
