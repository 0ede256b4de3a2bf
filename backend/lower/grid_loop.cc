// Grids of more than one step: one rotated loop over the steps, last axis fastest. An input with n
// buffers is copied n - 1 steps ahead (only where its block index changes), the body waits for its
// own windows, and an output window is copied out when its index is about to change.
//
//   start(0 .. n-2); loop { start(s + n - 1) if changed; wait if fresh; body; copy out if last or
//   changed }; drain
//
// Sync flags of outputs begin with a full block's granules to their credit, so that every reuse of
// a window waits in the same way, whether it was copied out before or not.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

// Scalars that live across the steps for one windowed ref.
struct Moving {
  int ref = -1;
  bool in = false;
  bool moves = false;  // its index depends on the grid
  int buffers = 1;
  Reg buf;     // which buffer this step reads or writes; invalid: always the first
  Reg filled;  // in: the last buffer that a copy was started for
  Reg fresh;   // in: a copy is under way for this step; out: a new window begins
  int Ahead() const { return in && moves ? buffers - 1 : 0; }  // steps
};

// The grid indices of a step.
std::vector<int64_t> PointAt(const kernel::Kernel& k, int64_t step) {
  std::vector<int64_t> point(k.grid.size());
  for (size_t a = k.grid.size(); a-- > 0;) {
    point[a] = step % k.grid[a].extent;
    step /= k.grid[a].extent;
  }
  return point;
}

}  // namespace

// The grid point after `now`; the predicate of a carry out of an axis feeds the next.
std::vector<Operand> Lowering::NextAxes(absl::Span<const Operand> now) {
  std::vector<Operand> next(now.size());
  Operand carry = Imm(1);
  for (int a = static_cast<int>(now.size()) - 1; a >= 0; --a) {
    int64_t extent = k.grid[a].extent;
    if (extent == 1) {
      next[a] = now[a];
      continue;
    }
    Operand n = b_.Sadd(now[a], carry);
    Reg wraps = b_.Op(Opcode::kScmpEq, {n, extents[a]});
    next[a] = b_.Select(wraps, Imm(0), n);
    carry = b_.Select(wraps, Imm(1), Imm(0));
  }
  return next;
}

// Whether the block index of ref r differs between two grid points; invalid: never.
Reg Lowering::IndexChanges(int r, absl::Span<const Operand> now, absl::Span<const Operand> next) {
  Reg changed;
  const kernel::Ref& ref = k.refs[r];
  for (const kernel::Expr& e : ref.index) {
    if (!kernel::UsesAxis(e)) continue;
    Operand a = IndexValue(e, now), b = IndexValue(e, next);
    Reg differs = b_.Op(Opcode::kScmpNe, {b_.AsScalar(a), b});
    changed = changed.valid() ? b_.Op(Opcode::kPor, {changed, differs}) : differs;
  }
  return changed;
}

