// Shape rules of contractions, reductions and windows (shape_inference.h).
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

// Operands of different precision give the wider one's; a written result may say otherwise.
Type WiderType(Type a, Type b) {
  if (a == b || ClassOf(a) != ClassOf(b)) return a;
  return BitsOf(a) >= BitsOf(b) ? a : b;
}

bool Dot(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& lhs = instruction.operands[0]->shape;
  const Shape& rhs = instruction.operands[1]->shape;
  for (int64_t i : {0, 1}) {
    if (instruction.operands[i]->shape.IsArray()) continue;
    *error = absl::StrCat(OperandText(instruction, i), " of dot must be an array");
    return false;
  }
  if (instruction.operands.size() > 2) {  // sparse dots: accepted as written
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

// Positions of a window along a dimension of `size`; -1 on overflow.
int64_t WindowCount(int64_t size, const WindowDim& w) {
  auto dilated = [](int64_t n, int64_t dilation, int64_t* out) {
    if (n == 0) return *out = 0, true;
    return !__builtin_mul_overflow(n - 1, dilation, out) && !__builtin_add_overflow(*out, 1, out);
  };
  int64_t base = 0, window = 0;
  if (!dilated(size, w.base_dilation, &base) || !dilated(w.size, w.window_dilation, &window) ||
      __builtin_add_overflow(base, w.pad_low, &base) ||
      __builtin_add_overflow(base, w.pad_high, &base)) {
    return -1;
  }
  if (base < window || base < 0) return 0;
  return (base - window) / w.stride + 1;
}

bool Convolution(const Instruction& instruction, Shape* result, std::string* error) {
  const Shape& lhs = instruction.operands[0]->shape;
  const Shape& rhs = instruction.operands[1]->shape;
  const auto& labels = std::get<DimLabels>(*instruction.Find(AttrId::kDimLabels));
  const AttrValue* window = instruction.Find(AttrId::kWindow);
  const std::vector<WindowDim> none;
  const auto& dims = window ? std::get<Window>(*window).dims : none;
  int rank = static_cast<int>(labels.lhs.size());
  if (lhs.rank() != rank || rhs.rank() != rank || static_cast<int>(dims.size()) != rank - 2) {
    *error = absl::StrCat("dim_labels and window of convolution do not fit ",
                          OperandText(instruction, 0), " and ", OperandText(instruction, 1));
    return false;
  }
  *result = Shape::Array(WiderType(lhs.type, rhs.type), {});
  for (char c : labels.output) {
    auto at = [c](const std::string& part, char letter) { return part.find(letter); };
    if (c == 'b') {
      result->dims.push_back(
          lhs.dims[at(labels.lhs, 'b')] /
          std::max<int64_t>(1, instruction.IntAttr(AttrId::kBatchGroupCount, 1)));
    } else if (c == 'f') {
      result->dims.push_back(rhs.dims[at(labels.rhs, 'o')]);
    } else {
      size_t d = labels.lhs.find(c);
      size_t spatial = static_cast<size_t>(c - '0');
      if (d == std::string::npos || spatial >= dims.size()) {
        *error = "dim_labels of convolution hold dimensions without a name";
        return false;
      }
      result->dims.push_back(std::max<int64_t>(0, WindowCount(lhs.dims[d], dims[spatial])));
    }
  }
  return true;
}

// (n operands, n init values) and a body of 2n parameters: the parts common to reductions.
bool CheckReducer(const Instruction& instruction, std::string* error) {
  const Computation& body = *instruction.ComputationAttr(AttrId::kToApply);
  size_t n = instruction.operands.size() / 2;
  std::vector<Instruction*> parameters = body.Parameters();
  if (parameters.size() != 2 * n) {
    *error = absl::StrCat(OpName(instruction.op), " of ", n, " operand", n == 1 ? "" : "s",
                          " needs a computation of ", 2 * n, " parameters; '", body.name, "' has ",
                          parameters.size());
    return false;
  }
  for (size_t i = 0; i < n; ++i) {
    const Shape& operand = instruction.operands[i]->shape;
    const Shape& init = instruction.operands[n + i]->shape;
    if (!operand.IsArray()) {
      *error = absl::StrCat(OperandText(instruction, static_cast<int64_t>(i)), " must be an array");
      return false;
    }
    if (operand.dims != instruction.operands[0]->shape.dims) {
      *error = absl::StrCat(OperandText(instruction, static_cast<int64_t>(i)),
                            " must have the dimensions of ", OperandText(instruction, 0));
      return false;
    }
    if (!init.IsScalar() || !SameDims(init, Shape::Array(operand.type, {}))) {
      *error = absl::StrCat(OperandText(instruction, static_cast<int64_t>(n + i)),
                            " must be the initial value ", TypeName(operand.type), "[]");
      return false;
    }
  }
  for (size_t i = 0; i < 2 * n; ++i) {
    const Shape wanted = Shape::Array(instruction.operands[i % n]->shape.type, {});
    if (SameDims(parameters[i]->shape, wanted)) continue;
    *error = absl::StrCat("parameter ", i, " of '", body.name, "' is ",
                          ToString(parameters[i]->shape, false), "; ", OpName(instruction.op),
                          " gives it ", ToString(wanted, false));
    return false;
  }
  const Shape& root = body.root->shape;
  size_t results = root.IsTuple() ? root.elements.size() : 1;
  if (results != n || (n > 1 && !root.IsTuple())) {
    *error = absl::StrCat("'", body.name, "' yields ", ToString(root, false), "; ",
                          OpName(instruction.op), " of ", n, " operands needs ", n, " results");
    return false;
  }
  return true;
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

bool Reduce(const Instruction& instruction, Shape* result, std::string* error) {
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

bool ReduceWindow(const Instruction& instruction, Shape* result, std::string* error) {
  if (!CheckReducer(instruction, error)) return false;
  const Shape& operand = instruction.operands[0]->shape;
  const AttrValue* window = instruction.Find(AttrId::kWindow);
  size_t rank = window ? std::get<Window>(*window).dims.size() : 0;
  if (static_cast<int>(rank) != operand.rank()) {
    *error = absl::StrCat("window has ", rank, " dimensions, ", OperandText(instruction, 0),
                          " has ", operand.rank());
    return false;
  }
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    dims.push_back(
        std::max<int64_t>(0, WindowCount(operand.dims[i], std::get<Window>(*window).dims[i])));
  }
  *result = ReducedShape(instruction, dims);
  return true;
}

}  // namespace

bool Contraction(const Instruction& instruction, Shape* result, std::string* error) {
  return instruction.op == Op::kDot ? Dot(instruction, result, error)
                                    : Convolution(instruction, result, error);
}

bool Reduction(const Instruction& instruction, Shape* result, std::string* error) {
  if (instruction.op == Op::kReduce) return Reduce(instruction, result, error);
  if (instruction.op == Op::kReduceWindow) return ReduceWindow(instruction, result, error);
  // sort
  if (instruction.operands.size() == 1) {
    *result = instruction.operands[0]->shape;
    result->layout.reset();
    return true;
  }
  *result = Shape::Tuple({});
  for (const Instruction* operand : instruction.operands) {
    result->elements.push_back(operand->shape);
    result->elements.back().layout.reset();
  }
  return true;
}

}  // namespace tpuc::shape_rules
