// One body a vector instruction, compiled for each SIMD target. Elementwise bodies are a lambda on
// vectors; the wrappers F32 and U32 say how words are read and cleaned:
//
//   case Opcode::kVaddF32: return F32([](auto d, auto a, auto b) HWY_ATTR { return Add(a, b); });
//
// F32 flushes subnormal operands and results to zero and makes every NaN 0x7FC00000. Bodies know
// nothing of time beyond the latency they hand to Machine::Push.
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/interp/machine.h"

// foreach_target.h must come before what includes highway.h.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/interp/vector_bodies.cc"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backend/interp/mxu-inl.h"
#include "src/num/eup-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tpuc::interp::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace nn = num::HWY_NAMESPACE;
using isa::Opcode;

using U32Tag = hn::ScalableTag<uint32_t>;
using F32Tag = hn::ScalableTag<float>;
using S32Tag = hn::ScalableTag<int32_t>;

// ---- elementwise ----

// F takes (tag, word vectors...) and gives a word vector.
template <class F, class... V>
HWY_INLINE void MapWords(Machine& m, const Op& op, F f) {
  const U32Tag du;
  uint32_t* out = m.reg[op.dest];
  const uint32_t* a = m.reg[op.v[0].index];
  const uint32_t* b = m.reg[op.v[1].index];
  const uint32_t* c = m.reg[op.v[2].index];
  const size_t sa = op.v[0].step, sb = op.v[1].step, sc = op.v[2].step;
  for (size_t i = 0; i < kWords; i += hn::Lanes(du)) {
    if constexpr (requires { f(du); }) {
      (void)a, (void)b, (void)c, (void)sa, (void)sb, (void)sc;
      hn::Store(f(du), du, out + i);
    } else if constexpr (requires(hn::Vec<U32Tag> v) { f(du, v); }) {
      (void)b, (void)c, (void)sb, (void)sc;
      hn::Store(f(du, hn::Load(du, a + (i & sa))), du, out + i);
    } else if constexpr (requires(hn::Vec<U32Tag> v) { f(du, v, v); }) {
      (void)c, (void)sc;
      hn::Store(f(du, hn::Load(du, a + (i & sa)), hn::Load(du, b + (i & sb))), du, out + i);
    } else {
      hn::Store(
          f(du, hn::Load(du, a + (i & sa)), hn::Load(du, b + (i & sb)), hn::Load(du, c + (i & sc))),
          du, out + i);
    }
  }
}

template <class F>
constexpr Body U32(F) {
  return [](Machine& m, const Op& op) HWY_ATTR { MapWords(m, op, F()); };
}

HWY_INLINE hn::Vec<F32Tag> In(hn::Vec<U32Tag> x) {
  const F32Tag df;
  return nn::Flush(df, hn::BitCast(df, x));
}
HWY_INLINE hn::Vec<U32Tag> Out(hn::Vec<F32Tag> x) {
  const F32Tag df;
  return hn::BitCast(U32Tag(), nn::OneNaN(df, nn::Flush(df, x)));
}

// f32 -> f32.
template <class F>
constexpr Body F32(F) {
  if constexpr (requires(hn::Vec<F32Tag> v) { F()(F32Tag(), v); }) {
    return U32([](auto, auto a) HWY_ATTR { return Out(F()(F32Tag(), In(a))); });
  } else {
    return U32([](auto, auto a, auto b) HWY_ATTR { return Out(F()(F32Tag(), In(a), In(b))); });
  }
}
// f32 compare -> mask.
template <class F>
constexpr Body F32Compare(F) {
  return U32([](auto du, auto a, auto b) HWY_ATTR {
    return hn::BitCast(du, hn::VecFromMask(F32Tag(), F()(In(a), In(b))));
  });
}
// s32 -> s32, and s32 compare -> mask.
template <class F>
constexpr Body S32(F) {
  return U32([](auto du, auto a, auto b) HWY_ATTR {
    const S32Tag di;
    return hn::BitCast(du, F()(hn::BitCast(di, a), hn::BitCast(di, b)));
  });
}
template <class F>
constexpr Body S32Compare(F) {
  return U32([](auto du, auto a, auto b) HWY_ATTR {
    const S32Tag di;
    return hn::BitCast(du, hn::VecFromMask(di, F()(hn::BitCast(di, a), hn::BitCast(di, b))));
  });
}
// u32 compare: as signed with the sign bit turned over.
template <class F>
constexpr Body U32Compare(F) {
  return U32([](auto du, auto a, auto b) HWY_ATTR {
    const S32Tag di;
    const auto flip = hn::Set(du, 0x80000000u);
    return hn::BitCast(du, hn::VecFromMask(di, F()(hn::BitCast(di, hn::Xor(a, flip)),
                                                   hn::BitCast(di, hn::Xor(b, flip)))));
  });
}
// Rare instructions, a word at a time.
template <class F>
constexpr Body Words(F) {
  return [](Machine& m, const Op& op) HWY_ATTR {
    uint32_t* out = m.reg[op.dest];
    const uint32_t *a = m.reg[op.v[0].index], *b = m.reg[op.v[1].index];
    for (size_t i = 0; i < kWords; ++i) {
      // A constant repeats every 16 words.
      uint32_t x = a[op.v[0].step ? i : 0], y = b[op.v[1].step ? i : 0];
      out[i] = F()(x, y);
    }
  };
}

