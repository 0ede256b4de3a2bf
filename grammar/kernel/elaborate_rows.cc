// Elaboration of rows picked by indices known at run time (elaborate.h): HLO's gather and dynamic
// slice, and a loop of stores.
//
//   x[t, :]        ->  take(x[:], t, axis=0), a gather
//   v[i, :]        ->  dynamic_slice(v, i, 0, sizes=[1, 128]), reshaped
//   o[t, :] = v    ->  for i in 0..n { o[t[i] :+ 1, :] = v[i :+ 1, :]; }
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Node;
using kernel::Slice;

Value KernelElaborator::Take(const Value& v, int64_t axis, NodeId index, Loc loc) {
  const Shape shape = ShapeOf(v), rows = kernel_.nodes[index].shape;
  const int64_t rank = shape.rank();
  if (axis == rank - 1) {  // lanes become rows, and back
    if (rank == 1) {
      const Value column = NodeValue(ReshapeTo(v.node, {shape.dims[0], 1}, loc), loc);
      const Value taken = Take(column, 0, index, loc);
      return taken ? NodeValue(ReshapeTo(taken.node, rows.dims, loc), loc) : Value();
    }
    Ints swap;
    for (int64_t d = 0; d < rank; ++d) swap.push_back(d);
    std::swap(swap[rank - 2], swap[rank - 1]);
    const auto swapped = [&](const Value& x) {
      Node n;
      n.op = Op::kTranspose;
      n.operands = {x.node};
      n.attrs = {{AttrId::kDimensions, swap}};
      return EmitHlo(std::move(n), loc);
    };
    const Value turned = swapped(v);
    const Value taken = turned ? Take(turned, rank - 2, index, loc) : Value();
    return taken ? swapped(taken) : Value();
  }
  Node n;
  n.op = Op::kGather;
  n.operands = {v.node, index};
  Ints offsets, sizes(shape.dims.begin(), shape.dims.end());
  for (int64_t d = 0; d < rank; ++d) {
    if (d != axis) offsets.push_back(d);
  }
  sizes[axis] = 1;
  n.attrs = {{AttrId::kOffsetDims, offsets},
             {AttrId::kCollapsedSliceDims, Ints{axis}},
             {AttrId::kStartIndexMap, Ints{axis}},
             {AttrId::kIndexVectorDim, int64_t{1}},
             {AttrId::kSliceSizes, sizes}};
  return EmitHlo(std::move(n), loc);
}

// Of a value that has lost the dropped dimensions.
Value KernelElaborator::TakeFrom(const Value& v, const Picked& picked,
                                 const std::vector<bool>& dropped, Loc loc) {
  if (!v || picked.dim < 0) return v;
  const int64_t lost = std::count(dropped.begin(), dropped.begin() + picked.dim, true);
  return Take(v, picked.dim - lost, picked.index, loc);
}

// take(x, t, axis=0)
Value KernelElaborator::CallTake(const Arguments& args, Loc loc) {
  static constexpr absl::string_view kNamed[] = {"axis"};
  if (!CheckNamed(args, kNamed, loc) || !CheckCount(args, 2, 2, "a value and indices", loc)) {
    return {};
  }
  Value v = Eval(*args.positional[0]);
  Value index = Eval(*args.positional[1]);
  int64_t axis = 0;
  if (!AsNode(&v) || !AsNode(&index)) return {};
  if (args.Named("axis") == nullptr) {
    Error(DiagCode::kKernelShape, loc, "take names its axis", "take(x, t, axis=0)");
    return {};
  }
  if (!AxisArgument(args, v, loc, &axis)) return {};
  if (ShapeOf(index).rank() != 1 || ShapeOf(index).type != Type::kS32) {
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat("indices of type ", ToString(ShapeOf(index), false), ", not s32[n]"));
    return {};
  }
  return Take(v, axis, index.node, loc);
}

// Starts that are values, of a value.
Value KernelElaborator::DynamicPart(const Value& v, const std::vector<Slice>& slices, Loc loc) {
  Node n;
  n.op = Op::kDynamicSlice;
  n.operands = {v.node};
  n.shape = Shape::Array(ShapeOf(v).type, {});
  for (const Slice& s : slices) {
    NodeId start = s.start_node;
    if (start < 0) start = Materialize(Integer(s.start, loc), Type::kS32, region_->nodes.size());
    if (start < 0) return {};
    n.operands.push_back(start);
    n.shape.dims.push_back(s.size);
  }
  n.attrs = {{AttrId::kDynamicSliceSizes, Ints(n.shape.dims.begin(), n.shape.dims.end())}};
  return EmitHlo(std::move(n), loc);
}

// `store` without operands, whole along the picked dimension; value and mask have the index's size
// there.
void KernelElaborator::StoreRows(Node store, const Picked& picked, NodeId value, NodeId mask,
                                 Loc loc) {
  const int64_t count = kernel_.nodes[picked.index].shape.dims[0];
  if (count == 0) return;
  Node loop;
  loop.kind = Node::Kind::kFor;
  loop.shape = Shape::Tuple({});
  loop.upper = count;
  kernel::Region inner;
  kernel::Region* outer = region_;
  region_ = &inner;
  Node counter;
  counter.kind = Node::Kind::kLoopIndex;
  counter.axis = 0;
  counter.shape = Shape::Array(Type::kS32, {});
  const NodeId i = Emit(std::move(counter), loc);
  const auto part = [&](NodeId x, int along) {
    std::vector<Slice> slices(kernel_.nodes[x].shape.dims.size());
    for (size_t d = 0; d < slices.size(); ++d) slices[d].size = kernel_.nodes[x].shape.dims[d];
    slices[along].start_node = i;
    slices[along].size = 1;
    return DynamicPart(NodeValue(x, loc), slices, loc);
  };
  const Value element = part(picked.index, 0);
  const Value row = part(value, picked.dim);
  const Value where = mask < 0 ? Value() : part(mask, picked.dim);
  if (element && row && (mask < 0 || where)) {
    store.slices[picked.dim].start_node = ReshapeTo(element.node, {}, loc);
    store.slices[picked.dim].size = 1;
    store.slices[picked.dim].size_expr.clear();
    store.operands = {row.node};
    if (mask >= 0) store.operands.push_back(where.node);
    Emit(std::move(store), loc);
  }
  region_ = outer;
  loop.regions.push_back(std::move(inner));
  Emit(std::move(loop), loc);
}

}  // namespace tpuc::kernel_text
