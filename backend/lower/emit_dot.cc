// Matrix products of whole blocks: weights are pushed once per tile of the right operand as large
// as an MXU (256 x 256, or 128 x 128), rows of the left one follow, results are popped in order and
// become registers of the dot.
//
//   x f32[16,64] . w f32[64,64]:  8 x vmatpush1 on two MXUs (rows 56..63 first), one masked matmul
//   of 8 rows on each, two pops where an MXU is 256 wide (the second has no meaning)
//
// Large products, which loop, are in nest_dot.cc; both use Push and Multiply.
#include <algorithm>
#include <deque>

#include "absl/strings/str_cat.h"
#include "backend/lower/dot.h"
#include "backend/lower/lowering.h"
#include "src/diag/check.h"

namespace tpuc::lower {

// What the MXU may take in a converted operand's place: it rounds f32 to bf16 itself.
NodeId Lowering::Unrounded(NodeId id) const {
  const Node& n = node(id);
  const bool rounds = n.kind == Node::Kind::kHlo && n.op == Op::kConvert &&
                      n.shape.type == Type::kBF16 && type(n.operands[0]) == Type::kF32;
  return rounds && !info[id].ready ? n.operands[0] : id;
}

bool Lowering::PlanDot(NodeId id, DotPlan* p) {
  const Node& n = node(id);
  NodeId l = Unrounded(n.operands[0]), r = Unrounded(n.operands[1]);
  Ints lb = n.IntsAttr(AttrId::kLhsBatchDims), rb = n.IntsAttr(AttrId::kRhsBatchDims);
  Ints lc = n.IntsAttr(AttrId::kLhsContractingDims), rc = n.IntsAttr(AttrId::kRhsContractingDims);
  for (NodeId o : {l, r}) {
    if (type(o) != Type::kF32 && type(o) != Type::kBF16) {
      Fail(id, absl::StrCat("operands of type ", TypeName(type(o))));
      return false;
    }
  }
  if (n.shape.type != Type::kF32 && n.shape.type != Type::kBF16) {
    Fail(id, absl::StrCat("a result of type ", TypeName(n.shape.type)));
    return false;
  }
  if (lc.size() != 1 || rc.size() != 1) {
    Fail(id, absl::StrCat("with ", lc.size(), " contracted dimensions"));
    return false;
  }
  auto frees = [&](NodeId o, const Ints& batch, const Ints& contract) {
    std::vector<int> f;
    for (int d = 0; d < static_cast<int>(dims(o).size()); ++d) {
      if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
          std::find(contract.begin(), contract.end(), d) == contract.end()) {
        f.push_back(d);
      }
    }
    return f;
  };
  std::vector<int> lf = frees(l, lb, lc), rf = frees(r, rb, rc);
  int nb = static_cast<int>(lb.size());
  if (rf.size() > 1) {
    Fail(id, "with several free dimensions of the right operand");
    return false;
  }
  bool swap = rf.empty() && lf.size() == 1;  // a matrix and a vector: the vector is the row
  p->lhs = swap ? r : l;
  p->rhs = swap ? l : r;
  p->lhs_batch.assign((swap ? rb : lb).begin(), (swap ? rb : lb).end());
  p->rhs_batch.assign((swap ? lb : rb).begin(), (swap ? lb : rb).end());
  p->lhs_k = static_cast<int>(swap ? rc[0] : lc[0]);
  p->rhs_k = static_cast<int>(swap ? lc[0] : rc[0]);
  std::vector<int> rows = swap ? std::vector<int>() : lf;
  if (!rows.empty()) {
    p->lhs_m = rows.back();
    rows.pop_back();
  }
  p->lhs_free.assign(rows.begin(), rows.end());
  p->rhs_n = swap ? lf[0] : rf.empty() ? -1 : rf[0];
  p->k = dims(p->lhs)[p->lhs_k];
  p->m = p->lhs_m < 0 ? 1 : dims(p->lhs)[p->lhs_m];
  p->n = p->rhs_n < 0 ? 1 : dims(p->rhs)[p->rhs_n];
  int out = nb;
  for (int d : p->lhs_free) {
    p->result_free.push_back(out++);
    (void)d;
  }
  p->result_m = p->lhs_m < 0 ? -1 : out++;
  p->result_n = p->rhs_n < 0 ? -1 : out++;
  p->lhs_layout = {static_cast<int8_t>(p->lhs_m), static_cast<int8_t>(p->lhs_k)};
  VLayout have = OperandLayout(p->rhs);
  p->xpose = p->rhs_n >= 0 && have.lane == p->rhs_k && have.lane >= 0 &&
             (have.sub == p->rhs_n || have.lane != p->rhs_n);
  if (info[p->rhs].flexible) p->xpose = false;
  p->rhs_layout = p->xpose ? VLayout{static_cast<int8_t>(p->rhs_n), static_cast<int8_t>(p->rhs_k)}
                           : VLayout{static_cast<int8_t>(p->rhs_k), static_cast<int8_t>(p->rhs_n)};
  if (p->rhs_n < 0) p->rhs_layout = {static_cast<int8_t>(p->rhs_k), -1};
  return true;
}