template <class D, class V>
HWY_INLINE V MaxNaN(D d, V a, V b) {  // NaN if either is NaN
  (void)d;
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Gt(a, b), a, b), a);
}
template <class D, class V>
HWY_INLINE V MinNaN(D d, V a, V b) {
  (void)d;
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Lt(a, b), a, b), a);
}

template <class DU, class V>
HWY_INLINE V ShiftLeftBy(DU du, V a, V n) {
  const auto in_range = hn::Eq(hn::And(n, hn::Set(du, ~31u)), hn::Zero(du));
  return hn::IfThenElseZero(in_range, a << hn::And(n, hn::Set(du, 31u)));
}
template <class DU, class V>
HWY_INLINE V ShiftRightBy(DU du, V a, V n) {
  const auto in_range = hn::Eq(hn::And(n, hn::Set(du, ~31u)), hn::Zero(du));
  return hn::IfThenElseZero(in_range, a >> hn::And(n, hn::Set(du, 31u)));
}

// ---- within a register ----

// A result that is not elementwise goes to a spare register first: dest may be a source.
template <class F>
HWY_INLINE void Permuted(Machine& m, const Op& op, F fill) {
  uint32_t& spare = m.spare;
  fill(m.reg[spare + 2]);
  std::swap(m.reg[op.dest], m.reg[spare + 2]);
}

void RotateSublanes(Machine& m, const Op& op) {
  const uint32_t* a = m.Full(op, 0);
  int n = m.Value(op.s[0]) & (kSublanes - 1);
  Permuted(m, op, [&](uint32_t* out) {
    for (int i = 0; i < kSublanes; ++i) {
      std::memcpy(out + ((i + n) % kSublanes) * kLanes, a + i * kLanes, kLanes * 4);
    }
  });
}

// Two registers of 8 rows to one packed register of 16; `narrow` makes 16 bits of a word.
template <class F>
void Pack16(Machine& m, const Op& op, F narrow) {
  const uint32_t* halves[2] = {m.Full(op, 1), m.Full(op, 0)};  // low rows, high rows
  Permuted(m, op, [&](uint32_t* out) {
    for (int i = 0; i < kSublanes; ++i) {
      const uint32_t* rows = halves[i / 4] + 2 * (i % 4) * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) {
        out[i * kLanes + lane] = narrow(rows[lane]) | narrow(rows[kLanes + lane]) << 16;
      }
    }
  });
}

