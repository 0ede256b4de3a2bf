// See verify_copies.h. Which slices lowering can move is decided here by the same rules that
// backend/lower/copies.cc makes transfers by: rows of 512 bytes are what a DMA addresses in VMEM.
#include "backend/kernel/verify_copies.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "backend/kernel/scalar_facts.h"
#include "src/ir/tiling.h"

namespace tpuc::kernel {
namespace {

using Space = Ref::Space;

const char* SpaceName(const Ref& ref) {
  switch (ref.space) {
    case Space::kHbm:
      return "HBM";
    case Space::kSmem:
      return "SMEM";
    case Space::kSemaphore:
      return "sync flags";
    default:
      return "VMEM";
  }
}

CopyProblem Problem(DiagCode code, std::string message, std::string hint = "") {
  return {code, std::move(message), std::move(hint)};
}

CopyProblem SpacesOf(const Kernel& k, const Node& n) {
  const Ref& from = k.refs[n.views[0].ref];
  const Ref& to = k.refs[n.views[1].ref];
  const auto memory = [](const Ref& r) {
    return r.space == Space::kWindow || r.space == Space::kHbm;
  };
  const bool scalars =
      (to.space == Space::kSmem && memory(from)) || (from.space == Space::kSmem && memory(to));
  if (!scalars && (!memory(from) || !memory(to))) {
    return Problem(DiagCode::kKernelMemory,
                   absl::StrCat("copy of ", from.name, " in ", SpaceName(from), " to ", to.name,
                                " in ", SpaceName(to)),
                   "copies go between HBM and VMEM, within each, and between SMEM and these");
  }
  if (to.role == Ref::Role::kIn || to.role == Ref::Role::kPrefetch) {
    return Problem(DiagCode::kKernelBody,
                   absl::StrCat("copy to ", to.name, ", which is an input: inputs are read only"));
  }
  return {};
}

struct Tiles {
  int64_t packing = 1, sub = 8, lanes = 128;
};
Tiles TilesOf(const Ref& ref) {
  Tiles t;  // T(8,128), T(8,128)(2,1), T(8,128)(4,1)
  t.packing = PackedElements(ref.shape.type);
  return t;
}

// Along dimension d of the view: does the slice reach the end of the array?
bool ReachesEnd(const Ref& ref, const RefView& v, size_t d) {
  return v.slices[d].start_node < 0 &&
         v.slices[d].start + v.slices[d].size == ref.BlockShape().dims[d];
}

// Two dimensions of the shapes that face each other.
struct Facing {
  int from = -1, to = -1;
};
std::vector<Facing> FacingDims(const Node& n) {
  std::vector<Facing> result;
  size_t b = 0;
  const RefView& from = n.views[0];
  const RefView& to = n.views[1];
  for (size_t a = 0; a < from.slices.size(); ++a) {
    if (from.dropped[a]) continue;
    while (b < to.slices.size() && to.dropped[b]) ++b;
    result.push_back({static_cast<int>(a), static_cast<int>(b)});
    if (b < to.slices.size()) ++b;
  }
  return result;
}

// Between VMEM and SMEM: rows of words along the last dimension of both.
CopyProblem RowsOfWords(const Kernel& k, const Node& n, absl::Span<const NodeId> loops) {
  for (int side = 0; side < 2; ++side) {
    const RefView& v = n.views[side];
    const Ref& ref = k.refs[v.ref];
    const Dims dims = ref.BlockShape().dims;
    const int rank = static_cast<int>(dims.size());
    if (ref.space == Space::kSmem) {
      if (rank < 2 || dims.back() % 8 == 0 || ref.role == Ref::Role::kPrefetch) continue;
      return Problem(
          DiagCode::kAlignment,
          absl::StrCat("copy: rows of ", ref.name, " have ", dims.back(), " words; 8 move at once"),
          "make rows of a multiple of 8 words, or copy one array after another");
    }
    const bool other_smem = k.refs[n.views[1 - side].ref].space == Space::kSmem;
    if (!other_smem || ref.space != Space::kWindow) continue;
    if (rank == 0 || v.dropped.back() || n.views[1 - side].dropped.empty() ||
        n.views[1 - side].dropped.back() || BitsOf(ref.shape.type) != 32) {
      return Problem(DiagCode::kKernelMemory,
                     absl::StrCat("copy between ", ref.name,
                                  " in VMEM and SMEM: only rows of "
                                  "words, along the last dimension of both"));
    }
    if (!StartIsMultiple(k, v.slices.back(), 128, loops)) {
      return Problem(DiagCode::kAlignment,
                     absl::StrCat("copy: the start in dimension ", rank - 1, " of ", ref.name,
                                  " is not known to be a multiple of 128 (PS-6.7)"));
    }
    const bool several = rank > 1 && v.slices[rank - 2].size > 1 && dims.back() > 128 &&
                         v.slices[rank - 2].start_node >= 0;
    if (several && !StartIsMultiple(k, v.slices[rank - 2], 8, loops)) {
      return Problem(DiagCode::kAlignment,
                     absl::StrCat("copy: the start in dimension ", rank - 2, " of ", ref.name,
                                  " is not known to be a multiple of 8 (PS-6.7)"));
    }
  }
  return {};
}

CopyProblem Aligned(const Kernel& k, const Node& n, absl::Span<const NodeId> loops) {
  const std::vector<Facing> facing = FacingDims(n);
  for (int side = 0; side < 2; ++side) {
    const RefView& v = n.views[side];
    const RefView& other = n.views[1 - side];
    const Ref& ref = k.refs[v.ref];
    const Ref& other_ref = k.refs[other.ref];
    const Shape block = ref.BlockShape();
    const Tiles tiles = TilesOf(ref);
    const int rank = block.rank();
    for (int d = std::max(0, rank - 2); d < rank; ++d) {
      const Slice& s = v.slices[d];
      int partner = -1;
      for (const Facing& f : facing) {
        if ((side == 0 ? f.from : f.to) == d) partner = side == 0 ? f.to : f.from;
      }
      const bool ends =
          ReachesEnd(ref, v, d) && (partner < 0 || ReachesEnd(other_ref, other, partner));
      const auto bad = [&](const char* what, int64_t multiple, absl::string_view value) {
        return Problem(
            DiagCode::kAlignment,
            absl::StrCat("copy: the ", what, value, " in dimension ", d, " of ", ref.name,
                         " is not known to be a multiple of ", multiple, " (PS-6.7)"),
            absl::StrCat("multiple_of(start, ", multiple, ") promises it"));
      };
      const std::string start = s.start_node >= 0 ? "" : absl::StrCat(" ", s.start);
      const bool last = d == rank - 1;
      if (ref.space == Space::kSmem || other_ref.space == Space::kSmem) {
        if (!last) continue;
        if (!StartIsMultiple(k, s, 8, loops)) return bad("start", 8, start);
        if (s.size % 8 != 0 && !ReachesEnd(ref, v, d)) {
          return bad("size", 8, absl::StrCat(" ", s.size));
        }
        continue;
      }
      const int64_t lanes = rank == 1 ? tiles.lanes * tiles.packing : tiles.lanes;
      if (last) {
        if (!StartIsMultiple(k, s, lanes, loops)) return bad("start", lanes, start);
        if (s.size % lanes != 0 && !ends) return bad("size", lanes, absl::StrCat(" ", s.size));
        continue;
      }
      // Rows of tiles one tile wide follow each other; else only whole tiles or one row move.
      const bool narrow = block.dims[rank - 1] <= tiles.lanes;
      const bool one_row = s.size == 1;
      const bool single = narrow || (one_row && tiles.packing == 1);
      const int64_t unit = single ? tiles.packing : tiles.sub;
      if (!StartIsMultiple(k, s, unit, loops)) return bad("start", unit, start);
      if (s.size % unit != 0 && !ends && !(one_row && tiles.packing == 1)) {
        return bad("size", unit, absl::StrCat(" ", s.size));
      }
    }
  }
  return {};
}

}  // namespace

bool StartIsMultiple(const Kernel& kernel, const Slice& slice, int64_t n,
                     absl::Span<const NodeId> loops) {
  if (slice.start_node < 0) return slice.start % n == 0;
  const std::vector<NodeId> around(loops.begin(), loops.end());
  const ScalarFacts facts = FactsOf(kernel, slice.start_node, around);
  if (facts.divisor == 0) return true;
  return std::lcm(facts.divisor, std::max<int64_t>(1, slice.multiple_of)) % n == 0;
}

int64_t CopyBytes(const Kernel& kernel, const Node& copy) {
  int64_t elements = 1;
  for (const Slice& s : copy.views[0].slices) elements *= s.size;
  return elements * LiteralBytesOf(kernel.refs[copy.views[0].ref].shape.type);
}

bool MayBeInside(const ScalarFacts& facts, int64_t most, bool guarded) {
  if (!facts.bounded || guarded) return true;
  return facts.least >= 0 && facts.most <= most;
}

CopyProblem FindCopyProblem(const Kernel& k, const Node& n, absl::Span<const NodeId> loops,
                            bool guarded) {
  const bool copy = n.kind == Node::Kind::kCopyStart || n.kind == Node::Kind::kCopyWait;
  if (n.views.size() != (copy ? 3u : 1u)) {
    return Problem(DiagCode::kKernelBody, "a copy with other than three views");
  }
  for (const RefView& v : n.views) {
    if (v.ref < 0 || v.ref >= static_cast<int>(k.refs.size()) ||
        v.slices.size() != k.refs[v.ref].BlockShape().dims.size() ||
        v.dropped.size() != v.slices.size()) {
      return Problem(DiagCode::kKernelBody, "a view of no array, or with other dimensions");
    }
    const Ref& ref = k.refs[v.ref];
    const Shape block = ref.BlockShape();
    for (size_t d = 0; d < v.slices.size(); ++d) {
      const Slice& s = v.slices[d];
      bool inside = s.size >= 0 && s.size <= block.dims[d];
      if (s.start_node < 0) inside = inside && s.start >= 0 && s.start <= block.dims[d] - s.size;
      if (inside && s.start_node >= 0) {
        const ScalarFacts facts = FactsOf(k, s.start_node, {loops.begin(), loops.end()});
        inside = MayBeInside(facts, block.dims[d] - s.size, guarded);
        if (!inside) {
          return Problem(DiagCode::kKernelSlice,
                         absl::StrCat("starts of dimension ", d, " of ", ref.name, " from ",
                                      facts.least, " to ", facts.most, ", ", s.size,
                                      " elements, leave its ", block.dims[d]));
        }
      }
      if (inside) continue;
      return Problem(DiagCode::kKernelSlice,
                     absl::StrCat("[", s.start, ":+", s.size, "] of dimension ", d, " of ",
                                  ref.name, " (", block.dims[d], " elements)"));
    }
  }
  const RefView& semaphore = n.views.back();
  if (k.refs[semaphore.ref].space != Space::kSemaphore) {
    return Problem(DiagCode::kKernelMemory,
                   absl::StrCat(k.refs[semaphore.ref].name, " is no semaphore"));
  }
  if (!copy) return {};
  CopyProblem problem = SpacesOf(k, n);
  if (!problem.message.empty()) return problem;
  Dims shapes[2];
  for (int side = 0; side < 2; ++side) {
    for (size_t d = 0; d < n.views[side].slices.size(); ++d) {
      if (!n.views[side].dropped[d]) shapes[side].push_back(n.views[side].slices[d].size);
    }
  }
  const Type from = k.refs[n.views[0].ref].shape.type, to = k.refs[n.views[1].ref].shape.type;
  if (shapes[0] != shapes[1] || from != to) {
    return Problem(DiagCode::kCopyShape,
                   absl::StrCat("copy of ", ToString(Shape::Array(from, shapes[0]), false), " to ",
                                ToString(Shape::Array(to, shapes[1]), false)));
  }
  problem = RowsOfWords(k, n, loops);
  return problem.message.empty() ? Aligned(k, n, loops) : problem;
}

}  // namespace tpuc::kernel
