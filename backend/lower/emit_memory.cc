// Loads and stores of one register: addresses from tile coordinates, packed types, rows that cross
// tiles, single rows replicated.
//
//   x: f32[16,64] T(8,128), register (1, 0)  ->  vld [vmem:%s0 + 8]
//   x: bf16[16,64] T(8,128)(2,1)             ->  vld [vmem:%s0 + 4] sm:$0xf; vunpack.c.l.bf16
//
// Nothing here decides what lives in memory.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

namespace {

constexpr int kAddressKey = -10;

uint8_t SublaneMask(int64_t from, int64_t to) {
  return static_cast<uint8_t>(((1 << to) - 1) & ~((1 << from) - 1));
}

}  // namespace

isa::MemRef Lowering::Address(const MemView& view, int64_t row,
                              absl::Span<const std::pair<Coord, int64_t>> terms) {
  isa::MemRef mem;
  mem.buffer = view.buffer;
  Operand base = view.base;
  int64_t offset = view.offset + row;
  std::vector<std::pair<int, int64_t>> parts;  // loop, rows a count
  for (const auto& [coord, stride] : terms) {
    offset += coord.c * stride;
    if (coord.is_const() || stride == 0) continue;
    int64_t rows = coord.scale * stride;
    bool found = false;
    for (auto& p : parts) {
      if (p.first == coord.loop) {
        p.second += rows;
        found = true;
      }
    }
    if (!found) parts.push_back({coord.loop, rows});
  }
  std::sort(parts.begin(), parts.end());
  Coords key_at{Coord::Const(base.is_imm() ? -1 : base.reg.id)};
  if (view.base_loop >= 0) key_at.push_back({view.base_loop, 1, 0});
  for (auto [loop, rows] : parts) {
    key_at.push_back({static_cast<int16_t>(loop), static_cast<int32_t>(rows), 0});
    Key key{kAddressKey, {}, key_at};
    if (const Operand* v = Recall(key)) {
      base = *v;
      continue;
    }
    Coord c{static_cast<int16_t>(loop), static_cast<int32_t>(rows), 0};
    base = Invariant(key_at, true, [&] {
      Operand s = b_.Sadd(CoordScalar(c), base);
      Remember(key, s);
      return s;
    });
  }
  if (base.is_imm()) {
    offset += base.imm;
    base.imm = 0;
  }
  mem.base = base;
  mem.offset = static_cast<int32_t>(offset);
  return mem;
}

MemView Lowering::Shift(const MemView& view, absl::Span<const Start> starts) {
  MemView v = view;
  for (int d = 0; d < static_cast<int>(starts.size()); ++d) {
    const Start& s = starts[d];
    if (s.scalar.is_imm() && s.scalar.imm == 0) continue;
    const MemForm& form = view.form;
    Operand rows;
    if (form.flat) {
      rows = b_.Sdiv(s.scalar, Imm(kLanes * form.packing));
    } else if (d == form.lane) {
      rows = b_.Smul(b_.Sdiv(s.scalar, Imm(kLanes)), Imm(form.tile_rows));
    } else if (d == form.sub) {
      if (form.lane_tiles == 1 && form.tile_sub >= kSublanes) {
        rows = b_.Sdiv(s.scalar, Imm(form.packing));
      } else if (form.tile_sub < kSublanes) {
        rows = b_.Smul(s.scalar, Imm(form.lane_tiles * form.tile_rows));
      } else {
        rows =
            b_.Smul(b_.Sdiv(s.scalar, Imm(form.tile_sub)), Imm(form.lane_tiles * form.tile_rows));
        Operand rest = b_.Sdiv(b_.Srem(s.scalar, Imm(form.tile_sub)), Imm(form.packing));
        rows = b_.Sadd(rows, rest);
      }
    } else {
      rows = b_.Smul(s.scalar, Imm(form.stride[d]));
    }
    v.base = b_.Sadd(v.base, rows);
  }
  return v;
}

