// Rearrangements that no register operation does: every row of 128 lanes of the result is put
// together from runs of lanes of the operand's rows in memory (load one row to all sublanes,
// rotate, select by lanes), in the loops that move_plan.cc finds.
//
//   reshape f32[4,64] -> f32[2,128]: row 0 = lanes 0-63 of row 0, and row 1 rotated by 64
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "backend/lower/move_plan.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kMostRuns = 6000;         // in code
constexpr int64_t kMostElements = 1 << 26;  // of a result whose plan is made
constexpr int64_t kMostRunsOfWhole = 512;   // without loops where blocks are one value
constexpr int64_t kMostRunsOfBody = 128;    // of a loop without loops in it
constexpr int64_t kBodyRuns = 32;           // in a loop's body, to hide latencies

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

// The operand's element of a result element: its operand, and the index there; -1: the padding
// value.
int Lowering::SourceIndex(NodeId id, absl::Span<const int64_t> at, std::vector<int64_t>* from) {
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
      return 0;
    }
    case Op::kSlice: {
      const auto& s = std::get<std::vector<SliceDim>>(*n.Find(AttrId::kSlice));
      for (size_t i = 0; i < at.size(); ++i) (*from)[i] = s[i].start + at[i] * s[i].stride;
      return 0;
    }
    case Op::kReverse: {
      from->assign(at.begin(), at.end());
      for (int64_t r : n.IntsAttr(AttrId::kDimensions)) (*from)[r] = d[r] - 1 - at[r];
      return 0;
    }
    case Op::kConcatenate: {
      from->assign(at.begin(), at.end());
      int64_t& along = (*from)[n.IntsAttr(AttrId::kDimensions)[0]];
      int operand = 0;
      for (; along >= dims(n.operands[operand])[n.IntsAttr(AttrId::kDimensions)[0]]; ++operand) {
        along -= dims(n.operands[operand])[n.IntsAttr(AttrId::kDimensions)[0]];
      }
      return operand;
    }
    default: {  // pad
      const auto& p = std::get<std::vector<PadDim>>(*n.Find(AttrId::kPadding));
      for (size_t i = 0; i < at.size(); ++i) {
        int64_t x = at[i] - p[i].low, step = p[i].interior + 1;
        if (x < 0 || x % step != 0 || x / step >= d[i]) return -1;
        (*from)[i] = x / step;
      }
      return 0;
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
  VLayout have = RowsLayout(x), layout = info[id].natural;
  if (a < 2 || b < 2 || have != DefaultVLayout(a) || layout != DefaultVLayout(b)) return false;
  if (from[a - 1] != to[b - 1]) return false;
  if (from[a - 2] % kSublanes != 0 || to[b - 2] % kSublanes != 0) return false;
  if (info[id].mat) return false;
  const MemView* source = RowsOf(x, have);
  if (source == nullptr) return false;
  if (source->form.rows != TemporaryForm(from, have).rows) return false;
  Type t = source->form.type;
  info[id].view = *source;
  info[id].view.form = TemporaryForm(to, layout);
  info[id].view.form.type = t;
  info[id].mat = true;
  info[id].ready = true;
  return true;
}

// About how many runs the value is put together from, where that goes through memory.
int64_t Lowering::MovedRuns(NodeId id) const {
  const Node& n = node(id);
  int lane = info[id].natural.lane;
  int64_t runs = lane < 0 ? 1 : CeilDiv(n.shape.dims[lane], kLanes);
  for (int d = 0; d < n.shape.rank(); ++d) {
    if (d != lane) runs *= n.shape.dims[d];
  }
  if (lane < 0) return runs;
  bool single = false;  // lanes one by one
  if (const AttrValue* a = n.op == Op::kPad ? n.Find(AttrId::kPadding) : nullptr) {
    const auto& p = std::get<std::vector<PadDim>>(*a);
    single = p[lane].interior != 0;
    bool plain = true;  // put together from registers
    for (const PadDim& x : p) plain &= x.interior == 0;
    if (plain) return 0;
  } else if (n.op == Op::kSlice) {
    single = std::get<std::vector<SliceDim>>(*n.Find(AttrId::kSlice))[lane].stride != 1;
  } else if (n.op == Op::kReverse) {
    const Ints& r = n.IntsAttr(AttrId::kDimensions);
    single = std::find(r.begin(), r.end(), lane) != r.end();
  } else if (n.op == Op::kConcatenate) {
    return 0;
  }
  return single ? runs * std::min(kLanes, n.shape.dims[lane]) : runs;
}

