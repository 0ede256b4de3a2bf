// The arithmetic of one MXU for the current Highway target: rounding to bf16, latching of pushed
// weights, and the multiply of 8 x 256 by 256 x 256 at the speed of a GEMM.
//
// For each result, products are added by fused multiply-add in ascending k, so the bytes do not
// depend on the vector width. Absent blocks, and blocks of zeros under a finite LHS, are skipped.
#if defined(TPUC_INTERP_MXU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TPUC_INTERP_MXU_INL_H_
#undef TPUC_INTERP_MXU_INL_H_
#else
#define TPUC_INTERP_MXU_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "backend/interp/mxu.h"
#include "hwy/highway.h"
#include "src/num/eup-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tpuc::interp::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace nn = num::HWY_NAMESPACE;

// f32 bits to the nearest bf16 (ties to even), held as f32; subnormals to zero, NaN to 0x7FC00000.
template <class DU, class VU = hn::Vec<DU>>
HWY_INLINE VU RoundBf16(DU du, VU x) {
  const hn::Rebind<float, DU> df;
  const auto f = hn::BitCast(df, x);
  const VU odd = hn::And(hn::ShiftRight<16>(x), hn::Set(du, 1u));
  VU r = hn::And(hn::Add(x, hn::Add(odd, hn::Set(du, 0x7fffu))), hn::Set(du, 0xffff0000u));
  const auto tiny = hn::Lt(hn::Abs(f), hn::Set(df, 0x1p-126f));
  r = hn::BitCast(du, hn::IfThenElse(tiny, hn::BitCast(df, hn::And(x, hn::Set(du, 0x80000000u))),
                                     hn::BitCast(df, r)));
  return hn::BitCast(du, hn::IfThenElse(hn::Eq(f, f), hn::BitCast(df, r),
                                        hn::BitCast(df, hn::Set(du, 0x7fc00000u))));
}

// Rounds n words of `from`, those outside `mask` (may be null) to zero. Returns the OR of the
// results without sign: 0 if all are zero.
HWY_INLINE uint32_t RoundWords(const uint32_t* from, const uint32_t* mask, size_t n, float* to) {
  const hn::ScalableTag<uint32_t> du;
  auto any = hn::Zero(du);
  uint32_t* out = reinterpret_cast<uint32_t*>(to);
  for (size_t i = 0; i < n; i += hn::Lanes(du)) {
    auto x = RoundBf16(du, hn::Load(du, from + i));
    if (mask != nullptr) x = hn::And(x, hn::Load(du, mask + i));
    any = hn::Or(any, x);
    hn::StoreU(x, du, out + i);
  }
  HWY_ALIGN uint32_t lanes[hn::MaxLanes(du)];
  hn::Store(any, du, lanes);
  uint32_t all = 0;
  for (size_t i = 0; i < hn::Lanes(du); ++i) all |= lanes[i];
  return all & 0x7fffffffu;
}

inline BlockState Merge(BlockState a, BlockState b) { return std::max(a, b); }

inline float* WeightAt(Mxu& mxu, int k, int n) {
  return mxu.weights.data() + ((n / Mxu::kPanel) * 256 + k) * Mxu::kPanel + n % Mxu::kPanel;
}

// Writes one group of 8 rows (plain) or columns (transposed) of a block.
inline void PlaceGroup(Mxu& mxu, const Tile& tile, int k0, int n0) {
  if (!mxu.transposed) {
    for (int i = 0; i < 8; ++i) {
      for (int n = 0; n < 128; n += Mxu::kPanel) {
        std::memcpy(WeightAt(mxu, k0 + i, n0 + n), &tile[i * 128 + n], Mxu::kPanel * 4);
      }
    }
    return;
  }
  for (int k = 0; k < 128; ++k) {
    float* to = WeightAt(mxu, k0 + k, n0);
    for (int i = 0; i < 8; ++i) to[i] = tile[i * 128 + k];
  }
}