Operand Lowering::Unpack(const MemForm& form, Operand v) {
  switch (form.type) {
    case Type::kBF16:
      return b_.Op(Opcode::kVunpackLBf16, {v});
    case Type::kS16:
      return b_.Op(Opcode::kVunpackLS16, {v});
    case Type::kU16:
    case Type::kF16:
      return b_.Op(Opcode::kVand, {b_.Op(Opcode::kVunpackLS16, {v}), Imm(0xffff)});
    case Type::kS8:
      return b_.Op(Opcode::kVunpack0S8, {v});
    case Type::kU8:
      return b_.Op(Opcode::kVand, {b_.Op(Opcode::kVunpack0S8, {v}), Imm(0xff)});
    case Type::kPred:
      return ToMask(b_.Op(Opcode::kVunpack0S8, {v}));
    default:
      return v;
  }
}

// Word holding elements of `packing` rows, all sublanes alike -> the element of row `part`.
Operand Lowering::UnpackRow(const MemForm& form, Operand v, int part) {
  int bits = 32 / form.packing;
  int up = 32 - bits * (part + 1);
  if (form.type == Type::kBF16) {
    return part == 0 ? V(Opcode::kVshll, v, Imm(16)) : V(Opcode::kVand, v, Imm(0xffff0000));
  }
  bool is_signed = ClassOf(form.type) == TypeClass::kSigned;
  if (up > 0) v = V(Opcode::kVshll, v, Imm(up));
  v = V(is_signed ? Opcode::kVshra : Opcode::kVshrl, v, Imm(32 - bits));
  return form.type == Type::kPred ? ToMask(v) : v;
}

Operand Lowering::Pack(const MemForm& form, Operand v) {
  switch (form.type) {
    case Type::kBF16:
      v = b_.AsReg(v);
      return b_.Op(Opcode::kVpackBf16, {v, v});
    case Type::kF16:
    case Type::kS16:
    case Type::kU16:
      v = b_.AsReg(v);
      return b_.Op(Opcode::kVpackB16, {v, v});
    case Type::kS8:
    case Type::kU8:
    case Type::kPred: {
      v = b_.AsReg(ToVector(v));
      Operand half = b_.Op(Opcode::kVpackB16, {v, v});
      return b_.Op(Opcode::kVpackB8, {half, half});
    }
    default:
      return ToVector(v);
  }
}

