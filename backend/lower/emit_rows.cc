// Rearrangements that no register operation does: every row of 128 lanes of the result is put
// together from runs of lanes of the operand's rows in memory (load one row to all sublanes,
// rotate, select by lanes). Unrolled: for small values.
//
//   reshape f32[4,64] -> f32[2,128]: row 0 = lanes 0-63 of row 0, and row 1 rotated by 64
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kMostRuns = 6000;

struct LaneRun {
  int64_t lane = 0, count = 0;  // in the result's row
  int64_t row = 0, from = 0;    // the operand's memory row and lane; row -1: the padding value
};

// The memory row and lane of element `index` in a form of 32-bit elements.
void Locate(const MemForm& form, absl::Span<const int64_t> index, int64_t* row, int64_t* lane) {
  *row = 0;
  *lane = 0;
  if (form.flat) {
    if (index.empty()) return;
    *row = index[0] / kLanes;
    *lane = index[0] % kLanes;
    return;
  }
  for (size_t d = 0; d < index.size(); ++d) {
    if (static_cast<int>(d) == form.sub) {
      *row += form.RowOf(index[d]);
    } else if (static_cast<int>(d) == form.lane) {
      *row += index[d] / kLanes * form.tile_rows;
      *lane = index[d] % kLanes;
    } else {
      *row += index[d] * form.stride[d];
    }
  }
}

}  // namespace

// The operand's element of a result element; false: the padding value.
bool Lowering::SourceIndex(NodeId id, absl::Span<const int64_t> at, std::vector<int64_t>* from) {
  const Node& n = node(id);
  const Dims& d = dims(n.operands[0]);
  from->assign(d.size(), 0);
  switch (n.op) {
    case Op::kReshape:
    case Op::kBitcast: {
      int64_t linear = 0;
      for (size_t i = 0; i < at.size(); ++i) linear = linear * n.shape.dims[i] + at[i];
      for (int i = static_cast<int>(d.size()) - 1; i >= 0; --i) {
        (*from)[i] = linear % d[i];
        linear /= d[i];
      }
      return true;
    }
    case Op::kSlice: {
      const auto& s = std::get<std::vector<SliceDim>>(*n.Find(AttrId::kSlice));
      for (size_t i = 0; i < at.size(); ++i) (*from)[i] = s[i].start + at[i] * s[i].stride;
      return true;
    }
    case Op::kReverse: {
      from->assign(at.begin(), at.end());
      for (int64_t r : n.IntsAttr(AttrId::kDimensions)) (*from)[r] = d[r] - 1 - at[r];
      return true;
    }
    default: {  // pad
      const auto& p = std::get<std::vector<PadDim>>(*n.Find(AttrId::kPadding));
      for (size_t i = 0; i < at.size(); ++i) {
        int64_t x = at[i] - p[i].low, step = p[i].interior + 1;
        if (x < 0 || x % step != 0 || x / step >= d[i]) return false;
        (*from)[i] = x / step;
      }
      return true;
    }
  }
}

// A reshape that keeps the lane dimension and whole tiles of rows: the same memory, other strides.
bool Lowering::ReshapeInPlace(NodeId id) {
  const Node& n = node(id);
  NodeId x = n.operands[0];
  if (n.op != Op::kReshape && n.op != Op::kBitcast) return false;
  const Dims& to = dims(id);
  const Dims& from = dims(x);
  int a = static_cast<int>(from.size()), b = static_cast<int>(to.size());
  VLayout have = OperandLayout(x), layout = info[id].natural;
  if (a < 2 || b < 2 || have != DefaultVLayout(a) || layout != DefaultVLayout(b)) return false;
  if (from[a - 1] != to[b - 1]) return false;
  if (from[a - 2] % kSublanes != 0 || to[b - 2] % kSublanes != 0) return false;
  if (info[id].mat) return false;
  const MemView* source = StoredAs(x, have);
  if (source == nullptr || source->form.packing > 1) return false;
  if (source->form.rows != TemporaryForm(from, have).rows) return false;
  Type t = source->form.type;
  info[id].view = *source;
  info[id].view.form = TemporaryForm(to, layout);
  info[id].view.form.type = t;
  info[id].mat = true;
  info[id].ready = true;
  return true;
}

