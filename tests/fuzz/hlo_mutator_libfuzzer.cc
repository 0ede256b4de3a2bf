// Gives libFuzzer the changes of hlo_mutator.h, turn by turn with its own of bytes.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/fuzz/hlo_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text =
      tpuc::MutateHlo(absl::string_view(reinterpret_cast<const char*>(data), size), seed);
  size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}
