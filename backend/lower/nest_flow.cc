// Loop nests in which the left rows of a product flow through the MXUs strip by strip (8 rows),
// together with what is computed before and after it of the same rows:
//
//   p = exp(s - m); l[:] = sum(p, lanes); o[:] = dot(p, v)
//   push v; for each strip { load s; p; matmul p; sum of p } and, when results are popped, { o, l }
//
// Where the weights do not fit the MXUs at once, in passes over N or over K. Sums and maxima over
// lanes go from pass to pass by one register a strip in memory. The trips of a loop overlap (modulo
// schedule): what a strip still needs when its results are popped is loaded again, not held; the
// weights of the next pass are pushed meanwhile, and the first trip takes its own
// (llo::Loop::latch).
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"
#include "backend/lower/nests.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kTileGroups = kLanes / kSublanes;
constexpr int64_t kFlatStrips = 128;  // at most these without a loop, in a pass
constexpr int64_t kInFlight = 52;     // strips whose results are on their way (two each)
constexpr int64_t kBody = 4;          // strips in a trip
constexpr int kCheap = 4;             // cost below which a value is made again, as ChooseKept's

}  // namespace

bool Lowering::PlanFlow(NodeId dot, DotFlow* w) {
  if (node(dot).kind != Node::Kind::kHlo || node(dot).op != Op::kDot) return false;
  w->dot = dot;
  if (!PlanDot(dot, &w->p)) return false;
  const int mxus = std::max(1, chip.mxus);
  const int64_t k_sets = CeilDiv(w->p.k, chip.mxu_size), n_sets = CeilDiv(w->p.n, chip.mxu_size);
  if (k_sets == 0 || n_sets == 0) return false;
  if (k_sets <= mxus) {
    w->sets_k = static_cast<int>(k_sets);
    w->sets_n = static_cast<int>(std::min(n_sets, mxus / k_sets));
    w->passes = CeilDiv(n_sets, w->sets_n);
  } else if (n_sets <= mxus) {
    w->over_k = true;
    w->sets_n = static_cast<int>(n_sets);
    w->sets_k = static_cast<int>(mxus / n_sets);
    w->passes = CeilDiv(k_sets, w->sets_k);
  } else {
    return false;
  }
  const int sets = w->sets_k * w->sets_n;
  w->copies = w->passes > 1 ? 1 : static_cast<int>(std::min<int64_t>(mxus / sets, w->p.m_groups()));
  return true;
}

bool Lowering::FlowsOverK(NodeId dot) {
  DotFlow w;
  return PlanFlow(dot, &w) && w.over_k;
}

// One body with all rows of a batch overlaps with the next batch's, loops of strips do not.
bool Lowering::Batched(const DotFlow& w) {
  constexpr int64_t kRowsInBody = 64;
  int64_t batches = 1;
  for (size_t i = 0; i < w.p.lhs_batch.size(); ++i) batches *= dims(w.dot)[i];
  for (int d : w.p.result_free) batches *= dims(w.dot)[d];
  return batches > 1 && w.passes == 1 && w.p.m_groups() <= kRowsInBody;
}

// A sum, maximum .. over exactly the lanes of its operand.
bool Lowering::LaneReduce(NodeId id) {
  const Node& n = node(id);
  if (n.kind != Node::Kind::kHlo || n.op != Op::kReduce || n.operands.size() > 2) return false;
  if (n.shape.type != Type::kF32 || !InlineReduce(id)) return false;
  VLayout from = OperandLayout(n.operands[0]);
  const Ints& over = n.IntsAttr(AttrId::kDimensions);
  return over.size() == 1 && over[0] == from.lane;
}

