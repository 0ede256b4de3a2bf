// Windows (verify_windows.h). Index maps are tried at every grid point, or, on large grids, on a
// grid whose axes are cut to their first and last points: index maps are sums and quotients of
// indices, whose extremes and order of visits the cut grid shows.
#include "backend/kernel/verify_windows.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/points.h"
#include "backend/kernel/windows.h"
#include "src/ir/tiling.h"

namespace tpuc::kernel {
namespace {

constexpr int64_t kMaxPoints = 1 << 18;

class WindowVerifier {
 public:
  WindowVerifier(const Kernel& k, std::shared_ptr<const Source> source, DiagSink* diags)
      : k_(k), source_(std::move(source)), diags_(diags) {}

  bool Run() {
    for (size_t r = 0; r < k_.refs.size(); ++r) {
      const Ref& ref = k_.refs[r];
      const size_t rank = ref.shape.dims.size();
      const bool scratch = ref.role == Ref::Role::kScratch || ref.space != Ref::Space::kWindow;
      if (ref.block.size() != rank || (!scratch && ref.index.size() != rank)) {
        Error(DiagCode::kBlockShape, ref,
              absl::StrCat("block and index map do not name the ", rank, " dimensions"));
        continue;
      }
      if (scratch && ref.role == Ref::Role::kOut) VerifyCopied(static_cast<int>(r));
      if (ref.alias >= 0 && BadAlias(ref)) continue;
      grid_ = k_.AxesIn(ref.pipeline);
      const bool nested = ref.window_of >= 0;
      if (!ref.IsWindow() && !nested) continue;
      if (nested && BadWindow(ref)) continue;
      if (!BlockShapeAllowed(ref) || !IndexInRange(ref)) continue;
      if (ref.role == Ref::Role::kOut) VerifyOutput(static_cast<int>(r));
    }
    return ok_;
  }

 private:
  void Error(DiagCode code, const Ref& ref, std::string message, std::string hint = "") {
    ok_ = false;
    Diag& d = diags_->Add(
        code, ref.loc.line > 0 ? source_ : nullptr, ref.loc,
        absl::StrCat("kernel ", k_.name, ", operand ", ref.name, ": ", std::move(message)));
    if (code == DiagCode::kBlockShape || code == DiagCode::kOutputNotWritten) {
      NoteFirstPoint(k_, &d);
    }
    d.hint = std::move(hint);
  }
  // The index map can be tried: no part of it waits for the values of an input.
  bool Known(const Ref& ref) const {
    const auto known = [&](const Expr& e) { return KnownBeforeRun(k_, e); };
    return std::all_of(ref.index.begin(), ref.index.end(), known) &&
           std::all_of(grid_.begin(), grid_.end(),
                       [](const GridAxis& a) { return a.most.empty(); });
  }
  bool BlockShapeAllowed(const Ref& ref);
  bool BadWindow(const Ref& ref);
  bool BadAlias(const Ref& ref);
  bool DimAllowed(const Ref& ref, int64_t d, int64_t multiple);
  bool IndexInRange(const Ref& ref);
  void VerifyOutput(int r);
  void VerifyCopied(int r);
  void VerifyCovered(const Ref& ref, const absl::flat_hash_set<std::vector<int64_t>>& visited);
  std::string PointText(const std::vector<int64_t>& point) const {
    std::string text;
    for (size_t a = 0; a < point.size(); ++a) {
      absl::StrAppend(&text, a > 0 ? ", " : "", grid_[a].name, "=", point[a]);
    }
    return text.empty() ? "the only grid point" : text;
  }
  // Calls visit(point, block indices) in grid order until it returns false.
  void ForEachPoint(const Ref& ref,
                    const std::function<bool(const std::vector<int64_t>&,
                                             const std::optional<std::vector<int64_t>>&)>& visit);
  int64_t Points() const {
    int64_t points = 1;
    for (const GridAxis& a : grid_) {
      if (a.extent <= 0) return 0;
      if (__builtin_mul_overflow(points, a.extent, &points)) return INT64_MAX;
    }
    return points;
  }
  bool Complete() const { return Points() <= kMaxPoints; }

