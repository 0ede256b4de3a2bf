// Bytes: the memory of an array. Large ones lie in whole pages that stay with the process: what one
// array leaves, the next one gets, wherever and in whatever pieces it lay, as the host charges for
// the first touch of a page as much as for many later ones. Bytes are not cleared when they are
// made.
//
//   Bytes a(n);      n bytes of anything
//   Bytes b(n, 0);   n zeros
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace tpuc {

// malloc for arrays of any size; memory comes back to it with the size it was asked for. May be
// called from any thread. TakeMemory throws std::bad_alloc where there is none.
void* TakeMemory(size_t bytes);
void GiveMemory(void* memory, size_t bytes);

template <typename T>
struct ArrayAllocator {
  using value_type = T;
  ArrayAllocator() = default;
  template <typename U>
  ArrayAllocator(const ArrayAllocator<U>&) {}

  T* allocate(size_t count) { return static_cast<T*>(TakeMemory(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) { GiveMemory(memory, count * sizeof(T)); }
  void construct(T* place) { ::new (static_cast<void*>(place)) T; }  // of any contents
  template <typename... Args>
  void construct(T* place, Args&&... args) {
    ::new (static_cast<void*>(place)) T(std::forward<Args>(args)...);
  }
  bool operator==(const ArrayAllocator&) const { return true; }
};

using Bytes = std::vector<uint8_t, ArrayAllocator<uint8_t>>;

}  // namespace tpuc