// The product in whose nest the reductions among `roots` may run: `x` is (part of) its left rows
// and what they reduce. -1: none.
NodeId Lowering::FlowsInto(NodeId x, absl::Span<const NodeId> roots) {
  NodeId dot = -1;
  for (NodeId r : roots) {
    if (node(r).kind == Node::Kind::kHlo && node(r).op == Op::kDot) {
      if (dot >= 0) return -1;
      dot = r;
    }
  }
  DotFlow w;
  if (dot < 0 || roots.size() < 2 || !PlanFlow(dot, &w) || Batched(w)) return -1;
  if (w.passes > 1 && !w.over_k) return -1;  // the left rows would be computed for each pass
  auto reaches = [&](NodeId from, NodeId to) {
    return AnyBelow(from, [&](NodeId y) { return y == to; });
  };
  if (!reaches(w.p.lhs, x) || reaches(w.p.rhs, x)) return -1;
  const NestItem item = {NestItem::Kind::kValue, dot, info[dot].natural};
  for (NodeId r : roots) {
    if (r == dot) continue;
    if (!LaneReduce(r) || reaches(dot, r) || reaches(r, dot)) return -1;
    const NodeId o = node(r).operands[0];
    if (CeilDiv(dims(o)[OperandLayout(o).lane], kLanes) != CeilDiv(w.p.k, kLanes)) return -1;
    if (RowSpace({NestItem::Kind::kValue, r, info[r].natural}) != RowSpace(item)) return -1;
  }
  return dot;
}

// Whether a value needs `target` without what the nest reduces.
bool Lowering::ReachesPast(NodeId from, NodeId target, const std::vector<char>& reduced) {
  std::vector<char> seen(k.nodes.size(), 0);
  std::vector<NodeId> stack = {from};
  while (!stack.empty()) {
    const NodeId x = stack.back();
    stack.pop_back();
    if (x == target) return true;
    if (seen[x] || reduced[x] || info[x].ready) continue;
    seen[x] = 1;
    for (NodeId o : node(x).operands) stack.push_back(o);
  }
  return false;
}

// When an item of the product's nest runs; kNot: it cannot be in it.
FlowPhase Lowering::PhaseOf(const NestItem& item, const DotFlow& w,
                            const std::vector<NestItem>& nest) {
  const bool value = item.kind == NestItem::Kind::kValue;
  const bool reduce = value && LaneReduce(item.node);
  if (value && companion_[item.node] == w.dot) return FlowPhase::kRows;
  if (w.passes == 1 || w.over_k) return FlowPhase::kLate;
  std::vector<char> reduced(k.nodes.size(), 0);
  bool any = false;
  for (const NestItem& x : nest) {
    if (x.kind != NestItem::Kind::kValue || !LaneReduce(x.node)) continue;
    reduced[x.node] = 1;
    any = true;
  }
  const NodeId v = ValueOf(item), source = reduce ? node(v).operands[0] : v;
  const VLayout layout = reduce ? OperandLayout(source) : item.layout;
  if (!ReachesPast(source, w.dot, reduced)) return FlowPhase::kLate;
  const bool as_wide =
      layout.lane >= 0 && TileExtent(dims(source), layout, layout.lane) == CeilDiv(w.p.n, kLanes);
  if (!as_wide || (any && ReachesMember(source, reduced))) return FlowPhase::kNot;
  return FlowPhase::kWide;
}

// Whether an item may join the nest of a product (or another): what runs earlier than its place
// must not change what items before it read.
bool Lowering::MayJoin(const NestItem& item, const std::vector<NestItem>& nest) {
  const NestItem& head = nest[0];
  const bool product = head.kind == NestItem::Kind::kValue && node(head.node).op == Op::kDot &&
                       node(head.node).kind == Node::Kind::kHlo;
  if (item.kind == NestItem::Kind::kValue && companion_[item.node] >= 0 &&
      !(product && companion_[item.node] == head.node)) {
    return false;
  }
  DotFlow w;
  if (!product || !PlanFlow(head.node, &w)) return true;
  const FlowPhase phase = PhaseOf(item, w, nest);
  if (phase == FlowPhase::kNot) return false;
  for (size_t i = 1; i < nest.size(); ++i) {
    if (PhaseOf(nest[i], w, nest) > phase && Conflicts(nest[i], item)) return false;
  }
  return true;
}

