// Loops of LLO: a counted loop with its scope, and iteration over the registers of a block value,
// unrolled where that is small, else in nested loops whose innermost body covers several registers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

void Lowering::EmitLoop(int64_t trips, int64_t step, const std::function<void(int loop)>& body,
                        bool latch) {
  if (trips <= 0 || failed_) return;
  int loop = static_cast<int>(loops.size());
  loops.push_back({f->New(RegClass::kScalar)});
  Reg counter = loops[loop].counter;
  b_.Into(counter, Opcode::kSmov, {Imm(0)});
  int preheader = b_.block();
  int64_t outer_trips = f->blocks[preheader].trips;
  bool in_grid = f->blocks[preheader].in_grid_loop;
  int first =
      NewBlock(absl::StrCat("loop", loop), outer_trips < 0 ? -1 : outer_trips * trips, in_grid);
  PushScope(loop);
  scopes.back().preheader = preheader;
  body(loop);
  PopScope();
  if (loops[loop].second.valid()) {
    b_.Into(loops[loop].second, Opcode::kSadd, {loops[loop].second, Imm(step)});
  }
  b_.Into(counter, Opcode::kSadd, {counter, Imm(step)});
  Reg more = b_.Op(Opcode::kScmpLt, {counter, Imm(trips * step)});
  b_.Branch(first, more, false);
  llo::Loop l;
  l.first = first;
  l.last = b_.block();
  l.trips = trips;
  l.latch = latch;
  f->loops.push_back(l);
  NewBlock(absl::StrCat("after", loop), outer_trips, in_grid);
}

int Lowering::NewBlock(std::string label, int64_t trips, bool in_grid) {
  int block = b_.NewBlock(std::move(label));
  f->blocks[block].trips = trips;
  f->blocks[block].in_grid_loop = in_grid;
  return block;
}

Lowering::Space Lowering::SpaceOf(const Dims& dims, VLayout layout) const {
  Space s;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    s.extents.push_back(TileExtent(dims, layout, d));
    s.steps.push_back(1);
    bool ragged = layout.dense() && d == layout.lane && CeilDiv(dims[d], kLanes) % kSublanes != 0;
    s.peel.push_back(ragged);
  }
  return s;
}

// Small dimensions go into the body and the largest becomes the innermost loop: every run of an
// inner loop costs its latencies once.
std::vector<size_t> Lowering::LoopOrder(const Space& space, size_t* loops_end) {
  size_t rank = space.extents.size();
  std::vector<size_t> order(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = d;
  *loops_end = rank;
  auto count = [&](size_t d) { return CeilDiv(space.extents[d], space.steps[d]); };
  int64_t bodies = 1, inside = 1;
  for (size_t d = 0; d < rank; ++d) bodies *= count(d);
  if (space.inner == 0 || bodies <= space.flat_limit) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return count(a) < count(b); });
  size_t small = 0;
  while (small + 1 < rank && inside * count(order[small]) <= space.inner) {
    inside *= count(order[small++]);
  }
  std::rotate(order.begin(), order.begin() + small, order.end());
  *loops_end = rank - small;
  std::sort(order.begin() + *loops_end, order.end());
  return order;
}

void Lowering::ForTiles(const Space& space, const std::function<void(const Coords&)>& body) {
  TileWalk walk{space, {}, 0, Coords(space.extents.size(), Coord::Const(0)), body};
  walk.order = LoopOrder(space, &walk.loops_end);
  for (int64_t e : space.extents) {
    if (e == 0) return;
  }
  ForTilesFrom(0, &walk);
}

void Lowering::ForTilesFrom(size_t depth, TileWalk* walk) {
  if (failed_) return;
  const Space& space = walk->space;
  if (depth == space.extents.size()) {
    walk->body(walk->at);
    return;
  }
  size_t d = walk->order[depth];
  Coord& at = walk->at[d];
  int64_t step = space.steps[d], n = CeilDiv(space.extents[d], step);
  int64_t rest = 1;  // bodies inside this dimension
  for (size_t j = depth + 1; j < space.extents.size(); ++j) {
    rest *= CeilDiv(space.extents[walk->order[j]], space.steps[walk->order[j]]);
  }
  if (n == 1 || n * rest <= space.flat_limit || depth >= walk->loops_end) {
    for (int64_t i = 0; i < n; ++i) {
      at = Coord::Const(i * step);
      ForTilesFrom(depth + 1, walk);
    }
    return;
  }
  int64_t unroll = std::max<int64_t>(1, space.unroll / rest);
  int64_t whole = n;
  if (space.peel[d] || space.extents[d] % step != 0) --whole;
  if (unroll > 1 && whole % unroll != 0) {  // an even split where there is one near
    for (int64_t u = unroll; u * 2 > unroll; --u) {
      if (whole % u == 0) {
        unroll = u;
        break;
      }
    }
  }
  int64_t trips = whole / unroll;
  if (trips <= 1) {
    trips = 0;
  } else {
    EmitLoop(trips, unroll, [&](int loop) {
      for (int64_t u = 0; u < unroll; ++u) {
        at = {static_cast<int16_t>(loop), static_cast<int32_t>(step), u * step};
        ForTilesFrom(depth + 1, walk);
      }
    });
  }
  for (int64_t i = trips * unroll; i < n; ++i) {
    at = Coord::Const(i * step);
    ForTilesFrom(depth + 1, walk);
  }
}

}  // namespace tpuc::lower