Operand Lowering::LoadTile(const MemView& whole_view, absl::Span<const Start> starts,
                           const Dims& dims, VLayout layout, const Coords& at, NodeId id) {
  MemView view = Shift(whole_view, starts);
  const MemForm& form = view.form;
  int rank = static_cast<int>(dims.size());
  std::vector<std::pair<Coord, int64_t>> terms;
  if (form.flat) {
    int64_t start = rank == 0 ? 0 : starts[0].c;
    if (layout.dense()) {
      if (start % (kLanes * form.packing) != 0) {
        Fail(id, "a dense load that starts inside a row");
        return Imm(0);
      }
      int64_t step = kSublanes / form.packing;
      int64_t rows = step;
      if (at[0].is_const()) rows = std::min(step, form.rows - at[0].c * step);
      terms.push_back({at[0], step});
      isa::MemRef mem = Address(view, start / (kLanes * form.packing), terms);
      mem.sublane_mask = SublaneMask(0, rows);
      return Unpack(form, b_.Load(mem));
    }
    Coord j = rank == 0 ? Coord::Const(0) : at[0] + start / kLanes;
    std::optional<Coord> row = Div(j, form.packing);
    if (!row || start % kLanes != 0) {
      Fail(id, "a rank-1 load at this offset");
      return Imm(0);
    }
    terms.push_back({*row, 1});
    isa::MemRef mem = Address(view, 0, terms);
    mem.sublane_stride = 0;
    Operand v = b_.Load(mem);
    if (form.packing > 1) v = UnpackRow(form, v, static_cast<int>(j.c % form.packing));
    if (rank == 0) {
      bool mask = !v.is_imm() && v.reg.cls == RegClass::kMask;
      v = b_.Permute(Opcode::kVbcastLane, ToVector(v), Imm(0));
      if (mask) v = ToMask(v);
    }
    return v;
  }
  int64_t row = 0;
  for (int d = 0; d < rank; ++d) {
    if (d == form.sub || d == form.lane) continue;
    if (layout.sub == d) continue;
    terms.push_back({at[d] + starts[d].c, form.stride[d]});
  }
  if (layout.dense() && form.sub < 0) {  // one row of each lane tile
    int64_t tiles = form.lane_tiles;
    terms.push_back({at[form.lane], kSublanes * form.tile_rows});
    isa::MemRef mem = Address(view, starts[form.lane].c / kLanes * form.tile_rows, terms);
    mem.sublane_stride = form.tile_rows;
    if (at[form.lane].is_const()) {
      mem.sublane_mask = SublaneMask(0, std::min(kSublanes, tiles - kSublanes * at[form.lane].c));
    }
    if (form.packing > 1) Fail(id, "a strided load of a packed type");
    return b_.Load(mem);
  }
  if (form.lane >= 0)
    terms.push_back({at[form.lane] + starts[form.lane].c / kLanes, form.tile_rows});
  if (form.sub < 0 && layout.sub < 0) {  // one row, or rows all alike
    isa::MemRef mem = Address(view, 0, terms);
    mem.sublane_stride = 0;
    return UnpackOne(form, b_.Load(mem), 0);
  }
  int64_t start = form.sub < 0 ? 0 : starts[form.sub].c;
  if (layout.sub != form.sub) {
    // One row of the sublane dimension, to all sublanes or with a leading dimension along them.
    row += form.RowOf(start);
    bool strided = layout.sub >= 0;
    if (form.sub >= 0 && dims[form.sub] > 1) {  // its rows are counted one by one
      const Coord& r = at[form.sub];
      if (r.is_const()) {
        row += form.RowOf(start + r.c) - form.RowOf(start);
      } else if (form.lane_tiles == 1 && form.packing == 1) {
        terms.push_back({r, 1});
      } else if (form.packing == 1 && start == 0) {
        Operand i = CoordScalar(r);
        Operand tile =
            b_.Smul(b_.Sdiv(i, Imm(form.tile_sub)), Imm((form.lane_tiles - 1) * form.tile_rows));
        view.base = b_.Sadd(b_.Sadd(tile, i), view.base);
        view.base_loop = r.loop;
      } else {
        Fail(id, "single rows of a packed type inside a loop");
        return Imm(0);
      }
    }
    if (strided) {
      terms.push_back({at[layout.sub], kSublanes * form.stride[layout.sub]});
      row += starts[layout.sub].c * form.stride[layout.sub];
    }
    isa::MemRef mem = Address(view, row, terms);
    mem.sublane_stride = strided ? static_cast<int32_t>(form.stride[layout.sub]) : 0;
    if (strided && at[layout.sub].is_const()) {
      mem.sublane_mask =
          SublaneMask(0, std::min(kSublanes, dims[layout.sub] - kSublanes * at[layout.sub].c));
    }
    if (form.packing > 1 && strided) Fail(id, "a strided load of a packed type");
    return UnpackOne(form, b_.Load(mem), static_cast<int>(start % form.packing));
  }
  const Coord& g = at[form.sub];
  if (form.tile_sub < kSublanes) {
    int64_t group = form.tile_sub == 1 ? kSublanes : 1;
    int64_t tiles = form.lane_tiles * form.tile_rows;
    terms.push_back({g, group * tiles});
    isa::MemRef mem = Address(view, form.tile_sub == 1 ? start * tiles : start, terms);
    if (form.tile_sub == 1) {
      mem.sublane_stride = static_cast<int32_t>(tiles);
      if (g.is_const()) {
        mem.sublane_mask =
            SublaneMask(0, std::min(kSublanes, form.dims[form.sub] - start - kSublanes * g.c));
      }
    } else {
      mem.sublane_mask = SublaneMask(0, form.tile_rows - (form.packing == 1 ? start : 0));
    }
    if (form.packing > 1 && start != 0) Fail(id, "a load inside a packed tile");
    return Unpack(form, b_.Load(mem));
  }
  int64_t groups = form.tile_sub / kSublanes;
  int64_t step = kSublanes / form.packing;
  uint8_t full = SublaneMask(0, step);
  if (form.lane_tiles == 1) {  // rows follow each other
    if (start % form.packing != 0) {
      Fail(id, "a load that starts inside a packed row");
      return Imm(0);
    }
    terms.push_back({g, step});
    isa::MemRef mem = Address(view, start / form.packing, terms);
    mem.sublane_mask = full;
    if (start % kSublanes != 0 && g.is_const()) {  // do not run past the array
      int64_t rows = form.sub_tiles * form.tile_rows - start / form.packing - g.c * step;
      mem.sublane_mask = SublaneMask(0, std::min(step, rows));
    }
    return Unpack(form, b_.Load(mem));
  }
  std::optional<Coord> tile = Div(g + start / kSublanes, groups);
  if (!tile) {
    Fail(id, "rows of a tile in a loop");
    return Imm(0);
  }
  int64_t inside = (g.c + start / kSublanes) % groups;
  terms.push_back({*tile, form.lane_tiles * form.tile_rows});
  int64_t shift = start % kSublanes;
  isa::MemRef mem = Address(view, inside * step, terms);
  mem.sublane_mask = full;
  if (shift == 0) return Unpack(form, b_.Load(mem));
  if (form.packing > 1 || groups > 1) {
    Fail(id, "a load that starts inside a packed tile");
    return Imm(0);
  }
  isa::MemRef low = mem, high = mem;
  low.offset += static_cast<int32_t>(shift);
  low.sublane_mask = SublaneMask(0, kSublanes - shift);
  Operand v = b_.Load(low);
  bool more = !g.is_const() || g.c * kSublanes + kSublanes - shift < dims[form.sub];
  if (!more) return v;
  high.offset += static_cast<int32_t>(form.lane_tiles * form.tile_rows - (kSublanes - shift));
  high.sublane_mask = SublaneMask(kSublanes - shift, kSublanes);
  return V(Opcode::kVor, v, b_.Load(high));
}

