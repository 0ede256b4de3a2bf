// The memories of the simulated core, with what strict runs need to know of each VMEM row and SMEM
// word: written yet, source or destination of a DMA under way; and when each row was last stored.
//
//   rows[r] == kRowWritten            stored or arrived, no DMA touches it
//   rows[r] & kRowDestination         a DMA will write it
//
// HBM is as large as the program's buffers, not as the chip.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tpuc::interp {

constexpr int64_t kRowBytes = 512;
constexpr int64_t kGranuleBytes = 32;
constexpr uint16_t kRowWritten = 1;
constexpr uint16_t kRowDestination = 2;
constexpr uint16_t kRowSource = 4;  // one count

// The two clocks of interp.h.
struct Time {
  int64_t wall = 0, ideal = 0;
  Time operator+(int64_t cycles) const { return {wall + cycles, ideal + cycles}; }
  void Raise(const Time& other) {
    wall = std::max(wall, other.wall);
    ideal = std::max(ideal, other.ideal);
  }
};

// Zero bytes that take host memory only once touched.
class LazyBytes {
 public:
  LazyBytes() = default;
  ~LazyBytes();
  LazyBytes(const LazyBytes&) = delete;
  LazyBytes& operator=(const LazyBytes&) = delete;
  bool Allocate(int64_t bytes);  // false: the host has not that much
  uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  int64_t size_ = 0;
};

// When rows were stored, exact for the last `window` stores; earlier ones cannot matter.
class StoreTimes {
 public:
  void Init(int64_t rows, int64_t window);
  void Store(int64_t row, const Time& now) {
    row_[row] = sequence_;
    ring_[sequence_ & mask_] = now;
  }
  void Next() {  // after each store instruction
    if (++sequence_ == 0) Wrap();
  }
  // The time of the last store to the row, if it is recent.
  const Time* Recent(int64_t row) const {
    return sequence_ - row_[row] <= window_ ? &ring_[row_[row] & mask_] : nullptr;
  }

 private:
  void Wrap();
  std::vector<uint32_t> row_;
  std::vector<Time> ring_;
  uint32_t sequence_ = 0, window_ = 0, mask_ = 0;
};

struct Memory {
  LazyBytes hbm, vmem;
  std::vector<int32_t> smem;
  std::vector<uint8_t> smem_written;
  std::vector<uint16_t> rows;  // of VMEM
  std::vector<int64_t> flags;
  StoreTimes stores;
  Time stores_settle{-1, -1};  // from here on no row is too young to load

  int64_t vmem_rows() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace tpuc::interp
