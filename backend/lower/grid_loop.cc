// Grids of more than one step: one rotated loop over the steps, last axis fastest. An input with n
// buffers is copied n - 1 steps ahead (only where its block index changes), the body waits for its
// own windows, and an output window is copied out when its index is about to change.
//
//   start(0 .. n-2); loop { start(s + n - 1) if changed; wait if fresh; body; copy out if last or
//   changed }; drain
//
// The same loop serves the kernel's grid and nested pipelines (LowerPipeline), whose axes and
// windows come on top of those around.
//
// Sync flags of outputs begin with a full block's granules to their credit, so that every reuse of
// a window waits in the same way, whether it was copied out before or not.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/windows.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

// The grid indices of a step.
std::vector<int64_t> PointAt(absl::Span<const kernel::GridAxis> grid, int64_t step) {
  std::vector<int64_t> point(grid.size());
  for (size_t a = grid.size(); a-- > 0;) {
    point[a] = step % grid[a].extent;
    step /= grid[a].extent;
  }
  return point;
}

}  // namespace

// Scalars that live across the steps for one windowed ref.
struct Lowering::Moving {
  int ref = -1;
  bool in = false;
  bool moves = false;  // its index depends on the grid
  int buffers = 1;
  Reg buf;     // which buffer this step reads or writes; invalid: always the first
  Reg filled;  // in: the last buffer that a copy was started for
  Reg fresh;   // in: a copy is under way for this step; out: a new window begins
  int Ahead() const { return in && moves ? buffers - 1 : 0; }  // steps
  Operand Buffer() const { return buf.valid() ? Operand(buf) : Imm(0); }
};

// .. and for the loop.
struct Lowering::GridState {
  // Grid points of the copies that run more than a step ahead.
  struct Lookahead {
    std::vector<Reg> regs;
    std::vector<Operand> point, next;
    Reg more;
  };
  Operand all_steps;
  Reg step;
  std::vector<Moving> moving;
  std::map<int, Lookahead> ahead;  // by distance
  // Which inputs change after this step: one bit each, so that one scalar lives through the body.
  std::vector<int> bit;
  int bits = 0;
  Operand packed = Imm(0);
};

// The grid point after `now`; the predicate of a carry out of an axis feeds the next.
std::vector<Operand> Lowering::NextAxes(const GridLoop& g, absl::Span<const Operand> now) {
  std::vector<Operand> next(now.begin(), now.end());
  Operand carry = Imm(1);
  for (int a = static_cast<int>(g.grid.size()) - 1; a >= 0; --a) {
    if (g.grid[a].extent == 1) continue;
    Operand n = b_.Sadd(now[g.first + a], carry);
    Reg wraps = b_.Op(Opcode::kScmpEq, {n, extents[g.first + a]});
    next[g.first + a] = b_.Select(wraps, Imm(0), n);
    carry = b_.Select(wraps, Imm(1), Imm(0));
  }
  return next;
}

// Whether the block index of ref r differs between two points; invalid: never.
Reg Lowering::IndexChanges(const GridLoop& g, int r, absl::Span<const Operand> now,
                           absl::Span<const Operand> next) {
  Reg changed;
  const kernel::Ref& ref = k.refs[r];
  for (const kernel::Expr& e : ref.index) {
    if (!kernel::UsesAxis(e, g.first)) continue;
    Operand a = IndexValue(e, now), b = IndexValue(e, next);
    Reg differs = b_.Op(Opcode::kScmpNe, {b_.AsScalar(a), b});
    changed = changed.valid() ? b_.Op(Opcode::kPor, {changed, differs}) : differs;
  }
  return changed;
}

bool Lowering::Moves(const GridLoop& g, int r) const {
  return std::any_of(k.refs[r].index.begin(), k.refs[r].index.end(),
                     [&](const kernel::Expr& e) { return kernel::UsesAxis(e, g.first); });
}

