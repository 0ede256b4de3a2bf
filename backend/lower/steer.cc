// What prefetched scalars decide: their copies to SMEM before the first grid point, loads of single
// scalars, grid sizes known at run time only, and checks of index maps that read inputs.
//
//   prefetch col: s32[64];  in k: .. at (h, col[t], 0)
//   dma.hbm_to_smem s0, 16, 0, f; dma.done.wait ..;  %s5 = sld [smem:%s_t]; copy of block %s5
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/windows.h"
#include "backend/lower/lowering.h"

namespace tpuc::lower {

namespace {

constexpr int64_t kGranuleBytes = 32;

}  // namespace

// Rows of what a copy brings whole are rounded up to 128 words.
Dims WordStrides(const kernel::Ref& ref) {
  const Dims& dims = ref.shape.dims;
  Dims strides(dims.size(), 1);
  for (int d = static_cast<int>(dims.size()) - 2; d >= 0; --d) {
    strides[d] = dims[d + 1] * strides[d + 1];
    const bool row = d + 2 == static_cast<int>(dims.size());
    if (row && ref.role == kernel::Ref::Role::kPrefetch) {
      strides[d] = CeilDiv(strides[d], kLanes) * kLanes;
    }
  }
  return strides;
}

void Lowering::LoadPrefetched() {
  int64_t granules = 0;
  int flag = -1;
  for (size_t r = 0; r < refs.size(); ++r) {
    if (k.refs[r].role != kernel::Ref::Role::kPrefetch) continue;
    if (flag < 0) {
      flag = next_flag++;
      llo::Allocation a;
      a.name = "prefetch.sem";
      a.memory = isa::Memory::kSync;
      a.size = 1;
      a.offset = flag;
      f->allocations.push_back(a);
      b_.Op(Opcode::kVsyncpa, {Imm(flag), Imm(0)});
    }
    const int64_t n = DeviceBytes(k.refs[r].shape) / kGranuleBytes;
    if (n == 0) continue;
    b_.Op(Opcode::kDmaHbmToSmem, {isa::S(refs[r].operand), Imm(n), Imm(refs[r].word), Imm(flag)});
    granules += n;
  }
  if (granules == 0) return;
  b_.Op(Opcode::kDmaDoneWait, {Imm(flag), Imm(granules)});
  b_.Op(Opcode::kVsyncadd, {Imm(flag), Imm(-granules)});
}

isa::MemRef Lowering::SmemWord(int r, absl::Span<const Operand> index) {
  const Dims strides = WordStrides(k.refs[r]);
  Operand at = Imm(0);
  for (size_t d = 0; d < index.size(); ++d) {
    at = b_.Sadd(at, b_.Smul(index[d], Imm(strides[d])));
  }
  isa::MemRef mem;
  mem.base = at.is_imm() ? Imm(0) : at;
  mem.offset = static_cast<int32_t>(refs[r].word + (at.is_imm() ? at.imm : 0));
  mem.buffer = refs[r].view.buffer;
  return mem;
}

Operand Lowering::LoadScalar(int r, absl::Span<const Operand> index) {
  const isa::MemRef mem = SmemWord(r, index);
  const Reg value = b_.Op(Opcode::kSld, {});
  b_.last().mem = mem;
  return value;
}

bool Lowering::RunTimeGrid(absl::Span<const kernel::GridAxis> grid) {
  return std::any_of(grid.begin(), grid.end(),
                     [](const kernel::GridAxis& a) { return !a.most.empty(); });
}

bool Lowering::RunTimeIndex(int r) const {
  return std::any_of(k.refs[r].index.begin(), k.refs[r].index.end(),
                     [&](const kernel::Expr& e) { return !kernel::KnownBeforeRun(k, e); });
}

// Sizes of the grid; those known at run time only are checked against what they may be.
std::vector<Operand> Lowering::Extents(absl::Span<const kernel::GridAxis> grid) {
  std::vector<Operand> sizes;
  for (const kernel::GridAxis& a : grid) {
    sizes.push_back(Imm(a.extent));
    if (a.most.empty()) continue;
    Reg n = b_.AsScalar(IndexValue(a.size, axes));
    Reg bad = b_.Op(Opcode::kPor, {b_.Op(Opcode::kScmpLt, {n, Imm(0)}),
                                   b_.Op(Opcode::kScmpGt, {n, Imm(a.extent)})});
    const int old = b_.source();
    b_.set_source(SourceRowOf(absl::StrCat("size of grid axis ", a.name, ", at most ", a.extent),
                              k.loc.line));
    b_.SetPredicate(bad, false);
    b_.Op(Opcode::kShalt, {});
    b_.SetPredicate(Reg(), false);
    b_.set_source(old);
    sizes.back() = n;
  }
  return sizes;
}

Reg Lowering::IndexCondition(const kernel::Expr& e, absl::Span<const Operand> axes_now) {
  using Kind = kernel::Expr::Kind;
  const auto compare = [&](Opcode op) -> Reg {
    const Operand a = IndexValue(e.args[0], axes_now);
    return b_.Op(op, {b_.AsScalar(a), IndexValue(e.args[1], axes_now)});
  };
  switch (e.kind) {
    case Kind::kEq:
      return compare(Opcode::kScmpEq);
    case Kind::kNe:
      return compare(Opcode::kScmpNe);
    case Kind::kLt:
      return compare(Opcode::kScmpLt);
    case Kind::kLe:
      return compare(Opcode::kScmpLe);
    case Kind::kGt:
      return compare(Opcode::kScmpGt);
    case Kind::kGe:
      return compare(Opcode::kScmpGe);
    case Kind::kAnd:
      return b_.Op(Opcode::kPand,
                   {IndexCondition(e.args[0], axes_now), IndexCondition(e.args[1], axes_now)});
    case Kind::kOr:
      return b_.Op(Opcode::kPor,
                   {IndexCondition(e.args[0], axes_now), IndexCondition(e.args[1], axes_now)});
    case Kind::kNot:
      return b_.Op(Opcode::kPneg, {IndexCondition(e.args[0], axes_now)});
    default:
      return b_.Op(Opcode::kScmpNe, {b_.AsScalar(IndexValue(e, axes_now)), Imm(0)});
  }
}

// Stops the core where a block that the values of an input chose lies outside the array. Under the
// predicate of the copy that it guards.
void Lowering::CheckIndex(int r, absl::Span<const Operand> index) {
  const kernel::Ref& ref = k.refs[r];
  if (!RunTimeIndex(r)) return;
  Reg bad;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d].is_imm() || kernel::KnownBeforeRun(k, ref.index[d])) continue;
    const int64_t unit = ref.element_index ? 1 : ref.block[d];
    const int64_t blocks = CeilDiv(ref.shape.dims[d], unit);
    const int64_t pad = ref.low_pad.empty() ? 0 : ref.low_pad[d];
    for (Reg one : {b_.Op(Opcode::kScmpLt, {index[d], Imm(-pad)}),
                    b_.Op(Opcode::kScmpGe, {index[d], Imm(blocks)})}) {
      bad = bad.valid() ? b_.Op(Opcode::kPor, {bad, one}) : one;
    }
    const int64_t tile = kernel::ElementUnit(ref, static_cast<int>(d));
    if (!ref.element_index || tile == 1) continue;
    const Operand rest = b_.Op(Opcode::kSand, {index[d], Imm(tile - 1)});
    bad = b_.Op(Opcode::kPor, {bad, b_.Op(Opcode::kScmpNe, {rest, Imm(0)})});
  }
  if (!bad.valid()) return;
  const Reg old = b_.predicate();
  const bool negated = b_.predicate_negated();
  if (old.valid()) {
    Reg o = negated ? b_.Op(Opcode::kPneg, {old}) : old;
    bad = b_.Op(Opcode::kPand, {o, bad});
  }
  const int source = b_.source();
  b_.set_source(SourceRowOf(absl::StrCat("index map of ", ref.name, ": a block outside the array"),
                            ref.loc.line));
  b_.SetPredicate(bad, false);
  b_.Op(Opcode::kShalt, {});
  b_.SetPredicate(old, negated);
  b_.set_source(source);
}

int Lowering::SourceRowOf(std::string what, int line) {
  std::string place;  // as nodes have it
  for (const Node& n : k.nodes) {
    const size_t colon = n.place.rfind(':');
    if (n.loc.line <= 0 || colon == std::string::npos) continue;
    place = absl::StrCat(n.place.substr(0, colon), ":", line);
    break;
  }
  const std::string key = what + "\n\n" + place;
  auto [it, added] = source_rows.try_emplace(key, static_cast<int>(sources->size()));
  if (added) sources->push_back({std::move(what), "", place});
  return it->second;
}

}  // namespace tpuc::lower
