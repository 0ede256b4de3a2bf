// Seeded inputs (inputs.h): draws, then conversion to the element type.
#include "src/eval/inputs.h"

#include <algorithm>

#include "src/ir/native.h"

namespace tpuc {
namespace {

struct Stream {
  uint64_t seed;
  int64_t parameter;
  int64_t next;  // element number of the next draw
};

float UnitFloat(uint64_t draw) { return static_cast<float>(draw >> 40) * 0x1p-23f - 1.0f; }

// Signed types draw -2^(k-1) .. 2^(k-1) - 1 and unsigned 0 .. 2^k - 1 with k = min(4, bits).
template <typename T>
T FromDraw(uint64_t draw, TypeClass cls, uint64_t range) {
  if constexpr (std::is_floating_point_v<T>) {
    return UnitFloat(draw);
  } else {
    if (cls == TypeClass::kBool) return static_cast<T>(draw >> 63);
    const uint64_t value = (draw >> 32) % range;
    return static_cast<T>(cls == TypeClass::kSigned ? value - range / 2 : value);
  }
}

void Fill(Stream* stream, Literal* literal) {
  const Shape& shape = literal->shape();
  if (shape.IsTuple()) {
    for (Literal& element : literal->elements()) Fill(stream, &element);
    return;
  }
  // A complex value is a pair of floats and takes two draws.
  Type type = shape.type;
  int64_t count = shape.ElementCount();
  if (ClassOf(type) == TypeClass::kComplex) {
    type = type == Type::kC64 ? Type::kF32 : Type::kF64;
    count *= 2;
  }
  const uint64_t range = uint64_t{1} << std::min(4, BitsOf(type));
  VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int64_t kBlock = 1024;
    T block[kBlock];
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t n = std::min(kBlock, count - first);
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t draw = InputDraw(stream->seed, stream->parameter, stream->next + first + i);
        block[i] = FromDraw<T>(draw, ClassOf(type), range);
      }
      Narrow(type, block, n, literal->bytes(), first);
    }
  });
  stream->next += count;
}

}  // namespace

uint64_t InputDraw(uint64_t seed, int64_t parameter, int64_t element) {
  uint64_t x = seed << 56 ^ static_cast<uint64_t>(parameter) << 40 ^ static_cast<uint64_t>(element);
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

Literal GenerateInput(const Shape& shape, int64_t parameter, uint64_t seed) {
  Literal literal(shape);
  Stream stream{seed, parameter, 0};
  Fill(&stream, &literal);
  return literal;
}

}  // namespace tpuc
