// Literal storage (literal.h): dense row-major bytes, or one literal per element of a tuple.
#include "src/ir/literal.h"

#include <algorithm>

#include "src/diag/check.h"

namespace tpuc {

Literal::Literal(Shape shape) : shape_(std::move(shape)) {
  if (shape_.IsTuple()) {
    elements_.reserve(shape_.elements.size());
    for (const Shape& element : shape_.elements) elements_.emplace_back(element);
  } else {
    data_.resize(shape_.LiteralBytes(), 0);
  }
}

Literal::Literal(Shape shape, Unwritten) : shape_(std::move(shape)), data_(shape_.LiteralBytes()) {
  CHECK(shape_.IsArray());
}

Literal::Literal(Shape shape, Bytes data) : shape_(std::move(shape)), data_(std::move(data)) {
  CHECK(shape_.LiteralBytes() == static_cast<int64_t>(data_.size()));
}

Literal::Literal(Shape shape, std::vector<Literal> elements)
    : shape_(std::move(shape)), elements_(std::move(elements)) {
  CHECK(shape_.elements.size() == elements_.size());
}

bool Literal::IdenticalTo(const Literal& o) const {
  if (!Compatible(shape_, o.shape_) || elided_ != o.elided_ ||
      elements_.size() != o.elements_.size()) {
    return false;
  }
  if (!std::equal(bytes(), bytes() + byte_size(), o.bytes(), o.bytes() + o.byte_size())) {
    return false;
  }
  for (size_t i = 0; i < elements_.size(); ++i) {
    if (!elements_[i].IdenticalTo(o.elements_[i])) return false;
  }
  return true;
}

}  // namespace tpuc
