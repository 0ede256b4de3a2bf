// copy-insertion. A result needs a buffer of its own that a kernel has written. Where a result is a
// parameter, a constant, or the same value as an earlier result, a copy stands between:
//
//   ROOT t = tuple(p, p)     becomes     ROOT t = tuple(copy(p), copy.1(p))
//
// Results without elements have no bytes to copy.
#include "passes/copy_insertion.h"

#include "absl/container/flat_hash_set.h"
#include "passes/live_ranges.h"

namespace tpuc {
namespace {

Instruction* CopyOf(Computation* entry, Instruction* value, PassContext* context) {
  Instruction* where = entry->root->op == Op::kTuple ? entry->root : nullptr;
  Shape shape = value->shape;
  if (shape.layout) shape.layout->memory_space = 0;
  Instruction* copy = where ? entry->AddBefore(where, "copy", Op::kCopy, shape, {value})
                            : entry->Add("copy", Op::kCopy, shape, {value});
  if (value->metadata) copy->metadata = std::make_unique<Metadata>(*value->metadata);
  context->Remark("copy of ", value->name, ": a result must have its own buffer");
  return copy;
}

}  // namespace

bool CopyInsertion::Run(Module* module, PassContext* context) {
  Computation* entry = module->entry;
  LiveRanges ranges = ComputeLiveRanges(*entry);
  absl::flat_hash_set<int> used;
  auto needs_copy = [&](const Instruction* value) {
    if (!value->shape.IsArray() || value->shape.ElementCount() == 0) return false;
    int b = ranges.Find(value);
    if (b < 0) return false;
    return ranges.buffers[b].parameter || ranges.buffers[b].constant || !used.insert(b).second;
  };
  bool changed = false;
  if (entry->root->op == Op::kTuple) {
    for (Instruction*& operand : entry->root->operands) {
      if (!needs_copy(operand)) continue;
      operand = CopyOf(entry, operand, context);
      changed = true;
    }
  } else if (needs_copy(entry->root)) {
    entry->root = CopyOf(entry, entry->root, context);
    changed = true;
  }
  return changed;
}

}  // namespace tpuc
