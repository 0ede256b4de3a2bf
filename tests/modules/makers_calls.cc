// Opcodes that call computations, pass values on, or speak with devices of which there is one
// (makers.h).
#include <algorithm>

#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"
#include "tests/modules/makers.h"

namespace tpuc::random_modules {
namespace {

constexpr int kMostDepth = 3;

bool Any(Type) { return true; }

Shape Plain(const Instruction& x) { return shape_rules::WithoutLayout(x.shape); }

// One to three values.
std::vector<Instruction*> Arguments(Builder* b) {
  std::vector<Instruction*> list;
  for (int64_t n = b->random->Between(1, 3); n > 0; --n) list.push_back(b->Pick(Any));
  return list;
}

std::vector<Shape> ShapesOf(const std::vector<Instruction*>& list) {
  std::vector<Shape> shapes;
  for (Instruction* x : list) shapes.push_back(Plain(*x));
  return shapes;
}

Instruction* TupleOf(Builder* b, const std::vector<Instruction*>& list) {
  return b->Emit(Op::kTuple, list);
}

}  // namespace

Instruction* Tuple(Builder* b, Op) {
  Instruction* tuple = TupleOf(b, Arguments(b));
  if (b->random->Chance(30)) {  // a tuple in a tuple
    Instruction* outer = b->Emit(Op::kTuple, {tuple, b->Pick(Any)});
    Instruction* inner = b->Element(outer, 0);
    b->TakeApart(inner);
    return outer;
  }
  b->TakeApart(tuple);
  return tuple;
}

Instruction* Call(Builder* b, Op op) {
  if (b->depth >= kMostDepth) return nullptr;
  const std::vector<Instruction*> arguments = Arguments(b);
  return b->Emit(op, arguments,
                 {{AttrId::kToApply, Body(b, "callee", ShapesOf(arguments), nullptr)}});
}

Instruction* Fusion(Builder* b, Op op) {
  if (b->depth >= 1) return nullptr;
  const std::vector<Instruction*> arguments = Arguments(b);
  Computation* body = Body(b, "fused", ShapesOf(arguments), nullptr);
  for (const auto& i : body->instructions) {  // what XLA puts into fusions: no calls, no effects
    const OpClass c = InfoOf(i->op).op_class;
    if (c == OpClass::kCall || c == OpClass::kAsync || c == OpClass::kCollective ||
        HasSideEffect(*i)) {
      return nullptr;
    }
  }
  return b->Emit(op, arguments, {{AttrId::kKind, std::string("kLoop")}, {AttrId::kCalls, body}},
                 Plain(*body->root));
}

// A counter, a limit, and values that the body may change.
Instruction* While(Builder* b, Op op) {
  if (b->depth >= 2) return nullptr;
  std::vector<Instruction*> state{b->Number(Type::kS32, 0)};
  for (Instruction* x : Arguments(b)) state.push_back(x);
  Instruction* start = TupleOf(b, state);
  const Shape shape = Plain(*start);
  const int64_t trips = b->random->Between(0, 4);

  Builder condition = *b;
  condition.computation = b->computation->module->AddComputation("condition");
  condition.is_entry = false;
  condition.values.clear();
  Instruction* p = condition.computation->Add("p", Op::kParameter, shape, {});
  p->parameter_number = 0;
  Instruction* count = condition.Element(p, 0);
  condition.computation->root =
      condition.Emit(Op::kCompare, {count, condition.Number(Type::kS32, trips)},
                     {{AttrId::kDirection, std::string("LT")}});

  Computation* body = Body(b, "body", {shape}, &shape);
  Builder inner = *b;
  inner.computation = body;
  inner.is_entry = false;
  inner.values.clear();
  Instruction* number = inner.Element(body->Parameters()[0], 0);
  Instruction* next = inner.Emit(Op::kAdd, {number, inner.Number(Type::kS32, 1)});
  absl::InlinedVector<Instruction*, 2> elements = body->root->operands;
  elements[0] = next;
  body->root = body->Add("next", Op::kTuple, shape, elements);
  return b->Emit(op, {start}, {{AttrId::kCondition, condition.computation}, {AttrId::kBody, body}});
}

Instruction* Conditional(Builder* b, Op op) {
  if (b->depth >= kMostDepth) return nullptr;
  Instruction* model = b->Pick(Any);
  const Shape result = Plain(*model);
  const bool two = b->random->Chance(50);
  const int64_t branches = two ? 2 : b->random->Between(1, 4);
  std::vector<Instruction*> operands{two ? b->Array(Type::kPred, {})
                                         : b->Indices(Type::kS32, {}, 0, branches - 1, 2)};
  std::vector<Computation*> bodies;
  for (int64_t i = 0; i < branches; ++i) {
    Instruction* argument = b->random->Chance(60) ? b->Pick(Any) : TupleOf(b, Arguments(b));
    operands.push_back(argument);
    bodies.push_back(Body(b, "branch", {Plain(*argument)}, &result));
  }
  std::vector<Attr> attrs;
  if (two) {
    attrs = {{AttrId::kTrueComputation, bodies[0]}, {AttrId::kFalseComputation, bodies[1]}};
  } else {
    attrs = {{AttrId::kBranchComputations, bodies}};
  }
  return b->Emit(op, operands, std::move(attrs));
}

// Those with a meaning that everybody knows (src/eval/custom_calls.cc).
Instruction* CustomCall(Builder* b, Op op) {
  static const std::vector<std::string> kPassOn{"Sharding", "SPMDFullToShardShape", "MoveToHost",
                                                "LayoutConstraint"};
  if (b->random->Chance(40)) {
    Instruction* x = b->Pick([](Type t) { return ClassOf(t) != TypeClass::kComplex; }, 1);
    Shape values = Plain(*x), indices;
    values.dims.back() = b->random->Between(0, values.dims.back());
    indices = Shape::Array(Type::kS32, values.dims);
    return b->Emit(op, {x}, {{AttrId::kCustomCallTarget, std::string("TopK")}},
                   Shape::Tuple({values, indices}));
  }
  Instruction* x = b->Pick(Any);
  return b->Emit(op, {x}, {{AttrId::kCustomCallTarget, b->random->OneOf(kPassOn)}}, Plain(*x));
}

Instruction* PassOn(Builder* b, Op op) {
  if (op == Op::kDomain) {
    return b->Emit(op, {b->Pick(Any)},
                   {{AttrId::kDomain,
                     RawText{"{kind=\"sharding\", entry={replicated}, exit={maximal device=0}}"}}});
  }
  if (b->random->Chance(50)) return b->Emit(op, {b->Pick(Any)});
  return b->Emit(op, {TupleOf(b, Arguments(b))});
}

Instruction* Token(Builder* b, Op op) {
  Instruction* token = b->Emit(Op::kAfterAll, {});
  if (op == Op::kAfterAll && b->random->Chance(30)) token = b->Emit(Op::kAfterAll, {token});
  return b->Emit(Op::kAddDependency, {b->Pick(Any), token});
}

Instruction* DeviceId(Builder* b, Op op) { return b->Emit(op, {}); }

Instruction* Collective(Builder* b, Op op) {
  std::vector<Instruction*> operands;
  const bool along = op == Op::kAllGather || op == Op::kReduceScatter;
  const bool one = along || op == Op::kCollectivePermute || b->random->Chance(60);
  for (int64_t n = one ? 1 : 2; n > 0; --n) operands.push_back(b->Pick(Any, along ? 1 : 0));
  std::vector<Attr> attrs;
  if (op == Op::kCollectivePermute) {
    attrs.push_back({AttrId::kSourceTargetPairs, std::vector<Ints>{{0, 0}}});
  } else {
    attrs.push_back({AttrId::kReplicaGroups, RawText{b->random->Chance(50) ? "{}" : "{{0}}"}});
  }
  if (along)
    attrs.push_back({AttrId::kDimensions, Ints{b->random->Below(operands[0]->shape.rank())}});
  if (op == Op::kAllReduce || op == Op::kReduceScatter) {
    attrs.push_back({AttrId::kToApply, Reducer(b, operands[0]->shape.type)});
  }
  Shape shape = Plain(*operands[0]);
  if (operands.size() > 1) shape = Shape::Tuple(ShapesOf(operands));
  return b->Emit(op, operands, std::move(attrs), shape);
}

Instruction* StartDone(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, op == Op::kAllGatherStart ? 1 : 0);
  const Shape shape = Plain(*x);
  switch (op) {
    case Op::kCopyStart: {
      Instruction* start =
          b->Emit(op, {x}, {}, Shape::Tuple({shape, shape, Shape::Array(Type::kU32, {})}));
      return start ? b->Emit(Op::kCopyDone, {start}, {}, shape) : nullptr;
    }
    case Op::kAllReduceStart: {
      Instruction* start = b->Emit(
          op, {x},
          {{AttrId::kReplicaGroups, RawText{"{}"}}, {AttrId::kToApply, Reducer(b, shape.type)}},
          shape);
      return start ? b->Emit(Op::kAllReduceDone, {start}, {}, shape) : nullptr;
    }
    case Op::kAllGatherStart: {
      Instruction* start = b->Emit(
          op, {x}, {{AttrId::kReplicaGroups, RawText{"{}"}}, {AttrId::kDimensions, Ints{0}}},
          Shape::Tuple({shape, shape}));
      return start ? b->Emit(Op::kAllGatherDone, {start}, {}, shape) : nullptr;
    }
    default: {
      Instruction* start =
          b->Emit(op, {x}, {{AttrId::kSourceTargetPairs, std::vector<Ints>{{0, 0}}}},
                  Shape::Tuple({shape, shape}));
      return start ? b->Emit(Op::kCollectivePermuteDone, {start}, {}, shape) : nullptr;
    }
  }
}

