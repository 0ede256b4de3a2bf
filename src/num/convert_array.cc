// One loop over vectors for each direction, on integers, so that nothing depends on the FPU's
// modes. A vector with values that need more thought than that (NaN, infinities and subnormals of
// f16) goes value by value.
#include "src/num/convert_array.h"

#include "src/num/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/num/convert_array.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tpuc::num::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<uint32_t>;
using Halves = hn::Rebind<uint16_t, Words>;
using Vector = hn::Vec<Words>;
constexpr uint32_t kMagnitude = 0x7FFFFFFF;

HWY_INLINE Vector LoadHalves(const uint16_t* from) {
  return hn::PromoteTo(Words(), hn::LoadU(Halves(), from));
}
HWY_INLINE void StoreHalves(Vector v, uint16_t* to) {
  const hn::RebindToSigned<Words> ints;  // values fit: nothing saturates
  hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(ints, v)), Halves(), to);
}
HWY_INLINE Vector LoadFloats(const float* from) {
  const hn::RebindToFloat<Words> floats;
  return hn::BitCast(Words(), hn::LoadU(floats, from));
}
HWY_INLINE void StoreFloats(Vector v, float* to) {
  const hn::RebindToFloat<Words> floats;
  hn::StoreU(hn::BitCast(floats, v), floats, to);
}

void WidenBF16(const uint16_t* from, int64_t n, float* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Words()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    StoreFloats(hn::ShiftLeft<16>(LoadHalves(from + i)), to + i);
  }
  for (; i < n; ++i) to[i] = F32FromBF16(from[i]);
}

void NarrowBF16(const float* from, int64_t n, uint16_t* to) {
  const Words d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vector bits = LoadFloats(from + i), high = hn::ShiftRight<16>(bits);
    const auto nan = hn::Gt(hn::And(bits, hn::Set(d, kMagnitude)), hn::Set(d, 0x7F800000));
    const Vector odd = hn::And(high, hn::Set(d, 1));
    const Vector rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(d, 0x7FFF), odd)));
    StoreHalves(hn::IfThenElse(nan, hn::Or(high, hn::Set(d, 0x40)), rounded), to + i);
  }
  for (; i < n; ++i) to[i] = BF16FromF32(from[i]);
}

void WidenF16(const uint16_t* from, int64_t n, float* to) {
  const Words d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vector bits = LoadHalves(from + i), magnitude = hn::And(bits, hn::Set(d, 0x7FFF));
    const auto zero = hn::Eq(magnitude, hn::Zero(d));
    const auto normal =
        hn::And(hn::Gt(magnitude, hn::Set(d, 0x3FF)), hn::Lt(magnitude, hn::Set(d, 0x7C00)));
    if (!hn::AllTrue(d, hn::Or(zero, normal))) {
      for (int64_t k = i; k < i + lanes; ++k) to[k] = F32FromF16(from[k]);
      continue;
    }
    const Vector sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d, 0x8000)));
    const Vector value = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(d, (127 - 15) << 23));
    StoreFloats(hn::Or(sign, hn::IfThenZeroElse(zero, value)), to + i);
  }
  for (; i < n; ++i) to[i] = F32FromF16(from[i]);
}

void NarrowF16(const float* from, int64_t n, uint16_t* to) {
  constexpr uint32_t kHalfOfLeast = 0x33000000;  // 2^-25: that and less round to zero
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  constexpr uint32_t kRoundsToInf = 0x477FF000;  // 65520
  const Words d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vector bits = LoadFloats(from + i), magnitude = hn::And(bits, hn::Set(d, kMagnitude));
    const auto zero = hn::Lt(magnitude, hn::Set(d, kHalfOfLeast + 1));
    const auto normal = hn::And(hn::Gt(magnitude, hn::Set(d, kLeastNormal - 1)),
                                hn::Lt(magnitude, hn::Set(d, kRoundsToInf)));
    if (!hn::AllTrue(d, hn::Or(zero, normal))) {
      for (int64_t k = i; k < i + lanes; ++k) to[k] = F16FromF32(from[k]);
      continue;
    }
    const Vector sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
    const Vector odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
    const Vector rounded = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(hn::Set(d, 0xFFF), odd)));
    const Vector value = hn::Sub(rounded, hn::Set(d, (127 - 15) << 10));
    StoreHalves(hn::Or(sign, hn::IfThenZeroElse(zero, value)), to + i);
  }
  for (; i < n; ++i) to[i] = F16FromF32(from[i]);
}

}  // namespace tpuc::num::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc::num {

HWY_EXPORT(WidenBF16);
HWY_EXPORT(NarrowBF16);
HWY_EXPORT(WidenF16);
HWY_EXPORT(NarrowF16);

void F32sFromBF16s(const uint16_t* from, int64_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(WidenBF16)(from, n, to);
}
void BF16sFromF32s(const float* from, int64_t n, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(NarrowBF16)(from, n, to);
}
void F32sFromF16s(const uint16_t* from, int64_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(WidenF16)(from, n, to);
}
void F16sFromF32s(const float* from, int64_t n, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(NarrowF16)(from, n, to);
}

}  // namespace tpuc::num
#endif