uint32_t NarrowBf16(uint32_t x) {
  if ((x & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  if ((x & 0x7f800000u) == 0) return x >> 31 << 15;
  return (x + 0x7fffu + (x >> 16 & 1u)) >> 16;
}

void PackBytes(Machine& m, const Op& op) {
  const uint32_t* halves[2] = {m.Full(op, 1), m.Full(op, 0)};
  Permuted(m, op, [&](uint32_t* out) {
    for (int i = 0; i < kSublanes; ++i) {
      const uint32_t* words = halves[i / 4] + 2 * (i % 4) * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) {
        uint32_t a = words[lane], b = words[kLanes + lane];
        out[i * kLanes + lane] =
            (a & 0xffu) | (a >> 16 & 0xffu) << 8 | (b & 0xffu) << 16 | (b >> 16 & 0xffu) << 24;
      }
    }
  });
}

// 8 rows of a packed register from sublane `first` on, kPer to a word; `widen` takes the shifted
// word.
template <int kPer, class F>
void Unpack(Machine& m, const Op& op, int first, F widen) {
  const uint32_t* a = m.Full(op, 0);
  Permuted(m, op, [&](uint32_t* out) {
    for (int r = 0; r < kSublanes; ++r) {
      const uint32_t* words = a + (first + r / kPer) * kLanes;
      int shift = r % kPer * (32 / kPer);
      for (int lane = 0; lane < kLanes; ++lane)
        out[r * kLanes + lane] = widen(words[lane] >> shift);
    }
  });
}
template <int kFirst>
constexpr Body UnpackBf16() {
  return [](Machine& m, const Op& op)
             HWY_ATTR { Unpack<2>(m, op, kFirst, [](uint32_t x) { return x << 16; }); };
}
template <int kFirst>
constexpr Body UnpackS16() {
  return [](Machine& m, const Op& op) HWY_ATTR {
    Unpack<2>(m, op, kFirst,
              [](uint32_t x) { return static_cast<uint32_t>(static_cast<int16_t>(x)); });
  };
}
template <int kFirst>
constexpr Body UnpackS8() {
  return [](Machine& m, const Op& op) HWY_ATTR {
    Unpack<4>(m, op, kFirst,
              [](uint32_t x) { return static_cast<uint32_t>(static_cast<int8_t>(x)); });
  };
}

void LaneSequence(Machine& m, const Op& op) {
  for (uint32_t i = 0; i < kWords; ++i) m.reg[op.dest][i] = i;
}

void SplatScalar(Machine& m, const Op& op) {
  std::fill_n(m.reg[op.dest], kWords, static_cast<uint32_t>(m.Value(op.s[0])));
}

void ConstantMask(Machine& m, const Op& op) {
  auto bits = static_cast<uint32_t>(m.Value(op.s[0]));
  uint32_t s0 = bits & 15, s1 = bits >> 4 & 15, l0 = bits >> 8 & 255, l1 = bits >> 16 & 255;
  for (uint32_t i = 0; i < kWords; ++i) {
    uint32_t sublane = i / kLanes, lane = i % kLanes;
    bool in = sublane >= s0 && sublane < s1 && lane >= l0 && lane < l1;
    m.reg[op.dest][i] = in ? ~0u : 0u;
  }
}

// ---- EUP ----

template <class F>
constexpr Body Eup(F) {
  return [](Machine& m, const Op& op) HWY_ATTR {
    Queue::Entry* entry = m.Push(op, ResultKind::kEup, op.latency);
    if (entry == nullptr) return;
    const F32Tag df;
    const U32Tag du;
    const uint32_t* a = m.reg[op.v[0].index];
    const size_t step = op.v[0].step;
    const int bits = m.chip->eup_bits;
    const auto keep = hn::Set(du, bits == 0 ? ~0u : ~((1u << (23 - bits)) - 1));
    for (size_t i = 0; i < kWords; i += hn::Lanes(du)) {
      auto r = hn::BitCast(du, F()(df, hn::BitCast(df, hn::Load(du, a + (i & step)))));
      hn::Store(hn::And(r, keep), du, entry->data + i);
    }
  };
}

// ---- XLU ----

template <class F>
HWY_INLINE void CombineHalf(float* x, int half, F f) {
  const F32Tag d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= half; i += lanes) {
    hn::StoreU(nn::OneNaN(d, nn::Flush(d, f(d, hn::LoadU(d, x + i), hn::LoadU(d, x + half + i)))),
               d, x + i);
  }
  for (; i < half; ++i) {
    const hn::CappedTag<float, 1> one;
    hn::StoreU(nn::OneNaN(one, nn::Flush(one, f(one, hn::LoadU(one, x + i),
                                                hn::LoadU(one, x + half + i)))),
               one, x + i);
  }
}

