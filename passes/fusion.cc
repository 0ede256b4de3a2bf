// fusion. Each kernel of the plan with more than one member becomes a fusion; a kernel of a single
// operation stays the plain instruction it is:
//
//   m = multiply(h, h); s = reduce(m, 0)     becomes     s = fusion(h), kind=kLoop, calls=fused_...
//
// Members that other kernels compute too are cloned; originals without users are dropped.
#include "passes/fusion.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "passes/fused_computation.h"
#include "passes/fusion_plan.h"

namespace tpuc {
namespace {

// The fusion, last in the entry until all are made.
Instruction* Fuse(Module* module, const FusedKernel& kernel, PassContext* context) {
  FusedBody body(module, "fused_computation");
  for (Instruction* member : kernel.members) body.Add(*member);
  Instruction* root = kernel.root;
  Computation* computation = body.Finish(body.Value(root));
  // The name tells what is computed here and nowhere else; copies of others' work have none.
  std::string name = kernel.has_copies ? "fusion" : FusionName(*computation);
  Instruction* fusion = module->entry->Add(name, Op::kFusion, root->shape, body.operands());
  fusion->Set(AttrId::kKind, FusionKind(*computation));
  fusion->Set(AttrId::kCalls, computation);
  fusion->loc = root->loc;
  if (root->metadata) fusion->metadata = std::make_unique<Metadata>(*root->metadata);
  context->Remark("kernel ", fusion->name, ": ",
                  absl::StrJoin(kernel.members, ", ", [](std::string* out, const Instruction* m) {
                    out->append(m->name);
                  }));
  return fusion;
}

// Puts the instructions from number `made` on in front of the roots that they replace.
void Place(Computation* entry, size_t made,
           const absl::flat_hash_map<Instruction*, Instruction*>& by_root) {
  absl::flat_hash_map<const Instruction*, std::unique_ptr<Instruction>> fusions;
  std::vector<std::unique_ptr<Instruction>> list;
  list.reserve(entry->instructions.size());
  for (size_t n = made; n < entry->instructions.size(); ++n) {
    const Instruction* key = entry->instructions[n].get();
    fusions[key] = std::move(entry->instructions[n]);
  }
  for (size_t n = 0; n < made; ++n) {
    auto it = by_root.find(entry->instructions[n].get());
    if (it != by_root.end()) list.push_back(std::move(fusions.at(it->second)));
    list.push_back(std::move(entry->instructions[n]));
  }
  entry->instructions = std::move(list);
}

}  // namespace

bool Fusion::Run(Module* module, PassContext* context) {
  std::vector<FusedKernel> kernels = PlanFusion(*module, *context);
  Computation* entry = module->entry;
  const size_t made = entry->instructions.size();
  absl::flat_hash_map<Instruction*, Instruction*> by_root;
  // From the last: its name is the plain one, and operands are still the originals.
  for (auto it = kernels.rbegin(); it != kernels.rend(); ++it) {
    if (it->members.size() >= 2) by_root[it->root] = Fuse(module, *it, context);
    context->CountSteps(static_cast<int64_t>(it->members.size()));
  }
  if (by_root.empty()) return false;
  Place(entry, made, by_root);
  ReplaceAllUses(entry, by_root);
  entry->RemoveDead();
  return true;
}

}  // namespace tpuc
