// Memory of arrays that are used again (value.h).
#include "src/eval/value.h"

#include <sys/mman.h>

#include <algorithm>

namespace tpuc {
namespace {

constexpr size_t kLarge = size_t{1} << 20;  // bytes; smaller ones the allocator keeps anyway
constexpr int64_t kShare = 8;  // one part of so many of what lived at once may wait: operations
                               // need room of their own

// A first touch of a page costs the host as much as filling it; huge ones are touched once.
void AskForHugePages(void* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = uintptr_t{1} << 21;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace

Literal Memory::Make(const Shape& shape, bool any) {
  const int64_t bytes = shape.LiteralBytes();
  if (!shape.IsArray() || bytes < static_cast<int64_t>(kLarge)) return Literal(shape);
  peak_ = std::max(peak_, live + bytes);
  const size_t size = static_cast<size_t>(bytes);
  std::vector<uint8_t> data;
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const bool fits = it->capacity() >= size && it->capacity() - size <= size / 8;
    if (fits && (best == kept_.end() || it->capacity() < best->capacity())) best = it;
  }
  if (best == kept_.end()) {
    while (!kept_.empty() && live + kept_bytes_ + bytes > peak_) Drop();
    data.reserve(size);
    AskForHugePages(data.data(), size);
  } else {
    data = std::move(*best);
    kept_.erase(best);
    kept_bytes_ -= static_cast<int64_t>(data.capacity());
    if (!any) data.clear();
  }
  data.resize(size);
  return Literal(shape, std::move(data));
}

void Memory::Drop() {
  kept_bytes_ -= static_cast<int64_t>(kept_.front().capacity());
  kept_.erase(kept_.begin());
}

void Memory::Give(std::vector<uint8_t> bytes) {
  const int64_t size = static_cast<int64_t>(bytes.capacity());
  if (bytes.capacity() < kLarge || size > peak_ / kShare) return;
  while (kept_bytes_ + size > peak_ / kShare) Drop();
  if (live + kept_bytes_ + size > peak_) return;
  kept_bytes_ += size;
  kept_.push_back(std::move(bytes));
}

}  // namespace tpuc
