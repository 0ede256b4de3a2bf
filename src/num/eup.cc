// Entry points of the EUP functions outside vector code: one body per Highway target, chosen at
// run time; the scalar functions are the same body on a block of one.
#include "src/num/eup.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/num/eup.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/num/eup-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tpuc::num::HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> Apply(D d, Eup function, hn::Vec<D> x) {
  switch (function) {
    case Eup::kPow2:
      return vpow2(d, x);
    case Eup::kLog2:
      return vlog2(d, x);
    case Eup::kRcp:
      return vrcp(d, x);
    case Eup::kRsqrt:
      return vrsqrt(d, x);
    case Eup::kTanh:
      return vtanh(d, x);
  }
  return x;
}

void Block(Eup function, const float* in, int64_t n, float* out) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(Apply(d, function, hn::LoadU(d, in + i)), d, out + i);
  }
  for (; i < n; ++i) hn::StoreU(Apply(one, function, hn::LoadU(one, in + i)), one, out + i);
}

}  // namespace tpuc::num::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc::num {

HWY_EXPORT(Block);

void EupBlock(Eup function, const float* in, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(Block)(function, in, n, out);
}

namespace {
float One(Eup function, float x) {
  EupBlock(function, &x, 1, &x);
  return x;
}
}  // namespace

float vpow2(float x) { return One(Eup::kPow2, x); }
float vlog2(float x) { return One(Eup::kLog2, x); }
float vrcp(float x) { return One(Eup::kRcp, x); }
float vrsqrt(float x) { return One(Eup::kRsqrt, x); }
float vtanh(float x) { return One(Eup::kTanh, x); }

}  // namespace tpuc::num
#endif  // HWY_ONCE
