// Running a module (evaluator.h). A stack of frames, one a computation being run: the loop takes
// the next instruction of the top frame, so neither long chains nor deep calls use the C++ stack.
// A plan per computation, made once, says what is needed and which instruction is the last to read
// a value.
#include "src/eval/evaluator.h"

#include <memory>
#include <new>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "src/diag/check.h"
#include "src/eval/lanes.h"
#include "src/eval/operation.h"
#include "src/eval/reduce.h"
#include "src/eval/value.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

struct Plan {
  std::vector<std::vector<int>> operands;  // positions in the computation, an instruction each
  std::vector<std::vector<bool>> last;     // of each operand: nobody reads the value after it
  std::vector<bool> needed;                // the root depends on it
  int root = 0;
};

Plan MakePlan(const Computation& computation) {
  const int n = static_cast<int>(computation.instructions.size());
  absl::flat_hash_map<const Instruction*, int> position;
  Plan plan;
  plan.operands.resize(n);
  plan.last.resize(n);
  plan.needed.resize(n, false);
  for (int i = 0; i < n; ++i) {
    position[computation.instructions[i].get()] = i;
    for (const Instruction* operand : computation.instructions[i]->operands) {
      const auto it = position.find(operand);
      CHECK_MSG(it != position.end(), "operand after its user");
      plan.operands[i].push_back(it->second);
    }
  }
  plan.root = position.at(computation.root);
  plan.needed[plan.root] = true;
  std::vector<bool> read_later(n, false);
  read_later[plan.root] = true;
  for (int i = n - 1; i >= 0; --i) {
    if (!plan.needed[i]) continue;
    plan.last[i].resize(plan.operands[i].size());
    for (size_t j = plan.operands[i].size(); j-- > 0;) {
      const int operand = plan.operands[i][j];
      plan.needed[operand] = true;
      plan.last[i][j] = !read_later[operand];
      read_later[operand] = true;
    }
  }
  return plan;
}

struct Frame {
  const Computation* computation;
  const Plan* plan;
  std::vector<Value> arguments;
  std::vector<Value> values;
  int next = 0;
};

class Run {
 public:
  Run(const Module& module, const EvalOptions& options, DiagSink* diags)
      : module_(module), options_(options), diags_(diags) {
    memory_.limit = options.memory_limit > 0 ? options.memory_limit : DefaultMemoryLimit();
  }

  // The entry's value, or nullopt after a diagnostic.
  std::optional<Value> Execute(std::vector<Value> arguments);
  bool TakeInputs(std::vector<Literal> inputs, std::vector<Value>* arguments);
  // Checks that a value of this shape fits beside those that live.
  bool Fits(const Instruction& in, const Shape& shape);

 private:
  const Plan& PlanOf(const Computation& computation) {
    std::unique_ptr<Plan>& plan = plans_[&computation];
    if (!plan) plan = std::make_unique<Plan>(MakePlan(computation));
    return *plan;
  }
  void Call(const Computation& computation, std::vector<Value> arguments) {
    Frame frame{&computation, &PlanOf(computation), std::move(arguments), {}, 0};
    frame.values.resize(computation.instructions.size());
    frames_.push_back(std::move(frame));
  }
  // Stores the value of the instruction that the frame has just run.
  static void Finish(Frame& frame, Value value) { frame.values[frame.next++] = std::move(value); }
  bool Step(const Instruction& in);

  std::optional<Value> Evaluate(const Instruction& in, std::vector<Value>* operands);
  std::optional<Value> Constant(const Instruction& in);
  std::optional<Value> Operation(const Instruction& in, std::vector<Value>* operands);
  std::optional<Value> Reduce(const Instruction& in, const std::vector<Value>& operands);
  std::optional<Value> CustomCall(const Instruction& in, const std::vector<Value>& operands);
  std::nullopt_t Unsupported(const Instruction& in, absl::string_view what);

  const Module& module_;
  const EvalOptions& options_;
  DiagSink* diags_;
  Memory memory_;  // outlives every value below
  absl::flat_hash_map<const Computation*, std::unique_ptr<Plan>> plans_;
  std::vector<Frame> frames_;
};

std::nullopt_t Run::Unsupported(const Instruction& in, absl::string_view what) {
  diags_->Add(DiagCode::kUnsupportedOp, module_.source, in.loc,
              absl::StrCat("the evaluator cannot run ", what, " (instruction ", in.name, ")"));
  return std::nullopt;
}

