// Algebraic simplification: the rules of passes/simplify, until none applies.
#pragma once

#include <vector>

#include "passes/pass.h"

namespace tpuc {

// Computations whose instructions are values of the program: the entry, loop and branch bodies. Not
// those: reduction bodies, comparators, bodies of fusions.
std::vector<Computation*> SimplifiableComputations(const Module& module);

class AlgebraicSimplifier : public Pass {
 public:
  absl::string_view name() const override { return "simplify"; }
  bool Run(Module* module, PassContext* context) override;
};

}  // namespace tpuc
