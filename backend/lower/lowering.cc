// See lowering.h: the evaluator's dispatch, scopes, scalars and small constants.
#include "backend/lower/lowering.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/diag/check.h"

namespace tpuc::lower {

namespace {
// Helper keys of the memo.
constexpr int kLaneSeqKey = -2, kLaneIdsKey = -3, kSublaneIdsKey = -4, kMaskKey = -5,
              kCoordKey = -6, kScalarKey = -1000;
}  // namespace

Lowering::Lowering(const kernel::Kernel& kernel, const Chip& chip, const LowerOptions& options,
                   llo::Function* function, std::vector<isa::SourceEntry>* sources, DiagSink* diags)
    : k(kernel),
      chip(chip),
      options(options),
      f(function),
      sources(sources),
      diags(diags),
      b_(function),
      next_row(options.first_row),
      next_flag(options.first_flag) {}

void Lowering::Fail(NodeId id, std::string what) {
  if (failed_) return;
  failed_ = true;
  std::string message = absl::StrCat("kernel '", k.name, "': ", what);
  Loc loc = k.loc;
  if (id >= 0) {
    const Node& n = node(id);
    if (n.kind == Node::Kind::kHlo) {
      message = absl::StrCat("kernel '", k.name, "': ", OpName(n.op), " ", ToString(n.shape, false),
                             n.hlo.empty() ? "" : absl::StrCat(" (", n.hlo, ")"), ": ", what);
    }
    if (n.loc.line > 0) loc = n.loc;
  }
  diags->Add(DiagCode::kUnsupportedOp, nullptr, loc, message);
}

// ---- scopes ----

void Lowering::PushScope(int loop) {
  scopes.emplace_back();
  depth = static_cast<int>(scopes.size()) - 1;
  scopes.back().loop = loop;
}

// Whether code now runs more than once for each run of the region.
bool Lowering::InLoop() const {
  for (size_t d = region_base_; d < scopes.size(); ++d) {
    if (scopes[d].loop >= -1) return true;
  }
  return false;
}

const Operand* Lowering::Recall(const Key& key) const {
  for (int d = depth; d >= 0; --d) {
    auto it = scopes[d].memo.find(key);
    if (it != scopes[d].memo.end()) return &it->second;
  }
  return nullptr;
}

int Lowering::DepthOf(const Coords& at) const {
  int deep = 0;
  for (const Coord& c : at) {
    if (c.is_const()) continue;
    for (int d = static_cast<int>(scopes.size()) - 1; d > deep; --d) {
      if (scopes[d].loop == c.loop) deep = d;
    }
  }
  return deep;
}

Operand Lowering::Invariant(const Coords& at, bool allowed, const std::function<Operand()>& emit) {
  int target = depth;
  if (allowed) {
    int deep = DepthOf(at);
    while (target > deep && scopes[target].loop >= 0 && scopes[target].preheader >= 0 &&
           scopes[target].budget > 0) {
      --target;
    }
  }
  if (target == depth) return emit();
  for (int d = target + 1; d <= depth; ++d) --scopes[d].budget;
  int old_depth = depth, old_block = b_.block();
  b_.SetBlock(scopes[target + 1].preheader);
  depth = target;
  Operand v = emit();
  depth = old_depth;
  b_.SetBlock(old_block);
  return v;
}

// ---- the evaluator ----

Operand Lowering::Get(NodeId id, VLayout want, const Coords& at) {
  if (failed_) return Imm(0);
  const Node& n = node(id);
  NodeInfo& i = info[id];
  bool serves = i.flexible || Serves(i.natural, want, n.shape.dims);
  VLayout layout = i.flexible || !serves ? want : i.natural;
  Key key{id, layout, at};
  if (const Operand* v = Recall(key)) return *v;
  if (TooDeep(id)) return Imm(0);
  ++nesting_;
  int old_source = b_.source();
  if (i.source >= 0) b_.set_source(i.source);
  Operand v;
  if (i.scalar) {
    v = Invariant({}, true, [&] {
      Operand r = type(id) == Type::kPred
                      ? ToMask(b_.Op(Opcode::kVstv, {b_.Select(Predicate(id), Imm(1), Imm(0))}))
                      : Operand(b_.Op(Opcode::kVstv, {Scalar(id)}));
      Remember(key, r);
      return r;
    });
  } else if (!serves) {
    v = Relayout(id, i.natural, want, at);
  } else if (i.ready) {
    std::vector<Start> none(n.shape.dims.size());
    v = LoadTile(i.view, none, n.shape.dims, layout, at, id);
    if (type(id) == Type::kPred) v = ToMask(v);
    if (n.op == Op::kDot && type(id) == Type::kBF16) v = RoundTo(Type::kBF16, v);  // summed in f32
    ++f->info.temp_loads;
  } else {
    bool hoist = i.stable && (n.kind == Node::Kind::kLoad || n.op == Op::kBroadcast ||
                              n.op == Op::kIota || n.op == Op::kReshape);
    v = Invariant(at, hoist, [&] {
      Operand r = n.kind == Node::Kind::kLoad ? EvalLoad(id, layout, at) : EvalHlo(id, layout, at);
      Remember(key, r);
      return r;
    });
  }
  b_.set_source(old_source);
  --nesting_;
  Remember(key, v);
  return v;
}

bool Lowering::TooDeep(NodeId id) {
  if (nesting_ >= kDeepest) Fail(id, absl::StrCat("a chain of more than ", kDeepest, " operations"));
  return failed_;
}

Operand Lowering::EvalHlo(NodeId id, VLayout layout, const Coords& at) {
  const Node& n = node(id);
  switch (n.op) {
    case Op::kConstant:
      return EvalConstant(id);
    case Op::kIota:
      return EvalIota(id, layout, at);
    case Op::kBroadcast:
      return EvalBroadcast(id, layout, at);
    case Op::kReshape:
    case Op::kBitcast:
      return EvalReshape(id, layout, at);
    case Op::kTranspose:
      return EvalTranspose(id, layout, at);
    case Op::kSlice:
      return EvalSlice(id, layout, at);
    case Op::kConcatenate:
    case Op::kPad:
      return EvalConcatOrPad(id, layout, at);
    case Op::kReverse:
      return EvalReverse(id, layout, at);
    case Op::kReduce:
      return EvalReduce(id, layout, at);
    case Op::kDot:
      return EvalDot(id, layout, at);
    case Op::kCopy:
      return Get(n.operands[0], layout, at);
    default:
      return EvalElementwise(id, layout, at);
  }
}

Operand Lowering::EvalConstant(NodeId id) {
  const Node& n = node(id);
  const Literal& l = *n.literal;
  int64_t bytes = LiteralBytesOf(n.shape.type);
  for (int64_t i = 1; i < l.size(); ++i) {
    if (std::memcmp(l.bytes(), l.bytes() + i * bytes, bytes) != 0) {
      Fail(id, "a constant whose elements differ, inside a kernel");
      return Imm(0);
    }
  }
  const uint8_t* p = l.bytes();
  switch (n.shape.type) {
    case Type::kF32:
    case Type::kS32:
    case Type::kU32:
      return Imm(*reinterpret_cast<const int32_t*>(p));
    case Type::kBF16:
      return Imm(static_cast<int32_t>(uint32_t{*reinterpret_cast<const uint16_t*>(p)} << 16));
    case Type::kS16:
      return Imm(*reinterpret_cast<const int16_t*>(p));
    case Type::kU16:
      return Imm(*reinterpret_cast<const uint16_t*>(p));
    case Type::kS8:
      return Imm(*reinterpret_cast<const int8_t*>(p));
    case Type::kU8:
      return Imm(*p);
    case Type::kPred:
      return ToMask(Imm(*p != 0));
    default:
      Fail(id, absl::StrCat("a constant of type ", TypeName(n.shape.type)));
      return Imm(0);
  }
}

// ---- masks and sequences ----

Operand Lowering::ToMask(Operand v) {
  if (v.is_imm()) return v.imm != 0 ? MaskOf(0, 8, 0, 128) : MaskOf(0, 0, 0, 0);
  if (v.reg.cls == RegClass::kMask) return v;
  return b_.Op(Opcode::kVcmpNeS32, {v, Imm(0)});
}

Operand Lowering::ToVector(Operand v) {
  if (v.is_imm() || v.reg.cls != RegClass::kMask) return v;
  return b_.Op(Opcode::kVsel, {v, Imm(1), Imm(0)});
}

Operand Lowering::MaskOf(int64_t sub_from, int64_t sub_to, int64_t lane_from, int64_t lane_to) {
  int64_t bits = sub_from | sub_to << 4 | lane_from << 8 | lane_to << 16;
  Key key{kMaskKey, {}, {Coord::Const(bits)}};
  if (const Operand* v = Recall(key)) return *v;
  return Invariant({}, true, [&] {
    Operand m = b_.Op(Opcode::kVcmask, {Imm(bits)});
    Remember(key, m);
    return m;
  });
}

Reg Lowering::Kept(int key_id, const std::function<Reg()>& make) {
  Key key{key_id, {}, {}};
  if (const Operand* v = Recall(key)) return v->reg;
  return Invariant({}, true,
                   [&] {
                     Operand r = make();
                     Remember(key, r);
                     return r;
                   })
      .reg;
}

Reg Lowering::LaneSeq() {
  return Kept(kLaneSeqKey, [&] { return b_.Op(Opcode::kVlaneseq, {}); });
}

Reg Lowering::LaneIds() {
  return Kept(kLaneIdsKey, [&] { return b_.Op(Opcode::kVand, {LaneSeq(), Imm(127)}); });
}

Reg Lowering::SublaneIds() {
  return Kept(kSublaneIdsKey, [&] { return b_.Op(Opcode::kVshrl, {LaneSeq(), Imm(7)}); });
}

// ---- scalars ----

Operand Lowering::CoordScalar(const Coord& at) {
  if (at.is_const()) return Imm(at.c);
  Key key{kCoordKey, {}, {at}};
  if (const Operand* v = Recall(key)) return *v;
  return Invariant({at}, true, [&] {
    Operand s = b_.Sadd(b_.Smul(loops[at.loop].counter, Imm(at.scale)), Imm(at.c));
    Remember(key, s);
    return s;
  });
}

Operand Lowering::Scalar(NodeId id) {
  const Node& n = node(id);
  Key key{kScalarKey - id, {}, {}};
  if (const Operand* v = Recall(key)) return *v;
  if (TooDeep(id)) return Imm(0);
  ++nesting_;
  Operand r = EvalScalar(n, id);
  --nesting_;
  Remember(key, r);
  return r;
}

Operand Lowering::EvalScalar(const Node& n, NodeId id) {
  switch (n.kind) {
    case Node::Kind::kAxis:
      return axes[n.axis];
    case Node::Kind::kNumAxis:
      return Imm(k.grid[n.axis].extent);
    case Node::Kind::kLoopIndex:
      return loop_index[id];
    default:
      break;
  }
  if (n.shape.type == Type::kPred && n.op != Op::kConstant) {
    return b_.Select(Predicate(id), Imm(1), Imm(0));
  }
  auto arg = [&](int i) { return Scalar(n.operands[i]); };
  auto flip = [&](Operand v, Operand zero_or_one) {  // -v where the flag is set
    return b_.Select(b_.Op(Opcode::kScmpNe, {zero_or_one, Imm(0)}), b_.Ssub(Imm(0), v), v);
  };
  switch (n.op) {
    case Op::kConstant:
      return EvalConstantScalar(n);
    case Op::kConvert:
    case Op::kCopy:
    case Op::kReshape:
    case Op::kBitcast:
      return arg(0);
    case Op::kAdd:
      return b_.Sadd(arg(0), arg(1));
    case Op::kSubtract:
      return b_.Ssub(arg(0), arg(1));
    case Op::kMultiply:
      return b_.Smul(arg(0), arg(1));
    case Op::kMaximum:
      return b_.Smax(arg(0), arg(1));
    case Op::kMinimum:
      return b_.Smin(arg(0), arg(1));
    case Op::kNegate:
      return b_.Ssub(Imm(0), arg(0));
    case Op::kAnd:
      return b_.Op(Opcode::kSand, {arg(0), arg(1)});
    case Op::kOr:
      return b_.Op(Opcode::kSor, {arg(0), arg(1)});
    case Op::kXor:
      return b_.Op(Opcode::kSxor, {arg(0), arg(1)});
    case Op::kDivide:
    case Op::kRemainder: {
      Operand a = arg(0), b = arg(1);
      bool div = n.op == Op::kDivide;
      if (n.shape.type == Type::kU32 || NonNegative(n.operands[0])) {
        if (b.is_imm() ? b.imm > 0 : n.shape.type == Type::kU32) {
          return div ? b_.Sdiv(a, b) : b_.Srem(a, b);
        }
      }
      Operand sa = b_.Op(Opcode::kSshrl, {a, Imm(31)}), sb = b_.Op(Opcode::kSshrl, {b, Imm(31)});
      Operand ua = flip(a, sa), ub = flip(b, sb);
      if (!div) return flip(b_.Op(Opcode::kSrem, {ua, ub}), sa);
      return flip(b_.Op(Opcode::kSdiv, {ua, ub}), b_.Op(Opcode::kSxor, {sa, sb}));
    }
    case Op::kSelect:
      return b_.Select(Predicate(n.operands[0]), arg(1), arg(2));
    default:
      Fail(id, "on the scalar core");
      return Imm(0);
  }
}

bool Lowering::NonNegative(NodeId id, int levels) const {
  if (levels == 0) return false;
  const Node& n = node(id);
  switch (n.kind) {
    case Node::Kind::kAxis:
    case Node::Kind::kNumAxis:
    case Node::Kind::kLoopIndex:
      return true;
    default:
      break;
  }
  switch (n.op) {
    case Op::kConstant:
      return EvalConstantScalar(n).imm >= 0;
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kMinimum:
      return NonNegative(n.operands[0], levels - 1) && NonNegative(n.operands[1], levels - 1);
    default:
      return false;
  }
}

Operand Lowering::EvalConstantScalar(const Node& n) const {
  const uint8_t* p = n.literal->bytes();
  switch (n.shape.type) {
    case Type::kS8:
      return Imm(*reinterpret_cast<const int8_t*>(p));
    case Type::kU8:
    case Type::kPred:
      return Imm(*p);
    case Type::kS16:
      return Imm(*reinterpret_cast<const int16_t*>(p));
    case Type::kU16:
      return Imm(*reinterpret_cast<const uint16_t*>(p));
    default:
      return Imm(*reinterpret_cast<const int32_t*>(p));
  }
}

Reg Lowering::Predicate(NodeId id) {
  const Node& n = node(id);
  auto make = [&](Opcode op, int a, int b) -> Reg {
    return b_.Op(op, {b_.AsScalar(Scalar(n.operands[a])), Scalar(n.operands[b])});
  };
  auto from_scalar = [&](Operand s) -> Reg {
    return b_.Op(Opcode::kScmpNe, {b_.AsScalar(s), Imm(0)});
  };
  if (n.kind != Node::Kind::kHlo) return from_scalar(Scalar(id));
  switch (n.op) {
    case Op::kConstant:
      return from_scalar(EvalConstantScalar(n));
    case Op::kCompare: {
      absl::string_view d = n.StringAttr(AttrId::kDirection);
      if (d == "EQ") return make(Opcode::kScmpEq, 0, 1);
      if (d == "NE") return make(Opcode::kScmpNe, 0, 1);
      if (d == "LT") return make(Opcode::kScmpLt, 0, 1);
      if (d == "LE") return make(Opcode::kScmpLe, 0, 1);
      if (d == "GT") return make(Opcode::kScmpGt, 0, 1);
      return make(Opcode::kScmpGe, 0, 1);
    }
    case Op::kAnd:
      return b_.Op(Opcode::kPand, {Predicate(n.operands[0]), Predicate(n.operands[1])});
    case Op::kOr:
      return b_.Op(Opcode::kPor, {Predicate(n.operands[0]), Predicate(n.operands[1])});
    case Op::kNot:
      return b_.Op(Opcode::kPneg, {Predicate(n.operands[0])});
    default:
      return from_scalar(Scalar(n.operands.empty() ? id : n.operands[0]));
  }
}

}  // namespace tpuc::lower
