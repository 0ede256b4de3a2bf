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
constexpr int64_t kBlockRows = 128;     // row groups multiplied in one block
constexpr int64_t kLoopRows = 64;       // .. in a loop body
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
// latch and a loop for the rest.
void Lowering::RowBlocks(int64_t groups, int64_t step,
                         const std::function<void(Coord first, int64_t count, bool latch)>& rows) {
  if (groups <= kBlockRows) {
    rows(Coord::Const(0), groups, true);
    return;
  }
  int64_t body = kLoopRows / step * step;
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
  RowBlocks(p.m_groups(), 2 * units, [&](Coord first, int64_t count, bool latch_first) {
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
          q.tokens.push_back(
              multiply(u, row(m, k0 / kLanes), std::min(kLanes, left), high, has, left - kLanes));
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

// One pass of a multi-pass product: weights of unit u at K pair `kp` and N pair np + u.
void Lowering::PassRows(NodeId dot, const DotPlan& p, const DotAt& at, Coord kp, int64_t k_left,
                        Coord np, absl::Span<const int64_t> n_left, bool split, bool first) {
  int units = split ? static_cast<int>(std::min<int64_t>(std::max(1, chip.mxus), p.m_groups()))
                    : static_cast<int>(n_left.size());
  for (int u = 0; u < units; ++u) {
    Push(p, at, kp * 2, (split ? np : np + u) * 2, k_left, n_left[split ? 0 : u], false, u);
  }
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
  RowBlocks(p.m_groups(), 2, [&](Coord row0, int64_t count, bool latch_first) {
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
    for (int64_t i = 0; i < count && !failed_; ++i) {
      Coord m = row0 + i;
      bool has = k_left > kLanes;
      Operand high = has ? Row(p, at, m, kp * 2 + 1) : Operand();
      Operand low = Row(p, at, m, kp * 2);
      for (int u = 0; u < units; ++u) {
        if (split && i % units != u) continue;
        bool latch = latch_first && i == (split ? u : 0);
        flight.push_back(
            {Multiply(low, std::min(kLanes, k_left), high, has, k_left - kLanes, latch, u), u, m});
      }
      while (flight.size() > kInFlight * units) pop();
    }
    while (!flight.empty()) pop();
  });
}

void Lowering::PassesOverK(NodeId dot, const DotPlan& p, const DotAt& at, Coord np,
                           absl::Span<const int64_t> n_left, bool split) {
  int64_t pairs = CeilDiv(p.k, kTile2);
  auto left = [&](int64_t kp) { return std::min(kTile2, p.k - kp * kTile2); };
  PassRows(dot, p, at, Coord::Const(0), left(0), np, n_left, split, true);
  int64_t full = pairs - 1 - (p.k % kTile2 != 0);  // further whole passes
  if (full > 1) {
    EmitLoop(full, 1, [&](int loop) {
      PassRows(dot, p, at, {static_cast<int16_t>(loop), 1, 1}, kTile2, np, n_left, split, false);
    });
  } else if (full == 1) {
    PassRows(dot, p, at, Coord::Const(1), kTile2, np, n_left, split, false);
  }
  if (pairs > 1 && p.k % kTile2 != 0) {
    PassRows(dot, p, at, Coord::Const(pairs - 1), left(pairs - 1), np, n_left, split, false);
  }
}

void Lowering::MultiPassDot(NodeId dot, const DotPlan& p, const DotAt& at) {
  int64_t units = std::max(1, chip.mxus);
  int64_t pairs = CeilDiv(p.n, kTile2);
  int64_t whole_pairs = p.n / kTile2;
  int64_t sets = whole_pairs / units;
  std::vector<int64_t> full(units, kTile2);
  if (sets > 1) {
    EmitLoop(sets, units, [&](int loop) {
      PassesOverK(dot, p, at, {static_cast<int16_t>(loop), 1, 0}, full, false);
    });
  } else if (sets == 1) {
    PassesOverK(dot, p, at, Coord::Const(0), full, false);
  }
  int64_t done = sets * units;
  if (pairs - done == units && units > 1) {
    for (int64_t u = 0; u < units; ++u) full[u] = std::min(kTile2, p.n - (done + u) * kTile2);
    PassesOverK(dot, p, at, Coord::Const(done), full, false);
    return;
  }
  for (int64_t np = done; np < pairs; ++np) {
    int64_t one[] = {std::min(kTile2, p.n - np * kTile2)};
    PassesOverK(dot, p, at, Coord::Const(np), one, units > 1 && p.m_groups() > 1);
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