// Over the 128 lanes of each sublane, by halves; the result goes to all lanes.
template <class F>
constexpr Body CrossLane(F) {
  return [](Machine& m, const Op& op) HWY_ATTR {
    if (TransposeOpen(m, op)) return;
    const U32Tag du;
    const uint32_t* a = m.Full(op, 0);
    Queue::Entry* entry = m.Push(op, ResultKind::kXlane, op.latency);
    if (entry == nullptr) return;
    for (int sublane = 0; sublane < kSublanes; ++sublane) {
      HWY_ALIGN float x[kLanes];
      uint32_t* words = reinterpret_cast<uint32_t*>(x);
      for (size_t i = 0; i < kLanes; i += hn::Lanes(du)) {
        hn::Store(hn::BitCast(du, In(hn::Load(du, a + sublane * kLanes + i))), du, words + i);
      }
      for (int half = kLanes / 2; half > 0; half /= 2) CombineHalf(x, half, F());
      std::fill_n(entry->data + sublane * kLanes, kLanes, std::bit_cast<uint32_t>(x[0]));
    }
  };
}

void BroadcastLane(Machine& m, const Op& op) {
  if (TransposeOpen(m, op)) return;
  int n = m.Value(op.s[0]);
  if (n < 0 || n >= 256 + kLanes || (n >= kLanes && n < 256)) {
    m.Fail(DiagCode::kFaultInstruction,
           absl::StrCat("vbcast.lane ", n, ": expected 0..127 or 256..383"));
    return;
  }
  const uint32_t* a = m.Full(op, 0);
  Queue::Entry* entry = m.Push(op, ResultKind::kPermute, op.latency);
  if (entry == nullptr) return;
  for (int i = 0; i < kSublanes; ++i) {
    int lane = n < kLanes ? n : (n - 256 + i) % kLanes;
    std::fill_n(entry->data + i * kLanes, kLanes, a[i * kLanes + lane]);
  }
}

void RotateLanes(Machine& m, const Op& op) {
  if (TransposeOpen(m, op)) return;
  int n = m.Value(op.s[0]) & (kLanes - 1);
  const uint32_t* a = m.Full(op, 0);
  Queue::Entry* entry = m.Push(op, ResultKind::kPermute, op.latency);
  if (entry == nullptr) return;
  for (int i = 0; i < kSublanes; ++i) {
    const uint32_t* from = a + i * kLanes;
    uint32_t* to = entry->data + i * kLanes;
    std::memcpy(to + n, from, (kLanes - n) * 4);
    std::memcpy(to, from + kLanes - n, n * 4);
  }
}

// Data of an open transpose: row c is sublane c mod 8 of push c / 8.
void FeedTranspose(Machine& m, const Op& op) {
  std::vector<uint32_t>& data = m.transposes[op.unit].data;
  const uint32_t* a = m.Full(op, 0);
  data.insert(data.end(), a, a + kWords);
}

void FillTransposed(const std::vector<uint32_t>& data, int pop, uint32_t* out) {
  const int columns = static_cast<int>(data.size()) / kLanes;
  std::fill_n(out, kWords, 0u);
  for (int c = 0; c < columns; ++c) {
    const uint32_t* from = data.data() + c * kLanes + 8 * pop;
    for (int r = 0; r < kSublanes; ++r) out[r * kLanes + c] = from[r];
  }
}

void TransposeStart(Machine& m, const Op& op) {
  if (BeginTranspose(m, op)) FeedTranspose(m, op);
}
void TransposeContinue(Machine& m, const Op& op) {
  if (ContinueTranspose(m, op)) FeedTranspose(m, op);
}
void TransposeEnd(Machine& m, const Op& op) {
  bool begun =
      op.opcode == Opcode::kVxposeStartEnd ? BeginTranspose(m, op) : ContinueTranspose(m, op);
  if (!begun) return;
  FeedTranspose(m, op);
  Transpose& t = m.transposes[op.unit];
  FinishTranspose(m, op, [&](int pop, uint32_t* out) { FillTransposed(t.data, pop, out); });
}

// ---- MXU ----

BlockState StateOf(uint32_t any) { return any != 0 ? BlockState::kData : BlockState::kZero; }

// The last vector source, and the mask before it if the instruction has one.
template <bool kMasked>
uint32_t RoundOperand(Machine& m, const Op& op, float* to) {
  const uint32_t* mask = kMasked ? m.reg[op.v[0].index] : nullptr;
  return RoundWords(m.Full(op, kMasked ? 1 : 0), mask, kWords, to);
}

