// Windows and their movement: VMEM for each operand's block, DMA in before the body, DMA out after
// it. An operand already in VMEM is a view. A grid of one step starts its copies first thing and
// waits before the first use; grids of more steps are in grid_loop.cc.
//
//   vsyncpa f,0; dma.hbm_to_vmem s0, n, row, f; ... dma.done.wait f,n; vsyncadd f,-n; vld ..
#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/windows.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kGranulesPerRow = 16;
constexpr int64_t kGranuleWords = 8;

// The form without squeezed dimensions, as the body sees it.
MemForm DropDims(const MemForm& form, const std::vector<bool>& squeezed) {
  MemForm r = form;
  r.dims.clear();
  r.stride.clear();
  r.major.clear();
  std::vector<int> to(form.dims.size(), -1);
  for (size_t d = 0; d < form.dims.size(); ++d) {
    if (d < squeezed.size() && squeezed[d]) continue;
    to[d] = static_cast<int>(r.dims.size());
    r.dims.push_back(form.dims[d]);
    r.stride.push_back(form.stride[d]);
  }
  r.sub = form.sub < 0 ? -1 : to[form.sub];
  r.lane = form.lane < 0 ? -1 : to[form.lane];
  for (int64_t m : form.major) {
    if (to[m] >= 0) r.major.push_back(to[m]);
  }
  return r;
}

// The last block of some dimension ends beyond the array's padding.
bool RunsOver(const kernel::Ref& ref, const MemForm& array) {
  for (int d = 0; d < static_cast<int>(ref.block.size()); ++d) {
    int64_t n = ref.shape.dims[d], unit = 1;
    if (array.flat) {
      unit = kLanes * array.packing;
    } else if (d == array.lane) {
      unit = kLanes;
    } else if (d == array.sub) {
      unit = array.tile_sub;
    }
    if (CeilDiv(n, ref.block[d]) * ref.block[d] > CeilDiv(n, unit) * unit) return true;
  }
  return false;
}

}  // namespace

bool Lowering::Allocate(absl::string_view name, int64_t rows, int* buffer, int64_t* offset) {
  rows = CeilDiv(std::max<int64_t>(rows, 1), kSublanes) * kSublanes;
  int64_t used = next_row - options.first_row;
  llo::Allocation a;
  a.name = std::string(name);
  a.size = rows;
  a.offset = next_row;
  *buffer = f->args + static_cast<int>(f->allocations.size());
  *offset = next_row;
  f->allocations.push_back(a);
  next_row += rows;
  if (used + rows > options.row_limit && !failed_) {
    failed_ = true;
    Diag& d = diags->Add(
        DiagCode::kVmemBudget, nullptr, k.loc,
        absl::StrCat("kernel ", k.name, ": windows, scratch and temporaries need more than the ",
                     options.row_limit * 512, " bytes of VMEM available (", (used + rows) * 512,
                     " so far, for ", name, ")"));
    std::vector<llo::Allocation> sorted = f->allocations;
    std::stable_sort(
        sorted.begin(), sorted.end(),
        [](const llo::Allocation& x, const llo::Allocation& y) { return x.size > y.size; });
    for (size_t i = 0; i < sorted.size() && i < 5; ++i) {
      d.notes.push_back({{}, absl::StrCat(sorted[i].name, ": ", sorted[i].size * 512, " bytes")});
    }
    d.hint = "make the blocks smaller";
    return false;
  }
  return !failed_;
}

// What has no window in VMEM: an array in HBM, scalars in SMEM, semaphores.
bool Lowering::PlaceRef(const kernel::Ref& ref, RefState* s) {
  using Space = kernel::Ref::Space;
  llo::Allocation a;
  a.name = ref.name;
  a.size = ref.role == kernel::Ref::Role::kPrefetch ? DeviceBytes(ref.shape) / 4
                                                    : ref.shape.ElementCount();
  switch (ref.space) {
    case Space::kHbm: {
      std::string why;
      Shape array = kernel::WithDeviceLayout(ref.shape);
      std::optional<MemForm> all = FormOf(array, array.dims, &why);
      if (!all) {
        Fail(-1, absl::StrCat("operand ", ref.name, ": ", why));
        return false;
      }
      s->array = *all;
      return true;
    }
    case Space::kSmem:
      a.memory = isa::Memory::kSmem;
      a.offset = s->word = next_word;
      next_word += CeilDiv(a.size, kGranuleWords) * kGranuleWords;
      s->view.buffer = f->args + static_cast<int>(f->allocations.size());
      break;
    default:
      a.memory = isa::Memory::kSync;
      a.offset = s->flag = next_flag;
      next_flag += static_cast<int>(a.size);
      break;
  }
  f->allocations.push_back(std::move(a));
  return true;
}

