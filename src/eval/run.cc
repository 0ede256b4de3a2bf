// Frames, calls, loops and branches (run.h).
#include "src/eval/run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/eval/operation.h"
#include "src/eval/runnable.h"
#include "src/eval/work.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

bool HoldsTypes(const Value& value, const Shape& shape) {
  if (value.literal) return value.literal->shape().type == shape.type;
  for (size_t i = 0; i < value.elements.size(); ++i) {
    if (!HoldsTypes(value.elements[i], shape.elements[i])) return false;
  }
  return true;
}

}  // namespace

Run::Run(const Module& module, const EvalOptions& options, DiagSink* diags)
    : module_(module), options_(options), diags_(diags) {
  memory_.limit = options.memory_limit > 0 ? options.memory_limit : DefaultMemoryLimit();
}

std::nullopt_t Run::Unsupported(const Instruction& in, absl::string_view what) {
  AddCannotRun(module_, in, what, diags_);
  return std::nullopt;
}

bool Run::Fits(const Instruction& in, int64_t bytes) {
  if (bytes <= memory_.limit - memory_.live) return true;
  Diag& diag =
      diags_->Add(DiagCode::kEvalMemory, module_.source, in.loc,
                  absl::StrCat(in.name, " of shape ", ToString(in.shape, false), " takes ", bytes,
                               " bytes, ", memory_.limit - memory_.live, " are available"));
  diag.hint = "the evaluator may use three quarters of the host's memory";
  return false;
}

// Takes the instruction's steps off what the run may still do.
bool Run::Charge(const Instruction& in) {
  const int64_t steps = WorkOf(in);
  if (*options_.work >= steps) return *options_.work -= steps, true;
  diags_->Add(DiagCode::kFaultCycleLimit, module_.source, in.loc,
              absl::StrCat("the limit of steps is reached at ", in.name));
  return false;
}

const Plan& Run::PlanOf(const Computation& computation, bool is_body) {
  std::unique_ptr<Plan>& plan = plans_[{&computation, is_body}];
  if (!plan) plan = std::make_unique<Plan>(MakePlan(computation, is_body));
  return *plan;
}

void Run::Push(Kind kind, const Computation& computation, Operands arguments) {
  Kept* kept = nullptr;
  const Plan& plan = PlanOf(computation, kind == Kind::kBody);
  if (plan.keeps && depth_ > 0) {
    std::unique_ptr<Kept>& own = kind == Kind::kBody ? Top().loop : kept_[&computation];
    if (!own) own = std::make_unique<Kept>();
    kept = own.get();
  }
  if (depth_ == frames_.size()) frames_.emplace_back();
  Frame& frame = frames_[depth_++];
  frame.computation = &computation;
  frame.plan = &plan;
  frame.kind = kind;
  frame.step = 0;
  frame.loop.reset();
  frame.moments.clear();
  frame.values.resize(computation.instructions.size());
  const bool again = kept != nullptr && kept->filled;
  frame.needed = again ? &plan.needed_again : &plan.needed;
  frame.kept = again ? nullptr : kept;
  if (frame.kept) frame.kept->values.resize(frame.values.size());
  for (size_t i = 0; again && i < frame.values.size(); ++i) {
    if (plan.kept[i] && plan.needed_again[i]) frame.values[i] = kept->values[i];
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int place = plan.parameters[i];
    if ((*frame.needed)[place]) frame.values[place] = std::move(arguments[i]);
  }
}

bool Run::Call(const Instruction& in, Kind kind, const Computation& computation,
               Operands arguments) {
  constexpr size_t kMaxFrames = 100000;
  if (depth_ >= kMaxFrames) {
    Unsupported(in, absl::StrCat("calls nested deeper than ", kMaxFrames));
    return false;
  }
  Push(kind, computation, std::move(arguments));
  return true;
}

void Run::Finish(Value value) {
  Frame& frame = Top();
  const int next = frame.next();
  if (frame.kept && frame.plan->kept[next]) frame.kept->values[next] = value;
  frame.values[next] = std::move(value);
  ++frame.step;
}

std::optional<Value> Run::Execute(const Computation& computation, Operands arguments) {
  Push(Kind::kCall, computation, std::move(arguments));
  while (true) {
    Frame& frame = Top();
    if (frame.step == frame.plan->steps.size()) {
      if (depth_ == 1) return std::move(frame.values[frame.plan->root]);
      if (!Return()) return std::nullopt;
    } else if (const int next = frame.next();
               !(*frame.needed)[next] || frame.values[next].literal) {
      ++frame.step;  // nobody asks, or it is there: a kept value
    } else if (!Next()) {
      return std::nullopt;
    }
  }
}

