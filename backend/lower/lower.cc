// See lower.h: the order of the steps.
#include "backend/lower/lower.h"

#include "absl/strings/str_cat.h"
#include "backend/lower/legalize.h"
#include "backend/lower/lowering.h"
#include "backend/lower/rewrite.h"
#include "backend/lower/unroll.h"
#include "src/ir/op_table.h"

namespace tpuc {

namespace lower {

namespace {

// Besides operations on elements of one place, those that have a lowering.
bool HasLowering(Op op) {
  switch (op) {
    case Op::kConstant:
    case Op::kIota:
    case Op::kBroadcast:
    case Op::kReshape:
    case Op::kBitcast:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kConcatenate:
    case Op::kPad:
    case Op::kReverse:
    case Op::kReduce:
    case Op::kDot:
    case Op::kCopy:
      return true;
    default:
      return InfoOf(op).op_class == OpClass::kElementwise;
  }
}

}  // namespace

// Everything below may take for granted that operations and constants are ones it knows.
bool Lowering::Known() {
  for (size_t id = 0; id < k.nodes.size() && !failed_; ++id) {
    const Node& n = k.nodes[id];
    if (n.kind != Node::Kind::kHlo) continue;
    const bool reshapes = n.op == Op::kBitcastConvert &&  // elements of another width
                          n.shape.dims != k.nodes[n.operands[0]].shape.dims;
    if (!HasLowering(n.op) || reshapes) {
      Fail(static_cast<NodeId>(id), "not compiled to bundles yet");
    }
    if (n.literal != nullptr && n.literal->elided()) {
      Fail(static_cast<NodeId>(id), "its value was left out ({...})");
    }
  }
  return !failed_;
}

// Names for faults, where the kernel is a text that somebody wrote.
void Lowering::DescribeSource() {
  if (k.loc.line <= 0) return;
  for (const llo::Allocation& a : f->allocations) {
    isa::Local l;
    l.name = a.name;
    l.memory = a.memory;
    l.offset = a.offset;
    l.size = a.size;
    for (const kernel::Ref& ref : k.refs) {
      l.semaphore |= ref.name == a.name && ref.space == kernel::Ref::Space::kSemaphore;
    }
    f->info.locals.push_back(std::move(l));
  }
  if (f->grid_steps <= 1) return;
  for (const kernel::GridAxis& axis : k.grid) {
    f->info.grid.axes.push_back(axis.name);
    f->info.grid.extents.push_back(axis.most.empty() ? axis.extent : -1);
  }
}

bool Lowering::Run() {
  f->name = k.name;
  f->grid_steps = k.GridSteps();
  f->info.op_names = k.op_names;
  f->info.ops = k.ops;
  f->info.grid_steps = f->grid_steps;
  if (!Known() || !SetUpRefs()) return false;
  InferAlikeRefs();
  InferLayouts();
  if (failed_) return false;
  loop_index.assign(k.nodes.size(), Imm(0));
  loop_negative.assign(k.nodes.size(), 0);
  PushScope(-1);
  if (f->grid_steps == 0) {
    NewBlock("entry", 1, false);
  } else if (f->grid_steps == 1 && !RunTimeGrid(k.grid)) {
    EmitOneStep();
  } else {
    EmitGrid();
  }
  DescribeSource();
  DescribeDots();
  f->info.vmem_bytes = (next_row - options.first_row) * 512;
  return !failed_;
}

}  // namespace lower

bool LowerKernel(const kernel::Kernel& kernel, const Chip& chip, const LowerOptions& options,
                 llo::Function* function, std::vector<isa::SourceEntry>* sources, DiagSink* diags) {
  kernel::Kernel body = kernel;
  lower::LegalizeAccesses(&body);
  lower::UnrollLoops(&body);
  lower::RewriteBody(&body);
  lower::Lowering lowering(body, chip, options, function, sources, diags);
  return lowering.Run();
}

}  // namespace tpuc
