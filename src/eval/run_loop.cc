// Steps that run as one loop (fusion.h, run.h): which arrays it reads, where its results go. A
// result takes the place of an array that ends here.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "src/eval/fused_loop.h"
#include "src/eval/run.h"

namespace tpuc {

struct LoopResult {
  int position;
  Literal literal;
  int place_of;  // the position of the array in whose place it is, or -1
};

// The steps, and what the loop that they are reads and makes. Positions are the computation's.
struct Run::Loop {
  const Plan& plan;
  size_t first, end;  // steps
  FusedLoop code;
  absl::flat_hash_map<int, int> values;  // of the code, by position
  std::vector<int> arrays;               // positions of what comes from outside
  std::vector<LoopResult> results;

  // Somebody reads the value after the loop.
  bool IsReadLater(int position) const {
    for (size_t s = first; s < end; ++s) {
      const std::vector<int>& operands = plan.operands[plan.steps[s]];
      for (size_t j = 0; j < operands.size(); ++j) {
        if (operands[j] == position && plan.last[s][j]) return false;
      }
    }
    return true;
  }
};

void Run::AddSteps(size_t begin, Loop* loop) {
  const Frame& frame = Top();
  for (size_t s = begin; s < loop->end; ++s) {
    const int position = loop->plan.steps[s];
    std::vector<int> operands;
    for (int operand : loop->plan.operands[position]) {
      const auto [it, added] = loop->values.try_emplace(operand, 0);
      if (added) {
        it->second = loop->code.AddArray(frame.values[operand].literal);
        loop->arrays.push_back(operand);
      }
      operands.push_back(it->second);
    }
    const Instruction& in = *frame.computation->instructions[position];
    loop->values[position] = loop->code.AddStep(in, std::move(operands));
  }
}

// Room for what is read later.
bool Run::AddResults(size_t begin, Loop* loop) {
  Frame& frame = Top();
  std::vector<int> ended;
  for (int position : loop->arrays) {
    const Value& x = frame.values[position];
    if (x.owner && x.owner.use_count() == 1 && !loop->IsReadLater(position)) {
      ended.push_back(position);
    }
  }
  loop->results.reserve(loop->end - begin);  // they are pointed at
  for (size_t s = begin; s < loop->end; ++s) {
    const int position = loop->plan.steps[s];
    if (!loop->IsReadLater(position)) continue;
    const Instruction& in = *frame.computation->instructions[position];
    const auto place = std::find_if(ended.begin(), ended.end(), [&](int other) {
      return frame.values[other].literal->byte_size() == in.shape.LiteralBytes();
    });
    if (place == ended.end()) {
      int64_t bytes = in.shape.LiteralBytes();  // and those that no Value counts yet
      for (const LoopResult& other : loop->results) bytes += other.literal.byte_size();
      if (!Fits(in, bytes)) return false;
      loop->results.push_back({position, Literal(in.shape, Literal::Unwritten()), -1});
    } else {
      loop->results.push_back({position, std::move(frame.values[*place].owner->literal), *place});
      loop->results.back().literal.Reinterpret(in.shape);
      loop->code.Moved(loop->values[*place], &loop->results.back().literal);
      ended.erase(place);
    }
    loop->code.Store(loop->values[position], &loop->results.back().literal);
  }
  return true;
}

void Run::FinishLoop(Loop* loop) {
  Frame& frame = Top();
  for (int position : loop->arrays) {
    if (!loop->IsReadLater(position)) frame.values[position] = Value();
  }
  for (LoopResult& result : loop->results) {
    frame.values[result.position] = Value::Array(std::move(result.literal), &memory_);
  }
  frame.step = loop->end;
}

// A batch-norm, its first element and what is made of that: each part of the element as soon as it
// is there.
bool Run::StepNormLoop(Loop* loop) {
  Frame& frame = Top();
  const int position = frame.next(), element = loop->plan.steps[loop->first + 1];
  const Instruction& in = *frame.computation->instructions[position];
  Operands operands;
  TakeOperands(&operands);
  std::vector<const Literal*> arrays;
  for (const Value& operand : operands) arrays.push_back(operand.literal);
  std::vector<Literal> outs;
  if (!Allocate(in, in.shape.elements, &arrays, &operands, &outs)) return false;
  const bool in_place = arrays[0] == &outs[0];
  frame.values[element] = Value::Array(std::move(outs[0]), &memory_);
  const size_t begin = loop->first + 2;
  AddSteps(begin, loop);
  if (!AddResults(begin, loop)) return false;
  Literal* normalised = &frame.values[element].owner->literal;
  for (LoopResult& result : loop->results) {
    if (result.place_of == element) normalised = &result.literal;
  }
  if (in_place) arrays[0] = normalised;
  const Instruction* failed = nullptr;
  std::string error;
  const auto hand_on = [&](int64_t first, int64_t count) {
    if (!failed) failed = loop->code.Run(first, count, &error);
  };
  const bool ok = EvalBatchNorm(in, arrays, {normalised, &outs[1], &outs[2]}, &error,
                                {hand_on, nullptr, &frame.moments[position]});
  if (!ok || failed) return Unsupported(failed ? *failed : in, error), false;
  frame.values[position] = Value();
  if (!loop->plan.last[loop->first + 1][0]) {
    frame.values[position] = Value::Tuple({Value(), Value::Array(std::move(outs[1]), &memory_),
                                           Value::Array(std::move(outs[2]), &memory_)});
  }
  FinishLoop(loop);
  return true;
}

bool Run::StepLoop() {
  const Frame& frame = Top();
  const size_t first = frame.step, count = static_cast<size_t>(frame.plan->together[first]);
  Loop loop{*frame.plan, first, first + count, {}, {}, {}, {}};
  const Instruction& head = *frame.computation->instructions[frame.next()];
  const bool norm = head.op == Op::kBatchNormTraining;
  if (norm && !loop.plan.takes_element[first + 1]) return Step(head);  // others read it, too
  for (size_t s = first; options_.work && s < loop.end; ++s) {
    if (!Charge(*frame.computation->instructions[loop.plan.steps[s]])) return false;
  }
  if (norm) return StepNormLoop(&loop);
  AddSteps(first, &loop);
  if (!AddResults(first, &loop)) return false;
  std::string error;
  const int64_t size = head.shape.ElementCount();
  if (const Instruction* failed = loop.code.Run(0, size, &error)) {
    return Unsupported(*failed, error), false;
  }
  FinishLoop(&loop);
  return true;
}

}  // namespace tpuc
