// An array that an operation reads in parts: it lies in memory, or a loop computes each part where
// it is read, so that the whole array never is.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "src/eval/fused_loop.h"
#include "src/ir/literal.h"

namespace tpuc {

class Elements {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): any array passes for its elements
  Elements(const Literal& array) : shape_(array.shape()), array_(&array) {}
  // The value of the loop.
  Elements(Shape shape, FusedLoop* loop, int value)
      : shape_(std::move(shape)), loop_(loop), value_(value) {}

  const Shape& shape() const { return shape_; }
  const Literal* array() const { return array_; }  // null: computed

  // Of a computed array: elements first, ..., first + count - 1, to `to`. False and *error where a
  // step of the loop has types that are not supported.
  bool Compute(int64_t first, int64_t count, uint8_t* to, std::string* error) const {
    return loop_->Compute(value_, first, count, to, error) == nullptr;
  }

  // Of a computed array: one of as many elements of equal size that it is computed from, for those
  // who fetch ahead; null where there is none.
  const uint8_t* source() const { return loop_->ArrayOf(LiteralBytesOf(shape_.type)); }

 private:
  Shape shape_;
  const Literal* array_ = nullptr;
  FusedLoop* loop_ = nullptr;
  int value_ = 0;
};

}  // namespace tpuc