// Whether the nest's product flows: the others are small, or have all their rows in one block.
bool Lowering::FlowNest(const std::vector<NestItem>& nest) {
  DotFlow w;
  const NodeId dot = nest[0].node;
  if (!PlanFlow(dot, &w) || Batched(w)) return false;
  for (const NestItem& item : nest) {
    if (item.kind == NestItem::Kind::kValue && companion_[item.node] == dot) return true;
  }
  return w.passes > 1 ? flows_[dot] != 0 : w.p.m_groups() > 32;
}

// The item's tile coordinates at a row position, lane 0.
Coords Lowering::AtRow(const Dims& d, VLayout layout, const Coords& row) {
  Coords at(d.size(), Coord::Const(0));
  size_t r = 0;
  for (int i = 0; i < static_cast<int>(d.size()); ++i) {
    if (i != layout.lane && TileExtent(d, layout, i) > 1) at[i] = row[r++];
  }
  return at;
}

// Lane tiles [from, to) of a row of the reduction's operand; what the passes before made of theirs
// is in memory.
void Lowering::ReduceTiles(const NestItem& item, const Coords& row, int64_t from, int64_t to,
                           bool first, bool last) {
  const NodeId id = item.node, x = node(id).operands[0];
  const AtSource source(&b_, info[id].source);
  const VLayout layout = OperandLayout(x);
  Coords c = AtRow(dims(x), layout, row);
  std::vector<Operand> parts;
  for (int64_t j = from; j < to; ++j) {
    c[layout.lane] = Coord::Const(j);
    parts.push_back(ReducePart(id, c));
  }
  const Op reducer = node(id).reducer;
  while (parts.size() > 1) {
    std::vector<Operand> next;
    for (size_t i = 0; i < parts.size(); i += 2) {
      next.push_back(i + 1 < parts.size() ? Combine(reducer, Type::kF32, parts[i], parts[i + 1], id)
                                          : parts[i]);
    }
    parts = std::move(next);
  }
  if (failed_) return;
  Dims d = dims(x);
  d[layout.lane] = kLanes;
  c[layout.lane] = Coord::Const(0);
  std::vector<Start> none(d.size());
  Operand v = b_.AsReg(parts[0]);
  if (!first) {
    v = Combine(reducer, Type::kF32, LoadTile(partial_.at(id), none, d, layout, c, id), v, id);
    ++f->info.temp_loads;
  }
  if (!last) {
    StoreTile(partial_.at(id), none, d, layout, c, v, id);
    ++f->info.temp_stores;
    return;
  }
  Remember({id, info[id].natural, AtRow(dims(id), info[id].natural, row)}, FinishReduce(id, v));
  EmitItemRow(item, row);
}

// Strips in a trip: so many that each trip pushes an equal part of the next pass's weights, if
// there is such a number.
int64_t Lowering::StripsInBody(const DotFlow& w) {
  const int64_t strips = w.p.m_groups(), step = w.pairs ? 2 * w.copies : w.copies;
  // Reductions' latencies come on top of the product's where a loop starts and ends.
  bool reduces = !w.rows.empty();
  for (const NestItem& item : w.others) {
    reduces |= item.kind == NestItem::Kind::kValue && LaneReduce(item.node);
  }
  const int64_t most = reduces ? 2 * kFlatStrips : kFlatStrips;
  if (strips <= most && (w.passes <= 2 || strips * w.passes <= kFlatStrips)) return strips;
  for (int64_t b : {kBody, 2 * kBody, kBody / 2, int64_t{1}}) {
    if (b % step == 0 && strips % b == 0 && kTileGroups % (strips / b) == 0) return b;
  }
  for (int64_t b = kBody; b >= step; b -= step) {
    if (b % step == 0 && strips % b == 0) return b;
  }
  return kBody;
}