template <bool kMasked>
void StageWeights(Machine& m, const Op& op) {
  Mxu& mxu = m.mxus[op.unit];
  RoundOperand<kMasked>(m, op, mxu.subr.data());
  mxu.has_subr = true;
}
template <bool kMasked>
void StageLhs(Machine& m, const Op& op) {
  Mxu& mxu = m.mxus[op.unit];
  RoundOperand<kMasked>(m, op, mxu.mubr.data());
  mxu.has_mubr = true;
}

WeightGroup& NewGroup(Mxu& mxu, int half) {
  mxu.groups[half].resize(Mxu::kGroups);
  WeightGroup& group = mxu.groups[half][mxu.pushed[half]++ % Mxu::kGroups];
  group.low_state = group.high_state = BlockState::kAbsent;
  return group;
}

BlockState TakeStagedWeights(Mxu& mxu, Tile& to) {
  if (!mxu.has_subr) return BlockState::kAbsent;
  mxu.has_subr = false;
  to = mxu.subr;
  bool zero = std::all_of(to.begin(), to.end(), [](float f) { return f == 0.0f; });
  return zero ? BlockState::kZero : BlockState::kData;
}

// kForm 1, 2: first or second half, [push | subr]; 3: both halves, [push 0; 0 subr].
template <int kForm, bool kTransposed, bool kMasked>
void PushWeights(Machine& m, const Op& op) {
  Mxu& mxu = m.mxus[op.unit];
  bool empty = mxu.pushed[0] + mxu.pushed[1] == 0;
  if (!empty && mxu.transposed != kTransposed) {
    m.Fail(DiagCode::kFaultUnitState,
           absl::StrCat("plain and transposed weight pushes in one set on mxu", op.unit));
    return;
  }
  mxu.transposed = kTransposed;
  WeightGroup& group = NewGroup(mxu, kForm == 2 ? 1 : 0);
  group.low_state = StateOf(RoundOperand<kMasked>(m, op, group.low.data()));
  WeightGroup& other = kForm == 3 ? NewGroup(mxu, 1) : group;
  other.high_state = TakeStagedWeights(mxu, other.high);
}

template <bool kLatch, bool kMasked>
void MatrixMultiply(Machine& m, const Op& op) {
  Mxu& mxu = m.mxus[op.unit];
  if (kLatch) Latch(mxu);
  HWY_ALIGN float a[8 * 256];
  HWY_ALIGN Tile lower;
  RoundOperand<kMasked>(m, op, lower.data());
  bool upper = std::exchange(mxu.has_mubr, false);
  uint32_t exponents = 0;
  for (int r = 0; r < 8; ++r) {
    std::memcpy(a + r * 256, &lower[r * 128], 512);
    if (upper) std::memcpy(a + r * 256 + 128, &mxu.mubr[r * 128], 512);
    for (int k = 0; k < (upper ? 256 : 128); ++k) {
      auto bits = std::bit_cast<uint32_t>(a[r * 256 + k]);
      exponents = std::max(exponents, bits & 0x7f800000u);
      if (k % 128 >= mxu.valid_rows[k / 128] && (bits & 0x7fffffffu) != 0) {
        m.Fail(
            DiagCode::kFaultWeights,
            absl::StrCat("row ", r, " of the LHS is not zero in lane ", k, ", but mxu", op.unit,
                         " has weights for ", mxu.valid_rows[k / 128], " of the 128 rows there"));
        return;
      }
    }
  }
  Queue::Entry* first = m.Push(op, ResultKind::kMrf, op.latency);
  if (first == nullptr) return;
  float* out[2] = {reinterpret_cast<float*>(first->data), nullptr};
  if (m.chip->mxu_tiles() > 1) {
    Queue::Entry* second =
        m.Push(op, ResultKind::kMrf, op.latency + m.chip->interval(IntervalKey::kMrfPop));
    if (second == nullptr) return;
    out[1] = reinterpret_cast<float*>(second->data);
  }
  Multiply(mxu, a, upper, exponents != 0x7f800000u, out);
}

// ---- the table ----