bool Lowering::SetUpRefs() {
  int operands = 0;
  bool one_step = k.GridSteps() <= 1;
  std::vector<kernel::WindowBytes> windows = kernel::WindowsOf(k);
  for (const kernel::Ref& ref : k.refs) operands += ref.HasAddress() ? 1 : 0;
  f->args = operands;
  for (int i = 0; i < operands; ++i) f->New(RegClass::kScalar);
  int operand = 0;
  for (size_t r = 0; r < k.refs.size(); ++r) {
    const kernel::Ref& ref = k.refs[r];
    RefState s;
    s.storage = static_cast<int>(r);
    if (ref.space != kernel::Ref::Space::kWindow) {
      if (ref.HasAddress()) s.operand = operand++;
      if (!PlaceRef(ref, &s)) return false;
      refs.push_back(std::move(s));
      continue;
    }
    if (ref.alias >= 0) s.storage = ref.alias;
    std::string why;
    Shape window = kernel::WindowShape(ref);
    std::optional<MemForm> block = FormOf(window, window.dims, &why);
    Shape array = kernel::WithDeviceLayout(ref.shape);
    std::optional<MemForm> all = FormOf(array, array.dims, &why);
    if (!block || !all) {
      Fail(-1, absl::StrCat("operand ", ref.name, ": ", why));
      return false;
    }
    s.array = *all;
    s.block_rows = block->rows;
    if (ref.HasAddress()) s.operand = operand++;
    if (ref.window_of >= 0) s.operand = refs[ref.window_of].operand;
    for (size_t d = 0; d < ref.block.size(); ++d) {
      s.edge |= ref.shape.dims[d] % ref.block[d] != 0 ||
                (ref.element_index && ref.block[d] != ref.shape.dims[d]);
    }
    MemForm form = *block;
    if (s.operand >= 0 && ref.window_of < 0 && ref.InVmem()) {
      // A view: the block's dimensions, the array's strides.
      if (s.edge && RunsOver(ref, *all)) {
        Fail(-1, absl::StrCat("operand ", ref.name,
                              ": blocks of an array in VMEM that run past its last tile"));
        return false;
      }
      form.stride = all->stride;
      form.lane_tiles = all->lane_tiles;
      form.sub_tiles = all->sub_tiles;
      form.rows = all->rows;
      s.view.base = isa::S(s.operand);
      s.view.buffer = s.operand;
    } else {
      s.buffers = one_step && ref.window_of < 0 ? 1 : windows[r].buffers;
      s.windowed = s.operand >= 0;
      if (!Allocate(ref.name, block->rows * s.buffers, &s.view.buffer, &s.view.offset))
        return false;
      s.view.base = Imm(0);
      s.granules = block->rows * kGranulesPerRow;
      if (s.windowed) {
        s.flag = next_flag;
        next_flag += s.buffers;
        llo::Allocation a;
        a.name = absl::StrCat(ref.name, ".sem");
        a.memory = isa::Memory::kSync;
        a.size = s.buffers;
        a.offset = s.flag;
        f->allocations.push_back(a);
      }
    }
    s.view.form = DropDims(form, ref.squeezed);
    refs.push_back(std::move(s));
  }
  for (size_t r = 0; r < refs.size(); ++r) {  // one number for one memory
    if (refs[r].word >= 0) continue;
    if (refs[r].storage != static_cast<int>(r) && !refs[r].windowed) {
      refs[r].view.buffer = refs[refs[r].storage].view.buffer;
    }
    if (refs[r].windowed) refs[r].storage = static_cast<int>(r);
  }
  return true;
}

