// Building bodies of fusions: cloning instructions into a computation whose parameters stand for
// the values that come from outside.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/ir/hlo.h"

namespace tpuc {

class FusedBody {
 public:
  // A computation called `name` (made unique) in the module.
  FusedBody(Module* module, std::string name);

  // Clones `i` with operands as mapped; operands not mapped yet become parameters.
  Instruction* Add(const Instruction& i);
  // Adds what the kernel `i` computes: the body of a fusion, or the one instruction.
  void AddKernel(Instruction* i);
  // What `outside` (a value of the calling computation) is in here; a parameter if it is new.
  Instruction* Value(Instruction* outside);
  void Map(const Instruction* outside, Instruction* inside) { map_[outside] = inside; }

  // For what is added by hand, before Finish.
  Computation* computation() { return computation_; }
  // The computation: parameters, then what was added, with this root.
  Computation* Finish(Instruction* root);
  // What the parameters stand for, in order.
  const absl::InlinedVector<Instruction*, 2>& operands() const { return operands_; }

 private:
  Computation* computation_;
  absl::InlinedVector<Instruction*, 2> operands_;
  absl::flat_hash_map<const Instruction*, Instruction*> map_;
  std::vector<std::unique_ptr<Instruction>> parameters_;  // not in the computation yet
};

// "multiply_reduce_fusion": after the last two of the operations that name a kernel.
std::string FusionName(const Computation& body);
// kOutput with a contraction in it, else kLoop.
std::string FusionKind(const Computation& body);
// Restores the topological order of the computation, changing it as little as possible.
void SortTopologically(Computation* computation);
// All uses of the keys (operands, control predecessors, root) become their values, in one walk.
void ReplaceAllUses(Computation* computation,
                    const absl::flat_hash_map<Instruction*, Instruction*>& by);

}  // namespace tpuc