// The layout in which a reshape reads its operand's rows: row-major, so that runs are long.
VLayout Lowering::RowsLayout(NodeId id) const {
  VLayout own = OperandLayout(id);
  if (dims(id).size() < 2) return own;
  VLayout l;
  for (int d = static_cast<int>(dims(id).size()) - 1; d >= 0; --d) {
    if (dims(id)[d] == 1) continue;
    int8_t axis = static_cast<int8_t>(d);
    if (l.lane < 0) {
      l.lane = axis;
    } else if (l.sub < 0) {
      l.sub = axis;
    }
  }
  return l.lane < 0 ? own : l;
}

// The value's rows in memory: a load's own, or a temporary.
const MemView* Lowering::RowsOf(NodeId id, VLayout layout) {
  if (WholeLoad(id) && layout == info[id].natural) {
    WaitFor(node(id).ref);
    return &refs[node(id).ref].view;
  }
  return StoredAs(id, layout);
}

// A load of 32-bit elements from the start of an array that nothing writes.
bool Lowering::WholeLoad(NodeId id) const {
  const Node& n = node(id);
  if (!ReadableAs(id, info[id].natural) || !info[id].stable) return false;
  if (refs[n.ref].view.form.packing > 1) return false;
  for (const kernel::Slice& s : n.slices) {
    if (s.start_node >= 0 || s.start != 0) return false;
  }
  return true;
}

// The rows of the result, its operands lying in these forms.
MovePlan Lowering::PlanMove(NodeId id, const MemForm& to, absl::Span<const MemForm> from) {
  MovePlan plan;
  plan.sources = static_cast<int>(from.size());
  VLayout layout = info[id].natural;
  const Dims& d = dims(id);
  int rank = static_cast<int>(d.size());
  int64_t lanes = layout.lane < 0 ? 1 : d[layout.lane], rows = 1;
  Dims extent = d;
  if (layout.lane >= 0) extent[layout.lane] = 1;
  if (layout.sub >= 0 && !layout.dense()) {
    extent[layout.sub] = CeilDiv(d[layout.sub], kSublanes) * kSublanes;
  }
  for (int64_t e : extent) rows *= e;
  std::vector<int64_t> at(rank, 0), index;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r;
    for (int i = rank - 1; i >= 0; --i) {
      at[i] = rest % extent[i];
      rest /= extent[i];
    }
    bool padding = layout.sub >= 0 && !layout.dense() && at[layout.sub] >= d[layout.sub];
    if (padding && at[layout.sub] > d[layout.sub]) continue;
    for (int64_t j = 0; j < CeilDiv(lanes, kLanes); ++j) {
      int64_t row = 0, lane = 0;
      if (layout.lane >= 0) at[layout.lane] = j * kLanes;
      Locate(to, at, &row, &lane);
      plan.Begin(row, padding ? static_cast<int32_t>(extent[layout.sub] - d[layout.sub]) : 1);
      for (int64_t l = 0; !padding && l < std::min(kLanes, lanes - j * kLanes); ++l) {
        if (layout.lane >= 0) at[layout.lane] = j * kLanes + l;
        LaneRun one{static_cast<int32_t>(l), 1, SourceIndex(id, at, &index), 0, 0};
        if (one.source >= 0) {
          Locate(from[one.source], index, &one.row, &lane);
          one.from = static_cast<int32_t>(lane);
        }
        plan.Add(one);
      }
    }
  }
  if (layout.dense()) {
    for (int64_t r = CeilDiv(lanes, kLanes); r < to.rows; ++r) plan.Begin(r, 1);
  }
  return plan;
}

struct Lowering::MoveState {
  MovePlan plan;
  std::vector<MemView> from;
  MemView to;
  Operand fill;
  int64_t budget = kMostRuns;
  struct InLoop {
    int loop;
    int64_t to;
    std::vector<int64_t> from;
  };
  std::vector<InLoop> loops;
  // Units are of so many rows at once, one to a sublane, these rows apart.
  int wide = 1;
  int64_t to_step = 0;
  std::vector<int64_t> from_step;
};