// The DMA of one block. `index`: block index of each dimension; `vmem`: first row of the window.
void Lowering::StartCopy(int r, bool in, absl::Span<const Operand> index, Operand vmem,
                         Operand flag) {
  const kernel::Ref& ref = k.refs[r];
  RefState& s = refs[r];
  CheckIndex(r, index);
  const MemForm& a = s.array;
  std::string why;
  MemForm w = *FormOf(kernel::WindowShape(ref), Dims(ref.block.begin(), ref.block.end()), &why);
  Operand row = Imm(0);
  std::vector<Level> levels;
  auto level = [&](int64_t block, int64_t total, int64_t hbm, int64_t vm, int d) {
    if (ref.element_index) {  // whole tiles, from any of them
      const int64_t unit = kernel::ElementUnit(ref, d);
      const int64_t pad = ref.low_pad.empty() ? 0 : CeilDiv(ref.low_pad[d], unit);
      Operand first = b_.Ssub(b_.Sdiv(b_.Sadd(index[d], Imm(pad * unit)), Imm(unit)), Imm(pad));
      Level l{block, in ? hbm : vm, in ? vm : hbm, total > block || pad > 0,
              Imm(std::min(block, total))};
      if (pad > 0) {  // tiles before the array are left out
        const Operand before = b_.Smax(b_.Ssub(Imm(0), first), Imm(0));
        first = b_.Smax(first, Imm(0));
        vmem = b_.Sadd(vmem, b_.Smul(before, Imm(vm)));
        l.now = b_.Smin(b_.Ssub(Imm(block), before), b_.Ssub(Imm(total), first));
      } else if (l.cut) {
        l.now = b_.Smin(Imm(block), b_.Ssub(Imm(total), first));
      } else {
        l.count = std::min(block, total);
      }
      row = b_.Sadd(row, b_.Smul(first, Imm(hbm)));
      levels.push_back(l);
      return;
    }
    row = b_.Sadd(row, b_.Smul(index[d], Imm(block * hbm)));
    Level l{block, in ? hbm : vm, in ? vm : hbm, false, Imm(block)};
    if (total % block != 0 && total > block) {
      l.cut = true;
      l.now = b_.Smin(Imm(block), b_.Ssub(Imm(total), b_.Smul(index[d], Imm(block))));
    } else if (total < block) {
      l.count = total;
      l.now = Imm(total);
    }
    levels.push_back(l);
  };
  int64_t run = w.tile_rows;
  if (w.flat) {
    run = 1;
    if (!ref.block.empty()) level(w.rows, a.rows, 1, 1, 0);
  } else {
    level(w.lane_tiles, a.lane_tiles, a.tile_rows, w.tile_rows, w.lane);
    level(w.sub_tiles, a.sub_tiles, a.lane_tiles * a.tile_rows, w.lane_tiles * w.tile_rows, w.sub);
    for (auto it = w.major.rbegin(); it != w.major.rend(); ++it) {
      int d = static_cast<int>(*it);
      level(ref.block[d], ref.shape.dims[d], a.stride[d], w.stride[d], d);
    }
  }
  Operand hbm = b_.Sadd(isa::S(s.operand), b_.Smul(row, Imm(kGranulesPerRow)));
  Operand moved = EmitTransfers(in ? Opcode::kDmaHbmToVmem : Opcode::kDmaVmemToHbm, in ? hbm : vmem,
                                in ? vmem : hbm, levels, run, flag, ref.name);
  // Waits always ask for a whole block: what a cut one lacks is added at once.
  Operand lacking = b_.Ssub(Imm(s.granules), moved);
  if (!lacking.is_imm() || lacking.imm != 0) b_.Op(Opcode::kVsyncadd, {flag, lacking});
}