Instruction* Async(Builder* b, Op op) {
  if (b->depth >= 1) return nullptr;
  const std::vector<Instruction*> arguments = Arguments(b);
  Computation* body = Body(b, "wrapped", ShapesOf(arguments), nullptr);
  const Shape result = Plain(*body->root);
  const Shape chain = Shape::Tuple({Shape::Tuple(ShapesOf(arguments)), result});
  Instruction* link = b->Emit(Op::kAsyncStart, arguments, {{AttrId::kCalls, body}}, chain);
  if (!link) return nullptr;
  if (op == Op::kAsyncUpdate) link = b->Emit(Op::kAsyncUpdate, {link}, {}, chain);
  return b->Emit(Op::kAsyncDone, {link}, {}, result);
}

Instruction* RaggedAllToAll(Builder* b, Op op) {
  Instruction* x = b->Pick(Any, 1);
  Dims dims = x->shape.dims;
  dims[0] = std::min<int64_t>(9, std::max<int64_t>(1, b->Size()));
  Instruction* y = b->Array(x->shape.type, dims);
  const int64_t count = std::min(x->shape.dims[0], dims[0]);
  const auto number = [&](int64_t high) { return b->Indices(Type::kS32, {1}, 0, high, 0); };
  const int64_t half = count / 2;
  return b->Emit(op, {x, y, number(half), number(half), number(half), number(half)},
                 {{AttrId::kReplicaGroups, RawText{"{}"}}}, Plain(*y));
}

}  // namespace tpuc::random_modules
