// Loop nests of large matrix products.
//
// Driven: all weights of the product fit the MXUs at once (on two of 256: N <= 512, K <= 256, or
// N <= 256, K <= 512). They are pushed once; row groups follow, and what the nest computes from
// each result row is emitted as soon as it is popped. Multi-pass: for each set of N and of K as
// large as an MXU the weights are pushed, all rows multiplied, and the results added up in a
// temporary.
#include <algorithm>
#include <array>
#include <deque>

#include "backend/lower/lowering.h"
#include "backend/lower/nests.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kLoopResults = 512;  // popped in a loop body, over all units
constexpr int64_t kDrivenRows = 64;    // row groups in the body of a driven product
constexpr size_t kInFlight = 44;       // matmuls ahead of their pops, in program order

}  // namespace

bool Lowering::DotDrives(const NestItem& item) {
  if (item.kind != NestItem::Kind::kValue || node(item.node).op != Op::kDot ||
      node(item.node).kind != Node::Kind::kHlo) {
    return false;
  }
  DotPlan p;
  if (!PlanDot(item.node, &p)) return false;
  return CeilDiv(p.k, chip.mxu_size) * CeilDiv(p.n, chip.mxu_size) <= std::max(1, chip.mxus);
}

bool Lowering::Streams(const NestItem& item) {
  return DotDrives(item) || (item.kind == NestItem::Kind::kValue && flows_[item.node]);
}

// Calls `rows(first, count, latch)` for blocks of row groups: one block, or a first one with the
// latch and a loop for the rest. Results of a block are popped within it: a block of `body` groups
// is long against the latency of the last one.
void Lowering::RowBlocks(int64_t groups, int64_t step, int64_t body,
                         const std::function<void(Coord first, int64_t count, bool latch)>& rows) {
  body = body / step * step;
  if (groups <= body + body / 2) {
    rows(Coord::Const(0), groups, true);
    return;
  }
  // Equal blocks where there are some not much smaller.
  for (int64_t b = body; b * 2 > body; b -= step) {
    if (groups % b == 0) {
      body = b;
      break;
    }
  }
  rows(Coord::Const(0), body, true);
  int64_t trips = (groups - body) / body;
  if (trips > 0) {
    EmitLoop(trips, body, [&](int loop) {
      rows({static_cast<int16_t>(loop), 1, body}, body, false);
    });
  }
  int64_t done = body * (1 + trips);
  if (done < groups) rows(Coord::Const(done), groups - done, false);
}

namespace {

using Results = std::array<Reg, 2>;  // of one matmul; the first alone where an MXU is one tile wide

struct InFlight {
  std::vector<std::pair<Reg, int>> tokens;  // and units, in order of issue
  std::function<void(const std::vector<Results>&)> done;
};

}  // namespace

