// Whole modules built in code: calls, tuples, copies, general reducers, memory, and every
// diagnostic of the evaluator.
#include "src/eval/evaluator.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/eval/inputs.h"
#include "tests/unit/eval/literals.h"

namespace tpuc {
namespace {

Shape ScalarOf(Type type) {
  Shape shape;
  shape.type = type;
  return shape;
}
const Shape kScalar = ScalarOf(Type::kF32);
const Shape kIndex = ScalarOf(Type::kS32);

Instruction* Parameter(Computation* c, int64_t number, Shape shape) {
  Instruction* p = c->Add(absl::StrCat("p", number), Op::kParameter, std::move(shape), {});
  p->parameter_number = number;
  return p;
}
Instruction* Constant(Computation* c, Literal literal) {
  Instruction* i = c->Add("constant", Op::kConstant, literal.shape(), {});
  i->literal = std::make_unique<Literal>(std::move(literal));
  return i;
}
Computation* Entry(Module* module) {
  module->entry = module->AddComputation("main");
  return module->entry;
}

// Runs and expects one diagnostic of that code whose message holds `text`.
void ExpectDiag(const Module& module, std::vector<Literal> inputs, DiagCode code,
                const std::string& text, const EvalOptions& options = {}) {
  DiagSink diags;
  EXPECT_FALSE(Evaluate(module, std::move(inputs), options, &diags));
  ASSERT_EQ(diags.diags().size(), 1u) << diags.Render();
  EXPECT_EQ(diags.diags()[0].code, code);
  EXPECT_TRUE(absl::StrContains(diags.diags()[0].message, text)) << diags.diags()[0].message;
}

Literal RunIt(const Module& module, std::vector<Literal> inputs, const EvalOptions& options = {}) {
  DiagSink diags;
  auto result = Evaluate(module, std::move(inputs), options, &diags);
  EXPECT_TRUE(result) << diags.Render();
  return result ? *std::move(result) : Literal(Shape::Tuple({}));
}

TEST(Evaluator, CallsTuplesCopies) {
  Module module;
  Computation* callee = module.AddComputation("twice_and_sum");
  Instruction* x = Parameter(callee, 0, kScalar);
  Instruction* y = Parameter(callee, 1, kScalar);
  Instruction* sum = callee->Add("sum", Op::kAdd, kScalar, {x, y});
  Instruction* two = callee->Add("two", Op::kAdd, kScalar, {x, x});
  callee->root = callee->Add("t", Op::kTuple, Shape::Tuple({kScalar, kScalar}), {two, sum});
  Computation* main = Entry(&module);
  Instruction* a = Parameter(main, 0, kScalar);
  Instruction* b = Parameter(main, 1, kScalar);
  Instruction* call = main->Add("call", Op::kCall, callee->root->shape, {a, b});
  call->Set(AttrId::kToApply, callee);
  Instruction* fusion = main->Add("fusion", Op::kFusion, callee->root->shape, {b, a});
  fusion->Set(AttrId::kCalls, callee);
  Instruction* barrier = main->Add("barrier", Op::kOptBarrier, fusion->shape, {fusion});
  const auto element = [&](Instruction* tuple, int64_t index) {
    Instruction* e = main->Add("e", Op::kGetTupleElement, kScalar, {tuple});
    e->Set(AttrId::kIndex, index);
    return e;
  };
  Instruction* start = main->Add("start", Op::kCopyStart,
                                 Shape::Tuple({kScalar, kScalar, Shape::Array(Type::kU32, {})}),
                                 {element(barrier, 0)});
  Instruction* done = main->Add("done", Op::kCopyDone, kScalar, {start});
  Instruction* dead = main->Add("dead", Op::kFft, kScalar, {a});  // never run
  (void)dead;
  Instruction* e0 = element(call, 0);
  Instruction* e1 = element(call, 1);
  main->root =
      main->Add("root", Op::kTuple, Shape::Tuple({kScalar, kScalar, kScalar}), {e0, e1, done});
  const Literal result = RunIt(module, {F32({}, {3}), F32({}, {5})});
  ASSERT_EQ(result.elements().size(), 3u);
  EXPECT_EQ(result.elements()[0].data<float>()[0], 6);
  EXPECT_EQ(result.elements()[1].data<float>()[0], 8);
  EXPECT_EQ(result.elements()[2].data<float>()[0], 10);
}

// (value, index) of the largest element, the first one where several are.
Computation* ArgMax(Module* module) {
  Computation* c = module->AddComputation("argmax");
  Instruction* v0 = Parameter(c, 0, kScalar);
  Instruction* i0 = Parameter(c, 1, kIndex);
  Instruction* v1 = Parameter(c, 2, kScalar);
  Instruction* i1 = Parameter(c, 3, kIndex);
  const Shape pred = Shape::Array(Type::kPred, {});
  Instruction* ge = c->Add("ge", Op::kCompare, pred, {v0, v1});
  ge->Set(AttrId::kDirection, std::string("GE"));
  Instruction* v = c->Add("v", Op::kSelect, kScalar, {ge, v0, v1});
  Instruction* i = c->Add("i", Op::kSelect, kIndex, {ge, i0, i1});
  c->root = c->Add("t", Op::kTuple, Shape::Tuple({kScalar, kIndex}), {v, i});
  return c;
}

void CheckArgMax(Dims dims, int64_t dimension) {
  Module module;
  Computation* argmax = ArgMax(&module);
  Computation* main = Entry(&module);
  const Shape shape = Shape::Array(Type::kF32, dims);
  Instruction* x = Parameter(main, 0, shape);
  Instruction* iota = main->Add("iota", Op::kIota, Shape::Array(Type::kS32, dims), {});
  iota->Set(AttrId::kIotaDimension, dimension);
  Instruction* low = Constant(main, F32({}, {-INFINITY}));
  Instruction* zero = Constant(main, Make<int32_t>(Type::kS32, {}, {0}));
  Dims kept = dims;
  kept.erase(kept.begin() + dimension);
  main->root =
      main->Add("reduce", Op::kReduce,
                Shape::Tuple({Shape::Array(Type::kF32, kept), Shape::Array(Type::kS32, kept)}),
                {x, iota, low, zero});
  main->root->Set(AttrId::kDimensions, Ints{dimension});
  main->root->Set(AttrId::kToApply, argmax);
  const Literal input = GenerateInput(shape, 0, 9);
  const Literal result = RunIt(module, {input});
  int64_t inner = 1;
  for (size_t d = dimension + 1; d < dims.size(); ++d) inner *= dims[d];
  for (int64_t at = 0; at < result.elements()[0].size(); ++at) {
    const float* line = input.data<float>() + at / inner * inner * dims[dimension] + at % inner;
    int64_t best = 0;
    for (int64_t i = 1; i < dims[dimension]; ++i) {
      if (line[i * inner] > line[best * inner]) best = i;
    }
    ASSERT_EQ(result.elements()[0].data<float>()[at], line[best * inner]);
    ASSERT_EQ(result.elements()[1].data<int32_t>()[at], best);
  }
}

TEST(Evaluator, GeneralReduce) {
  CheckArgMax({5, 300, 4}, 1);  // lanes
  CheckArgMax({300, 20, 4}, 0);
  CheckArgMax({7, 1001}, 1);  // pairs, an odd count
  CheckArgMax({70000}, 0);
  CheckArgMax({3, 1}, 1);
}

TEST(Evaluator, Map) {
  Module module;
  Computation* f = module.AddComputation("f");
  Instruction* a = Parameter(f, 0, kScalar);
  Instruction* b = Parameter(f, 1, kScalar);
  Instruction* half = Constant(f, F32({}, {0.5f}));
  Instruction* product = f->Add("product", Op::kMultiply, kScalar, {b, half});
  f->root = f->Add("sum", Op::kAdd, kScalar, {a, product});
  Computation* main = Entry(&module);
  const Shape shape = Shape::Array(Type::kF32, {3, 3000});
  main->root =
      main->Add("map", Op::kMap, shape, {Parameter(main, 0, shape), Parameter(main, 1, shape)});
  main->root->Set(AttrId::kToApply, f);
  main->root->Set(AttrId::kDimensions, Ints{0, 1});
  const Literal x = GenerateInput(shape, 0, 0), y = GenerateInput(shape, 1, 0);
  const Literal z = RunIt(module, {x, y});
  for (int64_t i = 0; i < z.size(); ++i) {
    ASSERT_EQ(z.data<float>()[i], x.data<float>()[i] + y.data<float>()[i] * 0.5f);
  }
}

TEST(Evaluator, LongChainsAndDeepCalls) {
  Module module;
  Computation* inner = module.AddComputation("f");
  inner->root = inner->Add("negate", Op::kNegate, kScalar, {Parameter(inner, 0, kScalar)});
  for (int i = 0; i < 20001; ++i) {
    Computation* outer = module.AddComputation("f");
    outer->root = outer->Add("call", Op::kCall, kScalar, {Parameter(outer, 0, kScalar)});
    outer->root->Set(AttrId::kToApply, inner);
    inner = outer;
  }
  Computation* main = Entry(&module);
  Instruction* x = Parameter(main, 0, kScalar);
  for (int i = 0; i < 100000; ++i) x = main->Add("n", Op::kNegate, kScalar, {x});
  main->root = main->Add("call", Op::kCall, kScalar, {x});
  main->root->Set(AttrId::kToApply, inner);
  EXPECT_EQ(RunIt(module, {F32({}, {2})}).data<float>()[0], -2);
}

TEST(Evaluator, MemoryEndsWithTheLastUse) {
  // A chain of 50 values of 4 MB: in place within 5 MB; where each needs a new array, within 9 MB.
  for (Op op : {Op::kNegate, Op::kReverse}) {
    Module module;
    Computation* main = Entry(&module);
    const Shape shape = Shape::Array(Type::kF32, {1 << 20});
    Instruction* x = Parameter(main, 0, shape);
    for (int i = 0; i < 50; ++i) {
      x = main->Add("n", op, shape, {x});
      if (op == Op::kReverse) x->Set(AttrId::kDimensions, Ints{0});
    }
    main->root = x;
    EvalOptions options;
    options.memory_limit = (op == Op::kNegate ? 5 : 9) << 20;
    EXPECT_EQ(RunIt(module, {GenerateInput(shape, 0, 0)}, options).data<float>()[0],
              0.7666215896606445f);
    if (op == Op::kReverse) {
      options.memory_limit = 7 << 20;
      ExpectDiag(module, {GenerateInput(shape, 0, 0)}, DiagCode::kEvalMemory,
                 "takes 4194304 bytes, 3145728 are available", options);
    }
  }
}

// Results take the place of operands that end with the operation, and of no others.
TEST(Evaluator, InPlaceKeepsSharedValues) {
  Module module;
  Computation* main = Entry(&module);
  const Shape shape = Shape::Array(Type::kF32, {2000});
  Instruction* x = Parameter(main, 0, shape);
  Instruction* y = main->Add("y", Op::kNegate, shape, {x});
  Instruction* square = main->Add("square", Op::kMultiply, shape, {y, y});
  Instruction* sum = main->Add("sum", Op::kAdd, shape, {square, y});
  Instruction* low = main->Add("low", Op::kMinimum, shape, {x, sum});
  Instruction* clamp = main->Add("clamp", Op::kClamp, shape, {low, sum, square});
  main->root = main->Add("t", Op::kTuple, Shape::Tuple({shape, shape}), {clamp, x});
  const Literal input = GenerateInput(shape, 0, 2);
  const Literal result = RunIt(module, {input});
  for (int i = 0; i < 2000; ++i) {
    const float v = input.data<float>()[i], squared = v * v, total = squared - v;
    ASSERT_EQ(result.elements()[0].data<float>()[i],
              std::min(squared, std::max(std::min(v, total), total)));
    ASSERT_EQ(result.elements()[1].data<float>()[i], v);
  }
}

TEST(Evaluator, TensorsThatDoNotFit) {
  for (int64_t size : {int64_t{1} << 40, int64_t{1} << 62}) {
    Module module;
    Computation* main = Entry(&module);
    Instruction* x = Parameter(main, 0, kScalar);
    main->root = main->Add("huge", Op::kBroadcast, Shape::Array(Type::kF32, {size, 4}), {x});
    main->root->Set(AttrId::kDimensions, Ints{});
    ExpectDiag(module, {F32({}, {1})}, DiagCode::kEvalMemory, "huge of shape f32[");
  }
  const Literal one = F32({}, {1});
  const Literal* operand = &one;
  std::string error;
  EXPECT_FALSE(EvaluateOp(Op::kBroadcast, Shape::Array(Type::kF32, {int64_t{1} << 40}),
                          {&operand, 1}, {{AttrId::kDimensions, Ints{}}}, {}, &error));
  EXPECT_TRUE(absl::StrContains(error, "are available")) << error;
}

TEST(Evaluator, Diagnostics) {
  {
    Module module;
    Computation* main = Entry(&module);
    const Shape complex = Shape::Array(Type::kC64, {4});
    main->root = main->Add("out", Op::kOutfeed, complex, {Parameter(main, 0, complex)});
    ExpectDiag(module, {Literal(complex)}, DiagCode::kUnsupportedOp,
               "cannot run outfeed: it speaks with a host or device that is not there");
    ExpectDiag(module, {}, DiagCode::kEvalInputs, "takes 1 inputs, 0 are given");
    ExpectDiag(module, {F32({4}, {1, 2, 3, 4})}, DiagCode::kEvalInputs,
               "input 0 is f32[4], the program takes c64[4]");
  }
  {
    Module module;
    Computation* main = Entry(&module);
    main->root = Constant(main, F32({2}, {1, 2}));
    main->root->literal->set_elided();
    ExpectDiag(module, {}, DiagCode::kEvalElided, "was left out");
  }
  {
    Module module;
    Computation* main = Entry(&module);
    main->root = main->Add("call", Op::kCustomCall, kScalar, {});
    main->root->Set(AttrId::kCustomCallTarget, std::string("Sharding"));
    ExpectDiag(module, {}, DiagCode::kUnsupportedOp, "custom-call to \"Sharding\"");
    EvalOptions options;
    options.custom_call = [](const Instruction&, std::vector<Literal>, DiagSink*) {
      return std::vector<Literal>{F32({}, {7})};
    };
    EXPECT_EQ(RunIt(module, {}, options).data<float>()[0], 7);
  }
}

TEST(Evaluator, TupleParametersAndSharedResults) {
  Module module;
  Computation* main = Entry(&module);
  const Shape pair = Shape::Tuple({kScalar, Shape::Tuple({kIndex})});
  Instruction* p = Parameter(main, 0, pair);
  main->root = main->Add("t", Op::kTuple, Shape::Tuple({pair, pair}), {p, p});
  Literal input(pair);
  input.elements()[0].data<float>()[0] = 4;
  input.elements()[1].elements()[0].data<int32_t>()[0] = 5;
  const Literal result = RunIt(module, {input});
  EXPECT_TRUE(result.elements()[0].IdenticalTo(input));
  EXPECT_TRUE(result.elements()[1].IdenticalTo(input));
}

}  // namespace
}  // namespace tpuc