Body VectorAluBody(Opcode op) {
  switch (op) {
    case Opcode::kVaddF32:
      return F32([](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    case Opcode::kVsubF32:
      return F32([](auto, auto a, auto b) HWY_ATTR { return hn::Sub(a, b); });
    case Opcode::kVmulF32:
      return F32([](auto, auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
    case Opcode::kVmaxF32:
      return F32([](auto d, auto a, auto b) HWY_ATTR { return MaxNaN(d, a, b); });
    case Opcode::kVminF32:
      return F32([](auto d, auto a, auto b) HWY_ATTR { return MinNaN(d, a, b); });
    case Opcode::kVaddS32:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    case Opcode::kVsubS32:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::Sub(a, b); });
    case Opcode::kVmulU32:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
    case Opcode::kVmulhU32:
      return Words(
          [](uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); });
    case Opcode::kVmaxS32:
      return S32([](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
    case Opcode::kVminS32:
      return S32([](auto a, auto b) HWY_ATTR { return hn::Min(a, b); });
    case Opcode::kVmaxU32:
      return Words([](uint32_t a, uint32_t b) { return std::max(a, b); });
    case Opcode::kVminU32:
      return Words([](uint32_t a, uint32_t b) { return std::min(a, b); });
    case Opcode::kVand:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::And(a, b); });
    case Opcode::kVor:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::Or(a, b); });
    case Opcode::kVxor:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::Xor(a, b); });
    case Opcode::kVshll:
      return U32([](auto du, auto a, auto n) HWY_ATTR { return ShiftLeftBy(du, a, n); });
    case Opcode::kVshrl:
      return U32([](auto du, auto a, auto n) HWY_ATTR { return ShiftRightBy(du, a, n); });
    case Opcode::kVshra:
      return Words([](uint32_t a, uint32_t n) {
        return static_cast<uint32_t>(static_cast<int32_t>(a) >> std::min(n, 31u));
      });
    case Opcode::kVclz:
      return Words([](uint32_t a, uint32_t) { return static_cast<uint32_t>(std::countl_zero(a)); });
    case Opcode::kVpcnt:
      return Words([](uint32_t a, uint32_t) { return static_cast<uint32_t>(std::popcount(a)); });
    case Opcode::kVfloorF32:
      return F32([](auto, auto a) HWY_ATTR { return hn::CopySign(hn::Floor(a), a); });
    case Opcode::kVceilF32:
      return F32([](auto, auto a) HWY_ATTR { return hn::CopySign(hn::Ceil(a), a); });
    case Opcode::kVroundF32:
      return F32([](auto, auto a) HWY_ATTR { return hn::CopySign(hn::Round(a), a); });
    case Opcode::kVcvtS32F32:
      return U32([](auto du, auto a) HWY_ATTR {
        return hn::BitCast(du, hn::ConvertTo(F32Tag(), hn::BitCast(S32Tag(), a)));
      });
    case Opcode::kVcvtF32S32:
      return Words([](uint32_t a, uint32_t) {
        float f = std::bit_cast<float>(a);
        if (f != f) return 0u;
        if (f >= 2147483648.0f) return 0x7fffffffu;
        if (f < -2147483648.0f) return 0x80000000u;
        return static_cast<uint32_t>(static_cast<int32_t>(f));
      });
    case Opcode::kVcvtU32F32:
      return Words(
          [](uint32_t a, uint32_t) { return std::bit_cast<uint32_t>(static_cast<float>(a)); });
    case Opcode::kVcvtF32U32:
      return Words([](uint32_t a, uint32_t) {
        float f = std::bit_cast<float>(a);
        if (!(f > 0)) return 0u;
        return f >= 4294967296.0f ? 0xffffffffu : static_cast<uint32_t>(f);
      });
    case Opcode::kVmov:
    case Opcode::kVmmov:
      return U32([](auto, auto a) HWY_ATTR { return a; });
    case Opcode::kVstv:
      return SplatScalar;
    case Opcode::kVlaneseq:
      return LaneSequence;
    case Opcode::kVrotSlane:
      return RotateSublanes;
    case Opcode::kVsel:
      return U32([](auto, auto mask, auto a, auto b)
                     HWY_ATTR { return hn::IfVecThenElse(mask, a, b); });
    default:
      return nullptr;
  }
}

