// Running a loop block by block (fused_loop.h). A block is loaded whole before anything is stored,
// so that results may take the place of operands.
#include "src/eval/fused_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/eval/elementwise.h"

namespace tpuc {

int FusedLoop::AddArray(const Literal* array) {
  arrays_.push_back(array);
  types_.push_back(array->shape().type);
  return static_cast<int>(arrays_.size()) - 1;
}

int FusedLoop::AddStep(const Instruction& in, std::vector<int> operands) {
  const int result = static_cast<int>(arrays_.size());
  arrays_.push_back(nullptr);
  types_.push_back(in.shape.type);
  steps_.push_back({&in, std::move(operands), result});
  return result;
}

// Blocks of the few lengths that come stay where they are: in the cache.
std::vector<Literal>& FusedLoop::BlocksOf(int64_t n) {
  std::vector<Literal>& blocks = blocks_[n];
  for (size_t v = blocks.size(); v < arrays_.size(); ++v) {
    const bool one = arrays_[v] && arrays_[v]->size() == 1;
    blocks.emplace_back(Shape::Array(types_[v], {one ? 1 : n}), Literal::Unwritten());
    if (one) std::memcpy(blocks[v].bytes(), arrays_[v]->bytes(), blocks[v].byte_size());
  }
  return blocks;
}

const Instruction* FusedLoop::RunBlock(int64_t first, int64_t n, std::string* error) {
  std::vector<Literal>& blocks = BlocksOf(n);
  for (size_t v = 0; v < arrays_.size(); ++v) {
    if (!arrays_[v] || arrays_[v]->size() == 1) continue;
    const int64_t bytes = LiteralBytesOf(types_[v]);
    std::memcpy(blocks[v].bytes(), arrays_[v]->bytes() + first * bytes, n * bytes);
  }
  std::vector<const Literal*> operands;
  for (const Step& step : steps_) {
    operands.clear();
    for (int v : step.operands) operands.push_back(&blocks[v]);
    Literal* out = &blocks[step.result];
    if (!EvalElementwise(step.in->op, operands, step.in->attrs, out, error)) return step.in;
  }
  for (const StoreTo& store : stores_) {
    const int64_t bytes = LiteralBytesOf(types_[store.value]);
    std::memcpy(store.out->bytes() + first * bytes, blocks[store.value].bytes(), n * bytes);
  }
  return nullptr;
}

const Instruction* FusedLoop::Run(int64_t first, int64_t count, std::string* error) {
  constexpr int64_t kMost = 2048;  // elements of a block
  const int64_t blocks = (count + kMost - 1) / kMost;
  const int64_t even = blocks > 0 ? (count + blocks - 1) / blocks : 0;
  for (const int64_t end = first + count; first < end; first += even) {
    const int64_t n = std::min(even, end - first);
    if (const Instruction* failed = RunBlock(first, n, error)) return failed;
  }
  return nullptr;
}

}  // namespace tpuc
