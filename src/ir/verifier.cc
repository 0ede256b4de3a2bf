// The HLO verifier (verifier.h).
#include "src/ir/verifier.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"
#include "src/ir/tiling.h"

namespace tpuc {
namespace {

bool HasUnboundedDimension(const Shape& shape) {
  for (DimKind kind : shape.dim_kinds) {
    if (kind == DimKind::kUnbounded) return true;
  }
  return std::any_of(shape.elements.begin(), shape.elements.end(), HasUnboundedDimension);
}

// The written shape is one that the operands may make: for contractions and reductions the
// element type may be of another precision (accumulation).
bool Agrees(const Instruction& instruction, const Shape& inferred) {
  if (Compatible(instruction.shape, inferred)) return true;
  switch (instruction.op) {
    case Op::kDot:
    case Op::kRaggedDot:
    case Op::kConvolution:
      return instruction.shape.IsArray() && instruction.shape.dims == inferred.dims;
    case Op::kReduce:
    case Op::kReduceWindow:
    case Op::kBatchNormTraining:
    case Op::kBatchNormGrad:
    case Op::kFusion:  // kCustom fusions of XLA's GPU back end aside, bodies say the same
      return SameDims(instruction.shape, inferred);
    default:
      return false;
  }
}

class Verifier {
 public:
  Verifier(const Module& module, DiagSink* diags) : module_(module), diags_(diags) {}

  bool Run() {
    for (const auto& computation : module_.computations) {
      if (!computation->root) {
        Report(DiagCode::kRootOrEntry, computation->loc,
               absl::StrCat("computation '", computation->name, "' has no root"));
        continue;
      }
      VerifyComputation(*computation);
    }
    if (module_.entry && module_.entry->root) VerifyEntry();
    return ok_;
  }

 private:
  void Report(DiagCode code, Loc loc, std::string message) {
    ok_ = false;
    diags_->Add(code, module_.source, loc, std::move(message));
  }

  void VerifyComputation(const Computation& computation) {
    absl::flat_hash_set<absl::string_view> names;
    absl::flat_hash_set<const Instruction*> before;
    names.reserve(computation.instructions.size());
    before.reserve(computation.instructions.size());
    for (const auto& instruction : computation.instructions) {
      if (!names.insert(instruction->name).second) {
        Report(DiagCode::kDuplicateName, instruction->loc,
               absl::StrCat("instruction '", instruction->name, "' is already defined"));
      }
      for (const Instruction* operand : instruction->operands) {
        if (before.contains(operand)) continue;
        Report(DiagCode::kUndefinedName, instruction->loc,
               absl::StrCat("operand '", operand->name, "' of '", instruction->name,
                            "' is not defined before it in this computation"));
      }
      before.insert(instruction.get());
      VerifyInstruction(*instruction);
    }
    if (!before.contains(computation.root)) {
      Report(DiagCode::kRootOrEntry, computation.loc,
             absl::StrCat("the root of '", computation.name, "' is not one of its instructions"));
    }
  }

  void VerifyInstruction(const Instruction& instruction) {
    if (!VerifyLayouts(instruction.shape, instruction.loc)) return;
    if (!HasShapeRule(instruction.op)) return VerifyOther(instruction);
    if (HasUnboundedDimension(instruction.shape)) return;
    for (const Instruction* operand : instruction.operands) {
      if (HasUnboundedDimension(operand->shape)) return;
    }
    Shape inferred;
    std::string error;
    if (!InferShape(instruction, &inferred, &error)) {
      Report(DiagCode::kOperandsDiffer, instruction.loc, std::move(error));
      return;
    }
    if (Agrees(instruction, inferred)) return;
    Report(DiagCode::kResultShape, instruction.loc,
           absl::StrCat(OpName(instruction.op), " '", instruction.name, "' is written as ",
                        ToString(instruction.shape, false), ", but its operands make ",
                        ToString(inferred, false)));
  }

