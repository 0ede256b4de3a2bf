// Steps that compute operands of their own as they read them (inlining.h), and batch-norms of which
// only the statistics are wanted.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "src/eval/contract.h"
#include "src/eval/elements.h"
#include "src/eval/fused_loop.h"
#include "src/eval/run.h"

namespace tpuc {

// What the step reads, and the loop that computes its operands.
struct Run::InlinedStep {
  const Inlined& inlined;
  const std::vector<int>& places;  // of what is read, ascending
  Operands read;
  FusedLoop loop;
  absl::flat_hash_map<int, int> values;  // of the loop, by position

  Value& At(int position) {
    return read[std::lower_bound(places.begin(), places.end(), position) - places.begin()];
  }
  int ValueOf(int position) {
    const auto [it, added] = values.try_emplace(position, 0);
    if (added) it->second = loop.AddArray(At(position).literal);
    return it->second;
  }
};

bool Run::StepInlined(const Instruction& in, const Inlined& inlined) {
  Frame& frame = Top();
  const Plan& plan = *frame.plan;
  InlinedStep step{inlined, plan.operands[frame.next()], {}, {}, {}};
  TakeOperands(&step.read);
  for (int position : inlined.producers) {
    const Instruction& producer = *frame.computation->instructions[position];
    if (options_.work && !Charge(producer)) return false;
    const std::vector<int>& operands = plan.operands[position];
    if (producer.op == Op::kGetTupleElement) {
      const int norm = operands[0], operand = step.ValueOf(plan.operands[norm][0]);
      step.values[position] = step.loop.AddNormalised(&frame.moments.at(norm), operand);
      continue;
    }
    std::vector<int> values;
    for (int operand : operands) values.push_back(step.ValueOf(operand));
    step.values[position] = step.loop.AddStep(producer, std::move(values));
  }
  std::optional<Value> value =
      in.op == Op::kConvolution ? InlinedConvolution(in, &step) : InlinedNormGrad(in, &step);
  if (!value) return false;
  Finish(*std::move(value));
  return true;
}

std::optional<Value> Run::InlinedConvolution(const Instruction& in, InlinedStep* step) {
  if (!Fits(in, in.shape.LiteralBytes())) return std::nullopt;
  Literal out(in.shape, Literal::Unwritten());
  const std::vector<int>& operands = step->inlined.operands;
  const Elements lhs(in.operands[0]->shape, &step->loop, step->values.at(operands[0]));
  std::string error;
  if (!EvalConvolution(lhs, *step->At(operands[1]).literal, in.attrs, options_, &out, &error)) {
    return Unsupported(in, error);
  }
  return Value::Array(std::move(out), &memory_);
}

// The gradient that is computed goes where the result will be, maybe in the place of an array that
// it is computed from and that ends here.
std::optional<Value> Run::InlinedNormGrad(const Instruction& in, InlinedStep* step) {
  const std::vector<int>& operands = step->inlined.operands;
  const std::vector<Shape>& shapes = in.shape.elements;
  const auto replaced = std::find_if(step->places.begin(), step->places.end(), [&](int position) {
    const Value& x = step->At(position);
    return step->values.contains(position) && x.owner && x.owner.use_count() == 1 &&
           x.literal->byte_size() == shapes[0].LiteralBytes() &&
           std::find(operands.begin(), operands.end(), position) == operands.end();
  });
  const bool in_place = replaced != step->places.end();
  const int64_t bytes = shapes[1].LiteralBytes() + shapes[2].LiteralBytes();
  if (!Fits(in, bytes + (in_place ? 0 : shapes[0].LiteralBytes()))) return std::nullopt;
  std::vector<Literal> outs;
  outs.reserve(3);
  if (in_place) {
    outs.push_back(std::move(step->At(*replaced).owner->literal));
    outs[0].Reinterpret(shapes[0]);
    step->loop.Moved(step->values.at(*replaced), &outs[0]);
  } else {
    outs.emplace_back(shapes[0], Literal::Unwritten());
  }
  for (size_t i : {1, 2}) outs.emplace_back(shapes[i]);
  step->loop.Store(step->values.at(operands[4]), &outs[0]);
  std::vector<const Literal*> arrays;
  for (size_t i = 0; i < 4; ++i) arrays.push_back(step->At(operands[i]).literal);
  arrays.push_back(&outs[0]);
  const Instruction* failed = nullptr;
  std::string error;
  const auto wanted = [&](int64_t first, int64_t count) {
    if (!failed) failed = step->loop.Run(first, count, &error);
  };
  const bool ok =
      EvalBatchNorm(in, arrays, {&outs[0], &outs[1], &outs[2]}, &error, {nullptr, wanted, nullptr});
  if (!ok || failed) return Unsupported(failed ? *failed : in, error);
  std::vector<Value> elements;
  for (Literal& out : outs) elements.push_back(Value::Array(std::move(out), &memory_));
  return Value::Tuple(std::move(elements));
}

bool Run::StepStatistics(const Instruction& in) {
  Frame& frame = Top();
  Operands operands;
  TakeOperands(&operands);
  std::vector<const Literal*> arrays;
  for (const Value& operand : operands) arrays.push_back(operand.literal);
  const std::vector<Shape>& shapes = in.shape.elements;
  Literal mean(shapes[1]), variance(shapes[2]);
  std::string error;
  if (!EvalBatchNorm(in, arrays, {nullptr, &mean, &variance}, &error,
                     {nullptr, nullptr, &frame.moments[frame.next()]})) {
    return Unsupported(in, error), false;
  }
  Finish(Value::Tuple({Value(), Value::Array(std::move(mean), &memory_),
                       Value::Array(std::move(variance), &memory_)}));
  return true;
}

}  // namespace tpuc
