// VMEM of windows and scratch (windows.h).
#include "backend/kernel/windows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/points.h"
#include "src/ir/tiling.h"
#include "src/num/saturate.h"

namespace tpuc::kernel {
namespace {

// One line of the table of E1001.
std::string TableLine(const Kernel& kernel, const WindowBytes& w) {
  const Ref& ref = kernel.refs[w.ref];
  const int64_t plain =
      SaturatingMul(ref.BlockShape().ElementCount(), LiteralBytesOf(ref.shape.type));
  return absl::StrCat(ref.name, ": ", w.Total(), " bytes = ", w.buffers, " x ", w.bytes, " (",
                      ToString(WindowShape(ref)), ", ", plain, " bytes unpadded)");
}

// The largest value of a parameter with which the kernel fits, other parameters as they are; 0:
// none. Sizes grow with a block parameter, so bisection finds it.
int64_t LargestFittingParam(const Kernel& kernel, int param, int64_t limit) {
  Kernel trial;  // the body does not matter
  trial.params = kernel.params;
  trial.blocks = kernel.blocks;
  trial.grid = kernel.grid;
  trial.pipelines = kernel.pipelines;
  trial.refs = kernel.refs;
  const auto fits = [&](int64_t value) {
    trial.params[param].value = value;
    return ReevaluateWindows(&trial) && TotalBytes(WindowsOf(trial)) <= limit;
  };
  int64_t low = 0, high = kernel.params[param].value;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  if (low > 8) low -= low % 8;
  return low > 0 && fits(low) ? low : 0;
}

std::string Hint(const Kernel& kernel, int64_t limit) {
  std::vector<std::string> fixes;
  for (size_t p = 0; p < kernel.params.size(); ++p) {
    bool sizes_blocks = false;
    for (const Ref& ref : kernel.refs) {
      for (const Expr& e : ref.block_exprs) {
        sizes_blocks |= e.kind == Expr::Kind::kParam && e.value == static_cast<int64_t>(p);
      }
    }
    if (!sizes_blocks) continue;
    const int64_t value = LargestFittingParam(kernel, static_cast<int>(p), limit);
    if (value > 0) fixes.push_back(absl::StrCat(kernel.params[p].name, "=", value));
  }
  if (fixes.empty()) return "make the blocks smaller";
  std::string text = absl::StrCat("the largest that fits: --set ", fixes[0]);
  for (size_t i = 1; i < fixes.size(); ++i) absl::StrAppend(&text, ", or ", fixes[i]);
  return text;
}

}  // namespace

Layout DeviceLayout(Type type, int rank, int64_t memory_space) {
  Layout layout = DefaultLayout(rank);
  layout.memory_space = memory_space;
  const int64_t packing = PackedElements(type);
  if (packing == 8) layout.element_bits = 4;
  if (rank >= 2) {
    layout.tiles.push_back(Tile{{8, 128}});
    if (packing > 1) layout.tiles.push_back(Tile{{packing, 1}});
  } else {
    layout.tiles.push_back(Tile{{128 * packing}});
    if (packing > 1) {
      layout.tiles.push_back(Tile{{128}});
      layout.tiles.push_back(Tile{{packing, 1}});
    }
  }
  return layout;
}

Layout SmemLayout(Type type, int rank) {
  Layout layout = DeviceLayout(type, rank, 0);
  if (rank >= 2) layout.tiles = {Tile{{1, 128}}};
  return layout;
}

Shape WithDeviceLayout(Shape shape) {
  if (shape.IsTuple()) {
    for (Shape& e : shape.elements) e = WithDeviceLayout(std::move(e));
    return shape;
  }
  if (!shape.IsArray()) return shape;
  Layout layout = DeviceLayout(shape.type, shape.rank(), 0);
  if (!shape.layout) {
    shape.layout = std::move(layout);
    return shape;
  }
  if (shape.layout->tiles.empty()) shape.layout->tiles = std::move(layout.tiles);
  if (shape.layout->element_bits == 0) shape.layout->element_bits = layout.element_bits;
  return shape;
}

Shape WindowShape(const Ref& ref) {
  Shape s = ref.shape;
  for (size_t d = 0; d < ref.block.size() && d < s.dims.size(); ++d) s.dims[d] = ref.block[d];
  s = WithDeviceLayout(std::move(s));
  s.layout->memory_space = 1;
  return s;
}

int64_t ElementUnit(const Ref& ref, int d) {
  const Shape s = WithDeviceLayout(ref.shape);
  if (s.rank() == 0) return 1;
  const Dims& tile = s.layout->tiles[0].dims;
  if (s.layout->minor_to_major[0] == d) return tile.back();
  return s.rank() >= 2 && tile.size() == 2 && s.layout->minor_to_major[1] == d ? tile[0] : 1;
}

std::vector<WindowBytes> WindowsOf(const Kernel& kernel) {
  std::vector<WindowBytes> result;
  const bool one_step = kernel.GridSteps() <= 1;
  for (size_t r = 0; r < kernel.refs.size(); ++r) {
    const Ref& ref = kernel.refs[r];
    WindowBytes w;
    w.ref = static_cast<int>(r);
    if (ref.space != Ref::Space::kWindow) {  // not in VMEM
      w.buffers = 0;
      result.push_back(w);
      continue;
    }
    const bool view = ref.role != Ref::Role::kScratch && ref.window_of < 0 && ref.InVmem();
    if (!view) w.bytes = DeviceBytes(WindowShape(ref));
    // A window that never moves needs no second buffer (PS-2.8).
    const Pipeline* p = ref.pipeline < 0 ? nullptr : &kernel.pipelines[ref.pipeline];
    const bool moves = std::any_of(ref.index.begin(), ref.index.end(), [&](const Expr& e) {
      return UsesAxis(e, p == nullptr ? 0 : p->first_axis);
    });
    const bool still = p == nullptr ? one_step : p->GridSteps() <= 1;
    w.buffers = ref.role == Ref::Role::kScratch || still || !moves ? 1 : ref.buffers;
    result.push_back(w);
  }
  return result;
}

int64_t TotalBytes(const std::vector<WindowBytes>& windows) {
  int64_t total = 0;
  for (const WindowBytes& w : windows) {
    total = SaturatingAdd(total, SaturatingMul(w.bytes, w.buffers));
  }
  return total;
}

bool CheckVmemBudget(const Kernel& kernel, std::shared_ptr<const Source> source, const Chip& chip,
                     DiagSink* diags) {
  const std::vector<WindowBytes> windows = WindowsOf(kernel);
  const int64_t asked = TotalBytes(windows);
  const int64_t limit = chip.scoped_vmem_bytes;
  if (asked <= limit) return true;
  Diag& d = diags->Add(DiagCode::kVmemBudget, std::move(source), kernel.loc,
                       absl::StrCat("kernel ", kernel.name, ": windows and scratch take ", asked,
                                    " bytes of VMEM, the limit of one kernel is ", limit, ": ",
                                    asked - limit, " bytes too many"));
  std::vector<WindowBytes> sorted = windows;
  std::stable_sort(sorted.begin(), sorted.end(), [](const WindowBytes& a, const WindowBytes& b) {
    return SaturatingMul(a.bytes, a.buffers) > SaturatingMul(b.bytes, b.buffers);
  });
  for (const WindowBytes& w : sorted) {
    if (w.bytes > 0) d.notes.push_back({kernel.refs[w.ref].loc, TableLine(kernel, w)});
  }
  NoteFirstPoint(kernel, &d);
  d.hint = Hint(kernel, limit);
  return false;
}

int64_t VisitWords(const Kernel& kernel, int r) {
  constexpr int64_t kMostBlocks = 4096;
  const Ref& ref = kernel.refs[r];
  const bool window = ref.role == Ref::Role::kOut && ref.space == Ref::Space::kWindow;
  if (!window || ref.element_index || (ref.window_of < 0 && ref.InVmem())) return 0;
  const Pipeline* p = ref.pipeline < 0 ? nullptr : &kernel.pipelines[ref.pipeline];
  const int64_t first = p == nullptr ? 0 : p->first_axis;
  const std::vector<GridAxis>& grid = p == nullptr ? kernel.grid : p->grid;
  const bool moves = std::any_of(ref.index.begin(), ref.index.end(),
                                 [&](const Expr& e) { return UsesAxis(e, first); });
  const bool known =
      std::all_of(ref.index.begin(), ref.index.end(),
                  [&](const Expr& e) { return KnownBeforeRun(kernel, e); }) &&
      std::all_of(grid.begin(), grid.end(), [](const GridAxis& a) { return a.most.empty(); });
  if (!moves || known) return 0;
  int64_t blocks = 1;
  for (size_t d = 0; d < ref.block.size() && blocks <= kMostBlocks; ++d) {
    const int64_t n = (ref.shape.dims[d] + ref.block[d] - 1) / std::max<int64_t>(1, ref.block[d]);
    blocks *= std::min(kMostBlocks + 1, n);
  }
  return blocks <= kMostBlocks ? blocks : 0;
}

bool CheckSmemBudget(const Kernel& kernel, std::shared_ptr<const Source> source, const Chip& chip,
                     DiagSink* diags) {
  // Spilled scalars of the kernel and of the program lie in SMEM too.
  constexpr int64_t kSpills = 32 << 10;
  int64_t bytes = 0, flags = 0;
  std::vector<std::pair<int64_t, std::string>> sizes;
  for (const Ref& ref : kernel.refs) {
    const int64_t elements = ref.shape.ElementCount();
    if (ref.space == Ref::Space::kSemaphore) flags = SaturatingAdd(flags, elements);
    if (ref.space == Ref::Space::kWindow) flags += ref.buffers;
    const int64_t visits = VisitWords(kernel, static_cast<int>(&ref - kernel.refs.data()));
    if (visits > 0) {
      const int64_t size = (visits + 7) / 8 * 32;
      bytes = SaturatingAdd(bytes, size);
      sizes.push_back({size, absl::StrCat(ref.name, ": ", size, " bytes, which of its ", visits,
                                          " blocks have been left")});
    }
    if (ref.space != Ref::Space::kSmem) continue;
    const int64_t size = ref.role == Ref::Role::kPrefetch
                             ? DeviceBytes(ref.shape)
                             : SaturatingMul(SaturatingAdd(elements, 7) / 8, 32);
    bytes = SaturatingAdd(bytes, size);
    sizes.push_back(
        {size, absl::StrCat(ref.name, " ", ToString(ref.shape, false), ": ", size, " bytes")});
  }
  if (flags > chip.sync_flags) {
    diags->Add(DiagCode::kOutOfSyncFlags, source, kernel.loc,
               absl::StrCat("kernel ", kernel.name, ": windows and semaphores need ", flags,
                            " sync flags; the chip has ", chip.sync_flags));
    return false;
  }
  const int64_t limit = chip.smem_bytes - kSpills;
  if (bytes == 0 || bytes <= limit) return true;
  Diag& d = diags->Add(DiagCode::kSmemBudget, std::move(source), kernel.loc,
                       absl::StrCat("kernel ", kernel.name, ": scalars take ", bytes,
                                    " bytes of SMEM, the limit of one kernel is ", limit, ": ",
                                    bytes - limit, " bytes too many"));
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [size, line] : sizes) d.notes.push_back({kernel.loc, std::move(line)});
  NoteFirstPoint(kernel, &d);
  d.hint = "larger blocks make a mask's tables shorter";
  return false;
}

}  // namespace tpuc::kernel