Operand Lowering::UnpackOne(const MemForm& form, Operand v, int part) {
  return form.packing > 1 ? UnpackRow(form, v, part) : v;
}

void Lowering::StoreTile(const MemView& whole_view, absl::Span<const Start> starts,
                         const Dims& dims, VLayout layout, const Coords& at, Operand value,
                         NodeId id) {
  MemView view = Shift(whole_view, starts);
  const MemForm& form = view.form;
  int rank = static_cast<int>(dims.size());
  std::vector<std::pair<Coord, int64_t>> terms;
  Operand packed = Pack(form, value);
  if (form.flat) {
    int64_t start = rank == 0 ? 0 : starts[0].c;
    bool part = rank == 1 && start + dims[0] < form.dims[0] && dims[0] % kLanes != 0;
    if (layout.dense()) {
      int64_t step = kSublanes / form.packing, rows = step;
      if (at[0].is_const()) {
        rows = std::min(step, CeilDiv(dims[0], kLanes * form.packing) - at[0].c * step);
      }
      if (start % (kLanes * form.packing) != 0 || part) Fail(id, "a store of part of a row");
      terms.push_back({at[0], step});
      isa::MemRef mem = Address(view, start / (kLanes * form.packing), terms);
      mem.sublane_mask = SublaneMask(0, rows);
      b_.Store(mem, packed);
      return;
    }
    if (form.packing > 1 && (rank > 0 && dims[0] > kLanes)) {
      Fail(id, "a rank-1 store of a packed type in this layout");
      return;
    }
    Coord j = rank == 0 ? Coord::Const(0) : at[0] + start / kLanes;
    if (start % kLanes != 0) Fail(id, "a rank-1 store at this offset");
    if (form.packing > 1) {  // row 0 of the word is the element; the other rows have no meaning
      Address(view, 0, terms);
    }
    terms.push_back({j, 1});
    isa::MemRef mem = Address(view, 0, terms);
    mem.sublane_mask = 1;
    int64_t lanes = rank == 0 ? kLanes : std::min(kLanes, dims[0] - at[0].c * kLanes);
    if (part && at[0].is_const() && lanes < kLanes) {
      b_.StoreMasked(mem, MaskOf(0, 8, 0, lanes), packed);
    } else {
      b_.Store(mem, packed);
    }
    return;
  }
  for (int d = 0; d < rank; ++d) {
    if (d == form.sub || d == form.lane) continue;
    terms.push_back({at[d] + starts[d].c, form.stride[d]});
  }
  int64_t lanes = kLanes;
  if (form.lane >= 0) {
    int64_t start = starts[form.lane].c;
    terms.push_back({at[form.lane] + start / kLanes, form.tile_rows});
    if (start % kLanes != 0) Fail(id, "a store that starts inside a tile's lanes");
    if (start + dims[form.lane] < form.dims[form.lane] && at[form.lane].is_const()) {
      lanes = std::min(kLanes, dims[form.lane] - at[form.lane].c * kLanes);
    }
  }
  auto store = [&](const isa::MemRef& mem, Operand v) {
    if (lanes < kLanes) {
      b_.StoreMasked(mem, MaskOf(0, 8, 0, lanes), v);
    } else {
      b_.Store(mem, v);
    }
  };
  if (form.sub < 0) {
    isa::MemRef mem = Address(view, 0, terms);
    const bool all = whole_view.form.tile_rows >= kSublanes && !whole_view.one_row;
    mem.sublane_mask = all ? 0xff : 1;
    store(mem, packed);
    return;
  }
  int64_t start = starts[form.sub].c;
  const Coord& g = at[form.sub];
  // Rows that this register may write: all, where the slice reaches the array's end.
  bool part = start + dims[form.sub] < form.dims[form.sub] || !starts[form.sub].scalar.is_imm();
  int64_t valid = kSublanes;
  if (part && g.is_const()) valid = std::min(kSublanes, dims[form.sub] - g.c * kSublanes);
  if (form.packing > 1 && valid < kSublanes && valid % form.packing != 0) {
    Fail(id, "a store of part of a packed word");
    return;
  }
  if (form.tile_sub < kSublanes) {
    int64_t tiles = form.lane_tiles * form.tile_rows;
    terms.push_back({g, form.tile_sub == 1 ? kSublanes * tiles : tiles});
    isa::MemRef mem = Address(view, form.tile_sub == 1 ? start * tiles : start, terms);
    if (form.tile_sub == 1) {
      mem.sublane_stride = static_cast<int32_t>(tiles);
      if (g.is_const()) valid = std::min(valid, dims[form.sub] - g.c * kSublanes);
    } else {
      valid = std::min(valid, form.packing == 1 ? form.tile_rows - start : int64_t{form.tile_rows});
    }
    mem.sublane_mask = SublaneMask(0, valid);
    store(mem, packed);
    return;
  }
  int64_t groups = form.tile_sub / kSublanes, step = kSublanes / form.packing;
  int64_t write = CeilDiv(std::min(valid, kSublanes), form.packing);
  int64_t shift = start % kSublanes;
  if (form.lane_tiles == 1) {
    if (start % form.packing != 0) Fail(id, "a store inside a packed word");
    terms.push_back({g, step});
    isa::MemRef mem = Address(view, start / form.packing, terms);
    if (shift != 0 && g.is_const())
      write = std::min(write, CeilDiv(dims[form.sub] - g.c * kSublanes, form.packing));
    mem.sublane_mask = SublaneMask(0, write);
    store(mem, packed);
    return;
  }
  std::optional<Coord> tile = Div(g + start / kSublanes, groups);
  if (!tile || (shift != 0 && (groups > 1 || form.packing > 1))) {
    Fail(id, "a store at this offset in a loop");
    return;
  }
  terms.push_back({*tile, form.lane_tiles * form.tile_rows});
  isa::MemRef mem = Address(view, ((g.c + start / kSublanes) % groups) * step, terms);
  if (shift == 0) {
    mem.sublane_mask = SublaneMask(0, write);
    store(mem, packed);
    return;
  }
  if (g.is_const()) valid = std::min(valid, dims[form.sub] - g.c * kSublanes);
  isa::MemRef high = mem;
  mem.offset += static_cast<int32_t>(shift);
  mem.sublane_mask = SublaneMask(0, std::min(valid, kSublanes - shift));
  store(mem, packed);
  if (valid <= kSublanes - shift) return;
  high.offset += static_cast<int32_t>(form.lane_tiles * form.tile_rows - (kSublanes - shift));
  high.sublane_mask = SublaneMask(kSublanes - shift, valid);
  store(high, packed);
}