// The groups of weights of a pass that unit `u` takes.
FlowWeights Lowering::WeightsOf(const DotFlow& w, int64_t pass, int u) {
  const int64_t side = chip.mxu_size, set = u % (w.sets_k * w.sets_n);
  FlowWeights x;
  x.k0 = (set % w.sets_k + (w.over_k ? pass * w.sets_k : 0)) * side;
  x.n0 = w.n_first + (set / w.sets_k + (w.over_k ? 0 : pass * w.sets_n)) * side;
  x.k_left = std::min(side, w.p.k - x.k0);
  x.n_left = std::min(side, (w.n_end > 0 ? w.n_end : w.p.n) - x.n0);
  return x;
}

// Pushes part `trip` of `trips` of a pass's weights (one trip: all of them), last groups first.
void Lowering::PushPass(const DotFlow& w, const DotAt& at, int64_t pass, Coord trip,
                        int64_t trips) {
  const int units = w.copies * w.sets_k * w.sets_n;
  const int64_t parts = trips == 1 ? kTileGroups : kTileGroups / trips;
  for (int64_t part = 0; part < parts; ++part) {
    for (int half = 1; half >= 0; --half) {
      for (int u = 0; u < units; ++u) {
        const FlowWeights x = WeightsOf(w, pass, u);
        if (x.k_left <= 0 || x.n_left <= 0) continue;
        if ((w.pairs || w.diagonal) && half == 1) continue;
        const int64_t groups = CeilDiv(w.p.xpose ? x.n_left : x.k_left, kSublanes);
        const int64_t here = std::min(kTileGroups, groups - half * kTileGroups);
        if (here <= 0) continue;
        Coord g = Coord::Const(kTileGroups - 1 - part);
        if (trips > 1) {
          g = trip * -parts;
          g.c += kTileGroups - 1 - part;
        } else if (g.c >= here) {
          continue;
        }
        PushGroup(w.p, at, Coord::Const(x.k0 / kLanes), Coord::Const(x.n0 / kLanes), x.k_left,
                  x.n_left, w.pairs, u, w.diagonal ? kBothHalves : half, g);
      }
    }
  }
}

// Whether the pass's weights can be pushed in equal parts by so many trips.
bool Lowering::EvenPushes(const DotFlow& w, int64_t pass, int64_t trips) {
  if (trips < 1 || kTileGroups % trips != 0) return false;
  // Rows that a loop counts are read from memory as they lie there.
  const NodeId rhs = w.p.rhs;
  if (!Serves(info[rhs].natural, w.p.rhs_layout, dims(rhs))) return false;
  if (node(rhs).kind == Node::Kind::kLoad && !info[rhs].ready) {
    const MemForm& form = refs[node(rhs).ref].view.form;
    const int64_t groups = form.tile_sub / kSublanes;
    if (form.flat || groups == 0) return false;
    if (form.lane_tiles > 1 && kTileGroups / trips % groups != 0) return false;
  } else if (!info[rhs].ready) {
    return false;
  }
  for (int u = 0; u < w.copies * w.sets_k * w.sets_n; ++u) {
    const FlowWeights x = WeightsOf(w, pass, u);
    if (x.k_left <= 0 || x.n_left <= 0) continue;
    if ((w.p.xpose ? x.n_left : x.k_left) % kLanes != 0) return false;
  }
  return true;
}

// Only what is dear, of the nest itself, or alike for all rows stays in registers until a strip's
// results come: a load costs less than a register for 200 cycles.
void Lowering::ForgetCheap(const std::vector<char>& carried) {
  auto& memo = scopes[depth].memo;
  for (auto it = memo.begin(); it != memo.end();) {
    const Key& key = it->first;
    bool keep = key.what < 0;
    if (!keep) {
      const NodeInfo& i = info[key.what];
      const bool in_memory = i.ready || node(key.what).kind == Node::Kind::kLoad;
      keep = carried[key.what] || i.scalar || (!in_memory && cost_[key.what] >= kCheap) ||
             (key.layout.sub >= 0 && (i.alike >> key.layout.sub & 1));
    }
    auto here = it++;
    if (!keep) memo.erase(here);
  }
}