void Lowering::MoveRows(NodeId id) {
  if (ReshapeInPlace(id)) return;
  const Node& n = node(id);
  NodeId x = n.operands[0];
  VLayout have = OperandLayout(x), layout = info[id].natural;
  const MemView* source = StoredAs(x, have);
  if (source == nullptr) {
    Fail(id, "moved through memory inside a loop");
    return;
  }
  if (!info[id].mat) {
    MemForm form = TemporaryForm(dims(id), layout);
    if (type(id) == Type::kPred) form.type = Type::kS32;
    info[id].view = NewTemporary(absl::StrCat("moved.", id), form);
    info[id].mat = true;
  }
  if (failed_) return;
  const MemView& view = info[id].view;
  Operand fill = n.op == Op::kPad ? ToVector(Get(n.operands[1], {-1, -1}, {})) : Imm(0);
  // Rows of the result: every index but the lane dimension's, and lane tiles.
  int lane_dim = layout.lane;
  int64_t lane_size = lane_dim < 0 ? 1 : dims(id)[lane_dim], rows = 1;
  for (int d = 0; d < n.shape.rank(); ++d) {
    if (d != lane_dim) rows *= dims(id)[d];
  }
  int64_t budget = kMostRuns;
  std::vector<int64_t> at(dims(id).size(), 0), from;
  absl::flat_hash_map<int64_t, Operand> loaded;
  for (int64_t r = 0; r < rows && !failed_; ++r) {
    int64_t rest = r;
    for (int d = n.shape.rank() - 1; d >= 0; --d) {
      if (d == lane_dim) continue;
      at[d] = rest % dims(id)[d];
      rest /= dims(id)[d];
    }
    for (int64_t j = 0; j < CeilDiv(lane_size, kLanes); ++j) {
      std::vector<LaneRun> runs;
      for (int64_t l = 0; l < std::min(kLanes, lane_size - j * kLanes); ++l) {
        if (lane_dim >= 0) at[lane_dim] = j * kLanes + l;
        LaneRun one{l, 1, -1, 0};
        if (SourceIndex(id, at, &from)) Locate(source->form, from, &one.row, &one.from);
        if (!runs.empty() && runs.back().row == one.row &&
            (one.row < 0 || runs.back().from + runs.back().count == one.from)) {
          ++runs.back().count;
        } else {
          runs.push_back(one);
        }
      }
      budget -= static_cast<int64_t>(runs.size());
      if (budget < 0) {
        Fail(id, "a rearrangement of this size");
        return;
      }
      Operand row = fill;
      bool first = true;
      for (const LaneRun& run : runs) {
        if (run.row < 0) {
          first = false;
          continue;
        }
        isa::MemRef mem = Address(*source, run.row, {});
        mem.sublane_stride = 0;
        Operand v = RotateLanes(b_.Load(mem), run.lane - run.from);
        row = first ? v : Vsel(MaskOf(0, kSublanes, run.lane, run.lane + run.count), v, row);
        first = false;
      }
      int64_t to = 0, lane = 0;
      if (lane_dim >= 0) at[lane_dim] = j * kLanes;
      Locate(view.form, at, &to, &lane);
      isa::MemRef mem = Address(view, to, {});
      mem.sublane_mask = 1;
      b_.Store(mem, row);
      ++f->info.temp_stores;
    }
  }
  // Rows of the last tiles that hold nothing are written too: they are read with their tile.
  ClearPadding(view, dims(id), layout);
  info[id].ready = true;
}

void Lowering::ClearPadding(const MemView& view, const Dims& d, VLayout layout) {
  if (layout.dense()) {
    int64_t used = CeilDiv(d[0], kLanes);
    for (int64_t r = used; r < view.form.rows; ++r) {
      isa::MemRef mem = Address(view, r, {});
      mem.sublane_mask = 1;
      b_.Store(mem, Imm(0));
    }
    return;
  }
  if (layout.sub < 0 || d[layout.sub] % kSublanes == 0) return;
  int64_t outer = 1;
  for (int i = 0; i < static_cast<int>(d.size()); ++i) {
    if (i != layout.sub && i != layout.lane) outer *= d[i];
  }
  int64_t per = view.form.sub_tiles * view.form.lane_tiles * kSublanes;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < view.form.lane_tiles; ++j) {
      int64_t row = o * per + ((view.form.sub_tiles - 1) * view.form.lane_tiles + j) * kSublanes;
      isa::MemRef mem = Address(view, row, {});
      mem.sublane_mask = static_cast<uint8_t>(0xff << (d[layout.sub] % kSublanes));
      b_.Store(mem, Imm(0));
    }
  }
}

}  // namespace tpuc::lower