Operand Lowering::IndexValue(const kernel::Expr& e, absl::Span<const Operand> axes_now) {
  using Kind = kernel::Expr::Kind;
  auto arg = [&](int i) { return IndexValue(e.args[i], axes_now); };
  switch (e.kind) {
    case Kind::kConst:
      return Imm(e.value);
    case Kind::kAxis:
      return axes_now[e.value];
    case Kind::kNum:
      return extents[e.value];
    case Kind::kParam:
      return Imm(k.params[e.value].value);
    case Kind::kAdd:
      return b_.Sadd(arg(0), arg(1));
    case Kind::kSub:
      return b_.Ssub(arg(0), arg(1));
    case Kind::kMul:
      return b_.Smul(arg(0), arg(1));
    case Kind::kDiv:
      return b_.Sdiv(arg(0), arg(1));
    case Kind::kCdiv: {
      Operand d = arg(1);
      return b_.Sdiv(b_.Sadd(arg(0), b_.Ssub(d, Imm(1))), d);
    }
    case Kind::kMod:
      return b_.Srem(arg(0), arg(1));
    case Kind::kMin:
      return b_.Smin(arg(0), arg(1));
    case Kind::kMax:
      return b_.Smax(arg(0), arg(1));
    case Kind::kNeg:
      return b_.Ssub(Imm(0), arg(0));
    case Kind::kPrefetch: {
      std::vector<Operand> index;
      for (const kernel::Expr& a : e.args) index.push_back(IndexValue(a, axes_now));
      return LoadScalar(static_cast<int>(e.value), index);
    }
    case Kind::kOperand:
      return pipeline_operands_[e.value];
    case Kind::kArray:  // in masks only
      return Imm(0);
    case Kind::kBlocks: {
      std::vector<const Literal*> arrays;
      return Imm(kernel::EvaluateExpr(e, kernel::ValuesOf(k, {}, &arrays)).value_or(0));
    }
    case Kind::kSelect: {
      const auto value = kernel::EvaluateExpr(e.args[0], {k.params});  // of parameters alone
      if (value) return arg(*value != 0 ? 1 : 2);
      const Reg condition = IndexCondition(e.args[0], axes_now);
      const Operand yes = IndexValue(e.args[1], axes_now);
      return b_.Select(condition, yes, IndexValue(e.args[2], axes_now));
    }
    case Kind::kEq:
    case Kind::kNe:
    case Kind::kLt:
    case Kind::kLe:
    case Kind::kGt:
    case Kind::kGe:
    case Kind::kAnd:
    case Kind::kOr:
    case Kind::kNot:
      return b_.Select(IndexCondition(e, axes_now), Imm(1), Imm(0));
  }
  return Imm(0);
}

std::vector<Operand> Lowering::BlockIndex(int r, absl::Span<const Operand> axes_now) {
  std::vector<Operand> index;
  const kernel::Ref& ref = k.refs[r];
  for (size_t d = 0; d < ref.block.size(); ++d) {
    index.push_back(d < ref.index.size() ? IndexValue(ref.index[d], axes_now) : Imm(0));
  }
  return index;
}

// A view's first row at this grid point.
void Lowering::SetViewBase(int r, absl::Span<const Operand> axes_now) {
  RefState& s = refs[r];
  if (s.operand < 0 || s.windowed || s.word >= 0) return;
  const kernel::Ref& ref = k.refs[r];
  std::vector<Operand> index = BlockIndex(r, axes_now);
  CheckIndex(r, index);
  Operand row = Imm(0);
  for (size_t d = 0; d < index.size(); ++d) {
    int64_t rows;
    if (static_cast<int>(d) == s.array.sub && !s.array.flat && ref.block[d] == 1 &&
        ref.shape.dims[d] > 1 && s.array.packing == 1) {  // single rows of tiles
      int64_t tile = s.array.tile_sub;
      Operand in_tile = s.array.sub_tiles == 1 ? index[d] : b_.Srem(index[d], Imm(tile));
      row = b_.Sadd(row, in_tile);
      s.view.one_row = true;
      if (s.array.sub_tiles > 1) {
        row = b_.Sadd(row, b_.Smul(b_.Sdiv(index[d], Imm(tile)),
                                   Imm(s.array.lane_tiles * s.array.tile_rows)));
      }
      continue;
    }
    if (s.array.flat) {
      rows = ref.block[d] / (kLanes * s.array.packing);
    } else if (static_cast<int>(d) == s.array.lane) {
      rows = ref.block[d] / kLanes * s.array.tile_rows;
    } else if (static_cast<int>(d) == s.array.sub) {
      rows = CeilDiv(ref.block[d], s.array.tile_sub) * s.array.lane_tiles * s.array.tile_rows;
    } else {
      rows = ref.block[d] * s.array.stride[d];
    }
    row = b_.Sadd(row, b_.Smul(index[d], Imm(rows)));
  }
  s.view.base = b_.Sadd(isa::S(s.operand), row);
}

