// Shape rules of contractions, reductions, scans and sorting (shape_inference.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::shape_rules {
namespace {

bool Contains(const Ints& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

// Operands of different precision give the wider one's; a written result may say otherwise.
Type WiderType(Type a, Type b) {
  if (a == b || ClassOf(a) != ClassOf(b)) return a;
  return BitsOf(a) >= BitsOf(b) ? a : b;
}

bool CombinesScalars(const Instruction& instruction, const Computation& body,
                     const std::vector<Type>& types, std::string* error) {
  std::vector<Shape> values;
  for (Type type : types) values.push_back(Shape::Array(type, {}));
  return CombinesValues(instruction, body, values, error);
}

bool CombinesValues(const Instruction& instruction, const Computation& body,
                    const std::vector<Shape>& values, std::string* error) {
  const size_t n = values.size();
  const std::vector<Instruction*> parameters = body.Parameters();
  if (parameters.size() != 2 * n) {
    return Fail(error, absl::StrCat(OpName(instruction.op), " of ", n, " operand",
                                    n == 1 ? "" : "s", " needs a computation of ", 2 * n,
                                    " parameters; '", body.name, "' has ", parameters.size()));
  }
  for (size_t i = 0; i < 2 * n; ++i) {
    if (SameDims(parameters[i]->shape, values[i % n])) continue;
    return Fail(error,
                absl::StrCat("parameter ", i, " of '", body.name, "' is ",
                             ToString(parameters[i]->shape, false), "; ", OpName(instruction.op),
                             " gives it ", ToString(values[i % n], false)));
  }
  const Shape& root = body.root->shape;
  bool fits = root.IsTuple() ? root.elements.size() == n : n == 1;
  for (size_t i = 0; fits && i < n; ++i) {
    fits = SameDims(root.IsTuple() ? root.elements[i] : root, values[i]);
  }
  if (fits) return true;
  return Fail(error, absl::StrCat("'", body.name, "' yields ", ToString(root, false), "; ",
                                  OpName(instruction.op), " of ", n, " operand",
                                  n == 1 ? "" : "s", " needs ", n, " result", n == 1 ? "" : "s",
                                  ", as its parameters are"));
}

bool ComparesScalars(const Instruction& instruction, const Computation& body,
                     const std::vector<Type>& types, std::string* error) {
  const std::vector<Instruction*> parameters = body.Parameters();
  const bool wrapped = body.root->shape.elements.size() == 1;
  const Shape& root = wrapped ? body.root->shape.elements[0] : body.root->shape;
  bool fits = parameters.size() == 2 * types.size() && root.IsScalar() && root.type == Type::kPred;
  for (size_t i = 0; fits && i < parameters.size(); ++i) {
    fits = SameDims(parameters[i]->shape, Shape::Array(types[i / 2], {}));
  }
  if (fits) return true;
  std::string wanted;
  for (Type type : types) absl::StrAppend(&wanted, TypeName(type), "[], ", TypeName(type), "[], ");
  return Fail(error, absl::StrCat(OpName(instruction.op), " needs a computation (",
                                  wanted.substr(0, wanted.size() - 2), ") -> pred[]; '", body.name,
                                  "' is another"));
}

bool CheckReducer(const Instruction& instruction, std::string* error) {
  const size_t n = instruction.operands.size() / 2;
  std::vector<Shape> values;
  for (size_t i = 0; i < n; ++i) {
    const Shape& operand = instruction.operands[i]->shape;
    const Shape& init = instruction.operands[n + i]->shape;
    const int64_t at = static_cast<int64_t>(i);
    if (!operand.IsArray()) {
      return Fail(error, absl::StrCat(OperandText(instruction, at), " must be an array"));
    }
    if (operand.dims != instruction.operands[0]->shape.dims) {
      return Fail(error, absl::StrCat(OperandText(instruction, at), " must have the dimensions of ",
                                      OperandText(instruction, 0)));
    }
    // Whole slices may be reduced, too: the value is what the reduced dimensions leave.
    Dims left;
    for (int d = 0; d < operand.rank() && instruction.op == Op::kReduce; ++d) {
      if (!Contains(instruction.IntsAttr(AttrId::kDimensions), d)) left.push_back(operand.dims[d]);
    }
    const bool slice = instruction.op == Op::kReduce && !init.IsScalar() && init.dims == left;
    values.push_back(Shape::Array(operand.type, slice ? left : Dims{}));
    if (SameDims(init, values.back())) continue;
    return Fail(error, absl::StrCat(OperandText(instruction, static_cast<int64_t>(n) + at),
                                    " must be the initial value ", TypeName(operand.type), "[]"));
  }
  return CombinesValues(instruction, *instruction.ComputationAttr(AttrId::kToApply), values, error);
}

// One array a result of the reducer, each of dimensions `dims`.
Shape ReducedShape(const Instruction& instruction, const Dims& dims) {
  const Shape& root = instruction.ComputationAttr(AttrId::kToApply)->root->shape;
  if (!root.IsTuple()) return Shape::Array(root.type, dims);
  Shape out = Shape::Tuple({});
  for (const Shape& element : root.elements)
    out.elements.push_back(Shape::Array(element.type, dims));
  return out;
}

namespace {

bool Dot(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& lhs = instruction.operands[0]->shape;
  const Shape& rhs = instruction.operands[1]->shape;
  for (int64_t i : {0, 1}) {
    if (instruction.operands[i]->shape.IsArray()) continue;
    *error = absl::StrCat(OperandText(instruction, i), " of dot must be an array");
    return false;
  }
  if (instruction.op == Op::kDot && instruction.operands.size() > 2) {  // sparse: as written
    *result = instruction.shape;
    return true;
  }
  const Ints& lhs_batch = instruction.IntsAttr(AttrId::kLhsBatchDims);
  const Ints& rhs_batch = instruction.IntsAttr(AttrId::kRhsBatchDims);
  const Ints& lhs_contract = instruction.IntsAttr(AttrId::kLhsContractingDims);
  const Ints& rhs_contract = instruction.IntsAttr(AttrId::kRhsContractingDims);
  auto joined = [](const Ints& a, const Ints& b) {
    Ints all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
  };
  if (!CheckDimensions(joined(lhs_batch, lhs_contract), lhs.rank(),
                       "lhs batch and contracting dimensions", error) ||
      !CheckDimensions(joined(rhs_batch, rhs_contract), rhs.rank(),
                       "rhs batch and contracting dimensions", error)) {
    return false;
  }
  auto agree = [&](const Ints& a, const Ints& b, absl::string_view what) {
    if (a.size() != b.size()) {
      *error = absl::StrCat("dot has ", a.size(), " ", what, " dimensions of lhs and ", b.size(),
                            " of rhs");
      return false;
    }
    for (size_t i = 0; i < a.size(); ++i) {
      if (lhs.dims[a[i]] == rhs.dims[b[i]]) continue;
      *error = absl::StrCat(what, " dimension ", a[i], " of ", OperandText(instruction, 0),
                            " has size ", lhs.dims[a[i]], ", dimension ", b[i], " of ",
                            OperandText(instruction, 1), " has ", rhs.dims[b[i]]);
      return false;
    }
    return true;
  };
  if (!agree(lhs_batch, rhs_batch, "batch") || !agree(lhs_contract, rhs_contract, "contracting")) {
    return false;
  }
  *result = Shape::Array(WiderType(lhs.type, rhs.type), {});
  for (int64_t d : lhs_batch) result->dims.push_back(lhs.dims[d]);
  for (int i = 0; i < lhs.rank(); ++i) {
    if (!Contains(lhs_batch, i) && !Contains(lhs_contract, i)) result->dims.push_back(lhs.dims[i]);
  }
  for (int i = 0; i < rhs.rank(); ++i) {
    if (!Contains(rhs_batch, i) && !Contains(rhs_contract, i)) result->dims.push_back(rhs.dims[i]);
  }
  return true;
}

// Dimensions batch, lhs free, rhs free as of a dot; the ragged dimension of lhs decides the rest.
bool RaggedDot(const Instruction& in, Shape* result, std::string* error) {
  const Shape &lhs = in.operands[0]->shape, &rhs = in.operands[1]->shape;
  const Shape& sizes = in.operands[2]->shape;
  const Ints& ragged = in.IntsAttr(AttrId::kLhsRaggedDims);
  const Ints& groups = in.IntsAttr(AttrId::kRhsGroupDims);
  const Ints &batch = in.IntsAttr(AttrId::kLhsBatchDims),
             &contract = in.IntsAttr(AttrId::kLhsContractingDims);
  if (!IsInteger(sizes.type) || sizes.rank() < 1) {
    return Fail(error, absl::StrCat(OperandText(in, 2), " must hold integer group sizes"));
  }
  if (ragged.size() != 1 || !CheckDimensions(ragged, lhs.rank(), "lhs_ragged_dims", error) ||
      !CheckDimensions(groups, rhs.rank(), "rhs_group_dims", error)) {
    if (error->empty()) *error = "lhs_ragged_dims of ragged-dot names one dimension";
    return false;
  }
  const bool is_free = !Contains(batch, ragged[0]) && !Contains(contract, ragged[0]);
  if (groups.size() != (is_free ? 1u : 0u)) {
    return Fail(error, absl::StrCat("rhs_group_dims names ", groups.size(),
                                    " dimensions; a ragged dimension that is ",
                                    is_free ? "free needs 1" : "contracting or batch needs none"));
  }
  const int64_t count = sizes.dims.back();
  if (is_free && (Contains(in.IntsAttr(AttrId::kRhsBatchDims), groups[0]) ||
                  Contains(in.IntsAttr(AttrId::kRhsContractingDims), groups[0]) ||
                  rhs.dims[groups[0]] != count)) {
    return Fail(error, absl::StrCat("dimension ", groups[0], " of ", OperandText(in, 1),
                                    " must be free and one slice for each of ", count, " groups"));
  }
  if (!Dot(in, result, error)) return false;
  if (Contains(contract, ragged[0])) result->dims.insert(result->dims.begin(), count);
  if (is_free) {  // the group dimension is none of the result's
    int64_t place = static_cast<int64_t>(lhs.rank() - contract.size());
    for (int64_t d = 0; d < groups[0]; ++d) {
      place += !Contains(in.IntsAttr(AttrId::kRhsBatchDims), d) &&
               !Contains(in.IntsAttr(AttrId::kRhsContractingDims), d);
    }
    result->dims.erase(result->dims.begin() + place);
  }
  return true;
}

bool ScaledDot(const Instruction& in, Shape* result, std::string* error) {
  for (int64_t i : {0, 1}) {
    const Shape &operand = in.operands[i]->shape, &scale = in.operands[i + 2]->shape;
    bool fits = operand.IsArray() && scale.IsArray() &&
                (scale.IsScalar() || scale.rank() == operand.rank());
    for (int d = 0; fits && d < scale.rank(); ++d) {
      fits = operand.dims[d] == 0 || (scale.dims[d] > 0 && operand.dims[d] % scale.dims[d] == 0);
    }
    if (fits) continue;
    return Fail(error, absl::StrCat(OperandText(in, i + 2),
                                    " must be a scalar or divide the "
                                    "dimensions of ",
                                    OperandText(in, i)));
  }
  if (!Dot(in, result, error)) return false;
  result->type = in.shape.type;
  return true;
}

bool Sort(const Instruction& in, Shape* result, std::string* error) {
  std::vector<Type> types;
  const Shape& first = in.operands[0]->shape;
  for (size_t i = 0; i < in.operands.size(); ++i) {
    const Shape& shape = in.operands[i]->shape;
    if (!shape.IsArray() || shape.dims != first.dims) {
      return Fail(error, absl::StrCat(OperandText(in, static_cast<int64_t>(i)),
                                      " must have the dimensions of ", OperandText(in, 0)));
    }
    types.push_back(shape.type);
  }
  if (!CheckDimensions(in.IntsAttr(AttrId::kDimensions), first.rank(), "dimensions of sort",
                       error) ||
      !ComparesScalars(in, *in.ComputationAttr(AttrId::kToApply), types, error)) {
    return false;
  }
  *result = Shape::Tuple({});
  for (const Instruction* operand : in.operands) {
    result->elements.push_back(operand->shape);
    result->elements.back().layout.reset();
  }
  if (in.operands.size() == 1) *result = Shape(result->elements[0]);
  return true;
}

// to_apply takes a slice of each input and the carries, and yields a slice of each output and the
// carries.
bool Scan(const Instruction& in, Shape* result, std::string* error) {
  const Computation& body = *in.ComputationAttr(AttrId::kToApply);
  const int64_t count = static_cast<int64_t>(in.operands.size());
  const int64_t carries = in.IntAttr(AttrId::kNumCarries);
  const int64_t d = in.IntsAttr(AttrId::kDimensions)[0];
  const std::vector<Instruction*> parameters = body.Parameters();
  const Shape& root = body.root->shape;
  const int64_t results = static_cast<int64_t>(root.elements.size());
  if (carries < 0 || carries > count || static_cast<int64_t>(parameters.size()) != count ||
      !root.IsTuple() || results < carries) {
    return Fail(error, absl::StrCat("scan of ", count, " operands and ", carries,
                                    " carries needs a computation of as many parameters that "
                                    "yields a tuple with the carries last"));
  }
  int64_t size = 0;
  for (int64_t i = 0; i < count; ++i) {
    Shape wanted = in.operands[i]->shape;
    const bool input = i < count - carries;
    if (!wanted.IsArray() ||
        (input && (d < 0 || d >= wanted.rank() || (i > 0 && wanted.dims[d] != size)))) {
      return Fail(error, absl::StrCat(OperandText(in, i),
                                      " of scan must be an array with "
                                      "dimension ",
                                      d, " of the size of the first"));
    }
    if (input) {
      size = wanted.dims[d];
      wanted.dims.erase(wanted.dims.begin() + d);
    }
    const bool fits = Compatible(Shape::Array(wanted.type, wanted.dims), parameters[i]->shape) &&
                      (input || Compatible(root.elements[results - count + i], wanted));
    if (fits) continue;
    return Fail(error, absl::StrCat("parameter ", i, " of '", body.name, "' must be ",
                                    ToString(Shape::Array(wanted.type, wanted.dims), false),
                                    input ? ", a slice" : ", a carry that it also yields"));
  }
  *result = Shape::Tuple({});
  for (int64_t i = 0; i < results; ++i) {
    Shape shape = Shape::Array(root.elements[i].type, root.elements[i].dims);
    if (i < results - carries) {
      if (!root.elements[i].IsArray() || d < 0 || d > shape.rank() || count == carries) {
        return Fail(error, absl::StrCat("output ", i, " of scan has no dimension ", d));
      }
      shape.dims.insert(shape.dims.begin() + d, size);
    }
    result->elements.push_back(std::move(shape));
  }
  return true;
}

bool Reduce(const Instruction& instruction, Shape* result, std::string* error) {
  if (instruction.operands.size() % 2 != 0) return Fail(error, "reduce takes 2n operands");
  if (!CheckReducer(instruction, error)) return false;
  const Shape& operand = instruction.operands[0]->shape;
  const Ints& dimensions = instruction.IntsAttr(AttrId::kDimensions);
  if (!CheckDimensions(dimensions, operand.rank(), "dimensions of reduce", error)) return false;
  Dims dims;
  for (int i = 0; i < operand.rank(); ++i) {
    if (!Contains(dimensions, i)) dims.push_back(operand.dims[i]);
  }
  *result = ReducedShape(instruction, dims);
  return true;
}

}  // namespace

bool Contraction(const Instruction& in, Shape* result, std::string* error) {
  switch (in.op) {
    case Op::kRaggedDot:
      return RaggedDot(in, result, error);
    case Op::kScaledDot:
      return ScaledDot(in, result, error);
    case Op::kConvolution:
      return Convolution(in, result, error);
    default:
      return Dot(in, result, error);
  }
}

bool Reduction(const Instruction& in, Shape* result, std::string* error) {
  switch (in.op) {
    case Op::kReduce:
      return Reduce(in, result, error);
    case Op::kReduceWindow:
      return ReduceWindow(in, result, error);
    case Op::kSelectAndScatter:
      return SelectAndScatter(in, result, error);
    case Op::kScan:
      return Scan(in, result, error);
    default:
      return Sort(in, result, error);
  }
}

}  // namespace tpuc::shape_rules
