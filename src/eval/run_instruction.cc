// One instruction that calls no computation of its own in a frame (run.h): values that are only
// passed on, operations on arrays, custom calls.
#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/diag/check.h"
#include "src/eval/custom_calls.h"
#include "src/eval/dynamic.h"
#include "src/eval/operation.h"
#include "src/eval/order.h"
#include "src/eval/random.h"
#include "src/eval/run.h"
#include "src/eval/runnable.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

// Writes every element of its result, whatever lay there.
bool WritesAll(const Instruction& in) {
  switch (in.op) {
    case Op::kBroadcast:
    case Op::kTranspose:
    case Op::kDot:
    case Op::kConvolution:
    case Op::kBatchNormTraining:
    case Op::kBatchNormInference:
    case Op::kBatchNormGrad:
      return true;
    default:
      return InfoOf(in.op).op_class == OpClass::kElementwise;
  }
}

Literal MakeResult(const Instruction& in, const Shape& shape) {
  return WritesAll(in) ? Literal(shape, Literal::Unwritten()) : Literal(shape);
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

}  // namespace

std::optional<Value> Run::Constant(const Instruction& in) {
  struct View {  // the module owns the literal
    Value operator()(const Literal& literal) const {
      Value value;
      if (!literal.shape().IsTuple()) value.literal = &literal;
      for (const Literal& element : literal.elements()) value.elements.push_back((*this)(element));
      return value;
    }
  };
  if (!CanRun(module_, in, options_, diags_)) return std::nullopt;
  return View{}(*in.literal);
}

std::optional<Value> Run::Evaluate(const Instruction& in, Operands* operands) {
  const auto array = [&](Literal literal) { return Value::Array(std::move(literal), &memory_); };
  switch (in.op) {
    case Op::kConstant:
      return Constant(in);
    case Op::kTuple:
      return Value::Tuple(std::move(*operands));
    case Op::kOptBarrier:
    case Op::kAddDependency:
    case Op::kDomain:
      return std::move((*operands)[0]);
    case Op::kAfterAll:
      return Value();
    case Op::kCopyStart: {
      Literal context(Shape::Array(Type::kU32, {}));
      return Value::Tuple({(*operands)[0], (*operands)[0], array(std::move(context))});
    }
    case Op::kCopyDone:
      return (*operands)[0].elements[0];
    case Op::kAsyncUpdate:
      if (operands->size() > 1) {
        return Unsupported(in, "an async-update that brings further operands");
      }
      return std::move((*operands)[0]);
    case Op::kAsyncDone:
      return (*operands)[0].elements[1];
    case Op::kCustomCall:
      return CustomCall(in, operands);
    case Op::kPartitionId:
    case Op::kReplicaId:
      return array(Literal(in.shape));
    case Op::kRngGetAndUpdateState: {
      Literal state(in.shape);
      std::memcpy(state.bytes(), &rng_state_, std::min<int64_t>(16, state.byte_size()));
      rng_state_ += static_cast<unsigned __int128>(in.IntAttr(AttrId::kDelta));
      return array(std::move(state));
    }
    case Op::kInfeed:
    case Op::kOutfeed:
      return Collective(in, operands);
    case Op::kBroadcast:
      if (Top().plan->splat[Top().next()]) return std::move((*operands)[0]);
      break;
    case Op::kCopy:
      if (in.shape.IsTuple()) return std::move((*operands)[0]);
      break;
    case Op::kSelect:
      if (in.shape.IsTuple()) {
        return (*operands)[(*operands)[0].literal->bytes()[0] ? 1 : 2];
      }
      break;
    default:
      break;
  }
  const OpClass op_class = InfoOf(in.op).op_class;
  if (op_class == OpClass::kCollective || op_class == OpClass::kAsync) {
    return Collective(in, operands);
  }
  return Operation(in, operands);
}

bool Run::ResultShapes(const Instruction& in, absl::Span<const Literal* const> arrays,
                       std::vector<Shape>* shapes) {
  Shape shape = in.shape;
  const Frame& frame = Top();
  if (frame.plan->dynamic[frame.next()]) {
    std::string error;
    if (!ActualShape(in, arrays, &shape, &error)) {
      Unsupported(in, error);
      return false;
    }
    if (in.op != Op::kGetDimensionSize && in.op != Op::kSetDimensionSize) shape.layout.reset();
  }
  if (shape.IsTuple()) {
    *shapes = shape.elements;
  } else {
    shapes->push_back(std::move(shape));
  }
  for (const Shape& result : *shapes) {
    if (result.IsArray()) continue;
    Unsupported(in, absl::StrCat(OpName(in.op), " to ", ToString(in.shape, false)));
    return false;
  }
  return true;
}

