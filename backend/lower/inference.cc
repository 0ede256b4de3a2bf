// Which layout each block value has in registers. Loads have their memory's, a reduction keeps what
// it did not reduce, elementwise operations follow their operands; constants, iota and broadcasts
// are made in whatever layout is asked for. Where a user asks for another layout, Get relays out.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/lower/dot.h"
#include "backend/lower/lowering.h"
#include "src/ir/op_table.h"

namespace tpuc::lower {

// A reshape that only adds or drops dimensions of size 1: operand dimension of each result
// dimension.
bool Lowering::DegenerateReshape(const Node& n, std::vector<int>* operand_dim) const {
  const Dims& to = n.shape.dims;
  const Dims& from = dims(n.operands[0]);
  operand_dim->assign(to.size(), -1);
  size_t i = 0;
  for (size_t d = 0; d < to.size(); ++d) {
    while (i < from.size() && from[i] == 1 && to[d] != 1) ++i;
    if (i < from.size() && from[i] == to[d]) {
      (*operand_dim)[d] = static_cast<int>(i++);
    } else if (to[d] != 1) {
      return false;
    }
  }
  while (i < from.size() && from[i] == 1) ++i;
  return i == from.size();
}

namespace {

bool ScalarOp(const Node& n) {
  switch (n.op) {
    case Op::kConstant:
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kNegate:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kNot:
    case Op::kSelect:
    case Op::kCompare:
    case Op::kConvert:
    case Op::kCopy:
    case Op::kReshape:
    case Op::kBitcast:
      return true;
    case Op::kAbs:
    case Op::kShiftLeft:
    case Op::kShiftRightArithmetic:
    case Op::kShiftRightLogical:
      return n.shape.type == Type::kS32;
    default:
      return false;
  }
}

}  // namespace

// Dimensions along which all elements are the same: those that a broadcast adds, and all but the
// counted one of an iota.
uint64_t Lowering::AlikeAlong(NodeId id) const {
  const Node& n = node(id);
  const int rank = n.shape.rank();
  if (n.kind == Node::Kind::kLoad && rank == static_cast<int>(refs[n.ref].view.form.dims.size())) {
    return refs[n.ref].alike;
  }
  if (n.kind != Node::Kind::kHlo || rank == 0 || rank > 63) return 0;
  const uint64_t all = (uint64_t{1} << rank) - 1;
  if (n.op == Op::kIota) {
    return all & ~(uint64_t{1} << std::get<int64_t>(*n.Find(AttrId::kIotaDimension)));
  }
  if (n.op == Op::kBroadcast) {
    const NodeId o = n.operands[0];
    const Ints& map = n.IntsAttr(AttrId::kDimensions);
    uint64_t alike = all;
    for (size_t d = 0; d < map.size(); ++d) {
      const bool stretched = dims(o)[d] != n.shape.dims[map[d]];
      if (!stretched && !(info[o].alike >> d & 1)) alike &= ~(uint64_t{1} << map[d]);
    }
    return alike;
  }
  if (n.op == Op::kSlice) return info[n.operands[0]].alike;
  std::vector<int> operand_dim;
  if (n.op == Op::kReshape && DegenerateReshape(n, &operand_dim)) {
    uint64_t alike = 0;
    for (int d = 0; d < rank; ++d) {
      const int o = operand_dim[d];
      if (o >= 0 && (info[n.operands[0]].alike >> o & 1)) alike |= uint64_t{1} << d;
    }
    return alike;
  }
  if (InfoOf(n.op).op_class != OpClass::kElementwise) return 0;
  uint64_t alike = all;
  for (NodeId o : n.operands) {
    if (dims(o).empty()) continue;
    if (dims(o) != n.shape.dims) return 0;
    alike &= info[o].alike;
  }
  return alike;
}

void Lowering::InferNode(NodeId id) {
  const Node& n = node(id);
  NodeInfo& i = info[id];
  int rank = static_cast<int>(n.shape.dims.size());
  i.alike = AlikeAlong(id);
  i.stable = n.kind == Node::Kind::kHlo;
  for (NodeId o : n.operands) i.stable = i.stable && info[o].stable;
  switch (n.kind) {
    case Node::Kind::kAxis:
    case Node::Kind::kNumAxis:
      i.scalar = i.stable = true;
      return;
    case Node::Kind::kLoopIndex:
      i.scalar = true;
      return;
    case Node::Kind::kLoad:
      if (k.refs[n.ref].InSmem()) {  // floats too: as they are, to be spread over a register
        i.scalar = true;
        return;
      }
      i.natural = NaturalOfLoad(n);
      i.stable = true;
      for (const Node& other : k.nodes) {
        if (other.kind == Node::Kind::kCopyStart &&
            refs[other.views[1].ref].storage == refs[n.ref].storage) {
          i.stable = false;
        }
        if (other.kind == Node::Kind::kStore && refs[other.ref].storage == refs[n.ref].storage) {
          i.stable = false;
        }
      }
      for (const kernel::Slice& s : n.slices) i.stable = i.stable && s.start_node < 0;
      return;
    case Node::Kind::kHlo:
      break;
    default:
      return;
  }
  bool integral = n.shape.dims.empty() && !IsFloat(n.shape.type);
  if (integral && n.op != Op::kConstant && ScalarOp(n)) {
    bool all = true;
    for (NodeId o : n.operands) {
      bool constant = node(o).kind == Node::Kind::kHlo && node(o).op == Op::kConstant &&
                      dims(o).empty() && !IsFloat(type(o));
      all = all && (info[o].scalar || constant);
    }
    if (all) {
      i.scalar = true;
      return;
    }
  }
  auto dim = [&](int operand_axis, const std::vector<int>& result_of) -> int8_t {
    return static_cast<int8_t>(operand_axis < 0 ? -1 : result_of[operand_axis]);
  };
  i.natural = DefaultVLayout(rank);
  switch (n.op) {
    case Op::kConstant:
    case Op::kIota:
      i.flexible = true;
      return;
    case Op::kBroadcast:
      i.flexible = true;
      return;
    case Op::kReduce: {
      VLayout from = OperandLayout(n.operands[0]);
      int orank = static_cast<int>(dims(n.operands[0]).size());
      const Ints& reduced = n.IntsAttr(AttrId::kDimensions);
      std::vector<int> result_of(orank, -1);
      int r = 0;
      for (int d = 0; d < orank; ++d) {
        if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) result_of[d] = r++;
      }
      i.natural = {dim(from.sub, result_of), dim(from.lane, result_of)};
      return;
    }
    case Op::kReshape:
    case Op::kBitcast: {
      std::vector<int> operand_dim;
      if (!DegenerateReshape(n, &operand_dim)) return;
      if (info[n.operands[0]].flexible) {
        i.flexible = true;
        return;
      }
      VLayout from = info[n.operands[0]].natural;
      std::vector<int> result_of(dims(n.operands[0]).size(), -1);
      for (size_t d = 0; d < operand_dim.size(); ++d) {
        if (operand_dim[d] >= 0) result_of[operand_dim[d]] = static_cast<int>(d);
      }
      // A dropped dimension of size 1 along an axis leaves that axis with one valid element, which
      // a register does not say: such a value goes through memory.
      i.natural = {dim(from.sub, result_of), dim(from.lane, result_of)};
      if (from.dense() && rank != 1) i.natural.sub = -1;
      return;
    }
    case Op::kTranspose: {
      if (info[n.operands[0]].flexible) {
        i.flexible = true;
        return;
      }
      VLayout from = info[n.operands[0]].natural;
      const Ints& perm = n.IntsAttr(AttrId::kDimensions);
      std::vector<int> result_of(perm.size());
      for (size_t d = 0; d < perm.size(); ++d) result_of[perm[d]] = static_cast<int>(d);
      i.natural = {dim(from.sub, result_of), dim(from.lane, result_of)};
      return;
    }
    case Op::kDot:
      i.natural = DotLayout(id);
      return;
    case Op::kSlice:
    case Op::kConcatenate:
    case Op::kPad:
    case Op::kReverse: {
      for (NodeId o : n.operands) {
        if (!info[o].flexible && dims(o).size() == n.shape.dims.size()) {
          i.natural = info[o].natural;
          break;
        }
      }
      // Rows that move need a layout that has them, and no dense one.
      if (i.natural.dense()) i.natural = {-1, 0};
      for (int8_t* axis : {&i.natural.sub, &i.natural.lane}) {
        if (*axis < 0 && rank >= 2) i.natural = DefaultVLayout(rank);
      }
      return;
    }
    default: {
      bool flexible = true, found = false;
      for (NodeId o : n.operands) {
        if (info[o].flexible || info[o].scalar || (dims(o).empty() && rank > 0)) continue;
        flexible = false;
        VLayout l = info[o].natural;
        if (!found) {
          i.natural = l;
          found = true;
          continue;
        }
        if (l == i.natural) continue;
        // Prefer the layout whose registers hold what the other's do not: real axes over
        // replicated ones of size 1; among rank-1 layouts, rows along lanes.
        bool more = Serves(i.natural, l, n.shape.dims) && !Serves(l, i.natural, n.shape.dims);
        if (more || (rank == 1 && l.lane == 0 && i.natural.lane < 0)) i.natural = l;
        if (rank == 1 && i.natural.dense() && l == VLayout{-1, 0}) i.natural = l;
      }
      i.flexible = flexible && !n.operands.empty();
      return;
    }
  }
}

