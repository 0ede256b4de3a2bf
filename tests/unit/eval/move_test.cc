// Data movement against the definition of each operation, index by index, on random shapes of
// rank 0 to 6, empty ones included.
#include <functional>
#include <random>

#include "tests/unit/eval/literals.h"

namespace tpuc {
namespace {

class Random {
 public:
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  Dims SomeDims(int rank) {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 33};
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(kSizes[Below(rank > 3 ? 4 : 7)]);
    if (rank > 0 && Below(12) == 0) dims[Below(rank)] = 0;
    return dims;
  }
  Ints Permutation(int rank) {
    Ints order;
    for (int i = 0; i < rank; ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), engine_);
    return order;
  }

 private:
  std::mt19937 engine_{11};
};

// The row-major position of an index, and its inverse.
int64_t Position(const Dims& dims, const Dims& index) {
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + index[d];
  return at;
}
Dims IndexOf(const Dims& dims, int64_t at) {
  Dims index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = at % dims[d];
    at /= dims[d];
  }
  return index;
}

// Checks that element i of `got` is the element of `from` (an Iota) at source(index), or `fill`.
void Check(const Literal& got, const Literal& from, const std::function<bool(Dims*)>& source,
           int32_t fill = -1) {
  for (int64_t i = 0; i < got.size(); ++i) {
    Dims index = IndexOf(got.shape().dims, i);
    const int32_t want =
        source(&index) ? static_cast<int32_t>(Position(from.shape().dims, index)) : fill;
    ASSERT_EQ(got.data<int32_t>()[i], want) << ToString(from.shape()) << " at " << i;
  }
}

TEST(Move, Transpose) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const int rank = round % 7;
    const Literal a = Iota(Type::kS32, random.SomeDims(rank));
    const Ints order = random.Permutation(rank);
    Dims dims;
    for (int64_t d : order) dims.push_back(a.shape().dims[d]);
    const Literal b = Eval(Op::kTranspose, Type::kS32, dims, {a}, {{AttrId::kDimensions, order}});
    Check(b, a, [&](Dims* index) {
      const Dims out = *index;
      for (int d = 0; d < rank; ++d) (*index)[order[d]] = out[d];
      return true;
    });
  }
}

TEST(Move, BigTransposeAndBytes) {
  const Literal a = Iota(Type::kS32, {301, 517});
  const Literal b =
      Eval(Op::kTranspose, Type::kS32, {517, 301}, {a}, {{AttrId::kDimensions, Ints{1, 0}}});
  Check(b, a, [](Dims* index) {
    std::swap((*index)[0], (*index)[1]);
    return true;
  });
  Literal c(Shape::Array(Type::kC128, {3, 5}));
  for (int i = 0; i < 30; ++i) c.data<double>()[i] = i;
  const Literal t =
      Eval(Op::kTranspose, Type::kC128, {5, 3}, {c}, {{AttrId::kDimensions, Ints{1, 0}}});
  EXPECT_EQ(t.data<double>()[2], 10);  // (0, 1) is (1, 0) of c: elements 10 and 11
  EXPECT_EQ(t.data<double>()[3], 11);
}

TEST(Move, Broadcast) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const int rank = round % 5, more = static_cast<int>(random.Below(3));
    const Literal a = Iota(Type::kS32, random.SomeDims(rank));
    Ints places = random.Permutation(rank + more);
    places.resize(rank);
    Dims dims = random.SomeDims(rank + more);
    for (int d = 0; d < rank; ++d) dims[places[d]] = a.shape().dims[d];
    const Literal b = Eval(Op::kBroadcast, Type::kS32, dims, {a}, {{AttrId::kDimensions, places}});
    Check(b, a, [&](Dims* index) {
      Dims in;
      for (int64_t place : places) in.push_back((*index)[place]);
      *index = in;
      return true;
    });
  }
}

