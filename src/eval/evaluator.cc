// The entry points of the evaluator (evaluator.h): literals in, a run, literals out.
#include "src/eval/evaluator.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/eval/dynamic.h"
#include "src/eval/run.h"
#include "src/eval/runnable.h"
#include "src/num/flush.h"

namespace tpuc {
namespace {

bool HasUnbounded(const Shape& shape) {
  return std::find(shape.dim_kinds.begin(), shape.dim_kinds.end(), DimKind::kUnbounded) !=
             shape.dim_kinds.end() ||
         std::any_of(shape.elements.begin(), shape.elements.end(), HasUnbounded);
}

bool InputsFit(const Module& module, const std::vector<Literal>& inputs, DiagSink* diags) {
  const std::vector<Instruction*> parameters = module.entry->Parameters();
  if (inputs.size() != parameters.size()) {
    diags->Add(DiagCode::kEvalInputs, module.source, module.entry->loc,
               absl::StrCat("the program takes ", parameters.size(), " inputs, ", inputs.size(),
                            " are given"));
    return false;
  }
  for (const auto& computation : module.computations) {
    for (const auto& in : computation->instructions) {
      if (!HasUnbounded(in->shape)) continue;
      AddCannotRun(module, *in, absl::StrCat(ToString(in->shape, false), ", which has no bound"),
                   diags);
      return false;
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Instruction& parameter = *parameters[i];
    if (Compatible(inputs[i].shape(), parameter.shape)) continue;
    diags->Add(DiagCode::kEvalInputs, module.source, parameter.loc,
               absl::StrCat("input ", i, " is ", ToString(inputs[i].shape(), false),
                            ", the program takes ", ToString(parameter.shape, false)));
    return false;
  }
  return true;
}

void TakeLeaves(Literal literal, std::vector<Literal>* leaves) {
  if (!literal.shape().IsTuple()) return leaves->push_back(std::move(literal));
  for (Literal& element : literal.elements()) TakeLeaves(std::move(element), leaves);
}

}  // namespace

Value Run::ToValue(Literal literal, const Shape& shape) {
  if (!shape.IsTuple()) {
    literal.Reinterpret(shape);  // the program's layout
    return Value::Array(std::move(literal), &memory_);
  }
  std::vector<Value> elements;
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    elements.push_back(ToValue(std::move(literal.elements()[i]), shape.elements[i]));
  }
  return Value::Tuple(std::move(elements));
}

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
  if (value.literal->shape().dims != shape.dims) return Resized(*value.literal, shape);
  const bool own = value.owner && value.owner.use_count() == 1;
  Literal literal = own ? std::move(value.owner->literal) : *value.literal;
  literal.Reinterpret(shape);
  return literal;
}

std::optional<Literal> Evaluate(const Module& module, std::vector<Literal> inputs,
                                const EvalOptions& options, DiagSink* diags) {
  const FlushScope flush;
  try {
    if (!InputsFit(module, inputs, diags)) return std::nullopt;
    Run run(module, options, diags);
    const std::vector<Instruction*> parameters = module.entry->Parameters();
    std::vector<Value> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      arguments.push_back(run.ToValue(std::move(inputs[i]), parameters[i]->shape));
    }
    std::optional<Value> result = run.Execute(*module.entry, std::move(arguments));
    if (!result) return std::nullopt;
    return ToLiteral(*std::move(result), module.entry->root->shape);
  } catch (const std::exception&) {  // bad_alloc, or a length beyond what a vector can have
    diags->Add(DiagCode::kEvalMemory, module.source, module.entry->loc,
               "the host's memory is used up");
    return std::nullopt;
  }
}

std::optional<std::vector<Literal>> EvaluateComputation(const Computation& computation,
                                                        std::vector<Literal> arguments,
                                                        const EvalOptions& options,
                                                        std::string* error) {
  constexpr int kMaxNesting = 20;  // each takes some of the C++ stack
  if (options.nesting >= kMaxNesting) {
    *error =
        absl::StrCat("computations in computations for each element, deeper than ", kMaxNesting);
    return std::nullopt;
  }
  EvalOptions inner = options;
  ++inner.nesting;
  DiagSink diags;
  Run run(*computation.module, inner, &diags);
  const std::vector<Instruction*> parameters = computation.Parameters();
  std::vector<Value> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    values.push_back(run.ToValue(std::move(arguments[i]), parameters[i]->shape));
  }
  std::optional<Value> result = run.Execute(computation, std::move(values));
  if (!result) {
    *error = diags.diags().empty() ? "a computation" : diags.diags()[0].message;
    constexpr absl::string_view kPrefix = "the evaluator cannot run ";
    if (absl::string_view(*error).substr(0, kPrefix.size()) == kPrefix) {
      *error = error->substr(kPrefix.size());
    }
    const size_t place = error->rfind(" (instruction ");  // the caller says its own
    if (place != std::string::npos) error->resize(place);
    return std::nullopt;
  }
  std::vector<Literal> leaves;
  TakeLeaves(ToLiteral(*std::move(result), computation.root->shape), &leaves);
  return leaves;
}

}  // namespace tpuc