// ---- nodes ----

std::vector<Lowering::Start> Lowering::StartsOf(const Node& n) {
  std::vector<Start> starts(n.slices.size());
  for (size_t d = 0; d < n.slices.size(); ++d) {
    const kernel::Slice& s = n.slices[d];
    starts[d].scalar = Imm(0);
    if (s.start_node >= 0) {
      Operand v = Scalar(s.start_node);
      if (v.is_imm()) {
        starts[d].c = v.imm;
      } else {
        starts[d].scalar = v;
      }
    } else {
      starts[d].c = s.start;
    }
  }
  return starts;
}

VLayout Lowering::NaturalOfLoad(const Node& n) const {
  const MemForm& form = refs[n.ref].view.form;
  if (form.flat) {
    if (n.shape.dims.empty()) return {-1, -1};
    bool aligned = n.slices[0].start_node < 0 && n.slices[0].start % (kLanes * form.packing) == 0;
    if (n.shape.dims[0] > (form.packing > 1 ? kLanes : 2 * kLanes) && aligned) return {0, 0};
    return {-1, 0};
  }
  VLayout l = form.natural();
  if (l.sub >= 0 && n.shape.dims[l.sub] == 1) l.sub = -1;
  return l;
}

VLayout Lowering::LayoutOfStore(const Node& n) const {
  const MemForm& form = refs[n.ref].view.form;
  const Dims& dims = node(n.operands[0]).shape.dims;
  if (form.flat) {
    if (dims.empty()) return {-1, -1};
    const NodeInfo& i = info[n.operands[0]];
    if (form.packing > 1 && dims[0] > kLanes) return {0, 0};
    if (!i.flexible && i.natural.dense()) return {0, 0};
    if (i.flexible && dims[0] > 2 * kLanes) return {0, 0};
    return {-1, 0};
  }
  return form.natural();
}

