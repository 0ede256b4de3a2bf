// Shape rules of operations at computed places: dynamic-slice, dynamic-update-slice, gather,
// scatter (shape_inference.h).
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
int64_t SizeOf(const Ints& list) { return static_cast<int64_t>(list.size()); }

// Operands first, first+1 ... hold the start: a scalar a dimension, or one vector of them.
bool Starts(const Instruction& in, size_t first, int64_t rank, std::string* error) {
  const size_t count = in.operands.size() - first;
  for (size_t i = first; i < in.operands.size(); ++i) {
    const Shape& shape = in.operands[i]->shape;
    const bool vector = count == 1 && shape.rank() == 1 && shape.dims[0] == rank;
    if (IsInteger(shape.type) && (shape.IsScalar() || vector)) continue;
    return Fail(error, absl::StrCat(OperandText(in, static_cast<int64_t>(i)), " of ", OpName(in.op),
                                    " must be an integer scalar, the start of one "
                                    "dimension"));
  }
  const bool vector = count == 1 && in.operands[first]->shape.rank() == 1;
  if (vector || static_cast<int64_t>(count) == rank) return true;
  return Fail(error, absl::StrCat(OpName(in.op), " has ", count, " start indices, ",
                                  OperandText(in, 0), " has ", rank, " dimensions"));
}

bool Within(const Instruction& in, const Dims& sizes, absl::string_view what, std::string* error) {
  const Shape& operand = in.operands[0]->shape;
  if (sizes.size() != operand.dims.size()) {
    return Fail(error, absl::StrCat(what, " has ", sizes.size(), " dimensions, ",
                                    OperandText(in, 0), " has ", operand.rank()));
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] >= 0 && sizes[d] <= operand.dims[d]) continue;
    return Fail(error, absl::StrCat(what, " takes ", sizes[d], " of dimension ", d, " of ",
                                    OperandText(in, 0)));
  }
  return true;
}

// What gather and scatter have in common, under their own names for it.
struct Numbers {
  const Ints &window, &hidden, &map, &array_batch, &index_batch;
  absl::string_view window_name, hidden_name, map_name, array_batch_name, index_batch_name;
  int64_t vector_dim;
};

bool Ascending(const Ints& list, int64_t rank, absl::string_view name, std::string* error) {
  if (!CheckDimensions(list, rank, name, error)) return false;
  if (std::is_sorted(list.begin(), list.end())) return true;
  return Fail(error, absl::StrCat(name, "={", absl::StrJoin(list, ","), "} must ascend"));
}

bool CheckNumbers(const Instruction& in, const Numbers& n, const Shape& array, const Shape& indices,
                  int64_t partner_rank, std::string* error) {
  const int64_t rank = array.rank(), index_rank = indices.rank();
  if (!array.IsArray() || !IsInteger(indices.type)) {
    return Fail(error, absl::StrCat(OpName(in.op), " takes an array and integer indices, not ",
                                    ToString(array, false), " and ", ToString(indices, false)));
  }
  if (n.vector_dim < 0 || n.vector_dim > index_rank) {
    return Fail(error, absl::StrCat("index_vector_dim is ", n.vector_dim, ", the indices ",
                                    ToString(indices, false), " have ", index_rank, " dimensions"));
  }
  if (!Ascending(n.window, partner_rank, n.window_name, error) ||
      !Ascending(n.hidden, rank, n.hidden_name, error) ||
      !Ascending(n.array_batch, rank, n.array_batch_name, error) ||
      !CheckDimensions(n.index_batch, index_rank, n.index_batch_name, error) ||
      !CheckDimensions(n.map, rank, n.map_name, error)) {
    return false;
  }
  const int64_t components = n.vector_dim == index_rank ? 1 : indices.dims[n.vector_dim];
  if (SizeOf(n.map) != components) {
    return Fail(error, absl::StrCat(n.map_name, " names ", n.map.size(),
                                    " dimensions, an index vector has ", components));
  }
  if (SizeOf(n.window) + SizeOf(n.hidden) + SizeOf(n.array_batch) != rank) {
    return Fail(error,
                absl::StrCat(n.window_name, ", ", n.hidden_name, " and ", n.array_batch_name,
                             " name ", n.window.size() + n.hidden.size() + n.array_batch.size(),
                             " dimensions, ", OperandText(in, 0), " has ", rank));
  }
  if (n.array_batch.size() != n.index_batch.size()) {
    return Fail(error,
                absl::StrCat(n.array_batch_name, " and ", n.index_batch_name, " differ in length"));
  }
  for (size_t k = 0; k < n.array_batch.size(); ++k) {
    const int64_t a = n.array_batch[k], b = n.index_batch[k];
    if (b != n.vector_dim && array.dims[a] == indices.dims[b] && !Contains(n.hidden, a) &&
        !Contains(n.map, a)) {
      continue;
    }
    return Fail(error, absl::StrCat(n.array_batch_name, " ", a, " and ", n.index_batch_name, " ", b,
                                    " are no common dimension of ", OperandText(in, 0),
                                    " and the indices"));
  }
  return true;
}