// `count` strips of a pass from `first` on: matmuls of all, then what is made of their results.
void Lowering::FlowStrips(const DotFlow& w, const DotAt& at, int64_t pass, Coord first,
                          int64_t count, bool latch) {
  const DotPlan& p = w.p;
  const NodeId dot = w.dot;
  const int tiles = chip.mxu_tiles(), sets = w.sets_k * w.sets_n;
  const size_t rank = dims(dot).size();
  const VLayout layout = info[dot].natural;
  const bool last = pass + 1 == w.passes;
  const std::vector<Start> none(rank);
  auto row_of = [&](Coord m) {
    const Coords full = p.ResultAt(at, m, Coord::Const(0), rank);
    Coords row;
    for (int d = 0; d < static_cast<int>(rank); ++d) {
      if (d != layout.lane && TileExtent(dims(dot), layout, d) > 1) row.push_back(full[d]);
    }
    return row;
  };
  struct Token {
    Reg t;
    int unit;
  };
  std::vector<std::vector<Token>> tokens(count);
  std::vector<char> latched(w.copies * sets, latch ? 0 : 1);
  const int64_t k_tiles = CeilDiv(p.k, kLanes);
  const int64_t from_k = w.over_k ? pass * w.sets_k * tiles : 0;
  const int64_t to_k = w.over_k ? std::min(k_tiles, from_k + w.sets_k * tiles) : k_tiles;
  const int64_t n_tiles = CeilDiv(w.n_end > 0 ? w.n_end : p.n, kLanes);
  const int64_t n0 = w.n_first / kLanes + (w.over_k ? 0 : pass * w.sets_n * tiles);
  const int64_t n1 = w.over_k ? n_tiles : std::min(n_tiles, n0 + w.sets_n * tiles);
  const int64_t step = w.pairs ? 2 : 1;
  int turn = 0;
  // Strips [i, i + step): their matmuls.
  auto multiply = [&](int64_t i) {
    const Coord m = first + i;
    const int unit0 = turn++ % w.copies * sets;
    for (int u = unit0; u < unit0 + sets; ++u) {
      const FlowWeights x = WeightsOf(w, pass, u);
      if (x.k_left <= 0 || x.n_left <= 0) continue;
      const int64_t kt = x.k0 / kLanes;
      const bool has = w.pairs ? i + 1 < count : w.diagonal || x.k_left > kLanes;
      const Operand low = Row(p, at, m, Coord::Const(kt));
      Operand high = low;
      if (has && !w.diagonal) {
        high = w.pairs ? Row(p, at, m + 1, Coord::Const(0)) : Row(p, at, m, Coord::Const(kt + 1));
      }
      const int64_t low_lanes = std::min(kLanes, x.k_left);
      const int64_t high_lanes = w.pairs || w.diagonal ? low_lanes : x.k_left - kLanes;
      const Reg t = Multiply(low, low_lanes, high, has, high_lanes, latched[u] == 0, u);
      latched[u] = 1;
      tokens[i].push_back({t, u});
    }
    for (int64_t j = i; j < std::min(count, i + step); ++j) {
      for (const NestItem& item : w.rows) {
        ReduceTiles(item, row_of(first + j), from_k, to_k, pass == 0, last);
      }
    }
  };
  std::vector<std::vector<Operand>> results(count, std::vector<Operand>(n1 - n0));
  // What is made of the results of strip i.
  auto finish = [&](int64_t i) {
    const Coord m = first + i;
    const Coords row = row_of(m);
    if (!w.pairs || i % 2 == 0) {
      std::vector<std::vector<char>> filled(2, std::vector<char>(n1 - n0, 0));
      for (const Token& t : tokens[i]) {
        const int64_t nt = WeightsOf(w, pass, t.unit).n0 / kLanes - n0;
        for (int h = 0; h < tiles; ++h) {
          const Operand v = b_.Op(Opcode::kVpopMrf, {t.t}, t.unit);
          const int64_t strip = w.pairs ? i + h : i, tile = w.pairs ? nt : nt + h;
          if (strip >= count || tile >= n1 - n0) continue;
          char& have = filled[strip - i][tile];
          results[strip][tile] = have ? Add(results[strip][tile], v) : v;
          have = 1;
        }
      }
    }
    for (int64_t j = n0; j < n1; ++j) {
      const Coords c = p.ResultAt(at, m, Coord::Const(j), rank);
      Operand v = results[i][j - n0];
      const bool alone = w.over_k && w.others.empty();  // its place is all it is for
      if (w.over_k && (pass > 0 || w.adds)) {
        v = Add(LoadTile(partial_.at(dot), none, dims(dot), layout, c, dot), v);
        ++f->info.temp_loads;
      }
      if ((w.over_k && !last) || alone) {
        StoreTile(partial_.at(dot), none, dims(dot), layout, c, v, dot);
        ++f->info.temp_stores;
        continue;
      }
      Remember({dot, layout, c}, RoundTo(type(dot), v));
    }
    if (w.over_k && (!last || w.others.empty())) return;
    if (w.passes == 1 || w.over_k) {
      for (const NestItem& item : w.others) EmitItemRow(item, row);
      return;
    }
    for (size_t o = 0; o < w.others.size(); ++o) {
      const NestItem& item = w.others[o];
      if (w.phases[o] == FlowPhase::kWide) {
        if (item.kind == NestItem::Kind::kValue && LaneReduce(item.node)) {
          ReduceTiles(item, row, n0, n1, pass == 0, last);
          continue;
        }
        Coords c = AtRow(dims(ValueOf(item)), item.layout, row);
        for (int64_t j = n0; j < n1; ++j) {
          c[item.layout.lane] = Coord::Const(j);
          EmitItemTile(item, c);
        }
      } else if (last) {
        EmitItemRow(item, row);
      }
    }
  };
  // A body of many strips is in the order of a pipeline: results `ahead` strips after their
  // matmuls, which take that long.
  const int64_t ahead = count > kInFlight ? kInFlight : count;
  for (int64_t i = 0; i < count + ahead && !failed_; i += step) {
    if (i < count) multiply(i);
    if (i < ahead) continue;
    if (i == ahead || ahead < count) ForgetCheap(w.carried);
    late_iota_ = first.loop;
    for (int64_t j = i - ahead; j < std::min(count, i - ahead + step) && !failed_; ++j) finish(j);
    late_iota_ = -1;
  }
}

