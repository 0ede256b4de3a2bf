// Subnormal numbers count as zero: operands are read as zeros of their sign, results become such
// zeros, in f32 and f64, for as long as the scope lives. XLA runs its CPU code so, and the machine
// has no subnormals at all (design.md section 7). Moving, selecting and reinterpreting bits keeps
// them; so do the conversions of convert.h.
//
//   { FlushScope flush;  1e-40f + 1e-40f == 0;  1e-40f == 0; }
//
// It sets a register of the thread that it runs in, and must not outlive the call that made it.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tpuc {

class FlushScope {
 public:
#if defined(__SSE__)
  FlushScope() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlush); }
  ~FlushScope() { _mm_setcsr(before_); }

 private:
  static constexpr uint32_t kFlush = 1 << 15 | 1 << 6;  // MXCSR: results to zero, operands as zero
  const uint32_t before_;
#elif defined(__aarch64__)
  FlushScope() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | kFlush));
  }
  ~FlushScope() { asm volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  static constexpr uint64_t kFlush = 1 << 24;  // FPCR.FZ: both
  uint64_t before_;
#else
  FlushScope() {}  // subnormals stay
  ~FlushScope() {}
#endif

 public:
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;
};

}  // namespace tpuc