  const Kernel& k_;
  std::shared_ptr<const Source> source_;
  DiagSink* diags_;
  std::vector<GridAxis> grid_;  // that the window looked at moves with
  bool ok_ = true;
};

// The multiples below and above, and the whole dimension.
std::string Nearest(int64_t value, int64_t multiple, int64_t dim) {
  std::vector<int64_t> allowed;
  if (value / multiple > 0) allowed.push_back(value / multiple * multiple);
  const int64_t above = (value / multiple + 1) * multiple;
  if (above < dim) allowed.push_back(above);
  allowed.push_back(dim);
  return absl::StrCat("nearest allowed: ", absl::StrJoin(allowed, ", "));
}

bool WindowVerifier::DimAllowed(const Ref& ref, int64_t d, int64_t multiple) {
  const int64_t block = ref.block[d], dim = ref.shape.dims[d];
  if (block == dim || block % multiple == 0) return true;
  Error(DiagCode::kBlockShape, ref,
        absl::StrCat("block dimension ", d, " is ", block, ": it must be a multiple of ", multiple,
                     " or the array's ", dim, " (PS-2.6)"),
        Nearest(block, multiple, dim));
  return false;
}

bool WindowVerifier::BlockShapeAllowed(const Ref& ref) {
  const int rank = ref.shape.rank();
  for (int d = 0; d < rank; ++d) {
    if (ref.block[d] >= 1) continue;
    Error(DiagCode::kBlockShape, ref, absl::StrCat("block dimension ", d, " is ", ref.block[d]));
    return false;
  }
  if (rank == 0) return true;
  const Layout layout = ref.shape.layout ? *ref.shape.layout : DefaultLayout(rank);
  if (rank >= 2) {
    // The last two dimensions in memory are the tiled ones.
    const bool minor = DimAllowed(ref, layout.minor_to_major[0], 128);
    // A view has no DMA: single rows of 32-bit tiles can be addressed where they lie.
    const int64_t rows = layout.minor_to_major[1];
    const bool squeezed = rows < static_cast<int64_t>(ref.squeezed.size()) && ref.squeezed[rows];
    if (ref.InVmem() && squeezed && BitsOf(ref.shape.type) == 32) return minor;
    // Tiles of fewer rows allow blocks of fewer.
    const bool tiled = !layout.tiles.empty() && layout.tiles[0].dims.size() == 2;
    const int64_t multiple = tiled ? std::clamp<int64_t>(layout.tiles[0].dims[0], 1, 8) : 8;
    return DimAllowed(ref, rows, multiple) && minor;
  }
  const int64_t block = ref.block[0], dim = ref.shape.dims[0];
  const int64_t least = 128 * int64_t{PackedElements(ref.shape.type)};
  const bool power = (block & (block - 1)) == 0 && block >= least;
  if (block == dim || block % 1024 == 0 || power) return true;
  int64_t below = 0, above = least;
  for (int64_t p = least; p < block; p *= 2) below = p;
  while (above < block) above *= 2;
  std::vector<int64_t> allowed;
  if (below > 0) allowed.push_back(below);
  if (above < dim) allowed.push_back(above);
  allowed.push_back(dim);
  Error(DiagCode::kBlockShape, ref,
        absl::StrCat("block of ", block,
                     " elements of a one-dimensional array: it must be the array's ", dim,
                     ", a multiple of 1024, or a power of two of at least ", least, " (PS-2.6)"),
        absl::StrCat("nearest allowed: ", absl::StrJoin(allowed, ", ")));
  return false;
}

void WindowVerifier::ForEachPoint(
    const Ref& ref, const std::function<bool(const std::vector<int64_t>&,
                                             const std::optional<std::vector<int64_t>>&)>& visit) {
  // Axes cut to {0, 1, last} where the grid is large.
  std::vector<std::vector<int64_t>> axes;
  for (const GridAxis& a : grid_) {
    std::vector<int64_t> values;
    const int64_t n = a.extent;
    if (Complete() || n <= 3) {
      for (int64_t i = 0; i < n; ++i) values.push_back(i);
    } else {
      values = {0, 1, n - 1};
    }
    if (values.empty()) return;
    axes.push_back(std::move(values));
  }
  std::vector<size_t> at(axes.size(), 0);
  std::vector<int64_t> point(axes.size());
  std::vector<const Literal*> arrays;
  while (true) {
    for (size_t a = 0; a < axes.size(); ++a) point[a] = axes[a][at[a]];
    std::optional<std::vector<int64_t>> index(std::in_place);
    for (const Expr& e : ref.index) {
      ExprValues values = ValuesOf(k_, point, &arrays);
      values.grid = grid_;
      const std::optional<int64_t> i = EvaluateExpr(e, values);
      if (!i) {
        index.reset();
        break;
      }
      index->push_back(*i);
    }
    if (!visit(point, index)) return;
    size_t a = axes.size();
    while (a > 0 && ++at[a - 1] == axes[a - 1].size()) at[--a] = 0;
    if (a == 0) return;
  }
}

bool WindowVerifier::IndexInRange(const Ref& ref) {
  if (ref.element_index && ref.InVmem()) {
    Error(DiagCode::kIndexMap, ref, "index maps that count elements are for arrays in HBM");
    return false;
  }
  if (!Known(ref)) return true;  // checked at run time
  bool ok = true;
  ForEachPoint(ref, [&](const std::vector<int64_t>& point,
                        const std::optional<std::vector<int64_t>>& index) {
    for (size_t d = 0; d < ref.block.size(); ++d) {
      const int64_t dim = ref.shape.dims[d];
      const int64_t blocks = ref.element_index ? dim : (dim + ref.block[d] - 1) / ref.block[d];
      const int64_t unit = ElementUnit(ref, static_cast<int>(d));
      if (index && ref.element_index && (*index)[d] % unit != 0) {
        ok = false;
        Error(DiagCode::kAlignment, ref,
              absl::StrCat("element ", (*index)[d], " of dimension ", d, " at ", PointText(point),
                           " is not a multiple of ", unit));
        return false;
      }
      const int64_t pad = ref.low_pad.empty() ? 0 : ref.low_pad[d];
      if (index && (*index)[d] >= -pad && (*index)[d] < blocks) continue;
      ok = false;
      if (!index) {
        Error(DiagCode::kIndexMap, ref,
              absl::StrCat("the index map has no value at ", PointText(point)));
      } else {
        Error(DiagCode::kIndexMap, ref,
              absl::StrCat(ref.element_index ? "element " : "block ", (*index)[d], " of dimension ",
                           d, " at ", PointText(point), ": the array of ", dim, " elements has ",
                           ref.element_index ? "elements" : "blocks", " 0 to ", blocks - 1,
                           ref.element_index ? "" : absl::StrCat(" of ", ref.block[d])),
              !ref.element_index ? "index maps count blocks, not elements"
              : (*index)[d] >= 0 ? ""
                                 : absl::StrCat("a window may begin before the array where that "
                                                "is said: at element (i pad ",
                                                -(*index)[d], ")"));
      }
      return false;
    }
    return true;
  });
  return ok;
}

// An output that updates an input is that array (PS-4.1).
bool WindowVerifier::BadAlias(const Ref& ref) {
  const Ref* in = ref.alias < static_cast<int>(k_.refs.size()) ? &k_.refs[ref.alias] : nullptr;
  if (in != nullptr && in->shape.type == ref.shape.type && in->shape.dims == ref.shape.dims &&
      in->role == Ref::Role::kIn && in->window_of < 0 && ref.window_of < 0) {
    return false;
  }
  Error(DiagCode::kKernelShape, ref,
        in == nullptr ? std::string("an alias of nothing")
                      : absl::StrCat(ToString(ref.shape, false), " is to update ", in->name, " ",
                                     ToString(in->shape, false), " in place (PS-4.1)"));
  return true;
}

// A window of a pipeline that does not fit what it is a window of.
bool WindowVerifier::BadWindow(const Ref& ref) {
  const bool exists = ref.window_of < static_cast<int>(k_.refs.size()) && ref.pipeline >= 0 &&
                      ref.pipeline < static_cast<int>(k_.pipelines.size());
  const Ref* of = exists ? &k_.refs[ref.window_of] : nullptr;
  if (of != nullptr && of->space == Ref::Space::kHbm && of->shape == ref.shape) return false;
  Error(DiagCode::kKernelMemory, ref, "a window of no array in HBM");
  return true;
}

// An output in HBM: some copy must write it. Whether all of it is written, the run shows.
void WindowVerifier::VerifyCopied(int r) {
  for (const Node& n : k_.nodes) {
    const bool copy = n.kind == Node::Kind::kCopyStart && n.views.size() == 3;
    if (copy && n.views[1].ref == r) return;
  }
  for (const Ref& ref : k_.refs) {
    if (ref.window_of == r && ref.role == Ref::Role::kOut) return;
  }
  Error(DiagCode::kOutputNotWritten, k_.refs[r], "no copy writes it");
}

void WindowVerifier::VerifyOutput(int r) {
  const Ref& ref = k_.refs[r];
  const bool stored = std::any_of(k_.nodes.begin(), k_.nodes.end(), [&](const Node& n) {
    return n.kind == Node::Kind::kStore && n.ref == r;
  });
  if (!stored) {
    return Error(DiagCode::kOutputNotWritten, ref, "the body never stores to it");
  }
  if (k_.GridSteps() == 0 && ref.window_of < 0) {
    return Error(DiagCode::kOutputNotWritten, ref, "the grid has no points");
  }
  if (!Known(ref)) return;
  // In each run of its pipeline; the grid's windows have one.
  const size_t around = ref.pipeline < 0 ? 0 : k_.pipelines[ref.pipeline].first_axis;
  std::vector<int64_t> run;
  absl::flat_hash_set<std::vector<int64_t>> visited;
  std::vector<int64_t> last;
  bool first = true, consecutive = true;
  ForEachPoint(ref, [&](const std::vector<int64_t>& point,
                        const std::optional<std::vector<int64_t>>& index) {
    if (!std::equal(run.begin(), run.end(), point.begin(), point.begin() + around)) {
      visited.clear();
      first = true;
    }
    run.assign(point.begin(), point.begin() + around);
    if (!first && *index == last) return true;
    first = false;
    last = *index;
    if (visited.insert(last).second) return true;
    consecutive = false;
    Error(DiagCode::kOutputRevisited, ref,
          absl::StrCat("block (", absl::StrJoin(last, ", "), ") is visited again at ",
                       PointText(point), " after other blocks (PS-3.4)"),
          "put the grid axes that the index map does not use last");
    return false;
  });
  if (!consecutive || !Complete()) return;
  if (ref.element_index) return VerifyCovered(ref, visited);
  if (ref.alias >= 0 || ref.window_of >= 0) return;
  const int64_t seen = static_cast<int64_t>(visited.size()), blocks = BlocksOf(ref);
  if (seen == blocks || blocks == 0) return;
  Error(DiagCode::kOutputNotWritten, ref,
        absl::StrCat("the grid visits ", seen, " of its ", blocks, " blocks"));
}

// Windows at any offset, in the tiles that move: no tile is in two of them, each is in one.
void WindowVerifier::VerifyCovered(const Ref& ref,
                                   const absl::flat_hash_set<std::vector<int64_t>>& visited) {
  constexpr int64_t kMostCells = 1 << 22;
  const size_t rank = ref.block.size();
  std::vector<int64_t> unit(rank), cells(rank);
  int64_t all = 1;
  for (size_t d = 0; d < rank; ++d) {
    unit[d] = ElementUnit(ref, static_cast<int>(d));
    cells[d] = (ref.shape.dims[d] + unit[d] - 1) / unit[d];
    if (__builtin_mul_overflow(all, cells[d], &all) || all > kMostCells) return;
  }
  if (all == 0) return;
  std::vector<bool> taken(all, false);
  std::vector<std::vector<int64_t>> in_order(visited.begin(), visited.end());
  std::sort(in_order.begin(), in_order.end());
  int64_t count = 0;
  for (const std::vector<int64_t>& window : in_order) {
    std::vector<int64_t> from(rank), to(rank);
    for (size_t d = 0; d < rank; ++d) {
      from[d] = std::max<int64_t>(0, window[d]) / unit[d];
      to[d] = std::min(cells[d], (window[d] + ref.block[d] + unit[d] - 1) / unit[d]);
      if (from[d] >= to[d]) return;
    }
    for (std::vector<int64_t> at = from; true;) {
      int64_t cell = 0;
      for (size_t d = 0; d < rank; ++d) cell = cell * cells[d] + at[d];
      if (taken[cell]) {
        return Error(DiagCode::kOutputRevisited, ref,
                     absl::StrCat("the window at element (", absl::StrJoin(window, ", "),
                                  ") overlaps another"));
      }
      taken[cell] = true;
      ++count;
      size_t d = rank;
      while (d > 0 && ++at[d - 1] == to[d - 1]) {
        at[d - 1] = from[d - 1];
        --d;
      }
      if (d == 0) break;
    }
  }
  if (count == all || ref.alias >= 0 || ref.window_of >= 0) return;
  Error(DiagCode::kOutputNotWritten, ref,
        absl::StrCat("the windows cover ", count, " of its ", all, " tiles"));
}

}  // namespace

bool VerifyWindows(const Kernel& kernel, std::shared_ptr<const Source> source, DiagSink* diags) {
  return WindowVerifier(kernel, std::move(source), diags).Run();
}

}  // namespace tpuc::kernel