Body CompareAndPackBody(Opcode op) {
  switch (op) {
    case Opcode::kVcmpEqF32:
      return F32Compare([](auto a, auto b) HWY_ATTR { return hn::Eq(a, b); });
    case Opcode::kVcmpNeF32:
      return F32Compare([](auto a, auto b) HWY_ATTR { return hn::Not(hn::Eq(a, b)); });
    case Opcode::kVcmpLtF32:
      return F32Compare([](auto a, auto b) HWY_ATTR { return hn::Lt(a, b); });
    case Opcode::kVcmpLeF32:
      return F32Compare([](auto a, auto b) HWY_ATTR { return hn::Le(a, b); });
    case Opcode::kVcmpGtF32:
      return F32Compare([](auto a, auto b) HWY_ATTR { return hn::Gt(a, b); });
    case Opcode::kVcmpGeF32:
      return F32Compare([](auto a, auto b) HWY_ATTR { return hn::Ge(a, b); });
    case Opcode::kVcmpEqS32:
      return S32Compare([](auto a, auto b) HWY_ATTR { return hn::Eq(a, b); });
    case Opcode::kVcmpNeS32:
      return S32Compare([](auto a, auto b) HWY_ATTR { return hn::Not(hn::Eq(a, b)); });
    case Opcode::kVcmpLtS32:
      return S32Compare([](auto a, auto b) HWY_ATTR { return hn::Lt(a, b); });
    case Opcode::kVcmpLeS32:
      return S32Compare([](auto a, auto b) HWY_ATTR { return hn::Not(hn::Gt(a, b)); });
    case Opcode::kVcmpGtS32:
      return S32Compare([](auto a, auto b) HWY_ATTR { return hn::Gt(a, b); });
    case Opcode::kVcmpGeS32:
      return S32Compare([](auto a, auto b) HWY_ATTR { return hn::Not(hn::Lt(a, b)); });
    case Opcode::kVcmpLtU32:
      return U32Compare([](auto a, auto b) HWY_ATTR { return hn::Lt(a, b); });
    case Opcode::kVcmpLeU32:
      return U32Compare([](auto a, auto b) HWY_ATTR { return hn::Not(hn::Gt(a, b)); });
    case Opcode::kVcmask:
      return ConstantMask;
    case Opcode::kVmand:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::And(a, b); });
    case Opcode::kVmor:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::Or(a, b); });
    case Opcode::kVmxor:
      return U32([](auto, auto a, auto b) HWY_ATTR { return hn::Xor(a, b); });
    case Opcode::kVmneg:
      return U32([](auto du, auto a) HWY_ATTR { return hn::Xor(a, hn::Set(du, ~0u)); });
    case Opcode::kVpackBf16:
      return [](Machine& m, const Op& op) { Pack16(m, op, NarrowBf16); };
    case Opcode::kVpackB16:
      return
          [](Machine& m, const Op& op) { Pack16(m, op, [](uint32_t x) { return x & 0xffffu; }); };
    case Opcode::kVpackB8:
      return PackBytes;
    case Opcode::kVunpackLBf16:
      return UnpackBf16<0>();
    case Opcode::kVunpackHBf16:
      return UnpackBf16<4>();
    case Opcode::kVunpackLS16:
      return UnpackS16<0>();
    case Opcode::kVunpackHS16:
      return UnpackS16<4>();
    case Opcode::kVunpack0S8:
      return UnpackS8<0>();
    case Opcode::kVunpack1S8:
      return UnpackS8<2>();
    case Opcode::kVunpack2S8:
      return UnpackS8<4>();
    case Opcode::kVunpack3S8:
      return UnpackS8<6>();
    default:
      return nullptr;
  }
}

