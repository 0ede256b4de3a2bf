// The extended unary unit's functions on one f32: the bytes are those of the vector functions of
// eup-inl.h, which says what they promise. For constants, scalar code and tests; not fast.
#pragma once

#include <cstdint>

namespace tpuc::num {

float vpow2(float x);  // 2^x
float vlog2(float x);
float vrcp(float x);    // 1 / x
float vrsqrt(float x);  // 1 / sqrt(x)
float vtanh(float x);

enum class Eup : uint8_t { kPow2, kLog2, kRcp, kRsqrt, kTanh };
// The function on n values with the widest vectors of this host; `out` may be `in`.
void EupBlock(Eup function, const float* in, int64_t n, float* out);

}  // namespace tpuc::num
