// Loop nests of large matrix products.
//
// Driven: all weights of the product fit the MXUs at once (N <= 512, K <= 256, or N <= 256, K <=
// 512 on two units). They are pushed once; row groups follow, and what the nest computes from each
// result row is emitted as soon as it is popped. Multi-pass: for each pair of N tiles and of K
// tiles the weights are pushed, all rows multiplied, and the results added up in a temporary.
#include <algorithm>
#include <deque>

#include "backend/lower/lowering.h"
#include "backend/lower/nests.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kTile2 = 2 * kLanes;  // the array's side
constexpr int64_t kLoopRows = 128;      // row groups of one unit multiplied in a loop body
constexpr size_t kInFlight = 44;        // matmuls ahead of their pops, in program order

}  // namespace

bool Lowering::DotDrives(const NestItem& item) {
  if (item.kind != NestItem::Kind::kValue || node(item.node).op != Op::kDot ||
      node(item.node).kind != Node::Kind::kHlo) {
    return false;
  }
  DotPlan p;
  if (!PlanDot(item.node, &p)) return false;
  int64_t units = std::max(1, chip.mxus);
  return (p.k <= kTile2 && p.n <= kTile2 * units) || (p.n <= kTile2 && p.k <= kTile2 * units);
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

struct InFlight {
  std::vector<std::pair<Reg, int>> tokens;  // and units, in order of issue
  std::function<void(const std::vector<std::pair<Reg, Reg>>&)> done;
};

}  // namespace