VLayout Lowering::DotLayout(NodeId id) {
  DotPlan p;
  if (!PlanDot(id, &p)) return DefaultVLayout(static_cast<int>(dims(id).size()));
  return {static_cast<int8_t>(p.result_m), static_cast<int8_t>(p.result_n)};
}

// One register of the weights: K group or tile kk, N group or tile nn, as the orientation counts.
Operand Lowering::Weight(const DotPlan& p, const DotAt& at, Coord kk, Coord nn) {
  Coords c(dims(p.rhs).size(), Coord::Const(0));
  for (size_t i = 0; i < p.rhs_batch.size(); ++i) c[p.rhs_batch[i]] = at.batch[i];
  c[p.rhs_k] = kk;
  if (p.rhs_n >= 0) c[p.rhs_n] = nn;
  return b_.AsReg(Get(p.rhs, p.rhs_layout, c));
}

Operand Lowering::Row(const DotPlan& p, const DotAt& at, Coord m, Coord kk) {
  Coords c(dims(p.lhs).size(), Coord::Const(0));
  for (size_t i = 0; i < p.lhs_batch.size(); ++i) c[p.lhs_batch[i]] = at.batch[i];
  for (size_t i = 0; i < p.lhs_free.size(); ++i) c[p.lhs_free[i]] = at.free[i];
  if (p.lhs_m >= 0) c[p.lhs_m] = m;
  c[p.lhs_k] = kk;
  return b_.AsReg(Get(p.lhs, p.lhs_layout, c));
}

// Pushes the weights of K tiles k0 (.. k0+1) and N tiles n0 (.. n0+1) of 128. `k_left` and
// `n_left`: how many of K and N lie in them (at most an MXU's side). A block-diagonal push fills
// both halves alike.
void Lowering::Push(const DotPlan& p, const DotAt& at, Coord k0, Coord n0, int64_t k_left,
                    int64_t n_left, bool diagonal, int unit) {
  constexpr int64_t kTileGroups = kLanes / kSublanes;
  const int64_t first = p.xpose ? n_left : k_left;
  for (int64_t group = CeilDiv(first, kSublanes); group-- > 0;) {
    PushGroup(p, at, k0, n0, k_left, n_left, diagonal, unit, static_cast<int>(group / kTileGroups),
              Coord::Const(group % kTileGroups));
  }
}

// One group of eight of the first dimension, of the first (half 0) or the second tile, or of both
// (kBothHalves; all whole, the second dimension one tile). Where a loop counts it, that tile is
// whole.
void Lowering::PushGroup(const DotPlan& p, const DotAt& at, Coord k0, Coord n0, int64_t k_left,
                         int64_t n_left, bool diagonal, int unit, int half, Coord g) {
  auto prep = [&](Operand v, Operand mask, bool masked) {
    if (masked) {
      b_.Op(Opcode::kVmatprepSubrMsk, {mask, v}, unit);
    } else {
      b_.Op(Opcode::kVmatprepSubr, {v}, unit);
    }
  };
  auto push = [&](int half, Operand v, Operand mask, bool masked) {
    static constexpr Opcode kPlain[] = {Opcode::kVmatpush1, Opcode::kVmatpush2, Opcode::kVmatpush3};
    static constexpr Opcode kPlainMsk[] = {Opcode::kVmatpush1Msk, Opcode::kVmatpush2Msk,
                                           Opcode::kVmatpush3Msk};
    static constexpr Opcode kX[] = {Opcode::kVmatpush1Xpose, Opcode::kVmatpush2Xpose,
                                    Opcode::kVmatpush3Xpose};
    static constexpr Opcode kXMsk[] = {Opcode::kVmatpush1XposeMsk, Opcode::kVmatpush2XposeMsk,
                                       Opcode::kVmatpush3XposeMsk};
    if (masked) {
      b_.Op((p.xpose ? kXMsk : kPlainMsk)[half], {mask, v}, unit);
    } else {
      b_.Op((p.xpose ? kX : kPlain)[half], {v}, unit);
    }
  };
  constexpr int64_t kTileGroups = kLanes / kSublanes;
  // `first`: the dimension cut in groups of 8 (K plain, N transposed); `second`: in tiles of 128.
  int64_t first = p.xpose ? n_left : k_left, second = p.xpose ? k_left : n_left;
  Coord first0 = (p.xpose ? n0 : k0) * kTileGroups, second0 = p.xpose ? k0 : n0;
  CHECK(first0.is_const() || g.is_const());
  const int64_t tile_of_first = half == kBothHalves ? 0 : half;
  const Coord f0 = (g.is_const() ? first0 + g.c : g + first0.c) + tile_of_first * kTileGroups;
  auto get = [&](int64_t tile, int64_t later = 0) {
    Coord s = second0 + tile, f = f0 + later;
    return p.xpose ? Weight(p, at, s, f) : Weight(p, at, f, s);
  };
  // K beyond the array counts as 0: sublanes of the last group (plain), lanes of the last tile.
  auto mask_of = [&](int64_t tile, Operand* mask) {
    if (p.xpose) {
      int64_t lanes = std::min(kLanes, second - tile * kLanes);
      if (lanes < kLanes) *mask = MaskOf(0, kSublanes, 0, lanes);
      return lanes < kLanes;
    }
    if (!g.is_const()) return false;
    int64_t rows = std::min(kSublanes, first - (tile_of_first * kTileGroups + g.c) * kSublanes);
    if (rows < kSublanes) *mask = MaskOf(0, rows, 0, kLanes);
    return rows < kSublanes;
  };
  Operand low = get(0);
  Operand mask, mask2;
  bool masked = mask_of(0, &mask);
  if (diagonal) {
    prep(low, mask, masked);
    push(2, low, mask, masked);
    return;
  }
  if (half == kBothHalves) {
    prep(get(0, kTileGroups), mask, masked);
    push(2, low, mask, masked);
    return;
  }
  if (second > kLanes) {
    bool masked2 = mask_of(1, &mask2);
    prep(get(1), mask2, masked2);
  }
  push(half, low, mask, masked);
}