// Each set of weights, as large as an MXU, has a unit; where units are left over, further copies of
// all sets take rows in turn.
void Lowering::DriveRows(NodeId dot, const DotPlan& p, const DotAt& at,
                         const std::function<void(const Coords& row)>& emit) {
  const int tiles = chip.mxu_tiles();
  const int64_t side = chip.mxu_size;
  const int k_sets = static_cast<int>(CeilDiv(p.k, side));
  const int sets = k_sets * static_cast<int>(CeilDiv(p.n, side));
  const int64_t n_tiles = CeilDiv(p.n, kLanes);
  // One tile of weights in both halves of an MXU takes two row groups at once.
  const bool pairs = tiles > 1 && p.k <= kLanes && p.n <= kLanes && p.m_groups() > 1;
  // Weights that no matmul latches would stay staged.
  const int copies = static_cast<int>(std::min<int64_t>(
      std::max(1, chip.mxus) / sets, pairs ? CeilDiv(p.m_groups(), 2) : p.m_groups()));
  const int units = copies * sets;
  auto k_of = [&](int u) { return u % sets % k_sets * side; };
  auto n_of = [&](int u) { return u % sets / k_sets * side; };
  for (int u = 0; u < units; ++u) {
    Push(p, at, Coord::Const(k_of(u) / kLanes), Coord::Const(n_of(u) / kLanes),
         std::min(side, p.k - k_of(u)), std::min(side, p.n - n_of(u)), pairs, u);
  }
  size_t rank = dims(dot).size();
  VLayout layout = info[dot].natural;
  auto finish = [&](Coord m, int64_t nt, Operand v) {
    Remember({dot, layout, p.ResultAt(at, m, Coord::Const(nt), rank)}, RoundTo(type(dot), v));
  };
  auto row = [&](Coord m, int64_t kt) { return Row(p, at, m, Coord::Const(kt)); };
  auto row_coords = [&](Coord m) { return p.ResultAt(at, m, Coord::Const(0), rank); };
  RowBlocks(p.m_groups(), 2 * units, kDrivenRows, [&](Coord first, int64_t count, bool latches) {
    std::deque<InFlight> flight;
    auto pop = [&] {
      InFlight q = std::move(flight.front());
      flight.pop_front();
      std::vector<Results> v(q.tokens.size());
      for (size_t j = 0; j < v.size(); ++j) {
        auto [t, u] = q.tokens[j];
        for (int h = 0; h < tiles; ++h) v[j][h] = b_.Op(Opcode::kVpopMrf, {t}, u);
      }
      q.done(v);
    };
    std::vector<char> latch(units, latches ? 1 : 0);
    auto multiply = [&](int u, Operand low, int64_t ll, Operand high, bool has, int64_t hl) {
      Reg t = Multiply(low, ll, high, has, hl, latch[u] != 0, u);
      latch[u] = 0;
      return std::make_pair(t, u);
    };
    int turn = 0;
    for (int64_t i = 0; i < count && !failed_;) {
      Coord m = first + i;
      InFlight q;
      const int from = turn++ % copies * sets;
      if (pairs) {
        bool pair = i + 1 < count;
        Operand second = pair ? row(m + 1, 0) : Operand();
        q.tokens.push_back(multiply(from, row(m, 0), p.k, second, pair, p.k));
        q.done = [&, m, pair](const std::vector<Results>& v) {
          finish(m, 0, v[0][0]);
          emit(row_coords(m));
          if (!pair) return;
          finish(m + 1, 0, v[0][1]);
          emit(row_coords(m + 1));
        };
        i += pair ? 2 : 1;
      } else {
        for (int u = from; u < from + sets; ++u) {
          int64_t k0 = k_of(u), left = std::min(side, p.k - k0);
          bool has = left > kLanes;
          Operand high = has ? row(m, k0 / kLanes + 1) : Operand();
          q.tokens.push_back(
              multiply(u, row(m, k0 / kLanes), std::min(kLanes, left), high, has, left - kLanes));
        }
        q.done = [&, m](const std::vector<Results>& v) {
          std::vector<Operand> r(n_tiles);
          for (int j = 0; j < sets; ++j) {
            const int64_t nt = n_of(j) / kLanes;
            for (int h = 0; h < tiles && nt + h < n_tiles; ++h) {
              r[nt + h] = k_of(j) > 0 ? Add(r[nt + h], v[j][h]) : Operand(v[j][h]);
            }
          }
          for (int64_t nt = 0; nt < n_tiles; ++nt) finish(m, nt, r[nt]);
          emit(row_coords(m));
        };
        ++i;
      }
      flight.push_back(std::move(q));
      while (flight.size() > kInFlight) pop();
    }
    while (!flight.empty()) pop();
  });
}

// Weights of one pass, in the order of their pushes: unit u gets those of side np + u of N, or all
// the same ones where rows are split.
std::vector<std::function<void()>> Lowering::PushesOf(const DotPlan& p, const DotAt& at,
                                                      const DotPass& pass,
                                                      const DotColumns& columns) {
  constexpr int64_t kTileGroups = kLanes / kSublanes;
  std::vector<std::function<void()>> pushes;
  const int tiles = chip.mxu_tiles();
  for (int64_t group = chip.mxu_size / kSublanes; group-- > 0;) {
    for (int u = 0; u < columns.units; ++u) {
      const int64_t n_left = columns.n_left[columns.split ? 0 : u];
      if (group >= CeilDiv(p.xpose ? n_left : pass.k_left, kSublanes)) continue;
      const Coord n0 = (columns.split ? columns.np : columns.np + u) * tiles;
      pushes.push_back([this, &p, &at, pass, n0, n_left, u, group, tiles] {
        PushGroup(p, at, pass.kp * tiles, n0, pass.k_left, n_left, false, u,
                  static_cast<int>(group / kTileGroups), Coord::Const(group % kTileGroups));
      });
    }
  }
  return pushes;
}

