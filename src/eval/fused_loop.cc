// Running a loop block by block (fused_loop.h). A block is loaded whole before anything is stored,
// so that results may take the place of operands.
#include "src/eval/fused_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "src/eval/elementwise.h"
#include "src/ir/native.h"

namespace tpuc {

int FusedLoop::AddArray(const Literal* array) {
  const Type type = array->shape().type;
  values_.push_back({array, type, LiteralBytesOf(type), array->size() == 1});
  return static_cast<int>(values_.size()) - 1;
}

int FusedLoop::AddResult(const Instruction* in, const NormMoments* moments, Type type,
                         std::vector<int> operands) {
  const int result = static_cast<int>(values_.size());
  values_.push_back({nullptr, type, LiteralBytesOf(type), false});
  steps_.push_back({in, moments, std::move(operands), result, {}});
  return result;
}

int FusedLoop::AddStep(const Instruction& in, std::vector<int> operands) {
  return AddResult(&in, nullptr, in.shape.type, std::move(operands));
}

int FusedLoop::AddNormalised(const NormMoments* moments, int operand) {
  return AddResult(nullptr, moments, values_[operand].type, {operand});
}

// Values of steps have blocks, which stay in the cache; arrays are read, and what goes to one is
// written where it lies.
std::vector<Literal>& FusedLoop::BlocksOf(int64_t n) {
  std::vector<Literal>& blocks = blocks_[n];
  for (size_t v = blocks.size(); v < values_.size(); ++v) {
    const Value& value = values_[v];
    Shape shape = Shape::Array(value.type, {value.one ? 1 : n});
    if (value.array) {
      blocks.push_back(Literal::View(std::move(shape), value.array->bytes()));
    } else {
      blocks.emplace_back(std::move(shape), Literal::Unwritten());
    }
  }
  return blocks;
}

// A clamp takes a batch-norm's result on as it is made, where nobody else reads it.
void FusedLoop::Merge(const Target* target) {
  std::vector<int> readers(values_.size(), 0), made(values_.size(), -1);
  for (const Step& step : steps_) {
    for (int operand : step.operands) ++readers[operand];
  }
  for (const StoreTo& store : stores_) ++readers[store.value];
  if (target) ++readers[target->value];
  const auto bound = [&](int value, double* to) {
    const Value& v = values_[value];
    if (v.array && v.one) *to = ElementAsDouble(v.type, v.array->bytes(), 0);
    return v.array && v.one && !std::isnan(*to);
  };
  std::vector<Step> merged;
  for (Step& step : steps_) {
    NormBounds bounds;
    const int norm = step.moments || step.operands.size() < 2 ? -1 : made[step.operands[1]];
    if (norm >= 0 && step.in->op == Op::kClamp && readers[step.operands[1]] == 1 &&
        bound(step.operands[0], &bounds.low) && bound(step.operands[2], &bounds.high)) {
      merged[norm].bounds = bounds;
      merged[norm].result = step.result;
      continue;
    }
    if (step.moments) made[step.result] = static_cast<int>(merged.size());
    merged.push_back(std::move(step));
  }
  steps_ = std::move(merged);
}

// A step after the one that makes the value reads an array in whose place it goes.
bool FusedLoop::IsReadAfter(const StoreTo& store) const {
  for (size_t s = steps_.size(); s-- > 0 && steps_[s].result != store.value;) {
    for (int operand : steps_[s].operands) {
      if (values_[operand].array == store.out) return true;
    }
  }
  return false;
}

const Instruction* FusedLoop::RunBlock(int64_t first, int64_t n, const Target* target,
                                       std::string* error) {
  if (blocks_.empty()) {
    Merge(target);
    for (StoreTo& store : stores_) store.copied = IsReadAfter(store);
  }
  std::vector<Literal>& blocks = BlocksOf(n);
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    if (!value.array || value.one) continue;
    blocks[v].SetView(value.array->bytes() + first * value.bytes);
  }
  const auto place = [&](const StoreTo& store) {
    return store.out->bytes() + first * values_[store.value].bytes;
  };
  for (const StoreTo& store : stores_) {
    if (!store.copied) blocks[store.value].SetView(place(store));
  }
  if (target) blocks[target->value].SetView(target->to);
  std::vector<const Literal*>& operands = operands_;
  for (const Step& step : steps_) {
    if (step.moments) {
      EvalNormalise(*step.moments, step.bounds ? &*step.bounds : nullptr, blocks[step.operands[0]],
                    first, &blocks[step.result]);
      continue;
    }
    operands.clear();
    for (int v : step.operands) operands.push_back(&blocks[v]);
    Literal* out = &blocks[step.result];
    if (!EvalElementwise(step.in->op, operands, step.in->attrs, out, error)) return step.in;
  }
  for (const StoreTo& store : stores_) {
    const Literal& block = blocks[store.value];
    if (store.copied) std::memcpy(place(store), block.bytes(), block.byte_size());
  }
  return nullptr;
}

const uint8_t* FusedLoop::ArrayOf(int64_t bytes) const {
  for (const Value& value : values_) {
    if (value.array && !value.one && value.bytes == bytes) return value.array->bytes();
  }
  return nullptr;
}

namespace {

// Calls f(first, n) for blocks of nearly equal sizes until it returns something; before, `ahead` of
// the next.
template <typename A, typename F>
const Instruction* ForBlocks(int64_t first, int64_t count, A&& ahead, F&& f) {
  constexpr int64_t kMost = 1024;  // elements of a block
  const int64_t blocks = (count + kMost - 1) / kMost;
  const int64_t even = blocks > 0 ? (count + blocks - 1) / blocks : 0;
  for (const int64_t end = first + count; first < end; first += even) {
    const int64_t n = std::min(even, end - first);
    ahead(first + n, std::min(even, end - first - n));
    if (const Instruction* failed = f(first, n)) return failed;
  }
  return nullptr;
}

}  // namespace

// Inlined always: of nothing but prefetches, it counts as pure, and GCC drops its calls.
__attribute__((always_inline)) inline void FusedLoop::Fetch(int64_t first, int64_t n) const {
  constexpr int64_t kLine = 64;  // bytes
  for (const Value& value : values_) {
    if (!value.array || value.one) continue;
    const uint8_t* from = value.array->bytes() + first * value.bytes;
    for (int64_t i = 0; i < n * value.bytes; i += kLine) __builtin_prefetch(from + i, 0, 2);
  }
}

const Instruction* FusedLoop::Run(int64_t first, int64_t count, std::string* error) {
  const auto ahead = [&](int64_t at, int64_t n) { Fetch(at, n); };
  return ForBlocks(first, count, ahead,
                   [&](int64_t at, int64_t n) { return RunBlock(at, n, nullptr, error); });
}

const Instruction* FusedLoop::Compute(int value, int64_t first, int64_t count, uint8_t* to,
                                      std::string* error) {
  Target target{value, to};
  const auto ahead = [&](int64_t at, int64_t n) { Fetch(at, n); };
  return ForBlocks(first, count, ahead, [&](int64_t at, int64_t n) {
    const Instruction* failed = RunBlock(at, n, &target, error);
    target.to += n * values_[value].bytes;
    return failed;
  });
}

}  // namespace tpuc