// The point at a step: known where the sizes are, and counted up to where not. `regs`: of its axes.
std::vector<Operand> Lowering::PointIn(const GridLoop& g, int64_t step, std::vector<Reg>* regs) {
  std::vector<Operand> point(axes.begin(), axes.begin() + g.first);
  const bool known = !RunTimeGrid(g.grid);
  const std::vector<int64_t> start = PointAt(g.grid, known ? std::min(step, g.steps - 1) : 0);
  for (size_t a = 0; a < g.grid.size(); ++a) {
    Reg s = f->New(RegClass::kScalar);
    b_.Into(s, Opcode::kSmov, {Imm(start[a])});
    regs->push_back(s);
    point.push_back(g.grid[a].extent == 1 ? Imm(0) : Operand(s));
  }
  for (int64_t i = 0; i < step && !known; ++i) StepTo(g, *regs, NextAxes(g, point));
  return point;
}

void Lowering::StepTo(const GridLoop& g, absl::Span<const Reg> regs,
                      absl::Span<const Operand> point) {
  for (size_t a = 0; a < regs.size(); ++a) {
    if (g.grid[a].extent > 1) b_.Into(regs[a], Opcode::kSmov, {point[g.first + a]});
  }
}

// The copies of the first `ahead` steps (at least one) where sizes or index maps are known at run
// time only. *filled: becomes the last buffer that a copy was started for.
void Lowering::FirstCopies(const GridLoop& g, int r, int ahead, Operand all_steps, Reg* filled) {
  const RefState& s = refs[r];
  std::vector<Operand> point(axes.begin(), axes.begin() + g.first);
  point.resize(g.first + g.grid.size(), Imm(0));
  StartCopy(r, true, BlockIndex(r, point), Imm(s.view.offset), Imm(s.flag));
  Operand buffer = Imm(0);
  for (int64_t at = 1; at < ahead; ++at) {
    const std::vector<Operand> next = NextAxes(g, point);
    Reg changed = IndexChanges(g, r, point, next);
    if (!changed.valid()) break;
    const Reg more = b_.Op(Opcode::kScmpGt, {b_.AsScalar(all_steps), Imm(at)});
    changed = b_.Op(Opcode::kPand, {changed, more});
    buffer = b_.Sadd(buffer, b_.Select(changed, Imm(1), Imm(0)));
    const Operand row = b_.Sadd(b_.Smul(buffer, Imm(s.block_rows)), Imm(s.view.offset));
    const Operand flag = b_.Sadd(buffer, Imm(s.flag));
    const std::vector<Operand> index = BlockIndex(r, next);
    b_.SetPredicate(changed, false);
    StartCopy(r, true, index, row, flag);
    b_.SetPredicate(Reg(), false);
    point = next;
  }
  if (filled == nullptr) return;
  *filled = f->New(RegClass::kScalar);
  b_.Into(*filled, Opcode::kSmov, {buffer});
}

// A block at the array's edge is copied in part; the rest of its window holds what an earlier block
// left there, or these zeros, so that reading it (masked, by the kernel) is never uninitialised.
void Lowering::ClearWindow(int r) {
  const RefState& s = refs[r];
  MemView all = s.view;
  all.base = Imm(0);
  int64_t rows = s.block_rows * s.buffers;
  Reg zero = b_.Vmov(Imm(0));
  auto clear = [&](int64_t row, absl::Span<const std::pair<Coord, int64_t>> terms, int64_t count) {
    isa::MemRef mem = Address(all, row, terms);
    mem.sublane_mask = static_cast<uint8_t>((1 << count) - 1);
    b_.Store(mem, zero);
  };
  constexpr int64_t kUnroll = 8;
  int64_t trips = rows / (kUnroll * kSublanes);
  EmitLoop(trips, 1, [&](int loop) {
    for (int64_t i = 0; i < kUnroll; ++i) {
      clear(i * kSublanes, {{Coord{static_cast<int16_t>(loop), 1, 0}, kUnroll * kSublanes}},
            kSublanes);
    }
  });
  for (int64_t row = trips * kUnroll * kSublanes; row < rows; row += kSublanes) {
    clear(row, {}, std::min(kSublanes, rows - row));
  }
}