// One pass of a multi-pass product, whose weights are staged; those of the next follow as soon as
// these are latched.
void Lowering::PassRows(NodeId dot, const DotPlan& p, const DotAt& at, const DotPass& pass,
                        const DotColumns& columns, bool first, const DotPass* next) {
  const int units = columns.units, tiles = chip.mxu_tiles();
  const bool split = columns.split;
  const Coord np = columns.np;
  const std::vector<int64_t>& n_left = columns.n_left;
  const int64_t k_left = pass.k_left;
  size_t rank = dims(dot).size();
  VLayout layout = info[dot].natural;
  const MemView& view = info[dot].view;
  std::vector<Start> none(rank);
  auto result = [&](Coord m, int u, int half, Reg v) {
    int64_t left = n_left[split ? 0 : u];
    if (half == 1 && left <= kLanes) return;
    Coords c = p.ResultAt(at, m, (split ? np : np + u) * tiles + half, rank);
    Operand x = v;
    if (!first) x = Add(LoadTile(view, none, dims(dot), layout, c, dot), x);
    StoreTile(view, none, dims(dot), layout, c, x, dot);
  };
  RowBlocks(p.m_groups(), 2, kLoopResults / tiles / (split ? 1 : units),
            [&](Coord row0, int64_t count, bool latch_first) {
              struct Token {
                Reg t;
                int unit;
                Coord m;
              };
              std::deque<Token> flight;
              auto pop = [&] {
                Token q = flight.front();
                flight.pop_front();
                Results r;
                for (int h = 0; h < tiles; ++h) r[h] = b_.Op(Opcode::kVpopMrf, {q.t}, q.unit);
                for (int h = 0; h < tiles; ++h) result(q.m, q.unit, h, r[h]);
              };
              std::vector<std::function<void()>> pushes;
              if (latch_first && next != nullptr) pushes = PushesOf(p, at, *next, columns);
              size_t pushed = 0;
              for (int64_t i = 0; i < count && !failed_; ++i) {
                Coord m = row0 + i;
                bool has = k_left > kLanes;
                Operand high = has ? Row(p, at, m, pass.kp * tiles + 1) : Operand();
                Operand low = Row(p, at, m, pass.kp * tiles);
                for (int u = 0; u < units; ++u) {
                  if (split && i % units != u) continue;
                  bool latch = latch_first && i == (split ? u : 0);
                  flight.push_back({Multiply(low, std::min(kLanes, k_left), high, has,
                                             k_left - kLanes, latch, u),
                                    u, m});
                }
                // Behind the matmuls that latched the weights, spread over half the rows.
                const bool latched = i + 1 >= (split ? units : 1);
                if (latch_first && latched && pushed < pushes.size()) {
                  const size_t rows = std::max<int64_t>(1, count / 2 - i);
                  const size_t more =
                      i + 1 == count ? pushes.size() : (pushes.size() - pushed + rows - 1) / rows;
                  for (size_t e = std::min(pushes.size(), pushed + more); pushed < e; ++pushed)
                    pushes[pushed]();
                }
                while (flight.size() > kInFlight * units) pop();
              }
              while (!flight.empty()) pop();
            });
}

