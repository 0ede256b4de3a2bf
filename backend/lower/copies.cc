// Explicit copies of a kernel's text: DMA between slices of arrays in HBM, VMEM and SMEM, on sync
// flags that the text calls semaphores; and the checks of starts that are known at run time only.
//
//   copy x[i*8 :+ 8, :] -> buf[slot, :, :] on sem[slot];
//     ->  dma.hbm_to_vmem x + i*.., n, buf + slot*.., sem + slot [, strides]
//   wait copy ..;  ->  dma.done.wait sem + slot, n; vsyncadd sem + slot, -n
//
// Which slices can move is decided in backend/kernel/verify_copies.cc.
#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "backend/kernel/scalar_facts.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

using RefSpace = kernel::Ref::Space;
constexpr int64_t kGranulesPerRow = 16, kGranuleWords = 8;

enum class Along : uint8_t { kMajor, kSub, kLane, kFlat };

Along AlongOf(const MemForm& form, int d) {
  if (form.flat) return Along::kFlat;
  return d == form.lane ? Along::kLane : d == form.sub ? Along::kSub : Along::kMajor;
}

}  // namespace

// Contiguous levels join into one run; then one strided level; the rest are separate transfers.
// The granules moved; addresses in the unit of each memory. `buffer`: the side in VMEM, if known.
Operand Lowering::EmitTransfers(Opcode op, Operand from, Operand to, absl::Span<const Level> levels,
                                int64_t run, Operand flag, absl::string_view name, int buffer) {
  const bool from_hbm = op == Opcode::kDmaHbmToVmem || op == Opcode::kDmaHbmToHbm;
  const bool to_hbm = op == Opcode::kDmaVmemToHbm || op == Opcode::kDmaHbmToHbm;
  const int64_t from_unit = from_hbm ? kGranulesPerRow : 1, to_unit = to_hbm ? kGranulesPerRow : 1;
  Operand run_now = Imm(run);
  bool run_cut = false;
  size_t i = 0;
  for (; i < levels.size() && !run_cut; ++i) {
    const Level& l = levels[i];
    if (l.count == 1 && !l.cut) continue;
    if (l.from != run || l.to != run) break;
    run_now = b_.Smul(l.now, run_now);
    run_cut = l.cut;
    run *= l.count;
  }
  while (i < levels.size() && levels[i].count == 1 && !levels[i].cut) ++i;
  bool strided = i < levels.size();
  Level step = strided ? levels[i++] : Level{1, 0, 0, false, Imm(1)};
  std::vector<Level> outer;
  int64_t transfers = 1;
  for (; i < levels.size(); ++i) {
    if (levels[i].count == 1) continue;
    outer.push_back(levels[i]);
    transfers *= levels[i].count;
  }
  if (transfers > 256) {
    Fail(-1, absl::StrCat("operand ", name, ": a block of ", transfers, " separate transfers"));
    return Imm(0);
  }
  Operand run_granules = b_.Smul(run_now, Imm(kGranulesPerRow));
  Operand total = b_.Smul(step.now, run_granules);
  Operand moved = Imm(0);
  Reg old_pred = b_.predicate();
  bool old_negated = b_.predicate_negated();
  for (int64_t t = 0; t < transfers; ++t) {
    int64_t rest = t, from_rows = 0, to_rows = 0;
    Reg inside;
    for (const Level& l : outer) {
      int64_t e = rest % l.count;
      rest /= l.count;
      from_rows += e * l.from;
      to_rows += e * l.to;
      if (l.cut) {
        Reg p = b_.Op(Opcode::kScmpGt, {b_.AsScalar(l.now), Imm(e)});
        inside = inside.valid() ? b_.Op(Opcode::kPand, {inside, p}) : p;
      }
    }
    std::vector<Operand> src = {b_.Sadd(from, Imm(from_rows * from_unit)), total,
                                b_.Sadd(to, Imm(to_rows * to_unit)), flag};
    if (strided) {
      src.insert(src.end(),
                 {Imm(step.from * kGranulesPerRow), Imm(step.to * kGranulesPerRow), run_granules});
    }
    if (inside.valid()) {
      Reg p = inside;
      if (old_pred.valid()) {
        Reg o = old_negated ? b_.Op(Opcode::kPneg, {old_pred}) : old_pred;
        p = b_.Op(Opcode::kPand, {o, inside});
      }
      b_.SetPredicate(p, false);
      moved = b_.Sadd(moved, b_.Select(inside, total, Imm(0)));
    } else {
      moved = b_.Sadd(moved, total);
    }
    b_.Op(op, src);
    b_.last().mem.buffer = buffer;
    b_.SetPredicate(old_pred, old_negated);
  }
  return moved;
}

