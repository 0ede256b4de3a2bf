// A value while a module runs: an array shared by those who use it, or a tuple of values. Arrays
// count towards the memory that may live at once, and leave it when the last user drops them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/ir/literal.h"

namespace tpuc {

// What values take, in bytes.
struct Memory {
  int64_t live = 0, limit = 0;
};

struct CountedArray {
  CountedArray(Literal value, Memory* counted)
      : literal(std::move(value)), memory(counted), bytes(literal.byte_size()) {
    memory->live += bytes;
  }
  ~CountedArray() { memory->live -= bytes; }
  CountedArray(const CountedArray&) = delete;
  CountedArray& operator=(const CountedArray&) = delete;

  Literal literal;
  Memory* memory;
  int64_t bytes;
};

struct Value {
  const Literal* literal = nullptr;     // null: a tuple or a token
  std::shared_ptr<CountedArray> owner;  // null for constants, which the module owns
  std::vector<Value> elements;          // of a tuple

  static Value Array(Literal literal, Memory* memory) {
    Value value;
    value.owner = std::make_shared<CountedArray>(std::move(literal), memory);
    value.literal = &value.owner->literal;
    return value;
  }
  static Value Tuple(std::vector<Value> elements) {
    Value value;
    value.elements = std::move(elements);
    return value;
  }
};

}  // namespace tpuc