Operand Lowering::EvalLoad(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  WaitFor(n.ref);
  std::vector<Start> starts = StartsOf(n);
  const MemForm& form = refs[n.ref].view.form;
  int64_t lane_shift = form.lane >= 0 ? starts[form.lane].c % kLanes : 0;
  if (lane_shift == 0 || layout.lane != form.lane) {
    return LoadTile(refs[n.ref].view, starts, n.shape.dims, layout, at, id);
  }
  // Lanes that start inside a tile: two registers rotated into one.
  starts[form.lane].c -= lane_shift;
  Operand low =
      RotateLanes(LoadTile(refs[n.ref].view, starts, n.shape.dims, layout, at, id), -lane_shift);
  const Coord& j = at[form.lane];
  bool more = !j.is_const() || j.c * kLanes + kLanes - lane_shift < n.shape.dims[form.lane];
  if (!more) return low;
  Coords next = at;
  next[form.lane] = j + 1;
  Operand high =
      RotateLanes(LoadTile(refs[n.ref].view, starts, n.shape.dims, layout, next, id), -lane_shift);
  return Vsel(MaskOf(0, 8, 0, kLanes - lane_shift), low, high);
}

void Lowering::EmitStoreTile(NodeId store, const Coords& at) {
  const Node& n = node(store);
  NodeId value = n.operands[0];
  VLayout layout = LayoutOfStore(n);
  Operand v = Get(value, layout, at);
  int old_source = b_.source();
  if (info[store].source >= 0) b_.set_source(info[store].source);
  StoreTile(refs[n.ref].view, StartsOf(n),
            n.shape.IsTuple() ? node(value).shape.dims : n.shape.dims, layout, at, v, store);
  b_.set_source(old_source);
}

MemView Lowering::NewTemporary(absl::string_view name, const MemForm& form) {
  MemView view;
  view.form = form;
  view.base = Imm(0);
  Allocate(name, CeilDiv(form.rows, kSublanes) * kSublanes, &view.buffer, &view.offset);
  return view;
}

}  // namespace tpuc::lower
