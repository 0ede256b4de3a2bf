// Shape rules of what goes between devices, the host and threads: collectives, infeed, send, async
// instructions, tokens (shape_inference.h). Results that name a number of devices are taken as
// written where they can be.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::shape_rules {
namespace {

const Shape& ShapeOf(const Instruction& in, size_t operand) { return in.operands[operand]->shape; }
bool IsToken(const Shape& shape) { return shape.type == Type::kToken; }

// One operand's shape, or the tuple of them.
Shape OperandShapes(const Instruction& in) {
  if (in.operands.size() == 1) return WithoutLayout(ShapeOf(in, 0));
  Shape tuple = Shape::Tuple({});
  for (const Instruction* operand : in.operands) {
    tuple.elements.push_back(WithoutLayout(operand->shape));
  }
  return tuple;
}

bool NeedsArrays(const Instruction& in, std::string* error) {
  for (size_t i = 0; i < in.operands.size(); ++i) {
    if (ShapeOf(in, i).IsArray()) continue;
    return Fail(error, absl::StrCat(OperandText(in, static_cast<int64_t>(i)), " of ", OpName(in.op),
                                    " must be an array"));
  }
  return true;
}

// `to` is `from` but for the sizes of dimension d, of which one divides the other.
bool Divides(const Shape& from, const Shape& to, int64_t d) {
  if (from.type != to.type || from.rank() != to.rank() || d < 0 || d >= from.rank()) return false;
  for (int i = 0; i < from.rank(); ++i) {
    if (i != d && from.dims[i] != to.dims[i]) return false;
  }
  const int64_t a = std::min(from.dims[d], to.dims[d]), b = std::max(from.dims[d], to.dims[d]);
  return a == 0 ? b == 0 : b % a == 0;
}

// all-gather, reduce-scatter: each result is its operand longer or shorter along one dimension.
bool GatherLike(const Instruction& in, const Shape& written, std::string* error) {
  const Ints& dimensions = in.IntsAttr(AttrId::kDimensions);
  const int64_t d = dimensions.empty() ? -1 : dimensions[0];
  const Shape given = OperandShapes(in);
  const bool one = !given.IsTuple();
  bool fits = one || (written.IsTuple() && written.elements.size() == given.elements.size());
  if (fits && one) {
    const bool wrapped = written.IsTuple() && written.elements.size() == 1;
    fits = Divides(given, wrapped ? written.elements[0] : written, d);
  }
  for (size_t i = 0; fits && !one && i < given.elements.size(); ++i) {
    fits = Divides(given.elements[i], written.elements[i], d);
  }
  if (fits) return true;
  return Fail(error,
              absl::StrCat(OpName(in.op), " of ", ToString(given, false), " along dimension ", d,
                           " cannot make ", ToString(written, false)));
}

bool Written(const Instruction& in, bool fits, absl::string_view wanted, std::string* error) {
  if (fits) return true;
  return Fail(error,
              absl::StrCat(OpName(in.op), " makes ", wanted, ", not ", ToString(in.shape, false)));
}

// Element i of a tuple operand.
bool ElementOf(const Instruction& in, size_t i, Shape* result, std::string* error) {
  const Shape& operand = ShapeOf(in, 0);
  if (!operand.IsTuple() || operand.elements.size() <= i) {
    return Fail(error, absl::StrCat(OperandText(in, 0), " of ", OpName(in.op),
                                    " must be the tuple of its start"));
  }
  *result = WithoutLayout(operand.elements[i]);
  return true;
}

bool Async(const Instruction& in, Shape* result, std::string* error) {
  const Shape& chain = in.op == Op::kAsyncStart ? in.shape : ShapeOf(in, 0);
  if (!chain.IsTuple() || chain.elements.size() < 2 || !chain.elements[0].IsTuple()) {
    return Fail(error, absl::StrCat(OpName(in.op), " works on ((operands), result, ...), not ",
                                    ToString(chain, false)));
  }
  *result = in.op == Op::kAsyncDone ? WithoutLayout(chain.elements[1]) : in.shape;
  if (in.op != Op::kAsyncStart || in.operands.empty()) return true;
  Shape given = Shape::Tuple({});
  for (const Instruction* operand : in.operands) given.elements.push_back(operand->shape);
  const Computation* body = in.ComputationAttr(AttrId::kCalls);
  const bool fits = Compatible(given, chain.elements[0]) &&
                    (!body || Compatible(body->root->shape, chain.elements[1]));
  if (fits) return true;
  return Fail(error, absl::StrCat("async-start is written as ", ToString(chain, false),
                                  ", but its operands are ", ToString(given, false),
                                  body ? absl::StrCat(" and '", body->name, "' yields ",
                                                      ToString(body->root->shape, false))
                                       : ""));
}

// (data, u32[] context, token[]) of send and recv.
bool Transfer(const Instruction& in, const Shape* data, std::string* error) {
  const Shape& shape = in.shape;
  const bool fits = shape.IsTuple() && shape.elements.size() == 3 &&
                    (!data || Compatible(shape.elements[0], *data)) &&
                    shape.elements[1].IsScalar() && IsToken(shape.elements[2]);
  return Written(in, fits, "(data, u32[], token[])", error);
}

bool NeedsToken(const Instruction& in, size_t operand, std::string* error) {
  if (IsToken(ShapeOf(in, operand))) return true;
  return Fail(error, absl::StrCat(OperandText(in, static_cast<int64_t>(operand)), " of ",
                                  OpName(in.op), " must be token[]"));
}

}  // namespace

