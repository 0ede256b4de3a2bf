// Live ranges (live_ranges.h).
#include "passes/live_ranges.h"

#include <algorithm>

#include "passes/tiling_rule.h"
#include "src/ir/kernel_call.h"
#include "src/ir/op_table.h"

namespace tpuc {

std::vector<Shape*> LeavesOf(Shape* shape) {
  if (!shape->IsTuple()) return {shape};
  std::vector<Shape*> out;
  for (Shape& element : shape->elements) {
    for (Shape* leaf : LeavesOf(&element)) out.push_back(leaf);
  }
  return out;
}

std::vector<const Shape*> LeavesOf(const Shape& shape) {
  std::vector<const Shape*> out;
  for (Shape* leaf : LeavesOf(const_cast<Shape*>(&shape))) out.push_back(leaf);
  return out;
}

bool IsKernel(const Instruction& i) {
  if (i.op == Op::kBitcast || i.op == Op::kOptBarrier) return false;
  switch (InfoOf(i.op).op_class) {
    case OpClass::kElementwise:
    case OpClass::kMove:
    case OpClass::kContract:
    case OpClass::kReduce:
      return true;
    default:
      return i.op == Op::kFusion || i.op == Op::kIota || IsKernelCall(i);
  }
}

namespace {

// Without tiles (layout assignment was skipped) an array will take the kernels' own: whole
// T(8,128).
int64_t PaddedBytes(const Shape& shape) {
  if (shape.ElementCount() == 0) return 0;
  if (shape.layout && !shape.layout->tiles.empty()) return DeviceBytes(shape);
  Shape tiled = shape;
  Order order = shape.layout ? shape.layout->minor_to_major : RowMajor(shape.rank());
  if (shape.rank() >= 2) {
    int64_t& rows = tiled.dims[order[1]];
    if (rows < 8) rows = 8;
  }
  tiled.layout = TiledLayout(shape.type, tiled.dims, order);
  return DeviceBytes(tiled);
}

// The buffer numbers of an instruction's leaves, where it passes on those of its operands.
bool PassesOn(const Instruction& i, const LiveRanges& ranges, std::vector<int>* leaves) {
  auto append = [&](const Instruction* operand) {
    int64_t count = operand->shape.LeafCount();
    for (int64_t n = 0; n < count; ++n) leaves->push_back(ranges.Find(operand, n));
  };
  switch (i.op) {
    case Op::kTuple:
      for (const Instruction* operand : i.operands) append(operand);
      return true;
    case Op::kBitcast:
    case Op::kOptBarrier:
      append(i.operands[0]);
      return true;
    case Op::kCopyDone:
      leaves->push_back(ranges.Find(i.operands[0], 0));
      return true;
    case Op::kGetTupleElement: {
      const Instruction* tuple = i.operands[0];
      int64_t first = 0;
      for (int64_t n = 0; n < i.IntAttr(AttrId::kIndex); ++n) {
        first += tuple->shape.elements[n].LeafCount();
      }
      for (int64_t n = 0; n < i.shape.LeafCount(); ++n) {
        leaves->push_back(ranges.Find(tuple, first + n));
      }
      return true;
    }
    default:
      return false;
  }
}

void MakeBuffers(const Instruction& i, int64_t position, int64_t end, LiveRanges* ranges) {
  std::vector<const Shape*> shapes = LeavesOf(i.shape);
  for (size_t leaf = 0; leaf < shapes.size(); ++leaf) {
    std::pair<const Instruction*, int64_t> key = {&i, leaf};
    if (i.op == Op::kCopyStart && leaf > 0) {
      ranges->index[key] = leaf == 1 ? ranges->Find(i.operands[0]) : -1;
      continue;
    }
    if (!shapes[leaf]->IsArray()) {
      ranges->index[key] = -1;
      continue;
    }
    LiveBuffer b;
    b.instruction = &i;
    b.leaf = static_cast<int64_t>(leaf);
    b.shape = *shapes[leaf];
    b.bytes = PaddedBytes(b.shape);
    b.defined = position;
    b.parameter = i.op == Op::kParameter;
    b.constant = i.op == Op::kConstant;
    b.from = b.parameter || b.constant ? 0 : position;
    b.to = b.parameter || b.constant ? end : position;
    ranges->index[key] = static_cast<int>(ranges->buffers.size());
    ranges->buffers.push_back(std::move(b));
  }
}

}  // namespace

LiveRanges ComputeLiveRanges(const Computation& computation) {
  LiveRanges ranges;
  ranges.length = static_cast<int64_t>(computation.instructions.size());
  int64_t end = std::max<int64_t>(0, ranges.length - 1);
  for (int64_t position = 0; position < ranges.length; ++position) {
    const Instruction& i = *computation.instructions[position];
    std::vector<int> leaves;
    if (PassesOn(i, ranges, &leaves)) {
      for (size_t n = 0; n < leaves.size(); ++n) {
        ranges.index[{&i, static_cast<int64_t>(n)}] = leaves[n];
      }
    } else {
      MakeBuffers(i, position, end, &ranges);
    }
    // Reads keep operands alive. Passing a buffer on does not; but an asynchronous copy reads its
    // source until it is done.
    bool reads = IsKernel(i) || InfoOf(i.op).op_class != OpClass::kTuple;
    if (i.op == Op::kBitcast) reads = false;
    if (!reads) continue;
    for (const Instruction* operand : i.operands) {
      int64_t count = operand->shape.LeafCount();
      if (i.op == Op::kCopyDone) count = 2;
      for (int64_t n = 0; n < count; ++n) {
        int b = ranges.Find(operand, n);
        if (b < 0) continue;
        LiveBuffer& buffer = ranges.buffers[b];
        buffer.to = std::max(buffer.to, position);
        bool counts = i.op != Op::kCopyDone && i.op != Op::kCopyStart;
        if (counts && (buffer.reads.empty() || buffer.reads.back() != position)) {
          buffer.reads.push_back(position);
        }
      }
    }
  }
  for (int64_t n = 0; n < computation.root->shape.LeafCount(); ++n) {
    int b = ranges.Find(computation.root, n);
    if (b < 0) continue;
    ranges.buffers[b].result = true;
    ranges.buffers[b].to = end;
  }
  return ranges;
}

}  // namespace tpuc