void Lowering::EmitUnit(const MoveUnit& unit, NodeId id, MoveState* s) {
  s->budget -= unit.count + 1;
  if (s->budget < 0) {
    Fail(id, "a rearrangement of this size");
    return;
  }
  auto counted = [&](int64_t stride, size_t loop) {
    return std::make_pair(Coord{static_cast<int16_t>(s->loops[loop].loop), 1, 0}, stride);
  };
  Operand row = unit.count == 0 ? Imm(0) : s->fill;
  bool first = true;  // the first run needs no select, unless the padding value lies between
  for (int32_t i = 0; i < unit.count; ++i) first &= s->plan.runs[unit.first + i].source >= 0;
  for (int32_t i = 0; i < unit.count; ++i) {
    const LaneRun& run = s->plan.runs[unit.first + i];
    if (run.source < 0) continue;
    Terms terms;
    for (size_t l = 0; l < s->loops.size(); ++l) {
      terms.push_back(counted(s->loops[l].from[run.source], l));
    }
    isa::MemRef mem = Address(s->from[run.source], run.row, terms);
    mem.sublane_stride = s->wide > 1 ? static_cast<int32_t>(s->from_step[run.source]) : 0;
    if (s->wide > 1) mem.sublane_mask = SublaneMask(0, s->wide);
    Operand v = RotateLanes(b_.Load(mem), run.lane - run.from);
    row = first ? v : Vsel(MaskOf(0, kSublanes, run.lane, run.lane + run.count), v, row);
    first = false;
  }
  Terms terms;
  for (size_t l = 0; l < s->loops.size(); ++l) terms.push_back(counted(s->loops[l].to, l));
  for (int32_t k = 0; k < (s->wide > 1 ? unit.rows : 1); ++k) {
    isa::MemRef mem = Address(s->to, unit.to + k, terms);
    mem.sublane_mask = SublaneMask(0, s->wide > 1 ? s->wide : unit.rows);
    if (s->wide > 1) mem.sublane_stride = static_cast<int32_t>(s->to_step);
    b_.Store(mem, row);
    ++f->info.temp_stores;
  }
}

// Up to eight of the repetitions at once, one to a sublane.
void Lowering::Widen(MoveState* s, Repeat* r) {
  s->wide = static_cast<int>(std::min(kSublanes, r->times));
  s->to_step = r->to;
  s->from_step = r->from;
  r->times /= s->wide;
  for (int64_t& x : r->from) x *= s->wide;
  r->to *= s->wide;
}

void Lowering::EmitUnits(NodeId id, int64_t begin, int64_t end, MoveState* s) {
  while (begin < end && !failed_) {
    // Memory to memory, so of no use to hold as one value, be the rest of the block one or not.
    int64_t most = whole ? kMostRunsOfWhole : kMostRunsOfBody;
    bool widen = s->wide == 1;
    Repeat r;
    if (widen || s->plan.Runs(begin, end) > most) r = FindRepeat(s->plan, begin, end);
    if (r.times <= 1) {
      EmitUnit(s->plan.units[begin++], id, s);
      continue;
    }
    int64_t wide = 1;
    if (widen) {
      Widen(s, &r);
      wide = s->wide;
    }
    int64_t runs = std::max<int64_t>(1, s->plan.Runs(begin, begin + r.period));
    int64_t copies = std::min(std::max<int64_t>(1, kBodyRuns / runs), r.times);
    if (copies < r.times) copies = std::max<int64_t>(1, std::min(copies, r.times / 2));
    int64_t copy = r.period * wide, times = r.times / copies;
    int64_t units = copy * copies * times;
    auto body = [&] {
      for (int64_t c = 0; c < copies; ++c) {
        EmitUnits(id, begin + c * copy, begin + c * copy + r.period, s);
      }
    };
    if (times == 1) {
      body();
    } else {
      for (int64_t& x : r.from) x *= copies;
      EmitLoop(times, 1, [&](int loop) {
        s->loops.push_back({loop, r.to * copies, r.from});
        body();
        s->loops.pop_back();
      });
    }
    if (widen) s->wide = 1;
    begin += units;
  }
}

void Lowering::MoveRows(NodeId id) {
  if (ReshapeInPlace(id)) return;
  const Node& n = node(id);
  MoveState s;
  size_t sources = n.op == Op::kConcatenate ? n.operands.size() : 1;
  std::vector<MemForm> forms;
  for (size_t i = 0; i < sources; ++i) {
    NodeId x = n.operands[i];
    bool any = n.op == Op::kReshape || n.op == Op::kBitcast;  // else both have the same layout
    const MemView* source = RowsOf(x, any ? RowsLayout(x) : OperandLayout(x));
    if (source == nullptr) {
      Fail(id, "moved through memory inside a loop");
      return;
    }
    s.from.push_back(*source);
    forms.push_back(source->form);
  }
  int64_t elements = 1;
  for (int64_t d : n.shape.dims) elements *= d;
  if (elements > kMostElements) Fail(id, "a rearrangement of this size");
  if (failed_) return;
  if (!info[id].mat) {
    MemForm form = TemporaryForm(dims(id), info[id].natural);
    if (type(id) == Type::kPred) form.type = Type::kS32;
    info[id].view = NewTemporary(absl::StrCat("moved.", id), form);
    info[id].mat = true;
  }
  if (failed_) return;
  s.to = info[id].view;
  s.fill = n.op == Op::kPad ? ToVector(Get(n.operands[1], {-1, -1}, {})) : Imm(0);
  s.plan = PlanMove(id, s.to.form, forms);
  EmitUnits(id, 0, static_cast<int64_t>(s.plan.units.size()), &s);
  info[id].ready = true;
}

}  // namespace tpuc::lower
