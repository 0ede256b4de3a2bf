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
              kPartShiftsKey = -9;
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
      next_word(options.first_word),
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

Operand Lowering::Get(NodeId id, VLayout want, const Coords& where) {
  if (failed_) return Imm(0);
  const Node& n = node(id);
  NodeInfo& i = info[id];
  Coords at = where;  // registers that are alike are one
  for (size_t d = 0; i.alike != 0 && d < at.size(); ++d) {
    if (i.alike >> d & 1) at[d] = Coord::Const(0);
  }
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
    v = Relayout(id, want, at);
  } else if (i.ready) {
    std::vector<Start> none(n.shape.dims.size());
    v = LoadTile(i.view, none, n.shape.dims, layout, at, id);
    if (type(id) == Type::kPred) v = ToMask(v);
    if (n.op == Op::kDot && type(id) == Type::kBF16) v = RoundTo(Type::kBF16, v);  // summed in f32
    ++f->info.temp_loads;
  } else {
    bool hoist = i.stable && (n.kind == Node::Kind::kLoad || n.op == Op::kBroadcast ||
                              n.op == Op::kIota || n.op == Op::kReshape || i.alike != 0);
    // Masks are few: half of what may be hoisted.
    constexpr int kLeftToVectors = 8;
    if (type(id) == Type::kPred && scopes[depth].budget <= kLeftToVectors) hoist = false;
    // Rows that a loop counts: from the first of its body.
    const int counted = at.empty() ? -1 : CountedAlong(id);
    if (counted >= 0 && !at[counted].is_const() && at[counted].c != 0) {
      Coords base = at;
      base[counted].c = 0;
      v = V(Opcode::kVaddS32, Get(id, layout, base),
            Imm(at[counted].c * TileUnit(layout, counted)));
    } else
      v = Invariant(at, hoist, [&] {
        Operand r =
            n.kind == Node::Kind::kLoad ? EvalLoad(id, layout, at) : EvalHlo(id, layout, at);
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
  if (nesting_ >= kDeepest)
    Fail(id, absl::StrCat("a chain of more than ", kDeepest, " operations"));
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
    case Type::kS4:
      return Imm(*reinterpret_cast<const int8_t*>(p));
    case Type::kU8:
    case Type::kU4:
      return Imm(*p);
    case Type::kPred:
      return ToMask(Imm(*p != 0));
    default:
      if (const num::FloatFormat* narrow = NarrowFormat(n.shape.type)) {
        uint32_t bits = narrow->bits() == 16 ? *reinterpret_cast<const uint16_t*>(p) : *p;
        return F32(static_cast<float>(num::WidenFloat(*narrow, bits)));
      }
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

// Of words of 4-bit rows: the bits below row i, in sublane i.
Reg Lowering::PartShifts() {
  return Kept(kPartShiftsKey, [&] { return b_.Op(Opcode::kVshll, {SublaneIds(), Imm(2)}); });
}

}  // namespace tpuc::lower