// Where what an output visits is known at run time only, each of its blocks has a word in SMEM that
// is set when the block is left: a block may not be left twice (PS-3.4).
void Lowering::ClearVisits(int r) {
  RefState& s = refs[r];
  const int64_t blocks = kernel::VisitWords(k, r);
  if (blocks == 0) return;
  if (s.visited < 0) {
    llo::Allocation a;
    a.name = absl::StrCat(k.refs[r].name, ".visited");
    a.memory = isa::Memory::kSmem;
    a.size = blocks;
    a.offset = s.visited = next_word;
    next_word += CeilDiv(blocks, 8) * 8;
    s.visited_buffer = f->args + static_cast<int>(f->allocations.size());
    f->allocations.push_back(std::move(a));
  }
  EmitLoop(blocks, 1, [&](int loop) {
    b_.Op(Opcode::kSst, {b_.AsScalar(Imm(0))});
    isa::MemRef& mem = b_.last().mem;
    mem.base = loops[loop].counter;
    mem.offset = static_cast<int32_t>(s.visited);
    mem.buffer = s.visited_buffer;
  });
}

void Lowering::CheckVisit(int r, absl::Span<const Operand> index, Reg leaves) {
  const kernel::Ref& ref = k.refs[r];
  Operand block = Imm(0);
  for (size_t d = 0; d < index.size(); ++d) {
    block = b_.Sadd(b_.Smul(block, Imm(CeilDiv(ref.shape.dims[d], ref.block[d]))), index[d]);
  }
  isa::MemRef mem;
  mem.base = block.is_imm() ? Imm(0) : block;
  mem.offset = static_cast<int32_t>(refs[r].visited + (block.is_imm() ? block.imm : 0));
  mem.buffer = refs[r].visited_buffer;
  const Reg before = b_.Op(Opcode::kSld, {});
  b_.last().mem = mem;
  const Reg again = b_.Op(Opcode::kPand, {leaves, b_.Op(Opcode::kScmpNe, {before, Imm(0)})});
  const int source = b_.source();
  b_.set_source(SourceRowOf(
      absl::StrCat("a block of output ", ref.name, " is visited again after other blocks (PS-3.4)"),
      ref.loc.line));
  b_.SetPredicate(again, false);
  b_.Op(Opcode::kShalt, {});
  b_.SetPredicate(Reg(), false);
  b_.set_source(source);
  b_.Op(Opcode::kSst, {b_.AsScalar(b_.Select(leaves, Imm(1), before))});
  b_.last().mem = mem;
}

void Lowering::SetUpWindows(const GridLoop& g, GridState* state) {
  for (int r : g.windows) {
    RefState& s = refs[r];
    Moving m;
    m.ref = r;
    m.in = k.refs[r].role == kernel::Ref::Role::kIn;
    m.buffers = s.buffers;
    m.moves = Moves(g, r);
    for (int i = 0; i < s.buffers; ++i) {
      b_.Op(Opcode::kVsyncpa, {Imm(s.flag + i), Imm(m.in ? 0 : s.granules)});
    }
    if (s.buffers > 1) {
      m.buf = f->New(RegClass::kScalar);
      b_.Into(m.buf, Opcode::kSmov, {Imm(0)});
    }
    m.fresh = f->New(RegClass::kScalar);
    b_.Into(m.fresh, Opcode::kSmov, {Imm(1)});
    state->moving.push_back(m);
  }
  for (const Moving& m : state->moving) {
    if ((m.in || TakesAlias(m.ref)) && refs[m.ref].edge) ClearWindow(m.ref);
    if (!m.in) ClearVisits(m.ref);
  }
}

