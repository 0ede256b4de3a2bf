// Finding loops in a list of steps (fusion.h).
#include "src/eval/fusion.h"

#include <algorithm>
#include <utility>

#include "src/ir/op_table.h"

namespace tpuc {
namespace {

constexpr size_t kFar = 64;        // steps between those of one loop
constexpr size_t kMostSteps = 64;  // of a loop: their blocks share a cache

class LoopFinder {
 public:
  LoopFinder(const Computation& computation, Plan* plan)
      : computation_(computation), plan_(*plan), state_(plan->operands.size(), State::kBefore) {}

  void Run() {
    std::vector<int>& steps = plan_.steps;
    plan_.together.assign(steps.size(), 1);
    for (size_t s = 0; s < steps.size(); ++s) {
      if (!Begins(steps[s])) continue;
      const Loop loop = LoopAt(s);
      const size_t count = loop.members.size();
      // A batch-norm and its element alone are no loop.
      if (count < (At(steps[s]).op == Op::kBatchNormTraining ? 3u : 2u)) continue;
      const size_t moved_before = MoveTogether(s, loop);
      s += moved_before;
      plan_.together[s] = static_cast<int>(count);
      s += count - 1;
    }
  }

 private:
  enum class State : uint8_t { kBefore, kMember, kMade, kRead };
  struct Loop {
    std::vector<size_t> members;  // places of steps
    std::vector<size_t> before;   // of constants and broadcast scalars made between them
  };

  const Instruction& At(int i) const { return *computation_.instructions[i]; }
  bool TouchesLarge(int i) const {
    const Shape& shape = At(i).shape;
    if (!plan_.splat[i] && (!shape.IsArray() || IsLarge(shape))) return true;
    return std::any_of(plan_.operands[i].begin(), plan_.operands[i].end(), [&](int operand) {
      return !plan_.splat[operand] && IsLarge(At(operand).shape);
    });
  }

  bool IsLoop(int i) const { return tpuc::IsLoop(computation_, plan_, i); }
  bool Begins(int i) const {
    if (At(i).op != Op::kBatchNormTraining) return IsLoop(i);
    return !plan_.dynamic[i] && IsLarge(At(i).shape.elements[0]);
  }

  // The loop that begins with the step at s.
  Loop LoopAt(size_t s) {
    const std::vector<int>& steps = plan_.steps;
    Loop loop;
    std::vector<size_t>& places = loop.members;
    places.push_back(s);
    std::vector<int> touched{steps[s]};
    state_[steps[s]] = State::kMember;
    arrays_.clear();
    const bool norm = At(steps[s]).op == Op::kBatchNormTraining;
    const Dims& dims = norm ? At(steps[s]).shape.elements[0].dims : At(steps[s]).shape.dims;
    if (!norm) AddArrays(steps[s]);
    for (size_t t = s + 1; t < std::min(steps.size(), s + kFar) && places.size() < kMostSteps;
         ++t) {
      const int i = steps[t];
      const bool element = norm && places.size() == 1 && IsFirstElement(i, steps[s]);
      const bool joins =
          (!norm || places.size() > 1) && IsLoop(i) && At(i).shape.dims == dims && ReadsLoop(i);
      if (state_[i] == State::kBefore && (element || joins) && CanMove(i)) {
        places.push_back(t);
        state_[i] = State::kMember;
        touched.push_back(i);
        if (element) {
          arrays_.assign(1, i);
        } else {
          AddArrays(i);
        }
        continue;
      }
      const bool scalar = plan_.splat[i] || At(i).op == Op::kConstant;
      if (state_[i] == State::kBefore && scalar && CanMove(i) && !ReadsMember(i)) {
        loop.before.push_back(t);
        continue;
      }
      if (TouchesLarge(i) && !IsElementOf(i, steps[s])) break;
      for (int operand : plan_.operands[i]) Touch(operand, State::kRead, &touched);
      Touch(i, State::kMade, &touched);
    }
    for (int i : touched) state_[i] = State::kBefore;
    return loop;
  }

  bool IsElementOf(int i, int tuple) const {
    return At(i).op == Op::kGetTupleElement && plan_.operands[i][0] == tuple;
  }
  bool IsFirstElement(int i, int tuple) const {
    return IsElementOf(i, tuple) && At(i).IntAttr(AttrId::kIndex) == 0;
  }
  bool ReadsMember(int i) const {
    return std::any_of(plan_.operands[i].begin(), plan_.operands[i].end(),
                       [&](int operand) { return state_[operand] == State::kMember; });
  }
  // Reads a member, or an array that one reads.
  bool ReadsLoop(int i) const {
    return ReadsMember(i) ||
           std::any_of(plan_.operands[i].begin(), plan_.operands[i].end(), [&](int operand) {
             return std::find(arrays_.begin(), arrays_.end(), operand) != arrays_.end();
           });
  }
  // Its operands are there where the loop begins.
  bool CanMove(int i) const {
    return std::all_of(plan_.operands[i].begin(), plan_.operands[i].end(),
                       [&](int operand) { return state_[operand] != State::kMade; });
  }
  void AddArrays(int i) {
    for (int operand : plan_.operands[i]) {
      if (!plan_.splat[operand]) arrays_.push_back(operand);
    }
  }
  // A step between those of the loop makes or reads it. A member stays one.
  void Touch(int i, State state, std::vector<int>* touched) {
    if (state_[i] == State::kMember) return;
    if (state_[i] != State::kMade) state_[i] = state;
    touched->push_back(i);
  }

  // Scalars, the loop, what stood between. How many scalars there are.
  size_t MoveTogether(size_t s, const Loop& loop) {
    std::vector<int>& steps = plan_.steps;
    const size_t end = loop.members.back() + 1;
    std::vector<int> moved, others;
    std::vector<bool> moves(end - s, false);
    for (const std::vector<size_t>* places : {&loop.before, &loop.members}) {
      for (size_t t : *places) {
        if (t >= end) continue;
        moved.push_back(steps[t]);
        moves[t - s] = true;
      }
    }
    for (size_t t = s; t < end; ++t) {
      if (!moves[t - s]) others.push_back(steps[t]);
    }
    const size_t before = moved.size() - loop.members.size();
    moved.insert(moved.end(), others.begin(), others.end());
    std::copy(moved.begin(), moved.end(), steps.begin() + static_cast<int64_t>(s));
    return before;
  }

  const Computation& computation_;
  Plan& plan_;
  std::vector<State> state_;  // what happened since the loop began
  std::vector<int> arrays_;   // that its steps read
};

}  // namespace

bool IsLarge(const Shape& shape) {
  return shape.IsArray() && shape.ElementCount() >= kLargeElements;
}

bool IsLoop(const Computation& computation, const Plan& plan, int i) {
  const Instruction& in = *computation.instructions[i];
  if (InfoOf(in.op).op_class != OpClass::kElementwise || plan.dynamic[i] || !IsLarge(in.shape) ||
      ClassOf(in.shape.type) == TypeClass::kComplex) {
    return false;
  }
  if (in.op == Op::kMap || in.op == Op::kBitcastConvert || in.op == Op::kStochasticConvert) {
    return false;
  }
  return std::all_of(plan.operands[i].begin(), plan.operands[i].end(), [&](int operand) {
    const Shape& shape = computation.instructions[operand]->shape;
    return plan.splat[operand] || (shape.IsArray() && shape.dims == in.shape.dims &&
                                   ClassOf(shape.type) != TypeClass::kComplex);
  });
}

void FuseLoops(const Computation& computation, Plan* plan) { LoopFinder(computation, plan).Run(); }

}  // namespace tpuc
