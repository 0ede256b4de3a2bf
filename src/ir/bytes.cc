// Pages that arrays hand on (bytes.h). Free memory is kept in chunks; an array that no free region
// fits gets addresses of its own, to which chunks are moved from wherever they lie: only the page
// table changes. Only what is missing then is asked of the host.
#include "src/ir/bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace tpuc {
namespace {

constexpr size_t kChunk = size_t{2} << 20;  // a huge page of x86-64 and of AArch64 with 4 KB pages
// Where reads beyond an array's end are looked for, each has an end of its own.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kInPages = false;
#elif defined(__has_feature)
constexpr bool kInPages = !__has_feature(address_sanitizer);
#else
constexpr bool kInPages = true;
#endif
// Smaller arrays lie in the heap: rounded to chunks they would waste memory.
bool InPages(size_t bytes) { return kInPages && bytes >= 2 * kChunk; }

size_t ChunksOf(size_t bytes) { return (bytes + kChunk - 1) / kChunk; }

class Pages {
 public:
  uint8_t* Take(size_t chunks) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto fits = [&](const Region& r) { return r.chunks == chunks; };
    if (const auto it = std::find_if(free_.rbegin(), free_.rend(), fits); it != free_.rend()) {
      uint8_t* found = it->begin;
      free_.erase(std::next(it).base());
      return found;
    }
    uint8_t* begin = Reserve(chunks);
    size_t moved = 0;
    while (moved < chunks && !free_.empty() && MoveChunk(begin + moved * kChunk)) ++moved;
#ifdef MADV_HUGEPAGE
    if (moved < chunks) {  // touched once a chunk
      madvise(begin + moved * kChunk, (chunks - moved) * kChunk, MADV_HUGEPAGE);
    }
#endif
    return begin;
  }

  void Give(uint8_t* begin, size_t chunks) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back({begin, chunks});
  }

 private:
  struct Region {
    uint8_t* begin;
    size_t chunks;
  };

  // Addresses of fresh pages, at the start of a chunk.
  static uint8_t* Reserve(size_t chunks) {
    const size_t bytes = chunks * kChunk;
    void* memory = mmap(nullptr, bytes + kChunk, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    uint8_t* low = static_cast<uint8_t*>(memory);
    const size_t before = (kChunk - reinterpret_cast<uintptr_t>(low) % kChunk) % kChunk;
    if (before > 0) munmap(low, before);
    munmap(low + before + bytes, kChunk - before);
    return low + before;
  }

  // Moves the last free chunk to those addresses. False where the host refuses.
  bool MoveChunk(uint8_t* to) {
    Region& last = free_.back();
    uint8_t* from = last.begin + (last.chunks - 1) * kChunk;
    if (mremap(from, kChunk, kChunk, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) return false;
    if (--last.chunks == 0) free_.pop_back();
    return true;
  }

  std::mutex mutex_;
  std::vector<Region> free_;  // the last given back comes last
};

// As the heap, there is one in the process, and it lives as long.
Pages& ProcessPages() {
  static Pages* pages = new Pages;
  return *pages;
}

}  // namespace

void* TakeMemory(size_t bytes) {
  if (InPages(bytes)) return ProcessPages().Take(ChunksOf(bytes));
  return ::operator new(bytes);
}

void GiveMemory(void* memory, size_t bytes) {
  if (InPages(bytes)) return ProcessPages().Give(static_cast<uint8_t*>(memory), ChunksOf(bytes));
  ::operator delete(memory);
}

}  // namespace tpuc