// The operand whose place the result may take: one that ends here; -1 if there is none.
int Run::Replaced(const Instruction& in, const Shape& shape, const Operands& operands,
                  size_t result) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& x = operands[i];
    const bool own = in.op == Op::kScatter ? i == result : result == 0;
    if (own && x.owner && x.owner.use_count() == 1 && WorksInPlace(in, i) &&
        x.literal->shape().type == shape.type && x.literal->byte_size() == shape.LiteralBytes()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool Run::Allocate(const Instruction& in, const std::vector<Shape>& shapes,
                   std::vector<const Literal*>* arrays, Operands* operands,
                   std::vector<Literal>* outs) {
  int64_t bytes = 0;
  std::vector<int> replaced;
  for (size_t r = 0; r < shapes.size(); ++r) {
    replaced.push_back(Replaced(in, shapes[r], *operands, r));
    if (replaced[r] < 0 && __builtin_add_overflow(bytes, shapes[r].LiteralBytes(), &bytes)) {
      bytes = std::numeric_limits<int64_t>::max();
    }
  }
  if (!Fits(in, bytes)) return false;
  for (size_t r = 0; r < shapes.size(); ++r) {
    if (replaced[r] < 0) {
      outs->push_back(MakeResult(in, shapes[r]));
      if (in.op == Op::kScatter) {
        const Literal& from = *(*arrays)[r];
        std::memcpy(outs->back().bytes(), from.bytes(), from.byte_size());
      }
    } else {
      outs->push_back(std::move((*operands)[replaced[r]].owner->literal));
      outs->back().Reinterpret(shapes[r]);
    }
  }
  for (size_t r = 0; r < shapes.size(); ++r) {
    if (replaced[r] >= 0) (*arrays)[replaced[r]] = &(*outs)[r];
  }
  return true;
}

// The common case, without lists: loops on scalars run through here a million times.
std::optional<Value> Run::OneResult(const Instruction& in, std::vector<const Literal*>* arrays,
                                    Operands* operands) {
  Literal out;
  const int replaced = Replaced(in, in.shape, *operands, 0);
  if (replaced >= 0) {
    out = std::move((*operands)[replaced].owner->literal);
    out.Reinterpret(in.shape);
    if (in.op == Op::kCopy || in.op == Op::kReshape) return Value::Array(std::move(out), &memory_);
    (*arrays)[replaced] = &out;
  } else {
    if (!Fits(in, in.shape.LiteralBytes())) return std::nullopt;
    out = MakeResult(in, in.shape);
    if (in.op == Op::kScatter) {
      std::memcpy(out.bytes(), (*arrays)[0]->bytes(), (*arrays)[0]->byte_size());
    }
  }
  std::string error;
  Literal* pointer = &out;
  const bool ok = in.op == Op::kRng
                      ? EvalRng(*(*arrays)[0], *(*arrays)[1], in.StringAttr(AttrId::kDistribution),
                                ++rng_count_, &out, &error)
                      : EvalInstruction(in, *arrays, options_, {&pointer, 1}, &error);
  if (!ok) return Unsupported(in, error);
  return Value::Array(std::move(out), &memory_);
}

std::optional<Value> Run::Operation(const Instruction& in, Operands* operands) {
  arrays_.clear();
  for (size_t i = 0; i < operands->size(); ++i) {
    if (!(*operands)[i].literal) {
      return Unsupported(
          in, absl::StrCat(OpName(in.op), " of ", ToString(in.operands[i]->shape, false)));
    }
    arrays_.push_back((*operands)[i].literal);
  }
  const Frame& frame = Top();
  if (in.shape.IsArray() && !frame.plan->dynamic[frame.next()]) {
    return OneResult(in, &arrays_, operands);
  }
  std::vector<Shape> shapes;
  if (!ResultShapes(in, arrays_, &shapes)) return std::nullopt;
  std::vector<Literal> outs;
  outs.reserve(shapes.size());
  if (!Allocate(in, shapes, &arrays_, operands, &outs)) return std::nullopt;
  std::string error;
  std::vector<Literal*> pointers;
  for (Literal& out : outs) pointers.push_back(&out);
  if (!EvalInstruction(in, arrays_, options_, absl::MakeSpan(pointers), &error)) {
    return Unsupported(in, error);
  }
  if (!in.shape.IsTuple()) return Value::Array(std::move(outs[0]), &memory_);
  std::vector<Value> elements;
  for (Literal& out : outs) elements.push_back(Value::Array(std::move(out), &memory_));
  return Value::Tuple(std::move(elements));
}

std::optional<Value> Run::CustomCall(const Instruction& in, Operands* operands) {
  if (!Fits(in, in.shape.LiteralBytes())) return std::nullopt;
  if (!CanRun(module_, in, options_, diags_)) return std::nullopt;
  if (PassesOn(in)) return std::move((*operands)[0]);
  std::vector<Literal> arrays;
  std::optional<std::vector<Literal>> results;
  if (IsKnownCall(in)) {
    for (const Value& operand : *operands) CollectLeaves(operand, &arrays);
    std::string error;
    results = RunKnownCall(in, arrays, &error);
    if (!results) return Unsupported(in, error);
  } else {
    for (const Value& operand : *operands) CollectLeaves(operand, &arrays);
    results = options_.custom_call(in, std::move(arrays), diags_);
    if (!results) return std::nullopt;
  }
  CHECK_MSG(static_cast<int64_t>(results->size()) == in.shape.LeafCount(), "custom_call results");
  size_t next = 0;
  return FromLeaves(in.shape, &*results, &next, &memory_);
}

}  // namespace tpuc