// Ends the top frame and gives its result to the one below.
bool Run::Return() {
  Frame& ended = Top();
  const Kind kind = ended.kind;
  Value result = std::move(ended.values[ended.plan->root]);
  ended.values.clear();
  if (ended.kept) ended.kept->filled = true;
  --depth_;
  Frame& frame = Top();
  const Instruction& in = *frame.computation->instructions[frame.next()];
  Value& place = frame.values[frame.next()];  // a loop keeps its state here, async its operands
  switch (kind) {
    case Kind::kCall:
      if (in.op == Op::kFusion && !HoldsTypes(result, in.shape)) {
        Unsupported(in, absl::StrCat("a fusion whose computation yields other types than ",
                                     ToString(in.shape, false)));
        return false;
      }
      Finish(std::move(result));
      return true;
    case Kind::kCondition: {
      if (result.literal->bytes()[0] == 0) {
        frame.loop.reset();
        Finish(std::move(place));
        return true;
      }
      if (!frame.loop && IsEndless(in)) {
        Unsupported(in, "a loop without end: its body changes nothing that its condition reads");
        return false;
      }
      if (!frame.loop) frame.loop = std::make_unique<Kept>();
      Operands state;
      state.push_back(std::move(place));
      return Call(in, Kind::kBody, *in.ComputationAttr(AttrId::kBody), std::move(state));
    }
    case Kind::kBody: {
      place = std::move(result);
      Operands state{place};
      return Call(in, Kind::kCondition, *in.ComputationAttr(AttrId::kCondition), std::move(state));
    }
    case Kind::kAsync: {
      std::vector<Value> parts;
      parts.push_back(std::move(place));
      parts.push_back(std::move(result));
      for (size_t i = 2; i < in.shape.elements.size(); ++i) {
        parts.push_back(ToValue(Literal(in.shape.elements[i]), in.shape.elements[i]));
      }
      Finish(Value::Tuple(std::move(parts)));
      return true;
    }
  }
  return false;
}

bool Run::Branch(const Instruction& in, Operands* operands) {
  const Literal& selector = *(*operands)[0].literal;
  const std::vector<Computation*> branches = in.CalledComputations();
  const int64_t last = static_cast<int64_t>(branches.size()) - 1;
  int64_t chosen;
  if (selector.shape().type == Type::kPred) {
    chosen = selector.bytes()[0] ? 0 : 1;
  } else {  // out of range: the last
    chosen = ElementAsInt(selector.shape().type, selector.bytes(), 0);
    if (chosen < 0 || chosen > last) chosen = last;
  }
  Operands argument;
  argument.push_back(std::move((*operands)[1 + chosen]));
  operands->clear();
  return Call(in, Kind::kCall, *branches[chosen], std::move(argument));
}

bool Run::Next() {
  const Frame& frame = Top();
  if (frame.plan->together[frame.step] > 1) return StepLoop();
  return Step(*frame.computation->instructions[frame.next()]);
}

// The operands of the step at hand. The last reader takes a value out of the frame, so that its
// memory ends with the reader.
void Run::TakeOperands(Operands* operands) {
  Frame& frame = Top();
  const std::vector<int>& places = frame.plan->operands[frame.next()];
  operands->clear();
  for (size_t j = 0; j < places.size(); ++j) {
    Value& value = frame.values[places[j]];
    operands->push_back(frame.plan->last[frame.step][j] ? std::exchange(value, Value()) : value);
  }
}

// Runs one instruction of the top frame, or enters the computation it calls.
bool Run::Step(const Instruction& in) {
  Frame& frame = Top();
  if (options_.work && !Charge(in)) return false;
  if (frame.plan->statistics_only[frame.next()]) return StepStatistics(in);
  if (!frame.plan->inlined.empty()) {
    const auto it = frame.plan->inlined.find(frame.next());
    if (it != frame.plan->inlined.end()) return StepInlined(in, it->second);
  }
  const std::vector<int>& places = frame.plan->operands[frame.next()];
  if (in.op == Op::kGetTupleElement) {
    Value& tuple = frame.values[places[0]];
    Value& element = tuple.elements[in.IntAttr(AttrId::kIndex)];
    Value value = frame.plan->takes_element[frame.step] ? std::move(element) : element;
    if (frame.plan->last[frame.step][0]) tuple = Value();
    Finish(std::move(value));
    return true;
  }
  Operands& operands = operands_;
  TakeOperands(&operands);
  switch (in.op) {
    case Op::kCall:
      return Call(in, Kind::kCall, *in.ComputationAttr(AttrId::kToApply), std::move(operands));
    case Op::kFusion:
      return Call(in, Kind::kCall, *in.ComputationAttr(AttrId::kCalls), std::move(operands));
    case Op::kWhile: {
      Value& place = frame.values[frame.next()];
      place = std::move(operands[0]);
      operands[0] = place;
      return Call(in, Kind::kCondition, *in.ComputationAttr(AttrId::kCondition),
                  std::move(operands));
    }
    case Op::kConditional:
      return Branch(in, &operands);
    case Op::kAsyncStart: {
      const Computation& computation = *in.ComputationAttr(AttrId::kCalls);
      if (computation.Parameters().size() != operands.size()) {
        Unsupported(in, "an async-start whose operands come later");
        return false;
      }
      frame.values[frame.next()] = Value::Tuple(operands);
      return Call(in, Kind::kAsync, computation, std::move(operands));
    }
    default:
      break;
  }
  std::optional<Value> value = Evaluate(in, &operands);
  if (!value) return false;
  operands.clear();
  Finish(*std::move(value));
  return true;
}

}  // namespace tpuc
