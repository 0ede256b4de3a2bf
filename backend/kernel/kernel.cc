// Accessors of the kernel structs (kernel.h). Nothing here computes or checks.
#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

Shape Ref::BlockShape() const {
  Shape s;
  s.type = shape.type;
  for (size_t d = 0; d < block.size(); ++d) {
    if (d < squeezed.size() && squeezed[d]) continue;
    s.dims.push_back(block[d]);
  }
  return s;
}

const AttrValue* Node::Find(AttrId id) const {
  for (const Attr& a : attrs) {
    if (a.id == id) return &a.value;
  }
  return nullptr;
}

const Ints& Node::IntsAttr(AttrId id) const {
  static const Ints& none = *new Ints;
  const AttrValue* v = Find(id);
  const Ints* ints = v == nullptr ? nullptr : std::get_if<Ints>(v);
  return ints == nullptr ? none : *ints;
}

absl::string_view Node::StringAttr(AttrId id) const {
  const AttrValue* v = Find(id);
  const std::string* text = v == nullptr ? nullptr : std::get_if<std::string>(v);
  return text == nullptr ? absl::string_view() : absl::string_view(*text);
}

namespace {

int64_t StepsOf(const std::vector<GridAxis>& grid) {
  int64_t steps = 1;
  for (const GridAxis& axis : grid) {
    if (axis.extent <= 0) return 0;
    if (steps > INT64_MAX / axis.extent) return INT64_MAX;
    steps *= axis.extent;
  }
  return steps;
}

}  // namespace

int64_t Kernel::GridSteps() const { return StepsOf(grid); }
int64_t Pipeline::GridSteps() const { return StepsOf(grid); }

std::vector<GridAxis> Kernel::AxesIn(int pipeline) const {
  if (pipeline < 0) return grid;
  const Pipeline& p = pipelines[pipeline];
  std::vector<GridAxis> axes = AxesIn(p.around);
  axes.insert(axes.end(), p.grid.begin(), p.grid.end());
  return axes;
}

const GridAxis& Kernel::AxisOf(const Node& node) const {
  if (node.pipeline < 0) return grid[node.axis];
  const Pipeline& p = pipelines[node.pipeline];
  return p.grid[node.axis - p.first_axis];
}

std::vector<int> Kernel::Inputs() const {
  std::vector<int> result;
  for (size_t r = 0; r < refs.size(); ++r) {
    if (refs[r].role == Ref::Role::kIn) result.push_back(static_cast<int>(r));
  }
  return result;
}

std::vector<int> Kernel::Outputs() const {
  std::vector<int> result;
  for (size_t r = 0; r < refs.size(); ++r) {
    if (refs[r].role == Ref::Role::kOut) result.push_back(static_cast<int>(r));
  }
  return result;
}

}  // namespace tpuc::kernel
