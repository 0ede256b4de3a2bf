// Allocation of the simulated memories and bookkeeping of recent stores (memory.h). Host pages are
// reserved without being taken, so that a program with gigabytes of buffers costs what it touches.
#include "backend/interp/memory.h"

#include <sys/mman.h>

#include <bit>

namespace tpuc::interp {

LazyBytes::~LazyBytes() {
  if (data_ != nullptr) munmap(data_, size_);
}

bool LazyBytes::Allocate(int64_t bytes) {
  bytes = std::max<int64_t>(bytes, kRowBytes);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  constexpr int64_t kLarge = int64_t{8} << 20;  // a fault for each 4 KiB would take longer
  if (bytes >= kLarge) madvise(p, bytes, MADV_HUGEPAGE);
  data_ = static_cast<uint8_t*>(p);
  size_ = bytes;
  return true;
}

void StoreTimes::Init(int64_t rows, int64_t window) {
  window_ = static_cast<uint32_t>(std::min<int64_t>(window, 1 << 20));
  uint32_t size = std::bit_ceil(window_ + 1);
  mask_ = size - 1;
  ring_.assign(size, Time{-1000000, -1000000});
  row_.assign(rows, 0);
  sequence_ = window_ + 1;  // nothing is recent
}

void StoreTimes::Wrap() {
  std::fill(row_.begin(), row_.end(), 0);
  sequence_ = window_ + 1;
}

}  // namespace tpuc::interp
