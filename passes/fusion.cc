// fusion. Each kernel of the plan with more than one member becomes a fusion; a kernel of a single
// operation stays the plain instruction it is:
//
//   m = multiply(h, h); s = reduce(m, 0)     becomes     s = fusion(h), kind=kLoop, calls=fused_...
//
// Members that other kernels compute too are cloned; originals without users are dropped.
#include "passes/fusion.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "passes/fused_computation.h"
#include "passes/fusion_plan.h"

namespace tpuc {
namespace {

void Fuse(Module* module, const FusedKernel& kernel, PassContext* context) {
  FusedBody body(module, "fused_computation");
  for (Instruction* member : kernel.members) body.Add(*member);
  Instruction* root = kernel.root;
  body.computation()->root = body.Value(root);
  // The name tells what is computed here and nowhere else; copies of others' work have none.
  std::string name = kernel.has_copies ? "fusion" : FusionName(*body.computation());
  Instruction* fusion =
      module->entry->AddBefore(root, name, Op::kFusion, root->shape, body.operands());
  fusion->Set(AttrId::kKind, FusionKind(*body.computation()));
  fusion->Set(AttrId::kCalls, body.computation());
  fusion->loc = root->loc;
  if (root->metadata) fusion->metadata = std::make_unique<Metadata>(*root->metadata);
  module->entry->ReplaceUses(root, fusion);
  context->Remark("kernel ", fusion->name, ": ",
                  absl::StrJoin(kernel.members, ", ", [](std::string* out, const Instruction* m) {
                    out->append(m->name);
                  }));
}

}  // namespace

bool Fusion::Run(Module* module, PassContext* context) {
  std::vector<FusedKernel> kernels = PlanFusion(*module, *context);
  bool changed = false;
  // From the last: its name is the plain one, and operands are still the originals.
  for (auto it = kernels.rbegin(); it != kernels.rend(); ++it) {
    if (it->members.size() < 2) continue;
    Fuse(module, *it, context);
    changed = true;
  }
  if (changed) module->entry->RemoveDead();
  return changed;
}

}  // namespace tpuc