void Lowering::PassesOverK(NodeId dot, const DotPlan& p, const DotAt& at,
                           const DotColumns& columns) {
  const int64_t side = chip.mxu_size, sides = CeilDiv(p.k, side), whole = p.k / side;
  const DotPass rest = {Coord::Const(sides - 1), p.k - whole * side};
  auto full = [&](int64_t kp) { return DotPass{Coord::Const(kp), side}; };
  const DotPass start = whole > 0 ? full(0) : rest, second = whole > 1 ? full(1) : rest;
  for (const auto& push : PushesOf(p, at, start, columns)) push();
  PassRows(dot, p, at, start, columns, adds_to_place_ != dot, sides > 1 ? &second : nullptr);
  const int64_t inner = whole - 2;  // passes after the first, followed by a whole one
  auto pass_before = [&](Coord kp) {
    const DotPass pass = {kp, side}, next = {kp + 1, side};
    PassRows(dot, p, at, pass, columns, false, &next);
  };
  if (inner > 1) {
    EmitLoop(inner, 1, [&](int loop) { pass_before({static_cast<int16_t>(loop), 1, 1}); });
  } else if (inner == 1) {
    pass_before(Coord::Const(1));
  }
  if (whole > 1) {
    PassRows(dot, p, at, full(whole - 1), columns, false, rest.k_left > 0 ? &rest : nullptr);
  }
  if (whole > 0 && rest.k_left > 0) PassRows(dot, p, at, rest, columns, false, nullptr);
}

void Lowering::MultiPassDot(NodeId dot, const DotPlan& p, const DotAt& at) {
  const int units = std::max(1, chip.mxus);
  const int64_t side = chip.mxu_size, sides = CeilDiv(p.n, side);
  const int64_t sets = p.n / side / units;
  auto left = [&](int64_t np) { return std::min(side, p.n - np * side); };
  DotColumns all = {Coord::Const(0), std::vector<int64_t>(units, side), false, units};
  if (sets > 1) {
    EmitLoop(sets, units, [&](int loop) {
      all.np = {static_cast<int16_t>(loop), 1, 0};
      PassesOverK(dot, p, at, all);
    });
  } else if (sets == 1) {
    PassesOverK(dot, p, at, all);
  }
  const int64_t done = sets * units;
  if (sides - done == units && units > 1) {
    all.np = Coord::Const(done);
    for (int u = 0; u < units; ++u) all.n_left[u] = left(done + u);
    PassesOverK(dot, p, at, all);
    return;
  }
  for (int64_t np = done; np < sides; ++np) {
    const bool split = units > 1 && p.m_groups() > 1;
    const int used = split ? static_cast<int>(std::min<int64_t>(units, p.m_groups())) : 1;
    PassesOverK(dot, p, at, {Coord::Const(np), {left(np)}, split, used});
  }
}

void Lowering::EmitDotNest(const std::vector<NestItem>& nest) {
  NodeId dot = nest[0].node;
  DotPlan p;
  if (!PlanDot(dot, &p) || !CheckPrecision(dot)) return;
  const AtSource source(&b_, info[dot].source);
  bool drives = DotDrives(nest[0]);
  // Batches and leading rows: one after another, with the weights pushed for each.
  Space outer;
  for (size_t i = 0; i < p.lhs_batch.size(); ++i) outer.extents.push_back(dims(dot)[i]);
  for (int d : p.result_free) outer.extents.push_back(dims(dot)[d]);
  outer.steps.assign(outer.extents.size(), 1);
  outer.peel.assign(outer.extents.size(), 0);
  outer.unroll = outer.flat_limit = p.m_groups() <= 4 ? 4 : 1;
  ForTiles(outer, [&](const Coords& c) {
    DotAt at;
    at.batch.assign(c.begin(), c.begin() + p.lhs_batch.size());
    at.free.assign(c.begin() + p.lhs_batch.size(), c.end());
    if (!drives) {
      if (!FlowColumns(dot, p, at)) MultiPassDot(dot, p, at);
      return;
    }
    DriveRows(dot, p, at, [&](const Coords& full) {
      Coords row;
      VLayout l = info[dot].natural;
      for (int d = 0; d < static_cast<int>(full.size()); ++d) {
        if (d != l.lane && TileExtent(dims(dot), l, d) > 1) row.push_back(full[d]);
      }
      for (const NestItem& item : nest) EmitItemRow(item, row);
    });
  });
}

}  // namespace tpuc::lower