// The indices' dimensions without the index vector's.
Dims BatchDims(const Shape& indices, int64_t vector_dim) {
  Dims dims;
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d != vector_dim) dims.push_back(indices.dims[d]);
  }
  return dims;
}

bool Gather(const Instruction& in, Shape* result, std::string* error) {
  const Shape &operand = in.operands[0]->shape, &indices = in.operands[1]->shape;
  const AttrValue& written = *in.Find(AttrId::kSliceSizes);
  if (!std::holds_alternative<Ints>(written)) return Fail(error, "slice_sizes of gather is a list");
  const Ints& sizes = std::get<Ints>(written);
  const Numbers n{in.IntsAttr(AttrId::kOffsetDims),
                  in.IntsAttr(AttrId::kCollapsedSliceDims),
                  in.IntsAttr(AttrId::kStartIndexMap),
                  in.IntsAttr(AttrId::kOperandBatchingDims),
                  in.IntsAttr(AttrId::kStartIndicesBatchingDims),
                  "offset_dims",
                  "collapsed_slice_dims",
                  "start_index_map",
                  "operand_batching_dims",
                  "start_indices_batching_dims",
                  in.IntAttr(AttrId::kIndexVectorDim)};
  const Dims batch = BatchDims(indices, n.vector_dim);
  const int64_t rank = SizeOf(n.window) + static_cast<int64_t>(batch.size());
  if (!CheckNumbers(in, n, operand, indices, rank, error) ||
      !Within(in, Dims(sizes.begin(), sizes.end()), "slice_sizes of gather", error)) {
    return false;
  }
  Dims window;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    const bool hidden = Contains(n.hidden, d) || Contains(n.array_batch, d);
    if (!hidden) window.push_back(sizes[d]);
    if (hidden && sizes[d] > 1) {
      return Fail(error, absl::StrCat("slice_sizes of gather takes ", sizes[d], " of dimension ", d,
                                      ", which the result does not have"));
    }
  }
  *result = Shape::Array(operand.type, {});
  size_t next_window = 0, next_batch = 0;
  for (int64_t d = 0; d < rank; ++d) {
    result->dims.push_back(Contains(n.window, d) ? window[next_window++] : batch[next_batch++]);
  }
  return true;
}