// For reports: how each product fills the MXUs.
void Lowering::DescribeDots() {
  const int64_t side = chip.mxu_size;
  for (NodeId id = 0; id < static_cast<NodeId>(k.nodes.size()) && !failed_; ++id) {
    DotPlan p;
    if (node(id).kind != Node::Kind::kHlo || node(id).op != Op::kDot || !PlanDot(id, &p)) continue;
    // Both halves of an MXU hold the same weights, and take two row groups at once.
    const bool pairs = chip.mxu_tiles() > 1 && p.k <= kLanes && p.n <= kLanes && p.m_groups() > 1;
    isa::DotInfo d{info[id].source,
                   p.m,
                   p.k,
                   p.n,
                   CeilDiv(p.k, side) * side,
                   pairs ? kLanes : CeilDiv(p.n, side) * side};
    const bool known = std::any_of(f->info.dots.begin(), f->info.dots.end(),
                                   [&](const isa::DotInfo& o) { return o.source == d.source; });
    if (!known) f->info.dots.push_back(d);
  }
}

namespace {

// What a node without a source instruction is called in reports: "reduce_max", "dot", "load x".
std::string OperationName(const kernel::Kernel& k, const Node& n) {
  switch (n.kind) {
    case Node::Kind::kHlo:
      if (n.op != Op::kReduce) return std::string(OpName(n.op));
      return absl::StrCat("reduce_", n.reducer == Op::kMaximum   ? "max"
                                     : n.reducer == Op::kMinimum ? "min"
                                     : n.reducer == Op::kAdd     ? "sum"
                                                                 : OpName(n.reducer));
    case Node::Kind::kLoad:
      return absl::StrCat("load ", k.refs[n.ref].name);
    case Node::Kind::kStore:
      return absl::StrCat("store ", k.refs[n.ref].name);
    case Node::Kind::kWhen:
      return "when";
    case Node::Kind::kFor:
      return "for";
    case Node::Kind::kWhile:
      return "while";
    case Node::Kind::kPipeline:
      return "pipeline";
    default:
      return "";
  }
}

}  // namespace