// The staging array becomes the weights; the next push starts from an empty array.
inline void Latch(Mxu& mxu) {
  mxu.weights.resize(256 * 256);
  for (auto& row : mxu.block) row[0] = row[1] = BlockState::kAbsent;
  mxu.valid_rows = {0, 0};
  for (int h = 0; h < 2; ++h) {
    int count = static_cast<int>(std::min<int64_t>(mxu.pushed[h], Mxu::kGroups));
    if (count == 0) continue;
    for (int other = 0; other < 2; ++other) {
      int kh = mxu.transposed ? other : h, nh = mxu.transposed ? h : other;
      BlockState& state = mxu.block[kh][nh];
      for (int g = 0; g < count; ++g) {
        const WeightGroup& group = mxu.groups[h][(mxu.pushed[h] - 1 - g) % Mxu::kGroups];
        state = Merge(state, other == 0 ? group.low_state : group.high_state);
      }
      if (state == BlockState::kAbsent) continue;
      for (int n = 0; n < 128; n += Mxu::kPanel) {
        std::fill_n(WeightAt(mxu, 128 * kh, 128 * nh + n), 128 * Mxu::kPanel, 0.0f);
      }
      for (int g = 0; g < count; ++g) {
        const WeightGroup& group = mxu.groups[h][(mxu.pushed[h] - 1 - g) % Mxu::kGroups];
        if ((other == 0 ? group.low_state : group.high_state) != BlockState::kData) continue;
        PlaceGroup(mxu, other == 0 ? group.low : group.high,
                   128 * kh + (mxu.transposed ? 0 : 8 * g),
                   128 * nh + (mxu.transposed ? 8 * g : 0));
      }
    }
    if (mxu.transposed) {
      mxu.valid_rows = {128, 128};
    } else {
      mxu.valid_rows[h] = 8 * count;
    }
  }
  mxu.pushed = {0, 0};
}

struct KRange {
  int first, last;
};

// out[r][c] = sum over the ranges of a[r][k] * w[k][c] for kRows rows and kVectors vectors of
// columns.
template <size_t kRows, size_t kVectors>
HWY_INLINE void MultiplyStrip(const float* HWY_RESTRICT a, const float* HWY_RESTRICT w,
                              const KRange* ranges, int count, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> acc[kRows][kVectors];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  }
  for (int i = 0; i < count; ++i) {
    for (int k = ranges[i].first; k < ranges[i].last; ++k) {
      hn::Vec<decltype(d)> b[kVectors];
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) b[v] = hn::LoadU(d, w + k * Mxu::kPanel + v * lanes);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const auto x = hn::Set(d, a[r * 256 + k]);
#pragma GCC unroll 16
        for (size_t v = 0; v < kVectors; ++v) acc[r][v] = nn::Fma(d, x, b[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(nn::OneNaN(d, nn::Flush(d, acc[r][v])), d, out + r * 128 + v * lanes);
    }
  }
}

// a: 8 x 256 rounded LHS. out[0], out[1]: 8 x 128 results for N 0..127 and 128..255; the second is
// null where MXUs are 128 wide.
HWY_INLINE void Multiply(Mxu& mxu, const float* a, bool has_upper, bool finite, float* const* out) {
  const hn::ScalableTag<float> d;
  constexpr size_t kRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;
  const size_t strip = 2 * hn::Lanes(d);
  for (int nh = 0; nh < 2 && out[nh] != nullptr; ++nh) {
    KRange ranges[2];
    int count = 0;
    for (int kh = 0; kh < (has_upper ? 2 : 1); ++kh) {
      BlockState state = mxu.block[kh][nh];
      if (state == BlockState::kAbsent || (state == BlockState::kZero && finite)) continue;
      ranges[count++] = {128 * kh, 128 * kh + mxu.valid_rows[kh]};
    }
    for (int n = 0; n < 128; n += Mxu::kPanel) {
      const float* w = count == 0 ? nullptr : WeightAt(mxu, 0, 128 * nh + n);
      for (size_t c = 0; c < Mxu::kPanel; c += strip) {
        for (size_t r = 0; r < 8; r += kRows) {
          MultiplyStrip<kRows, 2>(a + r * 256, w + c, ranges, count, out[nh] + r * 128 + n + c);
        }
      }
    }
  }
}

}  // namespace tpuc::interp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard with toggle
