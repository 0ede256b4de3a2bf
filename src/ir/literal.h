// Literal: a concrete value. Arrays are dense, row-major in the logical dimensions whatever the
// layout of the shape; pred and all types of fewer than 8 bits take one byte an element; complex
// values are (re, im) pairs.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/ir/bytes.h"
#include "src/ir/shape.h"

namespace tpuc {

class Literal {
 public:
  Literal() = default;
  // Zero-filled. The shape's element count must be allocatable: callers check limits first.
  explicit Literal(Shape shape);
  // An array of any contents, for those who write all of it.
  struct Unwritten {};
  Literal(Shape shape, Unwritten);
  // An array of those bytes, or a tuple of those elements (as many as the shape says).
  Literal(Shape shape, Bytes data);
  Literal(Shape shape, std::vector<Literal> elements);
  // An array that lies in somebody else's memory, of the shape's LiteralBytes; so do its copies.
  static Literal View(Shape shape, const uint8_t* memory) {
    Literal view;
    view.shape_ = std::move(shape);
    view.SetView(memory);
    return view;
  }
  // It lies there now.
  void SetView(const uint8_t* memory) { view_ = const_cast<uint8_t*>(memory); }
  // A constant printed as {...}; no data.
  struct Elided {};
  Literal(Shape shape, Elided) : shape_(std::move(shape)), elided_(true) {}

  const Shape& shape() const { return shape_; }
  // Constant printed as {...}: the data is unknown, and running it is an error.
  bool elided() const { return elided_; }
  void set_elided() {
    elided_ = true;
    data_.clear();
  }

  int64_t size() const { return shape_.ElementCount(); }
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes());
  }
  uint8_t* bytes() { return view_ ? view_ : data_.data(); }
  const uint8_t* bytes() const { return view_ ? view_ : data_.data(); }
  int64_t byte_size() const {
    return view_ ? shape_.LiteralBytes() : static_cast<int64_t>(data_.size());
  }

  std::vector<Literal>& elements() { return elements_; }  // of a tuple
  const std::vector<Literal>& elements() const { return elements_; }

  // The same bytes seen as another shape of equal byte size (reshape, bitcast of dense data).
  void Reinterpret(Shape shape) { shape_ = std::move(shape); }
  bool IdenticalTo(const Literal& o) const;  // shape compatible and bits equal

 private:
  Shape shape_;
  bool elided_ = false;
  Bytes data_;
  uint8_t* view_ = nullptr;  // where it lies if it is not in data_
  std::vector<Literal> elements_;
};

}  // namespace tpuc
