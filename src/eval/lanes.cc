// Building and running lane programs (lanes.h). Tuples vanish at build time: a value is a list of
// slots, one for a scalar.
#include "src/eval/lanes.h"

#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "src/eval/elementwise.h"
#include "src/eval/operation.h"
#include "src/eval/strided.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

constexpr int kMaxCallDepth = 100;

bool IsScalarOp(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kCopy:
    case Op::kReshape:
    case Op::kBitcast:
    case Op::kBroadcast:
      return true;
    case Op::kMap:
      return false;
    default:
      return InfoOf(instruction.op).op_class == OpClass::kElementwise;
  }
}

// n lanes of a scalar.
Literal Splat(const Literal& scalar, int64_t n) {
  Literal lanes(Shape::Array(scalar.shape().type, {n}));
  FillElements(scalar.bytes(), LiteralBytesOf(scalar.shape().type), n, lanes.bytes());
  return lanes;
}

// Elements [first, first + n) of x in row-major order, as n lanes.
Literal LanesOf(const Literal& x, int64_t first, int64_t n) {
  const int64_t width = LiteralBytesOf(x.shape().type);
  Literal lanes(Shape::Array(x.shape().type, {n}));
  std::memcpy(lanes.bytes(), x.bytes() + first * width, n * width);
  return lanes;
}

}  // namespace

bool LaneProgram::Append(const Computation& computation,
                         const std::vector<std::vector<int>>& arguments, const Instruction* result,
                         int depth, std::vector<int>* results, std::string* error) {
  constexpr size_t kMaxSteps = 100000;  // calls of calls may multiply
  if (steps_.size() > kMaxSteps) {
    *error = absl::StrCat("more than ", kMaxSteps, " operations in computation ", computation.name);
    return false;
  }
  if (depth > kMaxCallDepth) {
    *error = absl::StrCat("calls nested deeper than ", kMaxCallDepth);
    return false;
  }
  absl::flat_hash_map<const Instruction*, std::vector<int>> slots;
  for (const auto& owned : computation.instructions) {
    const Instruction& in = *owned;
    std::vector<int>& mine = slots[&in];
    std::vector<int> operands;
    std::vector<std::vector<int>> values;
    for (const Instruction* operand : in.operands) {
      values.push_back(slots[operand]);
      operands.insert(operands.end(), values.back().begin(), values.back().end());
    }
    switch (in.op) {
      case Op::kParameter:
        mine = arguments[in.parameter_number];
        continue;
      case Op::kTuple:
        mine = operands;
        continue;
      case Op::kGetTupleElement:
        mine = {operands[in.IntAttr(AttrId::kIndex)]};
        continue;
      case Op::kCall:
      case Op::kFusion: {
        const Computation* callee =
            in.ComputationAttr(in.op == Op::kCall ? AttrId::kToApply : AttrId::kCalls);
        std::vector<int> inner;
        if (!Append(*callee, values, callee->root, depth + 1, &inner, error)) return false;
        slots[&in] = std::move(inner);
        continue;
      }
      default:
        break;
    }
    if (!in.shape.IsScalar() || (in.op != Op::kConstant && !IsScalarOp(in))) {
      *error = absl::StrCat(OpName(in.op), " of ", ToString(in.shape, false), " in computation ",
                            computation.name);
      return false;
    }
    if (in.op == Op::kConstant && in.literal->elided()) {
      *error = absl::StrCat("an elided constant in computation ", computation.name);
      return false;
    }
    mine = {slots_++};
    steps_.push_back({&in, std::move(operands), mine[0]});
  }
  *results = slots[result];
  return true;
}

std::optional<LaneProgram> LaneProgram::Make(const Computation& computation, std::string* error,
                                             const Instruction* result) {
  LaneProgram program;
  std::vector<const Shape*> shapes{&computation.root->shape};
  for (const Instruction* parameter : computation.Parameters()) {
    shapes.push_back(&parameter->shape);
    program.types_.push_back(parameter->shape.type);
  }
  for (const Shape& element : computation.root->shape.elements) shapes.push_back(&element);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i]->IsScalar() || (i == 0 && shapes[i]->IsTuple())) continue;
    *error = absl::StrCat("a computation of ", ToString(*shapes[i], false), " for each element (",
                          computation.name, ")");
    return std::nullopt;
  }
  std::vector<std::vector<int>> arguments;
  for (size_t i = 0; i < computation.Parameters().size(); ++i) {
    arguments.push_back({program.slots_++});
  }
  program.arguments_ = program.slots_;
  const Instruction* wanted = result != nullptr ? result : computation.root;
  if (program.Append(computation, arguments, wanted, 0, &program.results_, error)) return program;
  if (result != nullptr) return std::nullopt;
  program.each_ = &computation;
  return program;
}

