// Element-wise loops work on blocks of at most kBlock values in the compute type (native.h). An
// InBlocks hands them out, straight from the literal where the stored form is the compute form,
// else widened; an OutBlocks takes them, narrowing where needed.
//
//   for (Block b : BlocksOf(count)) { f(in.At(b), b.n, out.At(b)); out.Done(b); }
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/ir/literal.h"
#include "src/ir/native.h"

namespace tpuc {

inline constexpr int64_t kBlock = 1024;

struct Block {
  int64_t first, n;
};

template <typename F>
void ForBlocks(int64_t count, F&& f) {
  for (int64_t first = 0; first < count; first += kBlock) {
    f(Block{first, std::min(kBlock, count - first)});
  }
}

template <typename T>
class InBlocks {
 public:
  // A literal of one element stands for `count` equal ones.
  InBlocks(const Literal& literal, int64_t count)
      : type_(literal.shape().type), bytes_(literal.bytes()) {
    splat_ = count != 1 && literal.size() == 1;
    if (splat_) Widen(type_, bytes_, 0, 1, buffer_);
  }
  bool splat() const { return splat_; }
  T one() const { return buffer_[0]; }  // where it is a splat
  const T* At(Block b) {
    if (splat_) {
      if (filled_ < b.n) std::fill_n(buffer_, b.n, buffer_[0]);
      filled_ = std::max(filled_, b.n);
      return buffer_;
    }
    if (IsNative(type_)) return reinterpret_cast<const T*>(bytes_) + b.first;
    Widen(type_, bytes_, b.first, b.n, buffer_);
    return buffer_;
  }

 private:
  Type type_;
  const uint8_t* bytes_;
  bool splat_;
  int64_t filled_ = 0;  // places of the buffer, of a splat
  T buffer_[kBlock];
};

template <typename T>
class OutBlocks {
 public:
  explicit OutBlocks(Literal* literal) : type_(literal->shape().type), bytes_(literal->bytes()) {}
  T* At(Block b) { return IsNative(type_) ? reinterpret_cast<T*>(bytes_) + b.first : buffer_; }
  void Done(Block b) {
    if (!IsNative(type_)) Narrow(type_, buffer_, b.n, bytes_, b.first);
  }

 private:
  Type type_;
  uint8_t* bytes_;
  T buffer_[kBlock];
};

// Maximum and minimum as XLA has them: NaN where either is NaN. No branch, so that they vectorise.
template <typename T>
T Max(T a, T b) {
  return (a >= b) | (a != a) ? a : b;
}
template <typename T>
T Min(T a, T b) {
  return (a <= b) | (a != a) ? a : b;
}

// Bits that shifts, counts and complements of a type see.
inline int ValueBits(Type type) { return type == Type::kPred ? 1 : BitsOf(type); }

}  // namespace tpuc