bool Communication(const Instruction& in, Shape* result, std::string* error) {
  *result = in.shape;
  switch (in.op) {
    case Op::kAllReduce:
    case Op::kAllReduceStart:
    case Op::kCollectiveBroadcast: {
      const Shape given = OperandShapes(in);
      const bool wrapped = in.shape.IsTuple() && in.shape.elements.size() == 1;
      // A start may be written as (operands, results), too.
      const bool pair = in.op == Op::kAllReduceStart && in.shape.IsTuple() &&
                        in.shape.elements.size() == 2 && Compatible(in.shape.elements[0], given);
      const bool other = (wrapped || pair) && Compatible(in.shape.elements.back(), given);
      if (!other) *result = given;
      return NeedsArrays(in, error);
    }
    case Op::kAllGather:
    case Op::kReduceScatter:
      return NeedsArrays(in, error) && GatherLike(in, in.shape, error);
    case Op::kAllGatherStart: {
      const Shape& shape = in.shape;
      const bool pair = shape.IsTuple() && shape.elements.size() >= 2;
      return NeedsArrays(in, error) && GatherLike(in, pair ? shape.elements[1] : shape, error);
    }
    case Op::kAllToAll:
      if (!NeedsArrays(in, error)) return false;
      if (!in.IntsAttr(AttrId::kDimensions).empty() && in.operands.size() != 1) {
        return Fail(error, "all-to-all with dimensions takes one operand");
      }
      if (in.operands.size() > 1) *result = OperandShapes(in);
      return true;
    case Op::kAllReduceDone:
      *result = WithoutLayout(ShapeOf(in, 0));
      if (result->elements.size() == 2 && Compatible(result->elements[1], in.shape)) {
        *result = Shape(result->elements[1]);
      }
      return true;
    case Op::kAllGatherDone:
    case Op::kCollectivePermuteDone:
      if (!ShapeOf(in, 0).IsTuple()) {  // a start that is written as its result
        *result = WithoutLayout(ShapeOf(in, 0));
        return true;
      }
      return ElementOf(in, 1, result, error);
    case Op::kCollectivePermute:
    case Op::kCollectivePermuteStart:
      return true;
    case Op::kRaggedAllToAll:
      *result = WithoutLayout(ShapeOf(in, 1));
      return NeedsArrays(in, error);
    case Op::kSend:
      return NeedsToken(in, 1, error) && Transfer(in, &ShapeOf(in, 0), error);
    case Op::kRecv:
      return NeedsToken(in, 0, error) && Transfer(in, nullptr, error);
    case Op::kSendDone:
      return Written(in, IsToken(in.shape), "token[]", error);
    case Op::kRecvDone:
      return Written(in, in.shape.IsTuple() && in.shape.elements.size() == 2, "(data, token[])",
                     error);
    case Op::kInfeed:
      return NeedsToken(in, 0, error) &&
             Written(in,
                     in.shape.IsTuple() && in.shape.elements.size() == 2 &&
                         IsToken(in.shape.elements[1]),
                     "(data, token[])", error);
    case Op::kOutfeed:
      return NeedsToken(in, 1, error) && Written(in, IsToken(in.shape), "token[]", error);
    case Op::kAsyncStart:
    case Op::kAsyncUpdate:
    case Op::kAsyncDone:
      return Async(in, result, error);
    case Op::kAfterAll:
      *result = Shape::Array(Type::kToken, {});
      for (size_t i = 0; i < in.operands.size(); ++i) {
        if (!NeedsToken(in, i, error)) return false;
      }
      return true;
    default:  // add-dependency
      *result = WithoutLayout(ShapeOf(in, 0));
      return NeedsToken(in, 1, error);
  }
}

}  // namespace tpuc::shape_rules
