// Control that depends on run-time values, and scalars in SMEM: while, for with bounds that are
// values, loads and stores of single words, vectors' elements on the scalar core.
//
//   while n[0] < 3 { n[0] += 1; }
//     ->  L: sld %s0, [smem:5]; scmp.ge %p0, %s0, 3; sbr.rel @p0 E; sld; sadd; sst; sbr.rel L; E:
//
// These stand in program order: what is written here is not computed on demand.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

using RefSpace = kernel::Ref::Space;

bool Lowering::IsOrdered(NodeId id) const {
  const Node& n = node(id);
  switch (n.kind) {
    case Node::Kind::kLoad:
    case Node::Kind::kStore:
      return (k.refs[n.ref].InSmem() && k.refs[n.ref].role != kernel::Ref::Role::kPrefetch) ||
             info[id].to_scalar || n.operands.size() > 1;
    case Node::Kind::kHlo:
      return info[id].to_scalar;
    case Node::Kind::kAxis:
    case Node::Kind::kNumAxis:
    case Node::Kind::kLoopIndex:
      return false;
    default:
      return true;
  }
}

// Code for a node in its place, and for earlier loads of what it writes.
void Lowering::LowerOrdered(const kernel::Region& region, NodeId id) {
  const Node& n = node(id);
  ForceLoads(region, id);
  int old_source = b_.source();
  if (info[id].source >= 0) b_.set_source(info[id].source);
  switch (n.kind) {
    case Node::Kind::kLoad:
    case Node::Kind::kHlo:
      Scalar(id);
      break;
    case Node::Kind::kStore:
      if (n.operands.size() > 1) {
        StoreWhere(id);
      } else {
        StoreScalar(id);
      }
      break;
    case Node::Kind::kWhen:
      LowerWhen(id);
      break;
    case Node::Kind::kFor:
      LowerFor(id);
      break;
    case Node::Kind::kWhile:
      LowerWhile(id);
      break;
    case Node::Kind::kPipeline:
      LowerPipeline(id);
      break;
    case Node::Kind::kCopyStart:
    case Node::Kind::kCopyWait:
    case Node::Kind::kSignal:
    case Node::Kind::kWait:
      LowerCopy(id);
      break;
    default:
      Fail(id, "a statement that is not compiled to bundles yet");
      break;
  }
  b_.set_source(old_source);
}

// ---- SMEM ----

std::vector<Operand> Lowering::SmemIndex(const Node& n) {
  std::vector<Operand> index;
  const Dims& block = k.refs[n.ref].shape.dims;
  for (size_t d = 0; d < n.slices.size(); ++d) {
    index.push_back(CheckedStart(n.slices[d], block[d]));
  }
  return index;
}

Operand Lowering::LoadScalarWord(const Node& n) { return LoadScalar(n.ref, SmemIndex(n)); }

void Lowering::StoreScalar(NodeId id) {
  const Node& n = node(id);
  const NodeId value = n.operands[0];
  const bool constant = node(value).kind == Node::Kind::kHlo && node(value).op == Op::kConstant;
  Operand v = constant ? EvalConstantScalar(node(value)) : Scalar(value);
  isa::MemRef mem = SmemWord(n.ref, SmemIndex(n));
  b_.Op(Opcode::kSst, {b_.AsScalar(v)});
  b_.last().mem = mem;
}

// Element (0, 0) of a value's one register, through the queue to the scalar core.
Operand Lowering::ScalarOfVector(NodeId id) {
  Coords at(dims(id).size(), Coord::Const(0));
  Reg v = b_.AsReg(ToVector(Get(id, {-1, -1}, at)));
  Reg token = b_.Op(Opcode::kVpush, {v});
  return b_.Op(Opcode::kSpop, {token});
}

// ---- loops ----

void Lowering::LowerDynamicFor(NodeId id, Operand lower, Operand upper) {
  const Node& n = node(id);
  const int64_t outer_trips = f->blocks[b_.block()].trips;
  const bool in_grid = f->blocks[b_.block()].in_grid_loop;
  Reg counter = f->New(RegClass::kScalar);
  b_.Into(counter, Opcode::kSmov, {lower});
  Reg none = b_.Op(Opcode::kScmpGe, {counter, upper});
  const int before = b_.block();
  b_.Branch(-1, none, false);
  llo::Loop loop;
  loop.first = NewBlock(absl::StrCat("for", id), -1, in_grid);
  BindLoopIndex(n.regions[0], 0, counter, !lower.is_imm() || lower.imm < 0);
  PushScope(-1);
  around_.push_back(id);
  LowerRegion(n.regions[0]);
  around_.pop_back();
  PopScope();
  b_.Into(counter, Opcode::kSadd, {counter, Imm(1)});
  Reg more = b_.Op(Opcode::kScmpLt, {counter, upper});
  b_.Branch(loop.first, more, false);
  loop.last = b_.block();
  f->loops.push_back(loop);
  f->blocks[before].insts.back().target =
      NewBlock(absl::StrCat("after_for", id), outer_trips, in_grid);
}

void Lowering::LowerWhile(NodeId id) {
  const Node& n = node(id);
  WaitForAll();
  for (const kernel::Region& r : n.regions) FixUsed(r);
  if (failed_) return;
  const int64_t outer_trips = f->blocks[b_.block()].trips;
  const bool in_grid = f->blocks[b_.block()].in_grid_loop;
  llo::Loop loop;
  loop.first = NewBlock(absl::StrCat("while", id), -1, in_grid);
  PushScope(-1);
  LowerRegion(n.regions[0]);
  Reg goes_on = Predicate(n.operands[0]);
  PopScope();
  const int test = b_.block();
  b_.Branch(-1, goes_on, true);
  NewBlock(absl::StrCat("do", id), -1, in_grid);
  PushScope(-1);
  LowerRegion(n.regions[1]);
  PopScope();
  b_.Branch(loop.first, Reg(), false);
  loop.last = b_.block();
  f->loops.push_back(loop);
  f->blocks[test].insts.back().target =
      NewBlock(absl::StrCat("after_while", id), outer_trips, in_grid);
}

// Values of vectors that the scalar core needs: conditions, bounds, starts of slices, stores to
// SMEM.
void Lowering::FindScalarUses() {
  auto use = [&](NodeId id) {
    if (id < 0 || info[id].scalar) return;
    const Node& n = node(id);
    if (n.kind == Node::Kind::kHlo && n.op == Op::kConstant) return;
    info[id].to_scalar = true;
  };
  auto starts = [&](const std::vector<kernel::Slice>& slices) {
    for (const kernel::Slice& s : slices) use(s.start_node);
  };
  for (const Node& n : k.nodes) {
    starts(n.slices);
    for (const kernel::RefView& v : n.views) starts(v.slices);
    const bool smem_store = n.kind == Node::Kind::kStore && k.refs[n.ref].space == RefSpace::kSmem;
    const bool all = n.kind != Node::Kind::kHlo && n.kind != Node::Kind::kStore;
    if (!all && !smem_store) continue;
    for (NodeId o : n.operands) use(o);
  }
}

}  // namespace tpuc::lower
