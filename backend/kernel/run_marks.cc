// Undefined contents on their way from where they begin to where they show (run_state.h).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/run_state.h"

namespace tpuc::kernel {

void KernelRun::MarkAll(size_t r, std::string way) {
  const Shape& shape =
      k_.refs[r].space == Ref::Space::kHbm ? k_.refs[r].shape : k_.refs[r].BlockShape();
  held_[r].marks = Literal(Shape::Array(Type::kPred, shape.dims));
  std::fill_n(held_[r].marks.bytes(), held_[r].marks.byte_size(), uint8_t{1});
  held_[r].way = std::move(way);
}

// All elements of an input's window but the `extent` that lie in the array.
void KernelRun::MarkEdges(size_t r, const Dims& extent, const View& block) {
  const Ref& ref = k_.refs[r];
  if (std::equal(extent.begin(), extent.end(), ref.block.begin(), ref.block.end())) {
    held_[r] = {};
    return;
  }
  MarkAll(r, absl::StrCat("the edge of ", ref.name, " ", ToString(ref.shape, false), " at ",
                          PointText()));
  View zero;
  zero.strides.assign(extent.size(), 0);
  const uint8_t defined = 0;
  CopyStrided(extent, &defined, zero, held_[r].marks.bytes(), block, 1);
}

UndefinedPtr KernelRun::LoadMarks(const Node& n, const Dims& size, const View& block,
                                  const View& value) {
  const Undefined& held = held_[n.ref];
  if (held.marks.byte_size() == 0) return nullptr;
  Undefined loaded;
  loaded.marks = Literal(Shape::Array(Type::kPred, n.shape.dims));
  CopyStrided(size, held.marks.bytes(), block, loaded.marks.bytes(), value, 1);
  if (!AnyMarked(loaded.marks)) return nullptr;
  loaded.way = Onward(held.way, absl::StrCat("load of ", k_.refs[n.ref].name, " (", n.place, ")"));
  return std::make_shared<const Undefined>(std::move(loaded));
}

void KernelRun::StoreMarks(const Node& n, const UndefinedPtr& marks, const Dims& size,
                           const View& value, const View& block) {
  Undefined& held = held_[n.ref];
  if (marks == nullptr && held.marks.byte_size() == 0) return;
  if (held.marks.byte_size() == 0) {
    MarkAll(n.ref, "");
    std::fill_n(held.marks.bytes(), held.marks.byte_size(), uint8_t{0});
  }
  if (marks == nullptr) {
    View zero;
    zero.strides.assign(size.size(), 0);
    const uint8_t defined = 0;
    CopyStrided(size, &defined, zero, held.marks.bytes(), block, 1);
    if (!AnyMarked(held.marks)) held = {};
    return;
  }
  CopyStrided(size, marks->marks.bytes(), value, held.marks.bytes(), block, 1);
  held.way = Onward(marks->way, absl::StrCat("store to ", k_.refs[n.ref].name, " (", n.place, ")"));
}

// Of a copy.
void KernelRun::MoveMarks(int source, int target, const std::string& way, const Dims& size,
                          const View& from, const View& to) {
  const Undefined& have = held_[source];
  Undefined& held = held_[target];
  if (have.marks.byte_size() == 0 && held.marks.byte_size() == 0) return;
  if (held.marks.byte_size() == 0) {
    MarkAll(target, "");
    std::fill_n(held.marks.bytes(), held.marks.byte_size(), uint8_t{0});
  }
  if (have.marks.byte_size() == 0) {
    View zero;
    zero.strides.assign(size.size(), 0);
    const uint8_t defined = 0;
    CopyStrided(size, &defined, zero, held.marks.bytes(), to, 1);
  } else {
    CopyStrided(size, have.marks.bytes(), from, held.marks.bytes(), to, 1);
    if (AnyMarked(have.marks)) {
      held.way = Onward(have.way, way);
    }
  }
  if (!AnyMarked(held.marks)) held = {};
}

// What a result takes from a block, or from itself in HBM.
bool KernelRun::Defined(size_t r, const Dims& extent, const View& block, const View& array) {
  const Undefined& held = held_[r];
  if (held.marks.byte_size() == 0) return true;
  Literal part(Shape::Array(Type::kPred, extent));
  View plain;
  plain.strides = RowMajorStrides(extent);
  CopyStrided(extent, held.marks.bytes(), block, part.bytes(), plain, 1);
  if (!AnyMarked(part)) return true;
  int64_t at = 0;
  while (part.bytes()[at] == 0) ++at;
  std::vector<int64_t> index(extent.size());
  int64_t rest = array.offset;
  for (size_t d = 0; d < extent.size(); ++d) {
    const int64_t start = array.strides[d] > 0 ? rest / array.strides[d] : 0;
    if (array.strides[d] > 0) rest %= array.strides[d];
    index[d] = start + at / plain.strides[d];
    at %= plain.strides[d];
  }
  return Fail(absl::StrCat("undefined contents reach element [", absl::StrJoin(index, ","), "] of ",
                           k_.refs[r].name, ": ", held.way),
              nullptr, DiagCode::kUndefinedResult);
}

}  // namespace tpuc::kernel