// One matmul: `low` in lanes K 0..127, `high` (invalid: none) in K 128..255, masked to their
// widths.
Reg Lowering::Multiply(Operand low, int64_t low_lanes, Operand high, bool has_high,
                       int64_t high_lanes, bool latch, int unit) {
  if (has_high) {
    if (high_lanes < kLanes) {
      b_.Op(Opcode::kVmatprepMubrMsk, {MaskOf(0, kSublanes, 0, high_lanes), high}, unit);
    } else {
      b_.Op(Opcode::kVmatprepMubr, {high}, unit);
    }
  }
  if (low_lanes < kLanes) {
    return b_.Op(latch ? Opcode::kVmatmulLatchMsk : Opcode::kVmatmulMsk,
                 {MaskOf(0, kSublanes, 0, low_lanes), low}, unit);
  }
  return b_.Op(latch ? Opcode::kVmatmulLatch : Opcode::kVmatmul, {low}, unit);
}

namespace {

// Results in flight on each MXU, popped in order when enough are.
struct Pending {
  Reg token;
  int unit;
  std::function<void(int which, Reg value)> done;
};

}  // namespace

void Lowering::EmitSmallDot(NodeId id, const DotPlan& p, const DotAt& at) {
  int64_t k_tiles = CeilDiv(p.k, kLanes), n_tiles = CeilDiv(p.n, kLanes);
  int64_t groups = p.m_groups();
  int mxus = std::max(1, chip.mxus);
  std::deque<Pending> pending;
  auto pop_one = [&] {
    Pending q = pending.front();
    pending.pop_front();
    for (int which = 0; which < chip.mxu_tiles(); ++which) {
      q.done(which, b_.Op(Opcode::kVpopMrf, {q.token}, q.unit));
    }
  };
  size_t limit = static_cast<size_t>(std::max(2, chip.mrf_depth / chip.mxu_tiles() - 8));
  auto issue = [&](Reg token, int unit, std::function<void(int, Reg)> done) {
    pending.push_back({token, unit, std::move(done)});
    while (pending.size() > limit) pop_one();
  };
  // result[row group * n_tiles + n tile]
  std::vector<Operand> result(groups * n_tiles);
  std::vector<char> filled(groups * n_tiles, 0);
  auto add = [&](int64_t m, int64_t nt, Reg v) {
    if (m >= groups || nt >= n_tiles) return;
    Operand& r = result[m * n_tiles + nt];
    r = filled[m * n_tiles + nt] ? Add(r, v) : Operand(v);
    filled[m * n_tiles + nt] = 1;
  };
  auto row = [&](int64_t m, int64_t kt) { return Row(p, at, Coord::Const(m), Coord::Const(kt)); };
  // Weights of another product may not come between these weights and their latch.
  if (ReachesDot(p.rhs)) {
    int64_t a = CeilDiv(p.k, p.xpose ? kLanes : kSublanes),
            b = CeilDiv(p.n, p.xpose ? kSublanes : kLanes);
    for (int64_t i = 0; i < a; ++i) {
      for (int64_t j = 0; j < b; ++j) Weight(p, at, Coord::Const(i), Coord::Const(j));
    }
  }
  if (ReachesDot(p.lhs)) {
    for (int64_t m = 0; m < groups; ++m) {
      for (int64_t kt = 0; kt < k_tiles; ++kt) row(m, kt);
    }
  }
  int64_t lanes0 = std::min(kLanes, p.k);
  if (k_tiles == 1 && n_tiles == 1) {
    bool diagonal = chip.mxu_tiles() > 1 && groups > mxus;
    int used = static_cast<int>(std::min<int64_t>(mxus, diagonal ? CeilDiv(groups, 2) : groups));
    for (int u = 0; u < used; ++u)
      Push(p, at, Coord::Const(0), Coord::Const(0), p.k, p.n, diagonal, u);
    std::vector<char> latched(used, 0);
    int u = 0;
    for (int64_t m = 0; m < groups; m += diagonal ? 2 : 1, u = (u + 1) % used) {
      bool pair = diagonal && m + 1 < groups;
      Operand second = pair ? row(m + 1, 0) : Operand();
      Reg t = Multiply(row(m, 0), lanes0, second, pair, lanes0, !latched[u], u);
      latched[u] = 1;
      issue(t, u, [&add, m, pair](int which, Reg v) {
        if (which == 0 || pair) add(m + which, 0, v);
      });
    }
  } else {
    const int tiles = chip.mxu_tiles();
    const int64_t side = tiles * kLanes;
    int64_t k_sets = CeilDiv(k_tiles, tiles), n_sets = CeilDiv(n_tiles, tiles);
    // Each set of weights has MXUs of its own while there are enough; they share its rows.
    const int share = static_cast<int>(std::max<int64_t>(1, mxus / (k_sets * n_sets)));
    const int units = static_cast<int>(std::min<int64_t>(share, groups));
    int64_t work = 0;
    for (int64_t np = 0; np < n_sets; ++np) {
      for (int64_t kp = 0; kp < k_sets; ++kp) {
        int64_t k_left = std::min(side, p.k - kp * side);
        int64_t n_left = std::min(side, p.n - np * side);
        int first = static_cast<int>(work++ * share % mxus);
        for (int u = 0; u < units; ++u) {
          Push(p, at, Coord::Const(tiles * kp), Coord::Const(tiles * np), k_left, n_left, false,
               first + u);
        }
        for (int64_t m = 0; m < groups; ++m) {
          int u = first + static_cast<int>(m % units);
          bool high = k_left > kLanes;
          Operand h = high ? row(m, tiles * kp + 1) : Operand();
          Reg t = Multiply(row(m, tiles * kp), std::min(kLanes, k_left), h, high, k_left - kLanes,
                           m < units, u);
          issue(t, u, [&add, m, nt = tiles * np](int which, Reg v) { add(m, nt + which, v); });
        }
        if (failed_) return;
      }
    }
  }
  while (!pending.empty()) pop_one();
  VLayout layout = info[id].natural;
  for (int64_t m = 0; m < groups; ++m) {
    for (int64_t nt = 0; nt < n_tiles; ++nt) {
      Operand v = RoundTo(type(id), result[m * n_tiles + nt]);
      Remember({id, layout, p.ResultAt(at, Coord::Const(m), Coord::Const(nt), dims(id).size())}, v);
    }
  }
}

