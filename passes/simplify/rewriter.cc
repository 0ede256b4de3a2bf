// Sweeps of rules over a computation (rewriter.h). A sweep rebuilds the instruction list: new
// instructions land before the one that asked for them, replaced ones are dropped at its end, and
// uses follow one map. So a sweep is linear however many rules apply.
#include "passes/simplify/rewriter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "passes/simplify/match.h"
#include "src/ir/native.h"

namespace tpuc::simplify {

Shape ArrayShape(Type type, Dims dims) {
  Shape shape = Shape::Array(type, std::move(dims));
  shape.layout = DefaultLayout(shape.rank());
  return shape;
}

Rewriter::Rewriter(Computation* computation) : computation_(computation) {
  if (!computation->names) {  // the instruction list is taken apart while names are made
    computation->names = std::make_unique<NameTable>();
    for (const auto& i : computation->instructions) computation->names->Take(i->name);
  }
  for (const auto& i : computation->instructions) {
    for (const Instruction* operand : i->operands) ++uses_[operand];
  }
  ++uses_[computation->root];
}

int Rewriter::Uses(const Instruction* i) const {
  auto it = uses_.find(i);
  return it == uses_.end() ? 0 : it->second;
}

Instruction* Rewriter::Make(Op op, Shape shape, Operands operands) {
  // As the text has it: shapes with layouts or without.
  if (current_->shape.IsArray() && !current_->shape.layout) shape.layout.reset();
  Instruction* made = computation_->Add(std::string(OpName(op)), op, std::move(shape), operands);
  if (current_->metadata && op != Op::kConstant) {
    made->metadata = std::make_unique<Metadata>(*current_->metadata);
  }
  made->loc = current_->loc;
  return made;
}

Instruction* Rewriter::MakeLike(const Instruction& like, Operands operands) {
  Instruction* made = Make(like.op, like.shape, std::move(operands));
  made->attrs = like.attrs;
  if (like.metadata) made->metadata = std::make_unique<Metadata>(*like.metadata);
  return made;
}

Instruction* Rewriter::Reshape(Instruction* x, Dims dims) {
  if (x->shape.dims == dims) return x;
  return Make(Op::kReshape, ArrayShape(x->shape.type, std::move(dims)), {x});
}

Instruction* Rewriter::Broadcast(Instruction* x, Dims dims, Ints dimensions) {
  Instruction* made = Make(Op::kBroadcast, ArrayShape(x->shape.type, std::move(dims)), {x});
  made->Set(AttrId::kDimensions, std::move(dimensions));
  return made;
}

Instruction* Rewriter::SplatLiteral(const Literal& scalar, const Dims& dims) {
  Shape shape = ArrayShape(scalar.shape().type, {});
  Instruction* constant = Make(Op::kConstant, shape, {});
  constant->literal = std::make_unique<Literal>(scalar);
  constant->literal->Reinterpret(shape);
  return dims.empty() ? constant : Broadcast(constant, dims, {});
}

Instruction* Rewriter::Splat(Type type, const Dims& dims, double value) {
  Literal scalar(ArrayShape(type, {}));
  VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element = static_cast<T>(value);
    Narrow<T>(type, &element, 1, scalar.bytes(), 0);
  });
  return SplatLiteral(scalar, dims);
}

std::vector<RuleRow> AllRules() {
  std::vector<RuleRow> all;
  for (auto rules : {ArithmeticRules(), LogicRules(), ConvertRules(), MovementRules(), SliceRules(),
                     ReduceRules(), DotRules(), WholeRules()}) {
    all.insert(all.end(), rules.begin(), rules.end());
  }
  return all;
}

struct Sweep {
  absl::Span<const RuleRow> rules;
  std::vector<std::vector<const RuleRow*>> by_op;
  std::string* remarks;

  const RuleRow* TryRules(Rewriter& rewriter, Instruction* i, Instruction** made) {
    for (const RuleRow* row : by_op[static_cast<size_t>(i->op)]) {
      *made = row->rule(rewriter, i);
      if (*made && *made != i) return row;
    }
    return nullptr;
  }

  // One walk over the computation; how many rules applied.
  int Run(Computation* computation) {
    Rewriter rewriter(computation);
    std::vector<std::unique_ptr<Instruction>> old = std::move(computation->instructions);
    computation->instructions.clear();
    absl::flat_hash_map<Instruction*, Instruction*> map;
    auto mapped = [&](Instruction* i) {
      auto it = map.find(i);
      return it == map.end() ? i : it->second;
    };
    int applied = 0;
    for (auto& instruction : old) {
      for (Instruction*& operand : instruction->operands) operand = mapped(operand);
      Instruction* i = instruction.get();
      rewriter.current_ = i;
      Instruction* made = nullptr;
      // Ordered by control predecessors: its place matters, not only its value.
      const RuleRow* row =
          i->Has(AttrId::kControlPredecessors) ? nullptr : TryRules(rewriter, i, &made);
      if (row) {
        ++applied;
        map[i] = made;
        if (remarks) {
          absl::StrAppend(remarks, row->name, ": ", i->name, " -> ", made->name, "\n");
        }
      }
      computation->instructions.push_back(std::move(instruction));
    }
    if (applied == 0) return 0;
    computation->root = mapped(computation->root);
    for (const auto& i : computation->instructions) {
      for (Attr& attr : i->attrs) {
        if (auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
          for (Instruction*& predecessor : *list) predecessor = mapped(predecessor);
        }
      }
    }
    computation->RemoveDead();
    return applied;
  }
};

int ApplyRules(Computation* computation, absl::Span<const RuleRow> rules, std::string* remarks) {
  Sweep sweep{rules, {}, remarks};
  sweep.by_op.resize(256);
  for (const RuleRow& row : rules) sweep.by_op[static_cast<size_t>(row.op)].push_back(&row);
  int total = 0;
  // Every rule makes the program smaller or moves it along a fixed order, so this ends; the bound
  // is for a pair of rules that undo each other, which the tests look for.
  for (int n = 0; n < 64; ++n) {
    int applied = sweep.Run(computation);
    total += applied;
    if (applied == 0) break;
  }
  return total;
}

}  // namespace tpuc::simplify