// The first copies: what changes within the first n - 1 steps.
void Lowering::FirstWindows(const GridLoop& g, GridState* state) {
  for (Moving& m : state->moving) {
    if (!m.in) continue;
    if (g.nested || RunTimeGrid(g.grid) || RunTimeIndex(m.ref)) {
      FirstCopies(g, m.ref, m.Ahead(), state->all_steps, m.Ahead() > 1 ? &m.filled : nullptr);
      continue;
    }
    const RefState& s = refs[m.ref];
    int filled = -1;
    std::vector<int64_t> last;
    for (int64_t at = 0; at < std::min<int64_t>(std::max(1, m.Ahead()), g.steps); ++at) {
      const std::vector<int64_t> point = PointAt(g.grid, at);
      std::vector<int64_t> index;
      std::vector<const Literal*> arrays;
      const kernel::ExprValues values = kernel::ValuesOf(k, point, &arrays);
      for (const kernel::Expr& e : k.refs[m.ref].index) {
        index.push_back(kernel::EvaluateExpr(e, values).value_or(0));
      }
      if (at > 0 && index == last) continue;
      last = index;
      ++filled;
      std::vector<Operand> block;
      for (int64_t i : index) block.push_back(Imm(i));
      StartCopy(m.ref, true, block, Imm(s.view.offset + filled * s.block_rows),
                Imm(s.flag + filled));
    }
    if (m.Ahead() > 1) {
      m.filled = f->New(RegClass::kScalar);
      b_.Into(m.filled, Opcode::kSmov, {Imm(filled)});
    }
  }
  for (const Moving& m : state->moving) {
    if (m.Ahead() > 1 && state->ahead.count(m.Ahead()) == 0) {
      GridState::Lookahead& l = state->ahead[m.Ahead()];
      l.point = PointIn(g, m.Ahead() - 1, &l.regs);
    }
  }
}

// At the head of a step: copies of later blocks start, the step's own have landed.
void Lowering::MoveIn(const GridLoop& g, GridState* state) {
  const std::vector<Operand> next = NextAxes(g, axes);
  const Operand all_steps = state->all_steps;
  Reg more = b_.Op(Opcode::kScmpLt, {state->step, b_.Ssub(all_steps, Imm(1))});
  for (auto& [distance, l] : state->ahead) {
    l.next = NextAxes(g, l.point);
    l.more = b_.Op(Opcode::kScmpLt, {state->step, b_.Ssub(all_steps, Imm(distance))});
  }
  auto after = [&](const Moving& m, Reg buf) -> Operand {
    if (m.buffers == 2) return b_.Op(Opcode::kSxor, {buf, Imm(1)});
    Operand n = b_.Sadd(buf, Imm(1));
    return b_.Select(b_.Op(Opcode::kScmpEq, {n, Imm(m.buffers)}), Imm(0), n);
  };
  state->bit.assign(state->moving.size(), -1);
  for (size_t i = 0; i < state->moving.size(); ++i) {
    const Moving& m = state->moving[i];
    if (!m.in || !m.moves) continue;
    Reg changed = b_.Op(Opcode::kPand, {IndexChanges(g, m.ref, axes, next), more});
    state->bit[i] = state->bits++;
    state->packed =
        b_.Sadd(state->packed, b_.Select(changed, Imm(int64_t{1} << state->bit[i]), Imm(0)));
    if (!m.buf.valid()) continue;
    std::vector<Operand> index;
    Operand into;
    if (m.Ahead() > 1) {
      const GridState::Lookahead& l = state->ahead.at(m.Ahead());
      changed = b_.Op(Opcode::kPand, {IndexChanges(g, m.ref, l.point, l.next), l.more});
      index = BlockIndex(m.ref, l.next);
      into = b_.Select(changed, after(m, m.filled), m.filled);
      b_.Into(m.filled, Opcode::kSmov, {into});
      into = m.filled;
    } else {
      index = BlockIndex(m.ref, next);
      into = after(m, m.buf);
    }
    const RefState& s = refs[m.ref];
    Operand row = b_.Sadd(b_.Smul(into, Imm(s.block_rows)), Imm(s.view.offset));
    Operand flag = b_.Sadd(Imm(s.flag), into);
    b_.SetPredicate(changed, false);
    StartCopy(m.ref, true, index, row, flag);
    b_.SetPredicate(Reg(), false);
  }
  for (auto& [distance, l] : state->ahead) StepTo(g, l.regs, l.next);
  for (const Moving& m : state->moving) {
    RefState& s = refs[m.ref];
    Operand buf = m.Buffer();
    Operand flag = b_.Sadd(Imm(s.flag), buf);
    Reg fresh = b_.Op(Opcode::kScmpNe, {m.fresh, Imm(0)});
    b_.SetPredicate(fresh, false);
    b_.Op(Opcode::kDmaDoneWait, {flag, Imm(s.granules)});
    b_.Op(Opcode::kVsyncadd, {flag, Imm(-s.granules)});
    if (!m.in && TakesAlias(m.ref)) {
      FetchAlias(m.ref, b_.Sadd(b_.Smul(buf, Imm(s.block_rows)), Imm(s.view.offset)), flag);
    }
    b_.SetPredicate(Reg(), false);
    s.view.base = m.buf.valid() ? b_.Smul(buf, Imm(s.block_rows)) : Imm(0);
  }
}

