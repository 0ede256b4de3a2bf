// Loop nests of reductions over rows, leading dimensions or many lane tiles, and of values that are
// put together from pieces (concatenate, pad, reverse).
//
//   f32[1024,512] over rows: for each 4 lane tiles, 4 accumulators; a loop over 128 row groups
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "backend/lower/nests.h"

namespace tpuc::lower {

namespace {
constexpr int64_t kMostUnrolled = 256;  // registers put together from pieces one by one
}  // namespace

void Lowering::EmitReduceNest(NodeId id) {
  const AtSource source(&b_, info[id].source);
  const Node& n = node(id);
  if (n.operands.size() > 2) {
    Fail(id, "with several operands");
    return;
  }
  NodeId x = n.operands[0];
  VLayout from = OperandLayout(x);
  const Ints& reduced = n.IntsAttr(AttrId::kDimensions);
  std::vector<int> kept, over;
  for (int d = 0; d < static_cast<int>(dims(x).size()); ++d) {
    bool r = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    (r ? over : kept).push_back(d);
  }
  Space outer, inner;
  int chunk_dim = -1;  // position in `kept` of the dimension several of whose registers go together
  for (size_t i = 0; i < kept.size(); ++i) {
    outer.extents.push_back(TileExtent(dims(x), from, kept[i]));
    if (outer.extents.back() > 1) chunk_dim = static_cast<int>(i);
    if (kept[i] == from.lane && outer.extents.back() > 1) break;
  }
  for (size_t i = outer.extents.size(); i < kept.size(); ++i) {
    outer.extents.push_back(TileExtent(dims(x), from, kept[i]));
  }
  outer.steps.assign(kept.size(), 1);
  outer.peel.assign(kept.size(), 0);
  int64_t chunk = 1;
  if (chunk_dim >= 0) {
    chunk = std::min<int64_t>(8, outer.extents[chunk_dim]);
    outer.steps[chunk_dim] = chunk;
  }
  outer.unroll = outer.flat_limit = 1;
  for (int d : over) {
    inner.extents.push_back(TileExtent(dims(x), from, d));
    inner.steps.push_back(1);
    // The last registers hold padding where the array ends inside them.
    inner.peel.push_back(dims(x)[d] % TileUnit(from, d) != 0);
  }
  inner.unroll = inner.flat_limit = std::max<int64_t>(1, 16 / chunk);
  Type t = n.shape.type;
  Type acc_type = t == Type::kPred ? Type::kS32 : t;  // masks are summed as 0 and 1
  Op reducer = n.reducer;
  if (t == Type::kPred) {
    reducer = reducer == Op::kAnd || reducer == Op::kMinimum || reducer == Op::kMultiply
                  ? Op::kMinimum
              : reducer == Op::kXor ? Op::kXor
                                    : Op::kMaximum;
  }
  Operand identity = Identity(n.reducer, t == Type::kPred ? Type::kS32 : t);
  if (t == Type::kPred) identity = Imm(reducer == Op::kMinimum ? 1 : 0);
  ForTiles(outer, [&](const Coords& at) {
    int64_t count = chunk;
    if (chunk_dim >= 0 && at[chunk_dim].is_const()) {
      count = std::min(chunk, outer.extents[chunk_dim] - at[chunk_dim].c);
    }
    // Several accumulators for one result where there is one chain only.
    int64_t chains = count >= 4 ? 1 : 4;
    std::vector<Reg> acc(count * chains);
    for (Reg& a : acc) {
      a = f->New(RegClass::kVector);
      b_.Into(a, Opcode::kVmov, {identity});
    }
    int64_t turn = 0;
    ForTiles(inner, [&](const Coords& in) {
      Coords c(dims(x).size(), Coord::Const(0));
      for (size_t i = 0; i < kept.size(); ++i) c[kept[i]] = at[i];
      for (size_t i = 0; i < over.size(); ++i) c[over[i]] = in[i];
      for (int64_t j = 0; j < count; ++j) {
        Coords cj = c;
        if (chunk_dim >= 0) cj[kept[chunk_dim]] = at[chunk_dim] + j;
        Operand v = ToVector(ReducePart(id, cj));
        if (failed_) return;
        Reg a = acc[j * chains + turn % chains];
        Operand r = Combine(reducer, acc_type, a, v, id);
        if (!r.is_imm() && b_.last().dest == r.reg) {
          b_.last().dest = a;
        } else {
          b_.Into(a, Opcode::kVmov, {r});
        }
      }
      ++turn;
    });
    for (int64_t j = 0; j < count && !failed_; ++j) {
      Operand r = acc[j * chains];
      for (int64_t i = 1; i < chains; ++i)
        r = Combine(reducer, acc_type, r, acc[j * chains + i], id);
      if (t == Type::kPred) r = ToMask(r);
      r = FinishReduce(id, r);
      Coords rc(kept.size(), Coord::Const(0));
      for (size_t i = 0; i < kept.size(); ++i) rc[i] = at[i];
      if (chunk_dim >= 0) rc[chunk_dim] = at[chunk_dim] + j;
      std::vector<Start> none(kept.size());
      StoreTile(info[id].view, none, dims(id), info[id].natural, rc, ToVector(r), id);
      ++f->info.temp_stores;
    }
  });
}

// Zeros in the last row groups, whose padding no piece may write.
void Lowering::ClearLastRows(NodeId id) {
  VLayout layout = info[id].natural;
  Space space = SpaceOf(dims(id), layout);
  int64_t last = space.extents[layout.sub] - 1;
  space.extents[layout.sub] = 1;
  std::vector<Start> none(dims(id).size());
  ForTiles(space, [&](const Coords& at) {
    Coords c = at;
    c[layout.sub] = Coord::Const(last);
    StoreTile(info[id].view, none, dims(id), layout, c, Imm(0), id);
    ++f->info.temp_stores;
  });
}

// concatenate and pad whose pieces start at lane tiles: each operand is stored at its offset.
bool Lowering::StorePieces(NodeId id) {
  const Node& n = node(id);
  VLayout layout = info[id].natural;
  if (layout.dense()) return false;
  int rank = n.shape.rank();
  std::vector<Start> starts(rank);
  size_t count = n.operands.size();
  int along = -1;
  if (n.op == Op::kPad) {
    const auto& pads = std::get<std::vector<PadDim>>(*n.Find(AttrId::kPadding));
    for (int d = 0; d < rank; ++d) {
      if (pads[d].low < 0 || pads[d].high < 0) return false;
      if (d == layout.lane && pads[d].low % kLanes != 0) return false;
      starts[d].c = pads[d].low;
    }
    count = 1;
    Operand fill = ToVector(Get(n.operands[1], {-1, -1}, {}));
    std::vector<Start> none(rank);
    ForTiles(SpaceOf(dims(id), layout), [&](const Coords& at) {
      StoreTile(info[id].view, none, dims(id), layout, at, fill, id);
      ++f->info.temp_stores;
    });
  } else {
    along = static_cast<int>(n.IntsAttr(AttrId::kDimensions)[0]);
    if (along == layout.lane) {
      for (size_t i = 0; i + 1 < count; ++i) {
        if (dims(n.operands[i])[along] % kLanes != 0) return false;
      }
    }
    if (along == layout.sub && dims(id)[along] % kSublanes != 0) ClearLastRows(id);
  }
  for (size_t i = 0; i < count && !failed_; ++i) {
    NodeId x = n.operands[i];
    Space space = SpaceOf(dims(x), layout);
    for (int d : {int{layout.sub}, int{layout.lane}}) {
      if (d >= 0) space.peel[d] = dims(x)[d] % TileUnit(layout, d) != 0;
    }
    ForTiles(space, [&](const Coords& at) {
      StoreTile(info[id].view, starts, dims(x), layout, at, ToVector(Get(x, layout, at)), id);
      ++f->info.temp_stores;
    });
    if (along >= 0) starts[along].c += dims(x)[along];
  }
  return true;
}

void Lowering::EmitMoveNest(NodeId id) {
  const AtSource source(&b_, info[id].source);
  const Node& n = node(id);
  if (n.op == Op::kReshape || n.op == Op::kBitcast || n.op == Op::kSlice) {
    MoveRows(id);
    return;
  }
  if (n.op == Op::kReverse) {
    for (int64_t d : n.IntsAttr(AttrId::kDimensions)) {
      if (n.shape.dims[d] > 1 && TileUnit(info[id].natural, static_cast<int>(d)) > 1) {
        MoveRows(id);
        return;
      }
    }
  }
  if (n.op == Op::kPad) {
    for (const PadDim& p : std::get<std::vector<PadDim>>(*n.Find(AttrId::kPadding))) {
      if (p.interior != 0) {
        MoveRows(id);
        return;
      }
    }
  }
  if (n.op != Op::kReverse && StorePieces(id)) return;
  VLayout layout = info[id].natural;
  if (TileCount(dims(id), layout) > kMostUnrolled) {
    MoveRows(id);
    return;
  }
  Space space = SpaceOf(dims(id), layout);
  space.flat_limit = 1 << 20;
  std::vector<Start> none(dims(id).size());
  ForTiles(space, [&](const Coords& at) {
    StoreTile(info[id].view, none, dims(id), layout, at, ToVector(Get(id, layout, at)), id);
    ++f->info.temp_stores;
  });
}

}  // namespace tpuc::lower
