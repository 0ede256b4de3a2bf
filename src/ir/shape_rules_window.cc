// Shape rules of sliding windows: convolution, reduce-window, select-and-scatter
// (shape_inference.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"
#include "src/ir/shape_inference.h"

namespace tpuc::shape_rules {
namespace {

const std::vector<WindowDim>& WindowDims(const Instruction& in) {
  static const auto* none = new std::vector<WindowDim>;
  const AttrValue* window = in.Find(AttrId::kWindow);
  return window ? std::get<Window>(*window).dims : *none;
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

// The number of windows along dimension d of the operand.
bool Count(const Instruction& in, int64_t size, const WindowDim& w, int64_t* count,
           std::string* error) {
  if (w.size < 1 || w.stride < 1 || w.base_dilation < 1 || w.window_dilation < 1) {
    return Fail(error, absl::StrCat("sizes, strides and dilations of the window of ", OpName(in.op),
                                    " must be at least 1"));
  }
  *count = WindowCount(size, w);
  if (*count >= 0) return true;
  return Fail(error, absl::StrCat("the window of ", OpName(in.op), " spans more than 64 bits"));
}

bool Slide(const Instruction& in, const Dims& operand, Dims* result, std::string* error) {
  const std::vector<WindowDim>& window = WindowDims(in);
  if (window.size() != operand.size()) {
    return Fail(error, absl::StrCat("window has ", window.size(), " dimensions, ",
                                    OperandText(in, 0), " has ", operand.size()));
  }
  for (size_t d = 0; d < operand.size(); ++d) {
    int64_t count;
    if (!Count(in, operand[d], window[d], &count, error)) return false;
    result->push_back(count);
  }
  return true;
}

}  // namespace

bool Convolution(const Instruction& in, Shape* result, std::string* error) {
  const Shape &lhs = in.operands[0]->shape, &rhs = in.operands[1]->shape;
  const auto& labels = std::get<DimLabels>(*in.Find(AttrId::kDimLabels));
  const std::vector<WindowDim>& window = WindowDims(in);
  if (in.operands.size() > 2) {  // sparse: accepted as written
    *result = in.shape;
    return true;
  }
  const int rank = static_cast<int>(labels.lhs.size());
  const auto at = [](const std::string& part, char c) { return part.find(c); };
  bool named = labels.rhs.size() == labels.lhs.size() && labels.output.size() == labels.lhs.size();
  for (char c : std::string("bf")) {
    named = named && at(labels.lhs, c) != std::string::npos &&
            at(labels.output, c) != std::string::npos;
  }
  for (char c : std::string("io")) named = named && at(labels.rhs, c) != std::string::npos;
  for (int i = 0; i + 2 < rank; ++i) {
    for (const std::string* part : {&labels.lhs, &labels.rhs, &labels.output}) {
      named = named && at(*part, static_cast<char>('0' + i)) != std::string::npos;
    }
  }
  if (!named) return Fail(error, "dim_labels of convolution leave dimensions without a name");
  if (!lhs.IsArray() || !rhs.IsArray() || lhs.rank() != rank || rhs.rank() != rank ||
      static_cast<int>(window.size()) != rank - 2) {
    return Fail(error, absl::StrCat("dim_labels and window of convolution do not fit ",
                                    OperandText(in, 0), " and ", OperandText(in, 1)));
  }
  const int64_t features = in.IntAttr(AttrId::kFeatureGroupCount, 1);
  const int64_t batches = in.IntAttr(AttrId::kBatchGroupCount, 1);
  if (features < 1 || batches < 1 || (features > 1 && batches > 1)) {
    return Fail(error, absl::StrCat("feature_group_count ", features, " and batch_group_count ",
                                    batches, " must be at least 1, and one of them 1"));
  }
  const int64_t lhs_batch = lhs.dims[at(labels.lhs, 'b')];
  const int64_t lhs_features = lhs.dims[at(labels.lhs, 'f')];
  const int64_t inputs = rhs.dims[at(labels.rhs, 'i')], outputs = rhs.dims[at(labels.rhs, 'o')];
  if (lhs_features % features != 0 || lhs_features / features != inputs) {
    return Fail(error, absl::StrCat("the kernel ", OperandText(in, 1), " takes ", inputs,
                                    " input features; ", OperandText(in, 0), " has ", lhs_features,
                                    " in ", features, " groups"));
  }
  if (outputs % features != 0 || outputs % batches != 0 || lhs_batch % batches != 0) {
    return Fail(error, absl::StrCat("groups of convolution do not divide ", outputs,
                                    " output features or a batch of ", lhs_batch));
  }
  *result = Shape::Array(WiderType(lhs.type, rhs.type), Dims(rank, 0));
  result->dims[at(labels.output, 'b')] = lhs_batch / batches;
  result->dims[at(labels.output, 'f')] = outputs;
  for (size_t i = 0; i < window.size(); ++i) {  // the window's sizes, not the kernel's, as in XLA
    const char digit = static_cast<char>('0' + i);
    WindowDim w = window[i];
    w.size = std::max<int64_t>(w.size, 1);  // an empty kernel makes zeros
    if (!Count(in, lhs.dims[at(labels.lhs, digit)], w, &result->dims[at(labels.output, digit)],
               error)) {
      return false;
    }
  }
  return true;
}

bool ReduceWindow(const Instruction& in, Shape* result, std::string* error) {
  if (in.operands.size() % 2 != 0) return Fail(error, "reduce-window takes 2n operands");
  if (!CheckReducer(in, error)) return false;
  Dims dims;
  if (!Slide(in, in.operands[0]->shape.dims, &dims, error)) return false;
  *result = ReducedShape(in, dims);
  return true;
}

bool SelectAndScatter(const Instruction& in, Shape* result, std::string* error) {
  const Shape &operand = in.operands[0]->shape, &source = in.operands[1]->shape;
  const Shape& init = in.operands[2]->shape;
  Dims windows;
  if (!operand.IsArray()) return Fail(error, absl::StrCat(OperandText(in, 0), " must be an array"));
  if (!Slide(in, operand.dims, &windows, error)) return false;
  if (source.dims != windows || source.type != operand.type) {
    return Fail(error, absl::StrCat(OperandText(in, 1), " must be ",
                                    ToString(Shape::Array(operand.type, windows), false),
                                    ", one value a window"));
  }
  if (!init.IsScalar() || init.type != operand.type) {
    return Fail(error, absl::StrCat(OperandText(in, 2), " must be the initial value ",
                                    TypeName(operand.type), "[]"));
  }
  *result = Shape::Array(operand.type, operand.dims);
  return ComparesScalars(in, *in.ComputationAttr(AttrId::kSelect), {operand.type}, error) &&
         CombinesScalars(in, *in.ComputationAttr(AttrId::kScatter), {operand.type}, error);
}

}  // namespace tpuc::shape_rules