void Lowering::EmitFlow(const DotFlow& w, const DotAt& at) {
  const int64_t strips = w.p.m_groups(), body = w.body;
  const int64_t trips = body >= strips ? 1 : strips / body;
  for (int64_t pass = 0; pass < w.passes && !failed_; ++pass) {
    if (pass == 0 || trips == 1 || !EvenPushes(w, pass, trips)) {
      PushPass(w, at, pass, Coord::Const(0), 1);
    }
    if (trips == 1) {
      FlowStrips(w, at, pass, Coord::Const(0), strips, true);
      continue;
    }
    const bool early = pass + 1 < w.passes && EvenPushes(w, pass + 1, trips);
    EmitLoop(
        trips, 1,
        [&](int loop) {
          const int16_t l = static_cast<int16_t>(loop);
          FlowStrips(w, at, pass, {l, static_cast<int32_t>(body), 0}, body, false);
          if (early) PushPass(w, at, pass + 1, {l, 1, 0}, trips);
        },
        true);
    if (trips * body < strips) {
      FlowStrips(w, at, pass, Coord::Const(trips * body), strips - trips * body, false);
    }
  }
}

// A product of many passes over K, an MXU's side of columns on each unit at a time: rows enough
// that the trips' latencies at the ends of a pass are little of it.
bool Lowering::FlowColumns(NodeId dot, const DotPlan& p, const DotAt& at) {
  constexpr int64_t kManyStrips = 160;
  const int mxus = std::max(1, chip.mxus);
  if (p.m_groups() < kManyStrips) return false;
  partial_[dot] = info[dot].view;
  const int64_t side = chip.mxu_size, chunk = side * mxus;
  for (int64_t n = 0; n < p.n && !failed_; n += chunk) {
    DotFlow w;
    w.dot = dot;
    w.p = p;
    w.over_k = true;
    w.n_first = n;
    w.n_end = std::min(p.n, n + chunk);
    w.sets_n = static_cast<int>(CeilDiv(w.n_end - n, side));
    w.sets_k = mxus / w.sets_n;
    w.passes = CeilDiv(CeilDiv(p.k, side), w.sets_k);
    w.adds = adds_to_place_ == dot;
    w.body = StripsInBody(w);
    w.carried.assign(k.nodes.size(), 0);
    EmitFlow(w, at);
  }
  return true;
}