  // Control flow: what its computations take and yield.
  void VerifyOther(const Instruction& instruction) {
    auto check = [&](const Computation& body, absl::string_view what, size_t parameters,
                     const Shape* argument, const Shape* result) {
      std::vector<Instruction*> list = body.Parameters();
      if (list.size() != parameters) {
        Report(DiagCode::kCallSignature, instruction.loc,
               absl::StrCat(what, " '", body.name, "' of ", OpName(instruction.op), " takes ",
                            list.size(), " parameters; it must take ", parameters));
      } else if (argument && !Compatible(list[0]->shape, *argument)) {
        Report(DiagCode::kCallSignature, instruction.loc,
               absl::StrCat("parameter 0 of ", what, " '", body.name, "' is ",
                            ToString(list[0]->shape, false), "; ", OpName(instruction.op),
                            " gives it ", ToString(*argument, false)));
      } else if (result && !Compatible(body.root->shape, *result)) {
        Report(DiagCode::kCallSignature, instruction.loc,
               absl::StrCat(what, " '", body.name, "' of ", OpName(instruction.op), " yields ",
                            ToString(body.root->shape, false), "; it must yield ",
                            ToString(*result, false)));
      }
    };
    const Shape& shape = instruction.shape;
    if (instruction.op == Op::kWhile) {
      const Shape pred = Shape::Array(Type::kPred, {});
      const Shape& state = instruction.operands[0]->shape;
      check(*instruction.ComputationAttr(AttrId::kCondition), "condition", 1, &state, &pred);
      check(*instruction.ComputationAttr(AttrId::kBody), "body", 1, &state, &state);
      if (!Compatible(shape, state)) {
        Report(DiagCode::kResultShape, instruction.loc,
               absl::StrCat("while '", instruction.name, "' is written as ", ToString(shape, false),
                            ", but its state is ", ToString(state, false)));
      }
    } else if (instruction.op == Op::kConditional) {
      size_t branch = 0;
      const std::vector<Computation*> branches = instruction.CalledComputations();
      const Shape& selector = instruction.operands[0]->shape;
      const bool two = instruction.Has(AttrId::kTrueComputation);
      if (!selector.IsScalar() || selector.type != (two ? Type::kPred : Type::kS32) ||
          branches.empty() || instruction.operands.size() != branches.size() + 1) {
        Report(DiagCode::kOperandsDiffer, instruction.loc,
               absl::StrCat("conditional takes ", two ? "pred[]" : "s32[]",
                            " and an operand for each of ", branches.size(), " branches; ",
                            OperandText(instruction, 0), " and ", instruction.operands.size() - 1,
                            " operands are given"));
        return;
      }
      for (const Computation* body : branches) {
        const Shape& argument = instruction.operands[++branch]->shape;
        check(*body, absl::StrCat("branch ", branch - 1), 1, &argument, &shape);
      }
    }
  }

  bool VerifyLayouts(const Shape& shape, Loc loc) {
    std::string problem = LayoutProblem(shape);
    if (!problem.empty()) Report(DiagCode::kBadLayout, loc, problem);
    return problem.empty();
  }

  void VerifyEntry() {
    const Computation& entry = *module_.entry;
    std::vector<Instruction*> parameters = entry.Parameters();
    const Shape& result = entry.root->shape;
    if (module_.entry_layout) {
      const auto& layout = *module_.entry_layout;
      Loc loc{1, 1};
      if (layout.parameters.size() != parameters.size()) {
        Report(DiagCode::kEntryLayout, loc,
               absl::StrCat("entry_computation_layout has ", layout.parameters.size(),
                            " parameters, the entry '", entry.name, "' has ", parameters.size()));
      } else {
        for (size_t i = 0; i < parameters.size(); ++i) {
          if (!VerifyLayouts(layout.parameters[i], loc)) continue;
          if (Compatible(layout.parameters[i], parameters[i]->shape)) continue;
          Report(DiagCode::kEntryLayout, parameters[i]->loc,
                 absl::StrCat("entry_computation_layout says parameter ", i, " is ",
                              ToString(layout.parameters[i], false), ", but it is ",
                              ToString(parameters[i]->shape, false)));
        }
      }
      if (VerifyLayouts(layout.result, loc) && !Compatible(layout.result, result)) {
        Report(
            DiagCode::kEntryLayout, entry.root->loc,
            absl::StrCat("entry_computation_layout says the result is ",
                         ToString(layout.result, false), ", but it is ", ToString(result, false)));
      }
    }
    for (const AliasEntry& alias : module_.aliases) {
      const Shape* output = At(result, alias.output_index);
      const Shape* input = Parameter(parameters, alias.parameter, alias.parameter_index);
      if (output && input) continue;
      Report(DiagCode::kAlias, {1, 1},
             absl::StrCat(
                 "input_output_alias names ",
                 output ? absl::StrCat("parameter ", alias.parameter, " {",
                                       absl::StrJoin(alias.parameter_index, ","), "}")
                        : absl::StrCat("output {", absl::StrJoin(alias.output_index, ","), "}"),
                 ", which does not exist"));
    }
    for (const DonorEntry& donor : module_.donors) {
      if (Parameter(parameters, donor.parameter, donor.parameter_index)) continue;
      Report(DiagCode::kAlias, {1, 1},
             absl::StrCat("buffer_donor names parameter ", donor.parameter, " {",
                          absl::StrJoin(donor.parameter_index, ","), "}, which does not exist"));
    }
  }

  static const Shape* At(const Shape& shape, const Ints& index) {
    const Shape* at = &shape;
    for (int64_t i : index) {
      if (!at->IsTuple() || i < 0 || i >= static_cast<int64_t>(at->elements.size())) return nullptr;
      at = &at->elements[i];
    }
    return at;
  }
  static const Shape* Parameter(const std::vector<Instruction*>& parameters, int64_t number,
                                const Ints& index) {
    if (number < 0 || number >= static_cast<int64_t>(parameters.size())) return nullptr;
    return At(parameters[number]->shape, index);
  }

  const Module& module_;
  DiagSink* diags_;
  bool ok_ = true;
};

}  // namespace

bool VerifyHlo(const Module& module, DiagSink* diags) { return Verifier(module, diags).Run(); }

}  // namespace tpuc