Operand Lowering::CheckedStart(const kernel::Slice& s, int64_t dim) {
  if (s.start_node < 0) return Imm(s.start);
  Operand v = Scalar(s.start_node);
  if (v.is_imm()) return v;
  const int64_t most = dim - s.size;
  constexpr int kCheckKey = -2000000;
  Key key{kCheckKey - s.start_node, {}, {Coord::Const(most), Coord::Const(s.multiple_of)}};
  if (const Operand* known = Recall(key)) return *known;
  const kernel::ScalarFacts facts = kernel::FactsOf(k, s.start_node, around_);
  const bool inside = facts.bounded && facts.least >= 0 && facts.most <= most;
  if (!inside) v = b_.Op(Opcode::kSassumeRange, {v, Imm(0), Imm(most)});
  if (s.multiple_of > 1 && (facts.divisor == 0 || facts.divisor % s.multiple_of != 0)) {
    v = b_.Op(Opcode::kSassumeMultiple, {v, Imm(s.multiple_of)});
  }
  Remember(key, v);
  return v;
}

// Where the view begins.
Lowering::CopySide Lowering::SideOf(const kernel::RefView& view) {
  const kernel::Ref& ref = k.refs[view.ref];
  RefState& s = refs[view.ref];
  const Shape block = ref.BlockShape();
  CopySide side;
  if (ref.space == RefSpace::kSmem) {
    Operand word = Imm(0);
    const Dims strides = WordStrides(ref);
    for (size_t d = 0; d < view.slices.size(); ++d) {
      word = b_.Sadd(word, b_.Smul(CheckedStart(view.slices[d], block.dims[d]), Imm(strides[d])));
    }
    side.address = b_.Sadd(word, Imm(s.word));
    side.buffer = s.view.buffer;
    return side;
  }
  const bool hbm = ref.space == RefSpace::kHbm;
  MemView base;
  base.form = hbm ? s.array : s.view.form;
  base.base = Imm(0);
  std::vector<Start> starts;
  for (size_t d = 0; d < view.slices.size(); ++d) {
    starts.push_back({CheckedStart(view.slices[d], block.dims[d]), 0});
  }
  Operand rows = Shift(base, starts).base;
  if (hbm) {
    side.address = b_.Sadd(isa::S(s.operand), b_.Smul(rows, Imm(kGranulesPerRow)));
  } else {
    WaitFor(view.ref);
    side.address = b_.Sadd(b_.Sadd(s.view.base, Imm(s.view.offset)), rows);
    side.buffer = s.view.buffer;
  }
  return side;
}

// The steps of a copy, innermost first, in rows; `run`: rows of the innermost piece.
bool Lowering::CopyLevels(NodeId id, std::vector<Level>* levels, int64_t* run) {
  const Node& n = node(id);
  const MemForm* forms[2];
  std::vector<int> kept[2];
  for (int side = 0; side < 2; ++side) {
    const kernel::RefView& v = n.views[side];
    forms[side] =
        k.refs[v.ref].space == RefSpace::kHbm ? &refs[v.ref].array : &refs[v.ref].view.form;
    for (size_t d = 0; d < v.slices.size(); ++d) {
      if (!v.dropped[d]) kept[side].push_back(static_cast<int>(d));
    }
  }
  const MemForm& a = *forms[0];
  const MemForm& b = *forms[1];
  auto add = [&](int64_t count, int64_t from, int64_t to) {
    levels->push_back({count, from, to, false, Imm(count)});
  };
  *run = 1;
  std::vector<Level> lanes, subs, majors;
  for (size_t i = 0; i < kept[0].size(); ++i) {
    const int da = kept[0][i], db = kept[1][i];
    const Along x = AlongOf(a, da), y = AlongOf(b, db);
    const int64_t size = n.views[0].slices[da].size;
    auto stride = [](const MemForm& form, Along along, int d) {
      return along == Along::kMajor  ? form.stride[d]
             : along == Along::kLane ? int64_t{form.tile_rows}
             : along == Along::kFlat ? int64_t{1}
                                     : form.lane_tiles * form.tile_rows;
    };
    const bool lane_x = x == Along::kLane || x == Along::kFlat;
    const bool lane_y = y == Along::kLane || y == Along::kFlat;
    if (lane_x != lane_y && size > 1) {
      Fail(id, "a copy that turns lanes into rows");
      return false;
    }
    if (lane_x && lane_y) {
      if (x != y && a.packing > 1) {
        Fail(id, "a copy between arrays of one and of more dimensions, of a packed type");
        return false;
      }
      const int64_t unit = kLanes * (a.flat ? a.packing : 1);
      lanes.push_back({CeilDiv(size, unit), stride(a, x, da), stride(b, y, db)});
    } else if (x == Along::kSub && y == Along::kSub) {
      const bool narrow = a.lane_tiles == 1 && b.lane_tiles == 1;
      if (narrow || size == 1) {
        subs.push_back({CeilDiv(size, a.packing), 1, 1});
      } else {
        const int64_t tile = std::min<int64_t>(a.tile_sub, b.tile_sub);
        subs.push_back({a.tile_rows, 1, 1});
        subs.push_back({CeilDiv(size, tile), stride(a, x, da), stride(b, y, db)});
      }
    } else if (size > 1 &&
               ((x == Along::kSub && a.lane_tiles > 1) || (y == Along::kSub && b.lane_tiles > 1) ||
                a.packing > 1) &&
               (x == Along::kSub || y == Along::kSub)) {
      Fail(id, "a copy that turns rows of tiles into another dimension");
      return false;
    } else if (size > 1) {
      majors.push_back(
          {size, x == Along::kSub ? 1 : stride(a, x, da), y == Along::kSub ? 1 : stride(b, y, db)});
    }
  }
  // Rows within a tile follow each other, then tiles along lanes, rows of tiles, the rest.
  if (!subs.empty()) add(subs[0].count, subs[0].from, subs[0].to);
  for (const Level& l : lanes) add(l.count, l.from, l.to);
  for (size_t i = 1; i < subs.size(); ++i) add(subs[i].count, subs[i].from, subs[i].to);
  for (auto l = majors.rbegin(); l != majors.rend(); ++l) add(l->count, l->from, l->to);
  return true;
}

