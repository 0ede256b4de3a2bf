// A computation that grows by random, well-typed instructions (generator.h). Values made so far are
// the operands of what comes next; what is missing (an index, a second operand of that shape) is
// made on the spot: a parameter, a constant, an iota.
//
//   Instruction* x = b.Pick(IsFloat);  b.Emit(Op::kAdd, {x, b.Like(*x)});
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/ir/hlo.h"

namespace tpuc::random_modules {

// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { state_ = Next(); }  // far from seed + 1
  uint64_t Next();
  int64_t Below(int64_t n) { return n <= 1 ? 0 : static_cast<int64_t>(Next() % n); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool Chance(int percent) { return Below(100) < percent; }
  template <typename T>
  const T& OneOf(const std::vector<T>& list) {
    return list[Below(static_cast<int64_t>(list.size()))];
  }

 private:
  uint64_t state_;
};

// 0 .. n-1 in a random order.
Ints Permutation(int64_t n, Random* random);
// A random ascending choice of 0 .. n-1.
Ints Subset(int64_t n, int percent, Random* random);

struct Builder {
  Random* random;
  Computation* computation;
  bool is_entry = false;
  int depth = 0;                     // of calls
  int64_t most = 2000;               // elements of a value
  std::vector<Instruction*> values;  // arrays, in order

  // A type: f32 most of the time, any type of a Literal now and then.
  Type AnyType();
  int64_t Size();          // a dimension's size
  Dims AnyDims(int rank);  // at most `most` elements

  using TypeTest = std::function<bool(Type)>;
  // A value whose type passes and whose rank is at least that; made if there is none.
  Instruction* Pick(const TypeTest& test, int rank = 0);
  // Another value (or the same) of this type and these dimensions.
  Instruction* Like(const Instruction& x) { return Array(x.shape.type, x.shape.dims); }
  Instruction* Array(Type type, const Dims& dims);
  Instruction* Leaf(Type type, const Dims& dims);
  Instruction* AnyLeaf(Type type, const Dims& dims);
  Instruction* Constant(Type type, const Dims& dims);
  Instruction* Number(Type type, int64_t value);  // a scalar constant
  // Integers of [low, high], some beyond by `beyond`.
  Instruction* Indices(Type type, const Dims& dims, int64_t low, int64_t high, int64_t beyond);

  // Appends the instruction; `written` is its shape where it does not follow, else kTuple without
  // elements. Null (and nothing appended) where HLO's rules refuse it or it is too large. Arrays
  // become values; so do the elements of tuples.
  Instruction* Emit(Op op, std::vector<Instruction*> operands, std::vector<Attr> attrs = {},
                    const Shape& written = Shape::Tuple({}));
  // The tuple's elements as values.
  void TakeApart(Instruction* tuple);
  Instruction* Element(Instruction* tuple, int64_t index);
};

// A computation of scalars: parameters of these types, random element-wise steps, and a root of the
// type (or the tuple of the types) asked for.
Computation* ScalarComputation(Builder* b, const std::vector<Type>& parameters,
                               const std::vector<Type>& results);
// add, multiply, maximum ... of two scalars; or any computation of ScalarComputation.
Computation* Reducer(Builder* b, Type type);
// p0 < p1 or the like, of pairs of these types.
Computation* Comparator(Builder* b, const std::vector<Type>& types);
// A computation with parameters of these shapes, random steps, and a value of the result's shape.
Computation* Body(Builder* b, const std::string& name, const std::vector<Shape>& parameters,
                  const Shape* result);

}  // namespace tpuc::random_modules