void Lowering::EmitFlowNest(const std::vector<NestItem>& nest) {
  DotFlow w;
  const NodeId dot = nest[0].node;
  if (!PlanFlow(dot, &w) || !CheckPrecision(dot)) return;
  const AtSource source(&b_, info[dot].source);
  w.pairs = chip.mxu_tiles() > 1 && w.passes == 1 && w.p.k <= kLanes && w.p.n <= kLanes &&
            w.p.m_groups() > 1;
  if (w.pairs) {
    w.copies =
        static_cast<int>(std::min<int64_t>(std::max(1, chip.mxus), CeilDiv(w.p.m_groups(), 2)));
  }
  w.diagonal = chip.mxu_tiles() > 1 && w.p.xpose && !w.pairs && w.p.k <= kLanes &&
               w.p.n % chip.mxu_size == 0;
  w.carried.assign(k.nodes.size(), 0);
  for (const NestItem& item : nest) {
    if (item.kind == NestItem::Kind::kValue) w.carried[item.node] = 1;
    const FlowPhase phase = item.node == dot ? FlowPhase::kWide : PhaseOf(item, w, nest);
    if (phase == FlowPhase::kRows) {
      w.rows.push_back(item);
    } else {
      w.others.push_back(item);
      w.phases.push_back(phase);
    }
    const bool reduce = item.kind == NestItem::Kind::kValue && LaneReduce(item.node);
    if (reduce && w.passes > 1 && phase != FlowPhase::kLate) {
      const NodeId x = node(item.node).operands[0];
      Dims d = dims(x);
      d[OperandLayout(x).lane] = kLanes;
      partial_[item.node] =
          NewTemporary(absl::StrCat("partial.", item.node), TemporaryForm(d, OperandLayout(x)));
    }
  }
  w.body = StripsInBody(w);
  if (w.over_k && w.passes > 1) {
    partial_[dot] = info[dot].mat ? info[dot].view
                                  : NewTemporary(absl::StrCat("sum.", dot),
                                                 TemporaryForm(dims(dot), info[dot].natural));
  }
  Space outer;
  for (size_t i = 0; i < w.p.lhs_batch.size(); ++i) outer.extents.push_back(dims(dot)[i]);
  for (int d : w.p.result_free) outer.extents.push_back(dims(dot)[d]);
  outer.steps.assign(outer.extents.size(), 1);
  outer.peel.assign(outer.extents.size(), 0);
  outer.unroll = outer.flat_limit = 1;
  ForTiles(outer, [&](const Coords& c) {
    DotAt at;
    at.batch.assign(c.begin(), c.begin() + w.p.lhs_batch.size());
    at.free.assign(c.begin() + w.p.lhs_batch.size(), c.end());
    EmitFlow(w, at);
  });
}

}  // namespace tpuc::lower