// Behind the body: outputs whose block changes are copied out, buffers take turns.
void Lowering::MoveOut(const GridLoop& g, GridState* state) {
  const std::vector<Operand> next = NextAxes(g, axes);  // made again, not held
  const std::vector<Moving>& moving = state->moving;
  std::vector<Operand> in_changes(moving.size(), Imm(0));
  for (size_t i = 0; i < moving.size(); ++i) {
    const int bit = state->bit[i];
    if (bit < 0) continue;
    const Operand packed = state->packed;
    Operand shifted = bit == 0 ? packed : Operand(b_.Op(Opcode::kSshrl, {packed, Imm(bit)}));
    in_changes[i] = state->bits == 1 ? packed : Operand(b_.Op(Opcode::kSand, {shifted, Imm(1)}));
  }
  Reg last = b_.Op(Opcode::kScmpGe, {state->step, b_.Ssub(state->all_steps, Imm(1))});
  auto advance = [&](const Moving& m, Operand change) {
    if (!m.buf.valid()) return;
    if (m.buffers == 2) {
      b_.Into(m.buf, Opcode::kSxor, {m.buf, change});
      return;
    }
    Operand n = b_.Sadd(m.buf, change);
    b_.Into(m.buf, Opcode::kSmov,
            {b_.Select(b_.Op(Opcode::kScmpEq, {n, Imm(m.buffers)}), Imm(0), n)});
  };
  for (size_t i = 0; i < moving.size(); ++i) {
    const Moving& m = moving[i];
    const RefState& s = refs[m.ref];
    if (m.in) {
      if (m.moves && !m.buf.valid()) {  // one buffer: the next copy follows the body
        Reg p = b_.Op(Opcode::kScmpNe, {b_.AsScalar(in_changes[i]), Imm(0)});
        std::vector<Operand> index = BlockIndex(m.ref, next);
        b_.SetPredicate(p, false);
        StartCopy(m.ref, true, index, Imm(s.view.offset), Imm(s.flag));
        b_.SetPredicate(Reg(), false);
      }
      b_.Into(m.fresh, Opcode::kSmov, {in_changes[i]});
      advance(m, in_changes[i]);
      continue;
    }
    Reg changed = IndexChanges(g, m.ref, axes, next);
    changed = changed.valid() ? b_.Op(Opcode::kPor, {changed, last}) : last;
    Operand change = b_.Select(changed, Imm(1), Imm(0));
    std::vector<Operand> index = BlockIndex(m.ref, axes);
    Operand row = b_.Sadd(b_.Smul(m.Buffer(), Imm(s.block_rows)), Imm(s.view.offset));
    Operand flag = b_.Sadd(Imm(s.flag), m.Buffer());
    b_.SetPredicate(changed, false);
    StartCopy(m.ref, false, index, row, flag);
    b_.SetPredicate(Reg(), false);
    if (s.visited >= 0) CheckVisit(m.ref, index, changed);
    b_.Into(m.fresh, Opcode::kSmov, {change});
    advance(m, change);
  }
}

void Lowering::Drain(const GridState& state) {
  for (const Moving& m : state.moving) {
    if (m.in) continue;
    RefState& s = refs[m.ref];
    for (int i = 0; i < s.buffers; ++i) {
      b_.Op(Opcode::kDmaDoneWait, {Imm(s.flag + i), Imm(s.granules)});
      b_.Op(Opcode::kVsyncadd, {Imm(s.flag + i), Imm(-s.granules)});
    }
  }
}