void Lowering::DriveRows(NodeId dot, const DotPlan& p, const DotAt& at,
                         const std::function<void(const Coords& row)>& emit) {
  int units = std::max(1, chip.mxus);
  int64_t n_tiles = CeilDiv(p.n, kLanes);
  bool small = p.k <= kLanes && p.n <= kLanes && p.m_groups() > 1;
  bool by_n = p.n > kTile2, by_k = p.k > kTile2;
  // Weights that no matmul latches would stay staged.
  if (!by_n && !by_k)
    units =
        static_cast<int>(std::min<int64_t>(units, small ? CeilDiv(p.m_groups(), 2) : p.m_groups()));
  for (int u = 0; u < units; ++u) {
    int64_t k0 = by_k ? u * kTile2 : 0, n0 = by_n ? u * kTile2 : 0;
    if (k0 >= p.k || n0 >= p.n) break;
    Push(p, at, Coord::Const(k0 / kLanes), Coord::Const(n0 / kLanes), std::min(kTile2, p.k - k0),
         std::min(kTile2, p.n - n0), small, u);
  }
  size_t rank = dims(dot).size();
  VLayout layout = info[dot].natural;
  auto finish = [&](Coord m, int64_t nt, Operand v) {
    Remember({dot, layout, p.ResultAt(at, m, Coord::Const(nt), rank)}, RoundTo(type(dot), v));
  };
  auto row = [&](Coord m, int64_t kt) { return Row(p, at, m, Coord::Const(kt)); };
  auto row_coords = [&](Coord m) { return p.ResultAt(at, m, Coord::Const(0), rank); };
  RowBlocks(
      p.m_groups(), 2 * units, kLoopRows / 2, [&](Coord first, int64_t count, bool latch_first) {
        std::deque<InFlight> flight;
        auto pop = [&] {
          InFlight q = std::move(flight.front());
          flight.pop_front();
          std::vector<std::pair<Reg, Reg>> v;
          for (auto [t, u] : q.tokens) {
            Reg a = b_.Op(Opcode::kVpopMrf, {t}, u);
            v.push_back({a, b_.Op(Opcode::kVpopMrf, {t}, u)});
          }
          q.done(v);
        };
        std::vector<char> latch(units, latch_first ? 1 : 0);
        auto multiply = [&](int u, Operand low, int64_t ll, Operand high, bool has, int64_t hl) {
          Reg t = Multiply(low, ll, high, has, hl, latch[u] != 0, u);
          latch[u] = 0;
          return std::make_pair(t, u);
        };
        int turn = 0;
        for (int64_t i = 0; i < count && !failed_;) {
          Coord m = first + i;
          InFlight q;
          if (small) {
            bool pair = i + 1 < count;
            int u = turn++ % units;
            Operand second = pair ? row(m + 1, 0) : Operand();
            q.tokens.push_back(multiply(u, row(m, 0), p.k, second, pair, p.k));
            q.done = [&, m, pair](const std::vector<std::pair<Reg, Reg>>& v) {
              finish(m, 0, v[0].first);
              emit(row_coords(m));
              if (!pair) return;
              finish(m + 1, 0, v[0].second);
              emit(row_coords(m + 1));
            };
            i += pair ? 2 : 1;
          } else {
            int from = by_n || by_k ? 0 : turn++ % units, to = by_n || by_k ? units : from + 1;
            for (int u = from; u < to; ++u) {
              int64_t k0 = by_k ? u * kTile2 : 0, n0 = by_n ? u * kTile2 : 0;
              if (k0 >= p.k || n0 >= p.n) continue;
              int64_t left = std::min(kTile2, p.k - k0);
              bool has = left > kLanes;
              Operand high = has ? row(m, k0 / kLanes + 1) : Operand();
              q.tokens.push_back(multiply(u, row(m, k0 / kLanes), std::min(kLanes, left), high, has,
                                          left - kLanes));
            }
            q.done = [&, m](const std::vector<std::pair<Reg, Reg>>& v) {
              std::vector<Operand> r(n_tiles);
              for (size_t j = 0; j < v.size(); ++j) {
                int64_t nt = by_n ? 2 * static_cast<int64_t>(j) : 0;
                Reg parts[2] = {v[j].first, v[j].second};
                for (int h = 0; h < 2; ++h) {
                  if (nt + h >= n_tiles) continue;
                  r[nt + h] = by_k && j > 0 ? Add(r[nt + h], parts[h]) : Operand(parts[h]);
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

// Weights of one pass, in the order of their pushes: unit u gets those of N pair np + u, or all the
// same ones where rows are split.
std::vector<std::function<void()>> Lowering::PushesOf(const DotPlan& p, const DotAt& at,
                                                      const DotPass& pass,
                                                      const DotColumns& columns) {
  constexpr int64_t kTileGroups = kLanes / kSublanes;
  std::vector<std::function<void()>> pushes;
  for (int64_t group = kTile2 / kSublanes; group-- > 0;) {
    for (int u = 0; u < columns.units; ++u) {
      const int64_t n_left = columns.n_left[columns.split ? 0 : u];
      if (group >= CeilDiv(p.xpose ? n_left : pass.k_left, kSublanes)) continue;
      const Coord n0 = (columns.split ? columns.np : columns.np + u) * 2;
      pushes.push_back([this, &p, &at, pass, n0, n_left, u, group] {
        PushGroup(p, at, pass.kp * 2, n0, pass.k_left, n_left, false, u,
                  static_cast<int>(group / kTileGroups), group % kTileGroups);
      });
    }
  }
  return pushes;
}

// One pass of a multi-pass product, whose weights are staged; those of the next follow as soon as
// these are latched.
void Lowering::PassRows(NodeId dot, const DotPlan& p, const DotAt& at, const DotPass& pass,
                        const DotColumns& columns, bool first, const DotPass* next) {
  const int units = columns.units;
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
    Coords c = p.ResultAt(at, m, (split ? np : np + u) * 2 + half, rank);
    Operand x = v;
    if (!first) x = Add(LoadTile(view, none, dims(dot), layout, c, dot), x);
    StoreTile(view, none, dims(dot), layout, c, x, dot);
  };
  RowBlocks(p.m_groups(), 2, split ? kLoopRows * units : kLoopRows,
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
                Reg low = b_.Op(Opcode::kVpopMrf, {q.t}, q.unit);
                Reg high = b_.Op(Opcode::kVpopMrf, {q.t}, q.unit);
                result(q.m, q.unit, 0, low);
                result(q.m, q.unit, 1, high);
              };
              std::vector<std::function<void()>> pushes;
              if (latch_first && next != nullptr) pushes = PushesOf(p, at, *next, columns);
              size_t pushed = 0;
              for (int64_t i = 0; i < count && !failed_; ++i) {
                Coord m = row0 + i;
                bool has = k_left > kLanes;
                Operand high = has ? Row(p, at, m, pass.kp * 2 + 1) : Operand();
                Operand low = Row(p, at, m, pass.kp * 2);
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
  const int64_t pairs = CeilDiv(p.k, kTile2), whole = p.k / kTile2;
  const DotPass rest = {Coord::Const(pairs - 1), p.k - whole * kTile2};
  auto full = [](int64_t kp) { return DotPass{Coord::Const(kp), kTile2}; };
  const DotPass start = whole > 0 ? full(0) : rest, second = whole > 1 ? full(1) : rest;
  for (const auto& push : PushesOf(p, at, start, columns)) push();
  PassRows(dot, p, at, start, columns, true, pairs > 1 ? &second : nullptr);
  const int64_t inner = whole - 2;  // passes after the first, followed by a whole one
  auto pass_before = [&](Coord kp) {
    const DotPass pass = {kp, kTile2}, next = {kp + 1, kTile2};
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
  const int64_t pairs = CeilDiv(p.n, kTile2);
  const int64_t sets = p.n / kTile2 / units;
  auto left = [&](int64_t np) { return std::min(kTile2, p.n - np * kTile2); };
  DotColumns all = {Coord::Const(0), std::vector<int64_t>(units, kTile2), false, units};
  if (sets > 1) {
    EmitLoop(sets, units, [&](int loop) {
      all.np = {static_cast<int16_t>(loop), 1, 0};
      PassesOverK(dot, p, at, all);
    });
  } else if (sets == 1) {
    PassesOverK(dot, p, at, all);
  }
  const int64_t done = sets * units;
  if (pairs - done == units && units > 1) {
    all.np = Coord::Const(done);
    for (int u = 0; u < units; ++u) all.n_left[u] = left(done + u);
    PassesOverK(dot, p, at, all);
    return;
  }
  for (int64_t np = done; np < pairs; ++np) {
    const bool split = units > 1 && p.m_groups() > 1;
    const int used = split ? static_cast<int>(std::min<int64_t>(units, p.m_groups())) : 1;
    PassesOverK(dot, p, at, {Coord::Const(np), {left(np)}, split, used});
  }
}

void Lowering::EmitDotNest(const std::vector<NestItem>& nest) {
  NodeId dot = nest[0].node;
  DotPlan p;
  if (!PlanDot(dot, &p) || !CheckPrecision(dot)) return;
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
      MultiPassDot(dot, p, at);
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