// Between VMEM and SMEM: a transfer for each row of a tile. `emit` gets rows and words from the
// start, and words; the granules moved.
int64_t Lowering::WordRows(NodeId id, const std::function<void(int64_t, int64_t, int64_t)>& emit) {
  constexpr int64_t kMost = 256;
  const Node& n = node(id);
  const int vmem = k.refs[n.views[0].ref].space == RefSpace::kSmem ? 1 : 0;
  const kernel::RefView& rows = n.views[vmem];
  const kernel::RefView& words = n.views[1 - vmem];
  const MemForm& form = refs[rows.ref].view.form;
  Dims sizes, row_steps, word_steps;
  for (size_t d = 0; d < rows.slices.size(); ++d) {
    if (rows.dropped[d]) continue;
    sizes.push_back(rows.slices[d].size);
    row_steps.push_back(static_cast<int>(d));
  }
  const Dims strides = WordStrides(k.refs[words.ref]);
  for (size_t d = 0; d < strides.size(); ++d) {
    if (!words.dropped[d]) word_steps.push_back(strides[d]);
  }
  int64_t outer = 1, granules = 0, pieces = 0;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) outer *= sizes[d];
  const int64_t length = sizes.back(), piece = form.flat ? std::max<int64_t>(1, length) : kLanes;
  if (outer > kMost || outer * CeilDiv(length, piece) > kMost) {
    Fail(id, absl::StrCat("a copy of more than ", kMost, " separate rows"));
    return 0;
  }
  for (int64_t o = 0; o < outer; ++o) {
    int64_t rest = o, row = 0, word = 0;
    for (size_t d = sizes.size() - 1; d-- > 0;) {
      const int64_t i = rest % sizes[d];
      rest /= sizes[d];
      const int dim = static_cast<int>(row_steps[d]);
      const kernel::Slice& s = rows.slices[dim];
      const int64_t start = s.start_node < 0 ? s.start : 0;  // else a multiple of a tile
      row += dim == form.sub ? form.RowOf(start + i) - form.RowOf(start) : i * form.stride[dim];
      word += i * word_steps[d];
    }
    for (int64_t from = 0; from < length; from += piece, ++pieces) {
      const int64_t now = std::min(piece, length - from);
      emit(row + (form.flat ? 0 : from / kLanes * form.tile_rows), word + from, now);
      granules += CeilDiv(now, kGranuleWords);
    }
  }
  return granules;
}

int64_t Lowering::CopyGranules(NodeId id) {
  const Node& n = node(id);
  const RefSpace spaces[2] = {k.refs[n.views[0].ref].space, k.refs[n.views[1].ref].space};
  const bool smem = spaces[0] == RefSpace::kSmem || spaces[1] == RefSpace::kSmem;
  if (smem && spaces[0] != RefSpace::kHbm && spaces[1] != RefSpace::kHbm) {
    return WordRows(id, [](int64_t, int64_t, int64_t) {});
  }
  if (k.refs[n.views[0].ref].space == RefSpace::kSmem ||
      k.refs[n.views[1].ref].space == RefSpace::kSmem) {
    int64_t words = 1;
    for (const kernel::Slice& s : n.views[0].slices) words *= s.size;
    return CeilDiv(words, kGranuleWords);
  }
  std::vector<Level> levels;
  int64_t rows = 1;
  if (!CopyLevels(id, &levels, &rows)) return 0;
  for (const Level& l : levels) rows *= l.count;
  return rows * kGranulesPerRow;
}