Body UnitBody(Opcode op) {
  switch (op) {
    case Opcode::kVpow2:
      return Eup([](auto d, auto x) HWY_ATTR { return nn::vpow2(d, x); });
    case Opcode::kVlog2:
      return Eup([](auto d, auto x) HWY_ATTR { return nn::vlog2(d, x); });
    case Opcode::kVrcp:
      return Eup([](auto d, auto x) HWY_ATTR { return nn::vrcp(d, x); });
    case Opcode::kVrsqrt:
      return Eup([](auto d, auto x) HWY_ATTR { return nn::vrsqrt(d, x); });
    case Opcode::kVtanh:
      return Eup([](auto d, auto x) HWY_ATTR { return nn::vtanh(d, x); });
    case Opcode::kVaddXlane:
      return CrossLane([](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    case Opcode::kVmaxXlane:
      return CrossLane([](auto d, auto a, auto b) HWY_ATTR { return MaxNaN(d, a, b); });
    case Opcode::kVminXlane:
      return CrossLane([](auto d, auto a, auto b) HWY_ATTR { return MinNaN(d, a, b); });
    case Opcode::kVbcastLane:
      return BroadcastLane;
    case Opcode::kVrotLane:
      return RotateLanes;
    case Opcode::kVxposeStart:
      return TransposeStart;
    case Opcode::kVxposeCont:
      return TransposeContinue;
    case Opcode::kVxposeEnd:
    case Opcode::kVxposeStartEnd:
      return TransposeEnd;
    case Opcode::kVmatprepSubr:
      return StageWeights<false>;
    case Opcode::kVmatprepSubrMsk:
      return StageWeights<true>;
    case Opcode::kVmatpush1:
      return PushWeights<1, false, false>;
    case Opcode::kVmatpush2:
      return PushWeights<2, false, false>;
    case Opcode::kVmatpush3:
      return PushWeights<3, false, false>;
    case Opcode::kVmatpush1Msk:
      return PushWeights<1, false, true>;
    case Opcode::kVmatpush2Msk:
      return PushWeights<2, false, true>;
    case Opcode::kVmatpush3Msk:
      return PushWeights<3, false, true>;
    case Opcode::kVmatpush1Xpose:
      return PushWeights<1, true, false>;
    case Opcode::kVmatpush2Xpose:
      return PushWeights<2, true, false>;
    case Opcode::kVmatpush3Xpose:
      return PushWeights<3, true, false>;
    case Opcode::kVmatpush1XposeMsk:
      return PushWeights<1, true, true>;
    case Opcode::kVmatpush2XposeMsk:
      return PushWeights<2, true, true>;
    case Opcode::kVmatpush3XposeMsk:
      return PushWeights<3, true, true>;
    case Opcode::kVmatprepMubr:
      return StageLhs<false>;
    case Opcode::kVmatprepMubrMsk:
      return StageLhs<true>;
    case Opcode::kVmatmul:
      return MatrixMultiply<false, false>;
    case Opcode::kVmatmulMsk:
      return MatrixMultiply<false, true>;
    case Opcode::kVmatmulLatch:
      return MatrixMultiply<true, false>;
    case Opcode::kVmatmulLatchMsk:
      return MatrixMultiply<true, true>;
    default:
      return nullptr;
  }
}

const BodyTable* Bodies() {
  static const BodyTable* table = [] {
    auto* t = new BodyTable{};
    for (int i = 0; i < isa::kOpcodeCount; ++i) {
      auto op = static_cast<Opcode>(i);
      Body body = VectorAluBody(op);
      if (body == nullptr) body = CompareAndPackBody(op);
      if (body == nullptr) body = UnitBody(op);
      (*t)[i] = body;
    }
    return t;
  }();
  return table;
}

}  // namespace tpuc::interp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc::interp {
namespace {

struct SimdTarget {
  const char* name;
  bool available;
  const BodyTable* (*bodies)();
};

std::vector<SimdTarget> AllTargets() {
  std::vector<SimdTarget> targets;
#if HWY_TARGETS & HWY_AVX3
  targets.push_back({"avx512", (hwy::SupportedTargets() & HWY_AVX3) != 0, N_AVX3::Bodies});
#endif
#if HWY_TARGETS & HWY_AVX2
  targets.push_back({"avx2", (hwy::SupportedTargets() & HWY_AVX2) != 0, N_AVX2::Bodies});
#endif
  targets.push_back({"scalar", true, HWY_STATIC_DISPATCH(Bodies)});
  return targets;
}

}  // namespace

std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  for (const SimdTarget& t : AllTargets()) {
    if (t.available) names.push_back(t.name);
  }
  return names;
}

const BodyTable* VectorBodies(absl::string_view simd) {
  for (const SimdTarget& t : AllTargets()) {
    if (t.available && (simd.empty() || simd == t.name)) return t.bodies();
  }
  return nullptr;
}

}  // namespace tpuc::interp
#endif  // HWY_ONCE