void Lowering::InferLayouts() {
  info.assign(k.nodes.size(), {});
  std::function<void(const kernel::Region&)> walk = [&](const kernel::Region& region) {
    for (NodeId id : region.nodes) {
      InferNode(id);
      const Node& n = node(id);
      for (NodeId o : n.operands) ++info[o].uses;
      if (!n.hlo.empty() || !n.op_name.empty() || !n.place.empty()) {
        const std::string op_name =
            n.hlo.empty() && n.op_name.empty() ? OperationName(k, n) : n.op_name;
        std::string key = n.hlo + '\n' + op_name + '\n' + n.place;
        auto [it, added] = source_rows.try_emplace(key, static_cast<int>(sources->size()));
        if (added) sources->push_back({n.hlo, op_name, n.place});
        info[id].source = it->second;
      }
      for (const kernel::Region& r : n.regions) walk(r);
    }
  };
  walk(k.setup);
  walk(k.body);
  for (const Node& n : k.nodes) {
    const int sub = n.kind == Node::Kind::kStore ? refs[n.ref].view.form.sub : -1;
    if (sub >= 0 && n.slices[sub].size < kSublanes) refs[n.ref].view.rows_apart = true;
    if (n.kind != Node::Kind::kCopyStart) continue;
    RefState& target = refs[n.views[1].ref];
    const int rows = target.view.form.sub;
    if (rows >= 0) target.view.rows_apart |= n.views[1].slices[rows].size % kSublanes != 0;
  }
  FindScalarUses();
}

namespace {

// Nodes that write refs or name them to a copy.
void WritersIn(const kernel::Kernel& k, const kernel::Region& region,
               std::vector<NodeId>* writers) {
  for (NodeId id : region.nodes) {
    const Node& n = k.nodes[id];
    if (n.kind == Node::Kind::kStore || !n.views.empty()) writers->push_back(id);
    for (const kernel::Region& r : n.regions) WritersIn(k, r, writers);
  }
}

}  // namespace

// Scratch buffers all of whose stores write values alike in all lanes (row statistics) hold such
// values: assumed of all, and taken back where a store disagrees.
void Lowering::InferAlikeRefs() {
  std::vector<NodeId> writers;
  WritersIn(k, k.setup, &writers);
  WritersIn(k, k.body, &writers);
  bool any = false;
  for (size_t r = 0; r < refs.size(); ++r) {
    const MemForm& form = refs[r].view.form;
    const bool plain = k.refs[r].role == kernel::Ref::Role::kScratch &&
                       k.refs[r].space == kernel::Ref::Space::kWindow && !form.flat &&
                       form.packing == 1 && form.lane >= 0 && form.dims[form.lane] % kLanes == 0;
    if (!plain) continue;
    refs[r].alike = uint64_t{1} << form.lane;
    any = true;
  }
  for (bool changed = any; changed;) {
    changed = false;
    InferLayouts();
    for (NodeId id : writers) {
      for (const kernel::RefView& v : node(id).views) {
        changed |= refs[v.ref].alike != 0;
        refs[v.ref].alike = 0;
      }
      if (node(id).kind != Node::Kind::kStore) continue;
      RefState& s = refs[node(id).ref];
      if (s.alike == 0) continue;
      const NodeId value = node(id).operands[0];
      const bool same_rank = dims(value).size() == s.view.form.dims.size();
      const int lane = s.view.form.lane;
      const bool all_lanes = node(id).slices[lane].size == s.view.form.dims[lane];
      const bool alike =
          all_lanes && (dims(value).empty() || (same_rank && (info[value].alike & s.alike) != 0));
      if (alike && node(id).operands.size() == 1) continue;
      s.alike = 0;
      changed = true;
    }
  }
}

}  // namespace tpuc::lower
