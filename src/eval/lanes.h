// A computation on scalars (the to_apply of map, reduce ...) as a straight program that runs on
// many lanes at once: every scalar value becomes an array of n lanes, and each instruction is one
// element-wise operation over them.
//
//   add_max(a, b) on 4096 lanes: one `add` of f32[4096], one `maximum` of f32[4096]
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/evaluator.h"

namespace tpuc {

class LaneProgram {
 public:
  // nullopt and *error where the computation takes or yields more than scalars. A computation of
  // more than element-wise operations and calls to such (loops, branches) runs lane by lane.
  // `result`: the value wanted in place of the root.
  static std::optional<LaneProgram> Make(const Computation& computation, std::string* error,
                                         const Instruction* result = nullptr);

  // arguments[i] holds n lanes of parameter i. Returns n lanes of each result leaf, or nullopt and
  // *error for an unsupported type.
  std::optional<std::vector<Literal>> Run(int64_t n, absl::Span<const Literal* const> arguments,
                                          const EvalOptions& options, std::string* error) const;

  // The same for arrays of equal sizes, some lanes at a time. outs: of the result leaves' types;
  // they may be among the arguments.
  bool RunInto(absl::Span<const Literal* const> arguments, absl::Span<Literal* const> outs,
               const EvalOptions& options, std::string* error) const;

 private:
  struct Step {
    const Instruction* instruction;
    std::vector<int> operands;  // slots
    int result;                 // slot
  };
  bool Append(const Computation& computation, const std::vector<std::vector<int>>& arguments,
              const Instruction* result, int depth, std::vector<int>* results, std::string* error);

  std::optional<std::vector<Literal>> RunEach(int64_t n, absl::Span<const Literal* const> arguments,
                                              const EvalOptions& options, std::string* error) const;

  const Computation* each_ = nullptr;  // run lane by lane
  std::vector<Step> steps_;
  std::vector<int> results_;
  int arguments_ = 0, slots_ = 0;  // slots 0 .. arguments_ - 1 are the arguments
  std::vector<Type> types_;        // of the arguments; others are converted
};

// The computation yields values of the types of outs; else false and *error. (Rules let floats of
// another precision pass.)
bool YieldsTypesOf(const Computation& computation, absl::Span<Literal* const> outs,
                   std::string* error);

// map: out[i] = computation(operands[0][i], ...), in lanes.
bool EvalMap(const Computation& computation, absl::Span<const Literal* const> operands,
             const EvalOptions& options, Literal* out, std::string* error);

}  // namespace tpuc