TEST(Move, SliceReverse) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const int rank = round % 7;
    const Literal a = Iota(Type::kS32, random.SomeDims(rank));
    std::vector<SliceDim> slices;
    Dims dims;
    Ints reversed;
    for (int64_t size : a.shape().dims) {
      SliceDim s;
      s.start = random.Below(size + 1);
      s.limit = s.start + random.Below(size - s.start + 1);
      s.stride = 1 + random.Below(3);
      dims.push_back((s.limit - s.start + s.stride - 1) / s.stride);
      if (random.Below(2)) reversed.push_back(static_cast<int64_t>(slices.size()));
      slices.push_back(s);
    }
    const Literal b = Eval(Op::kSlice, Type::kS32, dims, {a}, {{AttrId::kSlice, slices}});
    Check(b, a, [&](Dims* index) {
      for (int d = 0; d < rank; ++d) (*index)[d] = slices[d].start + (*index)[d] * slices[d].stride;
      return true;
    });
    const Literal c =
        Eval(Op::kReverse, Type::kS32, a.shape().dims, {a}, {{AttrId::kDimensions, reversed}});
    Check(c, a, [&](Dims* index) {
      for (int64_t d : reversed) (*index)[d] = a.shape().dims[d] - 1 - (*index)[d];
      return true;
    });
  }
}

TEST(Move, Pad) {
  Random random;
  for (int round = 0; round < 400; ++round) {
    const int rank = round % 5;
    const Literal a = Iota(Type::kS32, random.SomeDims(rank));
    std::vector<PadDim> padding;
    Dims dims;
    for (int64_t size : a.shape().dims) {
      PadDim p{random.Below(9) - 4, random.Below(9) - 4, random.Below(3)};
      int64_t out = size + (size > 0 ? (size - 1) * p.interior : 0) + p.low + p.high;
      if (out < 0) p.high -= out, out = 0;
      dims.push_back(out);
      padding.push_back(p);
    }
    const Literal fill = Make<int32_t>(Type::kS32, {}, {-7});
    const Literal b = Eval(Op::kPad, Type::kS32, dims, {a, fill}, {{AttrId::kPadding, padding}});
    Check(
        b, a,
        [&](Dims* index) {
          for (int d = 0; d < rank; ++d) {
            const int64_t at = (*index)[d] - padding[d].low, step = padding[d].interior + 1;
            if (at < 0 || at % step != 0 || at / step >= a.shape().dims[d]) return false;
            (*index)[d] = at / step;
          }
          return true;
        },
        -7);
  }
}

TEST(Move, ConcatenateReshapeIota) {
  const Literal a = Iota(Type::kS32, {2, 1, 3}), b = Iota(Type::kS32, {2, 2, 3});
  const Literal none = Iota(Type::kS32, {2, 0, 3});
  const Literal c =
      Eval(Op::kConcatenate, Type::kS32, {2, 3, 3}, {a, none, b}, {{AttrId::kDimensions, Ints{1}}});
  EXPECT_EQ(ValuesOf<int32_t>(c), (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 3, 4, 5,  //
                                                        3, 4, 5, 6, 7, 8, 9, 10, 11}));
  const Literal r = Eval(Op::kReshape, Type::kS32, {3, 2, 1}, {a});
  EXPECT_EQ(ValuesOf<int32_t>(r), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ValuesOf<float>(
                Eval(Op::kIota, Type::kF32, {2, 3}, {}, {{AttrId::kIotaDimension, int64_t{1}}})),
            (std::vector<float>{0, 1, 2, 0, 1, 2}));
  const Literal wrapped =
      Eval(Op::kIota, Type::kU8, {300}, {}, {{AttrId::kIotaDimension, int64_t{0}}});
  EXPECT_EQ(wrapped.bytes()[299], 43);
}

TEST(Move, BitcastFollowsTheLayouts) {
  // f32[2,3]{0,1} in memory is its transpose: seen as f32[3,2]{1,0}.
  Literal a = Iota(Type::kS32, {2, 3});
  Shape shape = a.shape();
  shape.layout = Layout{};
  shape.layout->minor_to_major = {0, 1};
  a.Reinterpret(shape);
  const Literal b = Eval(Op::kBitcast, Type::kS32, {3, 2}, {a});
  EXPECT_EQ(ValuesOf<int32_t>(b), (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
}

}  // namespace
}  // namespace tpuc