bool Run::Fits(const Instruction& in, const Shape& shape) {
  const int64_t bytes = shape.LiteralBytes();
  if (bytes <= memory_.limit - memory_.live) return true;
  Diag& diag =
      diags_->Add(DiagCode::kEvalMemory, module_.source, in.loc,
                  absl::StrCat(in.name, " of shape ", ToString(shape, false), " takes ", bytes,
                               " bytes, ", memory_.limit - memory_.live, " are available"));
  diag.hint = "the evaluator may use three quarters of the host's memory";
  return false;
}

bool Run::TakeInputs(std::vector<Literal> inputs, std::vector<Value>* arguments) {
  const std::vector<Instruction*> parameters = module_.entry->Parameters();
  if (inputs.size() != parameters.size()) {
    diags_->Add(DiagCode::kEvalInputs, module_.source, module_.entry->loc,
                absl::StrCat("the program takes ", parameters.size(), " inputs, ", inputs.size(),
                             " are given"));
    return false;
  }
  struct ToValue {
    Memory* memory;
    Value operator()(Literal literal, const Shape& shape) const {
      if (!shape.IsTuple()) {
        literal.Reinterpret(shape);  // the program's layout
        return Value::Array(std::move(literal), memory);
      }
      std::vector<Value> elements;
      for (size_t i = 0; i < shape.elements.size(); ++i) {
        elements.push_back((*this)(std::move(literal.elements()[i]), shape.elements[i]));
      }
      return Value::Tuple(std::move(elements));
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Instruction& parameter = *parameters[i];
    if (!Compatible(inputs[i].shape(), parameter.shape)) {
      diags_->Add(DiagCode::kEvalInputs, module_.source, parameter.loc,
                  absl::StrCat("input ", i, " is ", ToString(inputs[i].shape(), false),
                               ", the program takes ", ToString(parameter.shape, false)));
      return false;
    }
    arguments->push_back(ToValue{&memory_}(std::move(inputs[i]), parameter.shape));
  }
  return true;
}

std::optional<Value> Run::Execute(std::vector<Value> arguments) {
  Call(*module_.entry, std::move(arguments));
  while (true) {
    Frame& frame = frames_.back();
    if (frame.next == static_cast<int>(frame.computation->instructions.size())) {
      Value result = std::move(frame.values[frame.plan->root]);
      frames_.pop_back();
      if (frames_.empty()) return result;
      Finish(frames_.back(), std::move(result));
    } else if (!frame.plan->needed[frame.next]) {
      ++frame.next;
    } else if (!Step(*frame.computation->instructions[frame.next])) {
      return std::nullopt;
    }
  }
}

// Runs one instruction of the top frame, or enters the computation it calls.
bool Run::Step(const Instruction& in) {
  Frame& frame = frames_.back();
  if (in.op == Op::kParameter) {
    Finish(frame, std::move(frame.arguments[in.parameter_number]));
    return true;
  }
  // The last reader takes a value out of the frame, so that its memory ends with the reader.
  std::vector<Value> operands;
  const std::vector<int>& places = frame.plan->operands[frame.next];
  for (size_t j = 0; j < places.size(); ++j) {
    Value& value = frame.values[places[j]];
    operands.push_back(frame.plan->last[frame.next][j] ? std::move(value) : value);
  }
  if (in.op == Op::kCall || in.op == Op::kFusion) {
    constexpr size_t kMaxFrames = 100000;
    if (frames_.size() >= kMaxFrames) {
      Unsupported(in, absl::StrCat("calls nested deeper than ", kMaxFrames));
      return false;
    }
    Call(*in.ComputationAttr(in.op == Op::kCall ? AttrId::kToApply : AttrId::kCalls),
         std::move(operands));
    return true;
  }
  std::optional<Value> value = Evaluate(in, &operands);
  if (!value) return false;
  operands.clear();
  Finish(frame, *std::move(value));
  return true;
}

std::optional<Value> Run::Constant(const Instruction& in) {
  struct View {  // the module owns the literal
    Value operator()(const Literal& literal) const {
      Value value;
      if (!literal.shape().IsTuple()) value.literal = &literal;
      for (const Literal& element : literal.elements()) value.elements.push_back((*this)(element));
      return value;
    }
  };
  if (in.literal->elided()) {
    Diag& diag = diags_->Add(DiagCode::kEvalElided, module_.source, in.loc,
                             absl::StrCat("the value of constant ", in.name,
                                          " was left out when the program was printed"));
    diag.hint = "print the module with all constants (XLA: print_large_constants)";
    return std::nullopt;
  }
  return View{}(*in.literal);
}

std::optional<Value> Run::Evaluate(const Instruction& in, std::vector<Value>* operands) {
  switch (in.op) {
    case Op::kConstant:
      return Constant(in);
    case Op::kTuple:
      return Value::Tuple(std::move(*operands));
    case Op::kGetTupleElement:
      return (*operands)[0].elements[in.IntAttr(AttrId::kIndex)];
    case Op::kOptBarrier:
    case Op::kAddDependency:
      return (*operands)[0];
    case Op::kAfterAll:
      return Value();
    case Op::kCopyStart: {
      Literal context(Shape::Array(Type::kU32, {}));
      return Value::Tuple(
          {(*operands)[0], (*operands)[0], Value::Array(std::move(context), &memory_)});
    }
    case Op::kCopyDone:
      return (*operands)[0].elements[0];
    case Op::kReduce:
      return Reduce(in, *operands);
    case Op::kCustomCall:
      return CustomCall(in, *operands);
    case Op::kCopy:
      if (in.shape.IsTuple()) return (*operands)[0];
      break;
    case Op::kSelect:
      if (in.shape.IsTuple()) {
        return (*operands)[(*operands)[0].literal->bytes()[0] ? 1 : 2];
      }
      break;
    default:
      break;
  }
  return Operation(in, operands);
}

// May the result take the place of an operand of its own type and dimensions? Block-wise loops read
// an element before they write it.
bool WorksInPlace(const Instruction& in) {
  switch (in.op) {
    case Op::kCopy:
    case Op::kReshape:
      return true;
    case Op::kMap:
    case Op::kConvert:
    case Op::kBitcastConvert:
      return false;
    default:
      return InfoOf(in.op).op_class == OpClass::kElementwise;
  }
}

// The operand that the result replaces: one that ends here; -1 if there is none.
int Replaced(const Instruction& in, const std::vector<Value>& operands) {
  if (!WorksInPlace(in)) return -1;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& x = operands[i];
    if (x.owner && x.owner.use_count() == 1 && x.literal->shape().type == in.shape.type &&
        x.literal->byte_size() == in.shape.LiteralBytes()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::optional<Value> Run::Operation(const Instruction& in, std::vector<Value>* operands) {
  std::vector<const Literal*> arrays;
  for (size_t i = 0; i < operands->size(); ++i) {
    if (!(*operands)[i].literal || in.operands[i]->shape.is_dynamic()) {
      return Unsupported(
          in, absl::StrCat(OpName(in.op), " of ", ToString(in.operands[i]->shape, false)));
    }
    arrays.push_back((*operands)[i].literal);
  }
  if (!in.shape.IsArray() || in.shape.is_dynamic()) {
    return Unsupported(in, absl::StrCat(OpName(in.op), " to ", ToString(in.shape, false)));
  }
  Literal out;
  const int replaced = Replaced(in, *operands);
  if (replaced >= 0) {
    out = std::move((*operands)[replaced].owner->literal);
    out.Reinterpret(in.shape);
    if (in.op == Op::kCopy || in.op == Op::kReshape) return Value::Array(std::move(out), &memory_);
    arrays[replaced] = &out;
  } else {
    if (!Fits(in, in.shape)) return std::nullopt;
    out = Literal(in.shape);
  }
  std::string error;
  const bool ok =
      in.op == Op::kMap
          ? EvalMap(*in.ComputationAttr(AttrId::kToApply), arrays, options_, &out, &error)
          : EvalOperation(in.op, arrays, in.attrs, options_, &out, &error);
  if (!ok) return Unsupported(in, error);
  return Value::Array(std::move(out), &memory_);
}

std::optional<Value> Run::Reduce(const Instruction& in, const std::vector<Value>& operands) {
  std::vector<const Literal*> arrays;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (in.operands[i]->shape.is_dynamic()) {
      return Unsupported(in, absl::StrCat("reduce of ", ToString(in.operands[i]->shape, false)));
    }
    arrays.push_back(operands[i].literal);
  }
  if (!Fits(in, in.shape)) return std::nullopt;
  const size_t n = arrays.size() / 2;
  std::vector<Literal> outs;
  if (in.shape.IsTuple()) {
    for (const Shape& element : in.shape.elements) outs.emplace_back(element);
  } else {
    outs.emplace_back(in.shape);
  }
  const Computation& reducer = *in.ComputationAttr(AttrId::kToApply);
  const Ints& dimensions = in.IntsAttr(AttrId::kDimensions);
  Op simple;
  std::string error;
  bool ok;
  if (n == 1 && SimpleReducer(reducer, &simple)) {
    const Type type = arrays[0]->shape().type;
    const bool each_step = options_.numbers == Numbers::kIeee && IsFloat(type) &&
                           BitsOf(type) < 32 && arrays[0]->size() > 0 &&
                           (simple == Op::kAdd || simple == Op::kMultiply);
    ok = (each_step ? EvalNarrowReduce : EvalSimpleReduce)(simple, *arrays[0], *arrays[1],
                                                           dimensions, &outs[0], &error);
  } else {
    std::vector<Literal*> pointers;
    for (Literal& out : outs) pointers.push_back(&out);
    const auto all = absl::MakeConstSpan(arrays);
    ok = EvalGeneralReduce(reducer, all.subspan(0, n), all.subspan(n), dimensions, options_,
                           pointers, &error);
  }
  if (!ok) return Unsupported(in, error);
  if (!in.shape.IsTuple()) return Value::Array(std::move(outs[0]), &memory_);
  std::vector<Value> elements;
  for (Literal& out : outs) elements.push_back(Value::Array(std::move(out), &memory_));
  return Value::Tuple(std::move(elements));
}

void CollectLeaves(const Value& value, std::vector<Literal>* leaves) {
  if (value.literal) leaves->push_back(*value.literal);
  for (const Value& element : value.elements) CollectLeaves(element, leaves);
}

Value FromLeaves(const Shape& shape, std::vector<Literal>* leaves, size_t* next, Memory* memory) {
  if (!shape.IsTuple()) return Value::Array(std::move((*leaves)[(*next)++]), memory);
  std::vector<Value> elements;
  for (const Shape& element : shape.elements) {
    elements.push_back(FromLeaves(element, leaves, next, memory));
  }
  return Value::Tuple(std::move(elements));
}

std::optional<Value> Run::CustomCall(const Instruction& in, const std::vector<Value>& operands) {
  if (!options_.custom_call) {
    return Unsupported(
        in, absl::StrCat("custom-call to \"", in.StringAttr(AttrId::kCustomCallTarget), "\""));
  }
  if (!Fits(in, in.shape)) return std::nullopt;
  std::vector<Literal> arrays;
  for (const Value& operand : operands) CollectLeaves(operand, &arrays);
  auto results = options_.custom_call(in, std::move(arrays), diags_);
  if (!results) return std::nullopt;
  CHECK_MSG(static_cast<int64_t>(results->size()) == in.shape.LeafCount(), "custom_call results");
  size_t next = 0;
  return FromLeaves(in.shape, &*results, &next, &memory_);
}

// The value as a literal of its own; an array that nobody else holds is moved.
Literal ToLiteral(Value value, const Shape& shape) {
  if (shape.IsTuple()) {
    Literal tuple(Shape::Tuple({}));
    for (size_t i = 0; i < shape.elements.size(); ++i) {
      tuple.elements().push_back(ToLiteral(std::move(value.elements[i]), shape.elements[i]));
    }
    tuple.Reinterpret(shape);
    return tuple;
  }
  if (!value.literal) return Literal(shape);  // a token
  const bool own = value.owner && value.owner.use_count() == 1;
  Literal literal = own ? std::move(value.owner->literal) : *value.literal;
  literal.Reinterpret(shape);
  return literal;
}

}  // namespace

std::optional<Literal> Evaluate(const Module& module, std::vector<Literal> inputs,
                                const EvalOptions& options, DiagSink* diags) {
  try {
    Run run(module, options, diags);
    std::vector<Value> arguments;
    if (!run.TakeInputs(std::move(inputs), &arguments)) return std::nullopt;
    std::optional<Value> result = run.Execute(std::move(arguments));
    if (!result) return std::nullopt;
    return ToLiteral(*std::move(result), module.entry->root->shape);
  } catch (const std::bad_alloc&) {
    diags->Add(DiagCode::kEvalMemory, module.source, module.entry->loc,
               "the host's memory is used up");
    return std::nullopt;
  }
}

}  // namespace tpuc