bool Scatter(const Instruction& in, Shape* result, std::string* error) {
  const size_t count = in.operands.size() / 2;
  if (in.operands.size() % 2 == 0) return Fail(error, "scatter takes 2n + 1 operands");
  const Shape &operand = in.operands[0]->shape, &indices = in.operands[count]->shape;
  const Shape& updates = in.operands[count + 1]->shape;
  const Numbers n{in.IntsAttr(AttrId::kUpdateWindowDims),
                  in.IntsAttr(AttrId::kInsertedWindowDims),
                  in.IntsAttr(AttrId::kScatterDimsToOperandDims),
                  in.IntsAttr(AttrId::kInputBatchingDims),
                  in.IntsAttr(AttrId::kScatterIndicesBatchingDims),
                  "update_window_dims",
                  "inserted_window_dims",
                  "scatter_dims_to_operand_dims",
                  "input_batching_dims",
                  "scatter_indices_batching_dims",
                  in.IntAttr(AttrId::kIndexVectorDim)};
  for (size_t i = 0; i < count; ++i) {
    const Shape &o = in.operands[i]->shape, &u = in.operands[count + 1 + i]->shape;
    if (o.IsArray() && u.IsArray() && o.dims == operand.dims && u.dims == updates.dims &&
        o.type == u.type) {
      continue;
    }
    return Fail(error, absl::StrCat(OperandText(in, static_cast<int64_t>(i)), " and its updates ",
                                    OperandText(in, static_cast<int64_t>(count + 1 + i)),
                                    " must be of one type, with the dimensions of the first"));
  }
  if (!CheckNumbers(in, n, operand, indices, updates.rank(), error)) return false;
  const Dims batch = BatchDims(indices, n.vector_dim);
  size_t next_batch = 0, next_window = 0;
  Dims window;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (!Contains(n.hidden, d) && !Contains(n.array_batch, d)) window.push_back(operand.dims[d]);
  }
  for (int64_t d = 0; d < updates.rank(); ++d) {
    if (Contains(n.window, d)) {
      if (updates.dims[d] <= window[next_window]) {
        ++next_window;
        continue;
      }
      return Fail(error, absl::StrCat("dimension ", d, " of the updates ", ToString(updates, false),
                                      " is larger than that of ", OperandText(in, 0)));
    }
    if (next_batch < batch.size() && updates.dims[d] == batch[next_batch]) {
      ++next_batch;
      continue;
    }
    return Fail(error, absl::StrCat("dimension ", d, " of the updates ", ToString(updates, false),
                                    " must be that of the indices ", ToString(indices, false)));
  }
  if (next_batch != batch.size()) {
    return Fail(error, absl::StrCat("the updates ", ToString(updates, false),
                                    " lack dimensions of the indices ", ToString(indices, false)));
  }
  std::vector<Type> types;
  for (size_t i = 0; i < count; ++i) types.push_back(in.operands[i]->shape.type);
  if (!CombinesScalars(in, *in.ComputationAttr(AttrId::kToApply), types, error)) return false;
  *result = count == 1 ? Shape::Array(operand.type, operand.dims) : Shape::Tuple({});
  for (size_t i = 0; count > 1 && i < count; ++i) {
    result->elements.push_back(Shape::Array(types[i], operand.dims));
  }
  return true;
}

}  // namespace

bool Indexing(const Instruction& in, Shape* result, std::string* error) {
  const Shape& operand = in.operands[0]->shape;
  if (!operand.IsArray()) {
    return Fail(error,
                absl::StrCat(OperandText(in, 0), " of ", OpName(in.op), " must be an array"));
  }
  switch (in.op) {
    case Op::kDynamicSlice: {
      const Ints& sizes = in.IntsAttr(AttrId::kDynamicSliceSizes);
      *result = Shape::Array(operand.type, Dims(sizes.begin(), sizes.end()));
      return Within(in, result->dims, "dynamic_slice_sizes", error) &&
             Starts(in, 1, operand.rank(), error);
    }
    case Op::kDynamicUpdateSlice: {
      const Shape& update = in.operands[1]->shape;
      *result = Shape::Array(operand.type, operand.dims);
      result->dim_kinds = operand.dim_kinds;
      if (update.type != operand.type) {
        return Fail(error, absl::StrCat(OperandText(in, 1), " must be of the type of ",
                                        OperandText(in, 0)));
      }
      return Within(in, update.dims, "the update", error) && Starts(in, 2, operand.rank(), error);
    }
    case Op::kGather:
      return Gather(in, result, error);
    default:
      return Scatter(in, result, error);
  }
}

}  // namespace tpuc::shape_rules
