// Addresses, and loads of one register: addresses from tile coordinates, packed types, rows that
// cross tiles, single rows replicated.
//
//   x: f32[16,64] T(8,128), register (1, 0)  ->  vld [vmem:%s0 + 8]
//   x: bf16[16,64] T(8,128)(2,1)             ->  vld [vmem:%s0 + 4] sm:$0xf; vunpack.c.l.bf16
//
// Nothing here decides what lives in memory.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/verify_copies.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

namespace {

constexpr int kAddressKey = -10;

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
  for (auto [loop, rows] : parts) {
    key_at.push_back({static_cast<int16_t>(loop), static_cast<int32_t>(rows), 0});
    Key key{kAddressKey, {}, key_at};
    if (const Operand* v = Recall(key)) {
      base = *v;
      continue;
    }
    Coord c{static_cast<int16_t>(loop), static_cast<int32_t>(rows), 0};
    base = Invariant(key_at, !view.local, [&] {
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
    v.local = true;
  }
  return v;
}

// Eight rows of 4 bits share their words: these go to every sublane.
Operand Lowering::LoadRows(const MemForm& form, isa::MemRef mem) {
  if (form.packing == kSublanes) {
    mem.sublane_stride = 0;
    mem.sublane_mask = 0xff;
  }
  return Unpack(form, b_.Load(mem));
}

Operand Lowering::Unpack(const MemForm& form, Operand v) {
  switch (form.type) {
    case Type::kBF16:
      return b_.Op(Opcode::kVunpackLBf16, {v});
    case Type::kS16:
      return b_.Op(Opcode::kVunpackLS16, {v});
    case Type::kU16:
      return b_.Op(Opcode::kVand, {b_.Op(Opcode::kVunpackLS16, {v}), Imm(0xffff)});
    case Type::kS8:
      return b_.Op(Opcode::kVunpack0S8, {v});
    case Type::kU8:
      return b_.Op(Opcode::kVand, {b_.Op(Opcode::kVunpack0S8, {v}), Imm(0xff)});
    case Type::kPred:
      return ToMask(b_.Op(Opcode::kVunpack0S8, {v}));
    case Type::kS4:
    case Type::kU4:  // row i to the top of sublane i
      v = V(Opcode::kVshll, v, V(Opcode::kVxor, PartShifts(), Imm(28)));
      return V(form.type == Type::kS4 ? Opcode::kVshra : Opcode::kVshrl, v, Imm(28));
    default:
      break;
  }
  const num::FloatFormat* narrow = NarrowFormat(form.type);
  if (narrow == nullptr) return v;
  bool half = form.packing == 2;
  v = b_.Op(half ? Opcode::kVunpackLS16 : Opcode::kVunpack0S8, {v});
  return DecodeNarrow(*narrow, V(Opcode::kVand, v, Imm(half ? 0xffff : 0xff)));
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
  if (const num::FloatFormat* narrow = NarrowFormat(form.type)) return DecodeNarrow(*narrow, v);
  return form.type == Type::kPred ? ToMask(v) : v;
}

// The same of a row known at run time only: `part`, a scalar.
Operand Lowering::UnpackAt(const MemForm& form, Operand v, Operand part) {
  if (part.is_imm()) return UnpackRow(form, v, static_cast<int>(part.imm));
  const int bits = 32 / form.packing;
  const Operand up = b_.Ssub(Imm(32 - bits), b_.Smul(part, Imm(bits)));
  v = V(Opcode::kVshll, v, b_.Op(Opcode::kVstv, {up}));
  return UnpackRow(form, v, form.packing - 1);
}

Operand Lowering::Pack(const MemForm& form, Operand v) {
  if (const num::FloatFormat* narrow = NarrowFormat(form.type)) {
    v = EncodeNarrow(*narrow, v);
    v = b_.Op(Opcode::kVpackB16, {v, v});
    return form.packing == 2 ? v : Operand(b_.Op(Opcode::kVpackB8, {v, v}));
  }
  switch (form.type) {
    case Type::kBF16:
      v = b_.AsReg(v);
      return b_.Op(Opcode::kVpackBf16, {v, v});
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
    case Type::kS4:
    case Type::kU4:  // every row to its place, and all of them together, in every sublane
      v = V(Opcode::kVshll, V(Opcode::kVand, ToVector(v), Imm(15)), PartShifts());
      for (int n : {4, 2, 1}) v = V(Opcode::kVor, v, b_.Op(Opcode::kVrotSlane, {v, Imm(n)}));
      return v;
    default:
      return ToVector(v);
  }
}

Operand Lowering::LoadTile(const MemView& whole_view, absl::Span<const Start> starts,
                           const Dims& dims, VLayout layout, const Coords& at, NodeId id) {
  MemView view = Shift(whole_view, starts);
  const MemForm& form = view.form;
  if (form.flat) return LoadFlat(view, starts, dims, layout, at, id);
  Terms terms;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    if (d == form.sub || d == form.lane || layout.sub == d) continue;
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
  if (layout.sub != form.sub) {
    return LoadRow(std::move(view), starts, dims, layout, at, std::move(terms), id);
  }
  return LoadGroup(view, starts, dims, at, std::move(terms), id);
}

// Of a rank-1 array: 1024 elements in order, or one row of 128 to all sublanes.
Operand Lowering::LoadFlat(const MemView& view, absl::Span<const Start> starts, const Dims& dims,
                           VLayout layout, const Coords& at, NodeId id) {
  const MemForm& form = view.form;
  int rank = static_cast<int>(dims.size());
  int64_t start = rank == 0 ? 0 : starts[0].c;
  if (layout.dense()) {
    if (start % (kLanes * form.packing) != 0) {
      Fail(id, "a dense load that starts inside a row");
      return Imm(0);
    }
    int64_t step = kSublanes / form.packing;
    int64_t rows = step;
    if (at[0].is_const()) {
      rows = std::min(step, CeilDiv(dims[0], kLanes * form.packing) - at[0].c * step);
    }
    isa::MemRef mem = Address(view, start / (kLanes * form.packing), {{at[0], step}});
    mem.sublane_mask = SublaneMask(0, rows);
    return LoadRows(form, mem);
  }
  Coord j = rank == 0 ? Coord::Const(0) : at[0] + start / kLanes;
  std::optional<Coord> row = Div(j, form.packing);
  if (!row || start % kLanes != 0) {
    Fail(id, "a rank-1 load at this offset");
    return Imm(0);
  }
  isa::MemRef mem = Address(view, 0, {{*row, 1}});
  mem.sublane_stride = 0;
  Operand v = b_.Load(mem);
  if (form.packing > 1 && rank == 1 && !starts[0].scalar.is_imm()) {
    v = UnpackAt(form, v, b_.Srem(b_.Sdiv(starts[0].scalar, Imm(kLanes)), Imm(form.packing)));
  } else if (form.packing > 1) {
    v = UnpackRow(form, v, static_cast<int>(j.c % form.packing));
  }
  if (rank == 0) {
    bool mask = !v.is_imm() && v.reg.cls == RegClass::kMask;
    v = b_.Permute(Opcode::kVbcastLane, ToVector(v), Imm(0));
    if (mask) v = ToMask(v);
  }
  return v;
}

// One row of the sublane dimension, to all sublanes or with a leading dimension along them.
Operand Lowering::LoadRow(MemView view, absl::Span<const Start> starts, const Dims& dims,
                          VLayout layout, const Coords& at, Terms terms, NodeId id) {
  const MemForm& form = view.form;
  bool strided = layout.sub >= 0;
  int64_t start = form.sub < 0 ? 0 : starts[form.sub].c, row = 0, part = start;
  if (form.sub < 0 || dims[form.sub] == 1) {
    row = form.RowOf(start);
  } else {  // its rows are counted one by one
    Coord r = at[form.sub] + start;
    if (r.is_const()) {
      row = form.RowOf(r.c);
      part = r.c;
    } else if (form.packing > 1) {
      Fail(id, "single rows of a packed type inside a loop");
      return Imm(0);
    } else if (form.lane_tiles == 1) {
      terms.push_back({r, 1});
    } else {
      Operand i = CoordScalar(r);
      Operand tile =
          b_.Smul(b_.Sdiv(i, Imm(form.tile_sub)), Imm((form.lane_tiles - 1) * form.tile_rows));
      view.base = b_.Sadd(b_.Sadd(tile, i), view.base);
      view.local = true;
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
  const Operand v = b_.Load(mem);
  const bool found = form.sub >= 0 && !starts[form.sub].scalar.is_imm();  // at run time
  if (found && form.packing > 1) {
    return UnpackAt(form, v, b_.Srem(starts[form.sub].scalar, Imm(form.packing)));
  }
  return UnpackOne(form, v, static_cast<int>(part % form.packing));
}

// Eight rows of the sublane dimension.
Operand Lowering::LoadGroup(const MemView& view, absl::Span<const Start> starts, const Dims& dims,
                            const Coords& at, Terms terms, NodeId id) {
  const MemForm& form = view.form;
  int64_t start = starts[form.sub].c;
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
    return LoadRows(form, mem);
  }
  int64_t groups = form.tile_sub / kSublanes;
  int64_t step = kSublanes / form.packing;
  uint8_t full = SublaneMask(0, step);
  uint8_t own = full;  // rows of this group that are the value's
  if (view.rows_apart && g.is_const()) {
    own = SublaneMask(0, std::min(step, CeilDiv(dims[form.sub] - g.c * kSublanes, form.packing)));
  }
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
    mem.sublane_mask &= own;
    return LoadRows(form, mem);
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
  mem.sublane_mask = shift == 0 ? own : full;
  if (shift == 0) return LoadRows(form, mem);
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

// ---- nodes ----

std::vector<Lowering::Start> Lowering::StartsOf(const Node& n) {
  std::vector<Start> starts(n.slices.size());
  for (size_t d = 0; d < n.slices.size(); ++d) {
    const kernel::Slice& s = n.slices[d];
    starts[d].scalar = Imm(0);
    if (s.start_node >= 0) {
      Operand v = CheckedStart(s, k.refs[n.ref].BlockShape().dims[d]);
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
    if (SingleLane(n)) return {-1, -1};
    bool aligned = n.slices[0].start_node < 0 && n.slices[0].start % (kLanes * form.packing) == 0;
    if (n.shape.dims[0] > (form.packing > 1 ? kLanes : 2 * kLanes) && aligned) return {0, 0};
    return {-1, 0};
  }
  VLayout l = form.natural();
  if (l.sub >= 0 && n.shape.dims[l.sub] == 1) l.sub = -1;
  if (SingleLane(n)) l.lane = -1;
  return l;
}

// Lanes from a place known at run time only, which nothing says is a multiple of 128.
bool Lowering::AnyLane(const Node& n) const {
  const MemForm& form = refs[n.ref].view.form;
  const int d = form.flat ? 0 : form.lane;
  if (d < 0 || d >= static_cast<int>(n.slices.size()) || form.packing > 1) return false;
  return n.slices[d].start_node >= 0 && n.slices[d].size > 1 &&
         !kernel::StartIsMultiple(k, n.slices[d], kLanes, around_);
}

// Two registers rotated into one; the second holds the last lane that is wanted.
Operand Lowering::LoadLanesFrom(NodeId id, std::vector<Start> starts, VLayout layout,
                                const Coords& at) {
  const MemView& view = refs[node(id).ref].view;
  const int d = view.form.flat ? 0 : view.form.lane;
  const Dims& size = dims(id);
  if (layout.dense() || layout.lane != d) {
    Fail(id, "lanes from anywhere in this layout");
    return Imm(0);
  }
  const Operand from = starts[d].scalar;
  if (from.is_imm()) return LoadTile(view, starts, size, layout, at, id);
  const Operand shift = b_.Op(Opcode::kSand, {from, Imm(kLanes - 1)});
  const Operand left = b_.Op(Opcode::kSand, {b_.Ssub(Imm(kLanes), shift), Imm(kLanes - 1)});
  const Operand low =
      b_.Permute(Opcode::kVrotLane, LoadTile(view, starts, size, layout, at, id), left);
  const Coord& j = at[d];
  const int64_t last = j.is_const() ? std::min(kLanes - 1, size[d] - 1 - j.c * kLanes) : kLanes - 1;
  starts[d].scalar = b_.Sadd(from, Imm(last));
  const Operand high =
      b_.Permute(Opcode::kVrotLane, LoadTile(view, starts, size, layout, at, id), left);
  const Operand end = b_.Op(Opcode::kVstv, {b_.Ssub(Imm(kLanes), shift)});
  return Vsel(b_.Op(Opcode::kVcmpLtS32, {LaneIds(), end}), low, high);
}

// Of a load or store: one element along the lanes, where it is known at run time.
bool Lowering::SingleLane(const Node& n) const {
  const MemForm& form = refs[n.ref].view.form;
  const int d = form.flat ? 0 : form.lane;
  if (d < 0 || d >= static_cast<int>(n.slices.size())) return false;
  return n.slices[d].start_node >= 0 && n.slices[d].size == 1;
}

// Its lane in the register that holds it; the start without it.
Operand Lowering::TakeLane(Start* start) {
  if (!start->scalar.is_imm()) return b_.Srem(start->scalar, Imm(kLanes));
  const int64_t lane = start->c % kLanes;
  start->c -= lane;
  return Imm(lane);
}

Operand Lowering::EvalLoad(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  WaitFor(n.ref);
  std::vector<Start> starts = StartsOf(n);
  const MemForm& form = refs[n.ref].view.form;
  if (SingleLane(n)) {
    const int d = form.flat ? 0 : form.lane;
    const Operand lane = TakeLane(&starts[d]);
    const VLayout there = {layout.sub, static_cast<int8_t>(d)};
    Operand v = LoadTile(refs[n.ref].view, starts, n.shape.dims, there, at, id);
    v = b_.Permute(Opcode::kVbcastLane, ToVector(v), lane);
    return type(id) == Type::kPred ? ToMask(v) : v;
  }
  if (AnyLane(n)) return LoadLanesFrom(id, std::move(starts), layout, at);
  int64_t lane_shift = form.lane >= 0 ? starts[form.lane].c % kLanes : 0;
  if (lane_shift == 0 || layout.lane != form.lane) {
    return LoadTile(refs[n.ref].view, starts, n.shape.dims, layout, at, id);
  }
  // Lanes that start inside a tile: two registers rotated into one.
  starts[form.lane].c -= lane_shift;
  const bool pred = type(id) == Type::kPred;
  Operand low = ToVector(
      RotateLanes(LoadTile(refs[n.ref].view, starts, n.shape.dims, layout, at, id), -lane_shift));
  const Coord& j = at[form.lane];
  bool more = !j.is_const() || j.c * kLanes + kLanes - lane_shift < n.shape.dims[form.lane];
  if (!more) return pred ? ToMask(low) : low;
  Coords next = at;
  next[form.lane] = j + 1;
  Operand high = ToVector(
      RotateLanes(LoadTile(refs[n.ref].view, starts, n.shape.dims, layout, next, id), -lane_shift));
  const Operand both = Vsel(MaskOf(0, 8, 0, kLanes - lane_shift), low, high);
  return pred ? ToMask(both) : both;
}

}  // namespace tpuc::lower
