// Arrays of bf16 and f16 to f32 and back, as BF16FromF32 and its like (convert.h) do it for one
// value, bit for bit, in vectors: the evaluator widens and narrows each operand of each operation.
#pragma once

#include <cstdint>

namespace tpuc::num {

void F32sFromBF16s(const uint16_t* from, int64_t n, float* to);
void BF16sFromF32s(const float* from, int64_t n, uint16_t* to);
void F32sFromF16s(const uint16_t* from, int64_t n, float* to);
void F16sFromF32s(const float* from, int64_t n, uint16_t* to);

}  // namespace tpuc::num