Operand Lowering::SemaphoreFlag(const kernel::RefView& view) {
  const Shape block = k.refs[view.ref].BlockShape();
  Operand index = Imm(0);
  for (size_t d = 0; d < view.slices.size(); ++d) {
    index =
        b_.Sadd(b_.Smul(index, Imm(block.dims[d])), CheckedStart(view.slices[d], block.dims[d]));
  }
  return b_.Sadd(index, Imm(refs[view.ref].flag));
}

// Granule of the side in HBM of a copy from or to SMEM. Words of one row: its start within the row
// was left out of the row's number, `address`.
Operand Lowering::SmemPartner(NodeId id, int side, Operand address) {
  const kernel::RefView& v = node(id).views[side];
  const MemForm& form = refs[v.ref].array;
  if (v.slices.empty()) return address;
  const kernel::Slice& last = v.slices.back();
  Operand start = CheckedStart(last, k.refs[v.ref].shape.dims.back());
  Operand words = start.is_imm() ? Imm(start.imm % kLanes)
                                 : Operand(b_.Op(Opcode::kSand, {start, Imm(kLanes - 1)}));
  address = b_.Sadd(address, b_.Sdiv(words, Imm(kGranuleWords)));
  const bool one_row = form.flat || (start.is_imm() && start.imm % kLanes + last.size <= kLanes);
  for (size_t d = 0; d + 1 < v.slices.size(); ++d) {
    if (v.slices[d].size != 1) Fail(id, "a copy of several rows from or to SMEM");
  }
  if (!one_row) Fail(id, "a copy from or to SMEM of more than one row of a tiled array");
  return address;
}

void Lowering::LowerCopy(NodeId id) {
  const Node& n = node(id);
  const Operand flag = SemaphoreFlag(n.views.back());
  switch (n.kind) {
    case Node::Kind::kSignal:
      b_.Op(Opcode::kVsyncadd, {flag, Scalar(n.operands[0])});
      return;
    case Node::Kind::kWait: {
      Operand count = Scalar(n.operands[0]);
      b_.Op(Opcode::kDmaDoneWait, {flag, count});
      b_.Op(Opcode::kVsyncadd, {flag, b_.Ssub(Imm(0), count)});
      return;
    }
    case Node::Kind::kCopyWait: {
      const int64_t granules = CopyGranules(id);
      b_.Op(Opcode::kDmaDoneWait, {flag, Imm(granules)});
      b_.Op(Opcode::kVsyncadd, {flag, Imm(-granules)});
      return;
    }
    default:
      break;
  }
  const CopySide from = SideOf(n.views[0]), to = SideOf(n.views[1]);
  const bool from_hbm = k.refs[n.views[0].ref].space == RefSpace::kHbm;
  const RefSpace to_space = k.refs[n.views[1].ref].space;
  const RefSpace from_space = k.refs[n.views[0].ref].space;
  if (to_space == RefSpace::kSmem || from_space == RefSpace::kSmem) {
    const bool in = to_space == RefSpace::kSmem;
    if (!from_hbm && to_space != RefSpace::kHbm) {
      WordRows(id, [&](int64_t row, int64_t word, int64_t words) {
        const Operand a = b_.Sadd(from.address, Imm(in ? row : word));
        const Operand b = b_.Sadd(to.address, Imm(in ? word : row));
        b_.Op(in ? Opcode::kDmaVmemToSmem : Opcode::kDmaSmemToVmem,
              {a, Imm(CeilDiv(words, kGranuleWords)), b, flag});
        b_.last().mem.buffer = in ? from.buffer : to.buffer;
      });
      return;
    }
    const Operand hbm = SmemPartner(id, in ? 0 : 1, in ? from.address : to.address);
    b_.Op(in ? Opcode::kDmaHbmToSmem : Opcode::kDmaSmemToHbm,
          {in ? hbm : from.address, Imm(CopyGranules(id)), in ? to.address : hbm, flag});
    return;
  }
  std::vector<Level> levels;
  int64_t run = 1;
  if (!CopyLevels(id, &levels, &run)) return;
  const bool to_hbm = to_space == RefSpace::kHbm;
  const Opcode op = from_hbm ? (to_hbm ? Opcode::kDmaHbmToHbm : Opcode::kDmaHbmToVmem)
                             : (to_hbm ? Opcode::kDmaVmemToHbm : Opcode::kDmaVmemToVmem);
  EmitTransfers(op, from.address, to.address, levels, run, flag, k.refs[n.views[1].ref].name,
                from_hbm ? to.buffer
                : to_hbm ? from.buffer
                         : -1);
}

}  // namespace tpuc::lower