std::optional<std::vector<Literal>> LaneProgram::RunEach(int64_t n,
                                                         absl::Span<const Literal* const> arguments,
                                                         const EvalOptions& options,
                                                         std::string* error) const {
  const Shape& shape = each_->root->shape;
  std::vector<Literal> results;
  for (const Shape& leaf : shape.IsTuple() ? shape.elements : std::vector<Shape>{shape}) {
    results.emplace_back(Shape::Array(leaf.type, {n}));
  }
  const auto element = [](const Literal& x, int64_t i) {
    Literal scalar(Shape::Array(x.shape().type, {}));
    std::memcpy(scalar.bytes(), x.bytes() + i * scalar.byte_size(), scalar.byte_size());
    return scalar;
  };
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (arguments[k]->shape().type == types_[k]) continue;
    *error = absl::StrCat("a loop on ", TypeName(types_[k]), " in a reducer of ",
                          TypeName(arguments[k]->shape().type));
    return std::nullopt;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::vector<Literal> scalars;
    for (const Literal* argument : arguments) scalars.push_back(element(*argument, i));
    auto leaves = EvaluateComputation(*each_, std::move(scalars), options, error);
    if (!leaves) return std::nullopt;
    for (size_t r = 0; r < results.size(); ++r) {
      const int64_t bytes = (*leaves)[r].byte_size();
      std::memcpy(results[r].bytes() + i * bytes, (*leaves)[r].bytes(), bytes);
    }
  }
  return results;
}

std::optional<std::vector<Literal>> LaneProgram::Run(int64_t n,
                                                     absl::Span<const Literal* const> arguments,
                                                     const EvalOptions& options,
                                                     std::string* error) const {
  if (each_ != nullptr) return RunEach(n, arguments, options, error);
  std::vector<const Literal*> values(slots_);
  std::vector<Literal> made(slots_);
  for (int i = 0; i < arguments_; ++i) {
    values[i] = arguments[i];
    if (arguments[i]->shape().type == types_[i]) continue;
    made[i] = Literal(Shape::Array(types_[i], {n}));
    if (!EvalElementwise(Op::kConvert, {&arguments[i], 1}, {}, &made[i], error)) {
      return std::nullopt;
    }
    values[i] = &made[i];
  }
  for (const Step& step : steps_) {
    const Instruction& in = *step.instruction;
    if (in.op == Op::kConstant) {
      made[step.result] = Splat(*in.literal, n);
    } else {
      std::vector<const Literal*> operands;
      for (int slot : step.operands) operands.push_back(values[slot]);
      Literal out(Shape::Array(in.shape.type, {n}));
      // A scalar moved to a scalar is the same lanes.
      const Op op = InfoOf(in.op).op_class == OpClass::kMove ? Op::kCopy : in.op;
      if (!EvalOperation(op, operands, in.attrs, options, &out, error)) return std::nullopt;
      made[step.result] = std::move(out);
    }
    values[step.result] = &made[step.result];
  }
  std::vector<Literal> results;
  for (int slot : results_) results.push_back(*values[slot]);
  return results;
}

bool LaneProgram::RunInto(absl::Span<const Literal* const> arguments,
                          absl::Span<Literal* const> outs, const EvalOptions& options,
                          std::string* error) const {
  constexpr int64_t kLanes = 4096;
  const int64_t count = outs[0]->size();
  for (int64_t first = 0; first < count; first += kLanes) {
    const int64_t n = std::min(kLanes, count - first);
    std::vector<Literal> blocks;
    for (const Literal* argument : arguments) blocks.push_back(LanesOf(*argument, first, n));
    std::vector<const Literal*> lanes;
    for (const Literal& block : blocks) lanes.push_back(&block);
    const auto results = Run(n, lanes, options, error);
    if (!results) return false;
    for (size_t i = 0; i < outs.size(); ++i) {
      const int64_t width = LiteralBytesOf(outs[i]->shape().type);
      std::memcpy(outs[i]->bytes() + first * width, (*results)[i].bytes(), n * width);
    }
  }
  return true;
}

bool YieldsTypesOf(const Computation& computation, absl::Span<Literal* const> outs,
                   std::string* error) {
  const Shape& root = computation.root->shape;
  bool fits = root.IsTuple() ? root.elements.size() == outs.size() : outs.size() == 1;
  for (size_t i = 0; fits && i < outs.size(); ++i) {
    fits = (root.IsTuple() ? root.elements[i] : root).type == outs[i]->shape().type;
  }
  if (!fits) {
    *error = absl::StrCat("a computation that yields ", ToString(root, false), " for ",
                          TypeName(outs[0]->shape().type), " (", computation.name, ")");
  }
  return fits;
}

bool EvalMap(const Computation& computation, absl::Span<const Literal* const> operands,
             const EvalOptions& options, Literal* out, std::string* error) {
  if (!YieldsTypesOf(computation, {&out, 1}, error)) return false;
  std::optional<LaneProgram> program = LaneProgram::Make(computation, error);
  if (!program) return false;
  return program->RunInto(operands, {&out, 1}, options, error);
}

}  // namespace tpuc