// The copies of the first `ahead` steps (at least one) where sizes or index maps are known at run
// time only. *filled: becomes the last buffer that a copy was started for.
void Lowering::FirstCopies(int r, int ahead, Operand all_steps, Reg* filled) {
  const RefState& s = refs[r];
  std::vector<Operand> point(k.grid.size(), Imm(0));
  StartCopy(r, true, BlockIndex(r, point), Imm(s.view.offset), Imm(s.flag));
  Operand buffer = Imm(0);
  for (int64_t at = 1; at < ahead; ++at) {
    const std::vector<Operand> next = NextAxes(point);
    Reg changed = IndexChanges(r, point, next);
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

void Lowering::EmitGridLoop() {
  using Role = kernel::Ref::Role;
  const int64_t steps = k.GridSteps();
  NewBlock("entry", 1, false);
  LoadPrefetched();
  SetExtents();
  Operand all_steps = Imm(1);
  for (const Operand& n : extents) all_steps = b_.Smul(all_steps, n);
  if (!RunTimeGrid()) all_steps = Imm(steps);
  // Axes at a step; the point is known where the sizes are, and counted up to where not.
  auto new_axes = [&](int64_t at_step, std::vector<Reg>* regs) {
    std::vector<Operand> point;
    const bool known = !RunTimeGrid();
    const std::vector<int64_t> start = PointAt(k, known ? std::min(at_step, steps - 1) : 0);
    for (size_t a = 0; a < k.grid.size(); ++a) {
      Reg s = f->New(RegClass::kScalar);
      b_.Into(s, Opcode::kSmov, {Imm(start[a])});
      regs->push_back(s);
      point.push_back(k.grid[a].extent == 1 ? Imm(0) : Operand(s));
    }
    for (int64_t i = 0; i < at_step && !known; ++i) {
      const std::vector<Operand> next = NextAxes(point);
      for (size_t a = 0; a < k.grid.size(); ++a) {
        if (k.grid[a].extent > 1) b_.Into((*regs)[a], Opcode::kSmov, {next[a]});
      }
    }
    return point;
  };
  auto step_axes = [&](absl::Span<const Reg> regs, absl::Span<const Operand> next) {
    for (size_t a = 0; a < regs.size(); ++a) {
      if (k.grid[a].extent > 1) b_.Into(regs[a], Opcode::kSmov, {next[a]});
    }
  };
  std::vector<Reg> axis_regs;
  axes = new_axes(0, &axis_regs);
  Reg step = f->New(RegClass::kScalar);
  b_.Into(step, Opcode::kSmov, {Imm(0)});
  std::vector<Moving> moving;
  for (size_t r = 0; r < refs.size(); ++r) {
    RefState& s = refs[r];
    if (!s.windowed) continue;
    Moving m;
    m.ref = static_cast<int>(r);
    m.in = k.refs[r].role == Role::kIn;
    m.buffers = s.buffers;
    for (const kernel::Expr& e : k.refs[r].index) m.moves |= kernel::UsesAxis(e);
    for (int i = 0; i < s.buffers; ++i) {
      b_.Op(Opcode::kVsyncpa, {Imm(s.flag + i), Imm(m.in ? 0 : s.granules)});
    }
    if (s.buffers > 1) {
      m.buf = f->New(RegClass::kScalar);
      b_.Into(m.buf, Opcode::kSmov, {Imm(0)});
    }
    m.fresh = f->New(RegClass::kScalar);
    b_.Into(m.fresh, Opcode::kSmov, {Imm(1)});
    moving.push_back(m);
  }
  for (const Moving& m : moving) {
    if (m.in && refs[m.ref].edge) ClearWindow(m.ref);
  }
  // A grid that has no points in this run.
  int around = -1;
  if (RunTimeGrid()) {
    b_.Branch(-1, b_.Op(Opcode::kScmpLe, {b_.AsScalar(all_steps), Imm(0)}), false);
    around = b_.block();
    NewBlock("prologue", 1, false);
  }
  // The first copies: what changes within the first n - 1 steps.
  for (Moving& m : moving) {
    if (!m.in) continue;
    if (RunTimeGrid() || RunTimeIndex(m.ref)) {
      FirstCopies(m.ref, m.Ahead(), all_steps, m.Ahead() > 1 ? &m.filled : nullptr);
      continue;
    }
    const RefState& s = refs[m.ref];
    int filled = -1;
    std::vector<int64_t> last;
    for (int64_t at = 0; at < std::min<int64_t>(std::max(1, m.Ahead()), steps); ++at) {
      const std::vector<int64_t> point = PointAt(k, at);
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
  // Grid points of the copies that run more than a step ahead.
  struct Lookahead {
    std::vector<Reg> regs;
    std::vector<Operand> point, next;
    Reg more;
  };
  std::map<int, Lookahead> ahead;
  for (const Moving& m : moving) {
    if (m.Ahead() > 1 && ahead.count(m.Ahead()) == 0) {
      Lookahead& l = ahead[m.Ahead()];
      l.point = new_axes(m.Ahead() - 1, &l.regs);
    }
  }
  llo::Loop loop;
  loop.is_grid = true;
  loop.trips = RunTimeGrid() ? -1 : steps;
  loop.first = NewBlock("grid", 1, true);
  PushScope(-1);
  std::vector<Operand> next = NextAxes(axes);
  Reg more = b_.Op(Opcode::kScmpLt, {step, b_.Ssub(all_steps, Imm(1))});
  for (auto& [distance, l] : ahead) {
    l.next = NextAxes(l.point);
    l.more = b_.Op(Opcode::kScmpLt, {step, b_.Ssub(all_steps, Imm(distance))});
  }
  auto flag_of = [&](const Moving& m, Operand buf) { return b_.Sadd(Imm(refs[m.ref].flag), buf); };
  auto row_of = [&](const Moving& m, Operand buf) {
    return b_.Sadd(b_.Smul(buf, Imm(refs[m.ref].block_rows)), Imm(refs[m.ref].view.offset));
  };
  auto after = [&](const Moving& m, Reg buf) -> Operand {
    if (m.buffers == 2) return b_.Op(Opcode::kSxor, {buf, Imm(1)});
    Operand n = b_.Sadd(buf, Imm(1));
    return b_.Select(b_.Op(Opcode::kScmpEq, {n, Imm(m.buffers)}), Imm(0), n);
  };
  // One bit an input, so that one scalar lives through the body: loops in it need the others.
  std::vector<int> bit(moving.size(), -1);
  int bits = 0;
  Operand packed = Imm(0);
  for (size_t i = 0; i < moving.size(); ++i) {
    const Moving& m = moving[i];
    if (!m.in || !m.moves) continue;
    Reg changed = b_.Op(Opcode::kPand, {IndexChanges(m.ref, axes, next), more});
    bit[i] = bits++;
    packed = b_.Sadd(packed, b_.Select(changed, Imm(int64_t{1} << bit[i]), Imm(0)));
    if (!m.buf.valid()) continue;
    std::vector<Operand> index;
    Operand into;
    if (m.Ahead() > 1) {
      const Lookahead& l = ahead.at(m.Ahead());
      changed = b_.Op(Opcode::kPand, {IndexChanges(m.ref, l.point, l.next), l.more});
      index = BlockIndex(m.ref, l.next);
      into = b_.Select(changed, after(m, m.filled), m.filled);
      b_.Into(m.filled, Opcode::kSmov, {into});
      into = m.filled;
    } else {
      index = BlockIndex(m.ref, next);
      into = after(m, m.buf);
    }
    Operand row = row_of(m, into), flag = flag_of(m, into);
    b_.SetPredicate(changed, false);
    StartCopy(m.ref, true, index, row, flag);
    b_.SetPredicate(Reg(), false);
  }
  for (auto& [distance, l] : ahead) step_axes(l.regs, l.next);
  for (const Moving& m : moving) {
    RefState& s = refs[m.ref];
    Operand buf = m.buf.valid() ? Operand(m.buf) : Imm(0);
    Operand flag = flag_of(m, buf);
    Reg fresh = b_.Op(Opcode::kScmpNe, {m.fresh, Imm(0)});
    b_.SetPredicate(fresh, false);
    b_.Op(Opcode::kDmaDoneWait, {flag, Imm(s.granules)});
    b_.Op(Opcode::kVsyncadd, {flag, Imm(-s.granules)});
    b_.SetPredicate(Reg(), false);
    s.view.base = m.buf.valid() ? b_.Smul(buf, Imm(s.block_rows)) : Imm(0);
  }
  for (size_t r = 0; r < refs.size(); ++r) SetViewBase(static_cast<int>(r), axes);
  LowerRegion(k.body);
  if (failed_) return;
  next = NextAxes(axes);  // made again, not held
  std::vector<Operand> in_changes(moving.size(), Imm(0));
  for (size_t i = 0; i < moving.size(); ++i) {
    if (bit[i] < 0) continue;
    Operand shifted = bit[i] == 0 ? packed : Operand(b_.Op(Opcode::kSshrl, {packed, Imm(bit[i])}));
    in_changes[i] = bits == 1 ? packed : Operand(b_.Op(Opcode::kSand, {shifted, Imm(1)}));
  }
  Reg last = b_.Op(Opcode::kScmpGe, {step, b_.Ssub(all_steps, Imm(1))});
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
    Operand buf = m.buf.valid() ? Operand(m.buf) : Imm(0);
    if (m.in) {
      if (m.moves && !m.buf.valid()) {  // one buffer: the next copy follows the body
        Reg p = b_.Op(Opcode::kScmpNe, {b_.AsScalar(in_changes[i]), Imm(0)});
        std::vector<Operand> index = BlockIndex(m.ref, next);
        b_.SetPredicate(p, false);
        StartCopy(m.ref, true, index, Imm(refs[m.ref].view.offset), Imm(refs[m.ref].flag));
        b_.SetPredicate(Reg(), false);
      }
      b_.Into(m.fresh, Opcode::kSmov, {in_changes[i]});
      advance(m, in_changes[i]);
      continue;
    }
    Reg changed = IndexChanges(m.ref, axes, next);
    changed = changed.valid() ? b_.Op(Opcode::kPor, {changed, last}) : last;
    Operand change = b_.Select(changed, Imm(1), Imm(0));
    std::vector<Operand> index = BlockIndex(m.ref, axes);
    Operand row = row_of(m, buf), flag = flag_of(m, buf);
    b_.SetPredicate(changed, false);
    StartCopy(m.ref, false, index, row, flag);
    b_.SetPredicate(Reg(), false);
    b_.Into(m.fresh, Opcode::kSmov, {change});
    advance(m, change);
  }
  step_axes(axis_regs, next);
  b_.Into(step, Opcode::kSadd, {step, Imm(1)});
  Reg again = b_.Op(Opcode::kScmpLt, {step, all_steps});
  b_.Branch(loop.first, again, false);
  PopScope();
  loop.last = b_.block();
  f->loops.push_back(loop);
  const int drain = NewBlock("drain", 1, false);
  if (around >= 0) f->blocks[around].insts.back().target = drain;
  for (const Moving& m : moving) {
    if (m.in) continue;
    RefState& s = refs[m.ref];
    for (int i = 0; i < s.buffers; ++i) {
      b_.Op(Opcode::kDmaDoneWait, {Imm(s.flag + i), Imm(s.granules)});
      b_.Op(Opcode::kVsyncadd, {Imm(s.flag + i), Imm(-s.granules)});
    }
  }
}

}  // namespace tpuc::lower