bool Lowering::ReachesDot(NodeId id) const {
  return AnyBelow(
      id, [&](NodeId x) { return node(x).kind == Node::Kind::kHlo && node(x).op == Op::kDot; });
}

bool Lowering::CheckPrecision(NodeId id) {
  const AttrValue* a = node(id).Find(AttrId::kOperandPrecision);
  const auto* words = a == nullptr ? nullptr : std::get_if<std::vector<std::string>>(a);
  if (words == nullptr) return true;
  for (const std::string& w : *words) {
    if (w == "default") continue;
    Fail(id, absl::StrCat("operand_precision ", w));
    return false;
  }
  return true;
}

Operand Lowering::EvalDot(NodeId id, VLayout layout, const Coords& at) {
  DotPlan p;
  if (!PlanDot(id, &p) || !CheckPrecision(id)) return Imm(0);
  DotAt dot_at;
  size_t nb = p.lhs_batch.size();
  for (size_t i = 0; i < nb; ++i) dot_at.batch.push_back(at[i]);
  for (int d : p.result_free) dot_at.free.push_back(at[d]);
  EmitSmallDot(id, p, dot_at);
  const Operand* v = Recall({id, info[id].natural, at});
  if (v == nullptr) {
    if (!failed_) Fail(id, "a dot inside a loop");
    return Imm(0);
  }
  return *v;
}

}  // namespace tpuc::lower
