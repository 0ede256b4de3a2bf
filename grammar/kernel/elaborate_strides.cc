// Elaboration of strided slices (elaborate.h): a strided load takes every n-th element of a plain
// one; a strided store spreads its value and masks what lies between.
//
//   x[0:64:2, :]      ->  slice(x[0:63, :], [0:63:2, :])
//   o[0:64:2, :] = v  ->  o[0:63, :] = pad(v, 0, [0:0:1, 0:0]) where iota % 2 == 0
#include "absl/strings/str_cat.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Node;

NodeId KernelElaborator::ReshapeTo(NodeId node, const Dims& dims, Loc loc) {
  Node reshape;
  reshape.op = Op::kReshape;
  reshape.operands = {node};
  reshape.shape = Shape::Array(kernel_.nodes[node].shape.type, dims);
  return Emit(std::move(reshape), loc);
}

// `span`: what lies between the first and the last element of each range.
Value KernelElaborator::Thinned(const Value& span, absl::Span<const SliceDim> strides, Loc loc) {
  std::vector<SliceDim> slices;
  bool any = false;
  for (size_t d = 0; d < strides.size(); ++d) {
    slices.push_back({0, ShapeOf(span).dims[d], strides[d].stride});
    any |= strides[d].stride != 1;
  }
  if (!any) return span;
  Node n;
  n.op = Op::kSlice;
  n.operands = {span.node};
  n.shape = Shape::Array(ShapeOf(span).type, {});
  for (const SliceDim& s : slices) {
    n.shape.dims.push_back((s.limit + s.stride - 1) / s.stride);
  }
  n.attrs = {{AttrId::kSlice, std::move(slices)}};
  return EmitHlo(std::move(n), loc);
}

// The value and the mask (-1: none) of a strided store become those of a store of all between.
bool KernelElaborator::Spread(absl::Span<const SliceDim> strides, Loc loc, NodeId* value,
                              NodeId* mask) {
  std::vector<PadDim> padding;
  bool any = false;
  for (const SliceDim& s : strides) {
    padding.push_back({0, 0, s.stride - 1});
    any |= s.stride != 1;
  }
  if (!any) return true;
  const auto pad = [&](NodeId x) {
    const Type type = kernel_.nodes[x].shape.type;
    const Value zero = type == Type::kPred ? Value() : Integer(0, loc);
    Value fill = zero;
    if (type == Type::kPred) {
      fill.kind = Value::Kind::kBool;
      fill.end = region_->nodes.size();
    }
    const NodeId with = Materialize(fill, type, region_->nodes.size());
    Node n;
    n.op = Op::kPad;
    n.operands = {x, with};
    n.shape = Shape::Array(type, {});
    for (size_t d = 0; d < padding.size(); ++d) {
      const int64_t size = kernel_.nodes[x].shape.dims[d];
      n.shape.dims.push_back(size > 0 ? size + (size - 1) * padding[d].interior : 0);
    }
    n.attrs = {{AttrId::kPadding, padding}};
    return EmitHlo(std::move(n), loc);
  };
  const Value spread = pad(*value);
  if (!spread) return false;
  *value = spread.node;
  Value taken;
  if (*mask >= 0) taken = pad(*mask);
  for (size_t d = 0; d < strides.size(); ++d) {
    if (strides[d].stride == 1) continue;
    Node iota;
    iota.op = Op::kIota;
    iota.shape = Shape::Array(Type::kS32, kernel_.nodes[*value].shape.dims);
    iota.attrs = {{AttrId::kIotaDimension, static_cast<int64_t>(d)}};
    Value place = EmitHlo(std::move(iota), loc);
    if (!place) return false;
    place = Apply(Op::kRemainder, {place, Integer(strides[d].stride, loc)}, loc);
    if (!place) return false;
    place = Apply(Op::kCompare, {place, Integer(0, loc)}, loc,
                  {{AttrId::kDirection, std::string("EQ")}});
    if (!place) return false;
    taken = taken ? Apply(Op::kAnd, {taken, place}, loc) : place;
  }
  if (!taken) return false;
  *mask = taken.node;
  return true;
}

}  // namespace tpuc::kernel_text
