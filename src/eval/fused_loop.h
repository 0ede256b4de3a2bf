// Element-wise instructions of equal dimensions as one loop: each runs on a block of elements that
// stays in the cache, then the next one on the same block. What only they read is never an array.
//
//   y = x * 2; p = y > 1; z = clamp(y)   ->   for each block: y, p, z; p and z where they belong
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/eval/norm.h"
#include "src/ir/hlo.h"
#include "src/ir/literal.h"

namespace tpuc {

class FusedLoop {
 public:
  // A value of the loop: an operand of its steps. Arrays have the loop's size, or one element,
  // which stands for all. They are read when the loop runs.
  int AddArray(const Literal* array);
  // An element-wise instruction (not map) on such values.
  int AddStep(const Instruction& in, std::vector<int> operands);
  // A batch-norm's result, of a value that has its operand's elements. The moments are read when
  // the loop runs.
  int AddNormalised(const NormMoments* moments, int operand);
  // Where the value of a step goes: an array of its type and of the loop's size. It may be one of
  // those that are read.
  void Store(int value, Literal* out) { stores_.push_back({value, out}); }

  // An array that the loop reads, of elements of that many bytes: what is computed from them can be
  // fetched ahead. Null where there is none.
  const uint8_t* ArrayOf(int64_t bytes) const;

  // The array lies somewhere else now.
  void Moved(int value, const Literal* array) { values_[value].array = array; }

  // Elements first, ..., first + count - 1. Null, or a step whose types are not supported and
  // *error.
  const Instruction* Run(int64_t first, int64_t count, std::string* error);
  // The same, and these elements of a value, always the same one, to `to`.
  const Instruction* Compute(int value, int64_t first, int64_t count, uint8_t* to,
                             std::string* error);

 private:
  struct Value {
    const Literal* array;  // null: of a step
    Type type;
    int64_t bytes;  // of an element
    bool one;       // element, which stands for all
  };
  struct Step {
    const Instruction* in;  // null: normalises
    const NormMoments* moments;
    std::vector<int> operands;
    int result;
    std::optional<NormBounds> bounds;  // of what is normalised
  };
  struct StoreTo {
    int value;
    Literal* out;
    bool copied = true;  // after the block: later steps read what lies there
  };
  struct Target {
    int value;
    uint8_t* to;
  };
  int AddResult(const Instruction* in, const NormMoments* moments, Type type,
                std::vector<int> operands);
  bool IsReadAfter(const StoreTo& store) const;
  void Merge(const Target* target);
  void Fetch(int64_t first, int64_t n) const;  // brings these elements of arrays near
  const Instruction* RunBlock(int64_t first, int64_t n, const Target* target, std::string* error);
  std::vector<Literal>& BlocksOf(int64_t n);

  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<StoreTo> stores_;
  std::map<int64_t, std::vector<Literal>> blocks_;  // so many elements of each value
  std::vector<const Literal*> operands_;            // of the step at hand
};

}  // namespace tpuc
