// dce. Drops instructions without users (not parameters, not side effects) until none is left, then
// computations that nothing calls.
#include "passes/dce.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace tpuc {

bool Dce::Run(Module* module, PassContext* context) {
  int removed = 0;
  for (const auto& computation : module->computations) removed += computation->RemoveDead();

  absl::flat_hash_set<const Computation*> live = {module->entry};
  std::vector<const Computation*> work = {module->entry};
  while (!work.empty()) {
    const Computation* computation = work.back();
    work.pop_back();
    for (const auto& instruction : computation->instructions) {
      for (Computation* callee : instruction->CalledComputations()) {
        if (live.insert(callee).second) work.push_back(callee);
      }
    }
  }
  auto& list = module->computations;
  size_t before = list.size();
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const auto& c) { return !live.contains(c.get()); }),
             list.end());
  size_t dropped = before - list.size();
  if (removed || dropped) {
    context->Remark("removed ", removed, " instructions and ", dropped, " computations");
  }
  return removed > 0 || dropped > 0;
}

}  // namespace tpuc