// `extents` ends with the grid's; `axes` has those around and gets the grid's.
void Lowering::EmitGridLoop(const GridLoop& g) {
  GridState state;
  state.all_steps = Imm(1);
  for (size_t a = 0; a < g.grid.size(); ++a) {
    state.all_steps = b_.Smul(state.all_steps, extents[g.first + a]);
  }
  const bool run_time = RunTimeGrid(g.grid);
  if (!run_time) state.all_steps = Imm(g.steps);
  const int64_t outer_trips = f->blocks[b_.block()].trips;
  const bool in_grid = g.nested && f->blocks[b_.block()].in_grid_loop;
  const std::string tag = g.nested ? absl::StrCat(".", f->blocks.size()) : "";
  std::vector<Reg> axis_regs;
  axes = PointIn(g, 0, &axis_regs);
  state.step = f->New(RegClass::kScalar);
  b_.Into(state.step, Opcode::kSmov, {Imm(0)});
  SetUpWindows(g, &state);
  // A grid that has no points in this run.
  int around = -1;
  if (run_time) {
    b_.Branch(-1, b_.Op(Opcode::kScmpLe, {b_.AsScalar(state.all_steps), Imm(0)}), false);
    around = b_.block();
    NewBlock("prologue" + tag, outer_trips, in_grid);
  }
  PushScope(-1);
  FirstWindows(g, &state);
  llo::Loop loop;
  loop.is_grid = !g.nested;
  loop.trips = run_time ? -1 : g.steps;
  const int64_t trips = !g.nested ? 1 : run_time || outer_trips < 0 ? -1 : outer_trips * g.steps;
  loop.first = NewBlock(g.nested ? "pipeline" + tag : "grid", trips, true);
  if (g.nested) f->blocks[loop.first].in_grid_loop = in_grid;
  PushScope(-1);
  MoveIn(g, &state);
  if (!g.nested) {
    for (size_t r = 0; r < refs.size(); ++r) SetViewBase(static_cast<int>(r), axes);
  }
  LowerRegion(*g.body);
  if (failed_) return;
  const std::vector<Operand> next = NextAxes(g, axes);
  MoveOut(g, &state);
  StepTo(g, axis_regs, next);
  b_.Into(state.step, Opcode::kSadd, {state.step, Imm(1)});
  Reg again = b_.Op(Opcode::kScmpLt, {state.step, state.all_steps});
  b_.Branch(loop.first, again, false);
  PopScope();
  loop.last = b_.block();
  f->loops.push_back(loop);
  PopScope();
  const int drain = NewBlock("drain" + tag, outer_trips, in_grid);
  if (around >= 0) f->blocks[around].insts.back().target = drain;
  Drain(state);
}

void Lowering::EmitGrid() {
  NewBlock("entry", 1, false);
  LoadPrefetched();
  LowerRegion(k.setup);
  extents = Extents(k.grid);
  GridLoop g;
  g.grid = k.grid;
  g.body = &k.body;
  g.steps = k.GridSteps();
  for (size_t r = 0; r < refs.size(); ++r) {
    if (refs[r].windowed && k.refs[r].window_of < 0) g.windows.push_back(static_cast<int>(r));
  }
  EmitGridLoop(g);
}

void Lowering::LowerPipeline(NodeId id) {
  const Node& n = node(id);
  const kernel::Pipeline& p = k.pipelines[n.pipeline];
  WaitForAll();
  FixUsed(n.regions[0]);
  std::vector<Operand> operands;
  for (NodeId o : n.operands) operands.push_back(Scalar(o));
  if (failed_ || p.GridSteps() == 0) return;
  std::swap(operands, pipeline_operands_);
  for (const Operand& e : Extents(p.grid)) extents.push_back(e);
  GridLoop g;
  g.grid = p.grid;
  g.first = p.first_axis;
  g.windows = p.windows;
  g.body = &n.regions[0];
  g.nested = true;
  g.steps = p.GridSteps();
  EmitGridLoop(g);
  axes.resize(p.first_axis);
  extents.resize(p.first_axis);
  pipeline_operands_ = std::move(operands);
}

}  // namespace tpuc::lower
