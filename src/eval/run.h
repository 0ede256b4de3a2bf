// Running a module (evaluator.h). A stack of frames, one a computation being run: the loop takes
// the next instruction of the top frame, so neither long chains nor deep calls nor loops use the
// C++ stack. A loop's state stays where it is: the body gets it whole and may write in place.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "src/eval/evaluator.h"
#include "src/eval/norm.h"
#include "src/eval/plan.h"
#include "src/eval/value.h"

namespace tpuc {

class Run {
 public:
  Run(const Module& module, const EvalOptions& options, DiagSink* diags);

  // The computation's value, or nullopt after a diagnostic.
  std::optional<Value> Execute(const Computation& computation, std::vector<Value> arguments);
  // The value of a literal of that shape, tuples taken apart.
  Value ToValue(Literal literal, const Shape& shape);

 private:
  // What becomes of a frame's result in the frame below.
  enum class Kind { kCall, kCondition, kBody, kAsync };
  struct Kept {
    bool filled = false;
    std::vector<Value> values;  // where plan.kept
  };
  struct Frame {
    const Computation* computation;
    const Plan* plan;
    const std::vector<bool>* needed;
    Kind kind;
    std::vector<Value> values;
    size_t step = 0;
    Kept* kept = nullptr;                           // to be filled, or null
    std::unique_ptr<Kept> loop;                     // what the body of the loop under way keeps
    absl::node_hash_map<int, NormMoments> moments;  // of batch-norms, by position
    int next() const { return plan->steps[step]; }
  };
  using Operands = std::vector<Value>;

  // run.cc: frames
  const Plan& PlanOf(const Computation& computation, bool is_body);
  bool Call(const Instruction& in, Kind kind, const Computation& computation, Operands arguments);
  void Push(Kind kind, const Computation& computation, Operands arguments);
  bool Return();
  bool Step(const Instruction& in);
  bool Next();
  void TakeOperands(Operands* operands);
  bool Branch(const Instruction& in, Operands* operands);
  void Finish(Value value);
  Frame& Top() { return frames_[depth_ - 1]; }

  // run_instruction.cc: one instruction that calls nothing
  std::optional<Value> Evaluate(const Instruction& in, Operands* operands);
  std::optional<Value> Constant(const Instruction& in);
  std::optional<Value> Operation(const Instruction& in, Operands* operands);
  std::optional<Value> OneResult(const Instruction& in, std::vector<const Literal*>* arrays,
                                 Operands* operands);
  int Replaced(const Instruction& in, const Shape& shape, const Operands& operands, size_t result);
  bool ResultShapes(const Instruction& in, absl::Span<const Literal* const> arrays,
                    std::vector<Shape>* shapes);
  bool Allocate(const Instruction& in, const std::vector<Shape>& shapes,
                std::vector<const Literal*>* arrays, Operands* operands,
                std::vector<Literal>* outs);
  std::optional<Value> CustomCall(const Instruction& in, Operands* operands);
  // run_loop.cc: several element-wise instructions as one
  struct Loop;
  bool StepLoop();
  bool StepNormLoop(Loop* loop);
  void AddSteps(size_t begin, Loop* loop);
  bool AddResults(size_t begin, Loop* loop);
  void FinishLoop(Loop* loop);
  // run_inlined.cc: steps that compute their operands
  struct InlinedStep;
  bool StepInlined(const Instruction& in, const Inlined& inlined);
  std::optional<Value> InlinedConvolution(const Instruction& in, InlinedStep* step);
  std::optional<Value> InlinedNormGrad(const Instruction& in, InlinedStep* step);
  bool StepStatistics(const Instruction& in);
  // run_collective.cc: communication, where one device is enough
  std::optional<Value> Collective(const Instruction& in, Operands* operands);
  std::optional<Value> RaggedAllToAll(const Instruction& in, Operands* operands);

  bool Fits(const Instruction& in, int64_t bytes);
  bool Charge(const Instruction& in);
  std::nullopt_t Unsupported(const Instruction& in, absl::string_view what);

  const Module& module_;
  const EvalOptions& options_;
  DiagSink* diags_;
  Memory memory_;  // outlives every value below
  absl::flat_hash_map<std::pair<const Computation*, bool>, std::unique_ptr<Plan>> plans_;
  absl::flat_hash_map<const Computation*, std::unique_ptr<Kept>> kept_;
  std::vector<Frame> frames_;  // the first depth_ are in use; the others keep their storage
  size_t depth_ = 0;
  Operands operands_;  // of the instruction being run; here so that its storage is used again
  std::vector<const Literal*> arrays_;  // the same, as literals
  uint64_t rng_count_ = 0;
  unsigned __int128 rng_state_ = 0x7012395;  // XLA's first state of rng-get-and-update-state
};

// The value as a literal of its own; an array that nobody else holds is moved. Arrays smaller than
// the shape's bounds are padded with zeros.
Literal ToLiteral(Value value, const Shape& shape);

}  // namespace tpuc