// Whether a block of an output begins with what the input that it updates has there (PS-4.1): the
// body does not write all of it first.
bool Lowering::TakesAlias(int r) const {
  if (k.refs[r].alias < 0 || !refs[r].windowed) return false;
  const Dims block = k.refs[r].BlockShape().dims;
  const std::function<bool(const kernel::Region&)> names = [&](const kernel::Region& region) {
    return std::any_of(region.nodes.begin(), region.nodes.end(), [&](NodeId id) {
      const Node& n = node(id);
      return n.ref == r ||
             std::any_of(n.views.begin(), n.views.end(),
                         [&](const auto& v) { return v.ref == r; }) ||
             std::any_of(n.regions.begin(), n.regions.end(), names);
    });
  };
  for (NodeId id : k.body.nodes) {
    const Node& n = node(id);
    bool all = n.kind == Node::Kind::kStore && n.ref == r && n.operands.size() == 1;
    for (size_t d = 0; d < n.slices.size() && all; ++d) {
      all = n.slices[d].start_node < 0 && n.slices[d].size == block[d];
    }
    if (all) return false;
    if (names({{id}})) return true;
  }
  return true;
}

void Lowering::FetchAlias(int r, Operand vmem, Operand flag) {
  const int own = refs[r].operand;
  refs[r].operand = refs[k.refs[r].alias].operand;
  StartCopy(r, true, BlockIndex(r, axes), vmem, flag);
  refs[r].operand = own;
  b_.Op(Opcode::kDmaDoneWait, {flag, Imm(refs[r].granules)});
  b_.Op(Opcode::kVsyncadd, {flag, Imm(-refs[r].granules)});
}

void Lowering::WaitFor(int r) {
  RefState& s = refs[r];
  if (!s.waiting) return;
  s.waiting = false;
  b_.Op(Opcode::kDmaDoneWait, {Imm(s.flag), Imm(s.granules)});
  b_.Op(Opcode::kVsyncadd, {Imm(s.flag), Imm(-s.granules)});
}

void Lowering::WaitForAll() {
  for (size_t r = 0; r < refs.size(); ++r) WaitFor(static_cast<int>(r));
}

void Lowering::EmitOneStep() {
  NewBlock("entry", 1, true);
  LoadPrefetched();
  LowerRegion(k.setup);
  extents = Extents(k.grid);
  axes.assign(k.grid.size(), Imm(0));
  using Role = kernel::Ref::Role;
  for (size_t r = 0; r < refs.size(); ++r) {
    if (k.refs[r].window_of >= 0) continue;
    if (refs[r].windowed) b_.Op(Opcode::kVsyncpa, {Imm(refs[r].flag), Imm(0)});
    SetViewBase(static_cast<int>(r), axes);
  }
  for (size_t r = 0; r < refs.size(); ++r) {
    if (!refs[r].windowed || k.refs[r].role != Role::kIn || k.refs[r].window_of >= 0) continue;
    StartCopy(static_cast<int>(r), true, BlockIndex(static_cast<int>(r), axes),
              Imm(refs[r].view.offset), Imm(refs[r].flag));
    refs[r].waiting = true;
  }
  for (size_t r = 0; r < refs.size(); ++r) {
    if (k.refs[r].role != Role::kOut || !TakesAlias(static_cast<int>(r))) continue;
    FetchAlias(static_cast<int>(r), Imm(refs[r].view.offset), Imm(refs[r].flag));
  }
  LowerRegion(k.body);
  WaitForAll();
  if (failed_) return;
  for (size_t r = 0; r < refs.size(); ++r) {
    if (!refs[r].windowed || k.refs[r].role != Role::kOut || k.refs[r].window_of >= 0) continue;
    StartCopy(static_cast<int>(r), false, BlockIndex(static_cast<int>(r), axes),
              Imm(refs[r].view.offset), Imm(refs[r].flag));
    refs[r].waiting = true;
  }
  WaitForAll();
}

}  // namespace tpuc::lower
