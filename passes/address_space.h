// Places buffers in one memory: at the lowest address that is free over the whole of their lives.
//
//   AddressSpace vmem(1 << 20, 4096);
//   vmem.Place(8192, 0, 10);   // 0
//   vmem.Place(4096, 5, 12);   // 8192: beside the first
//   vmem.Place(4096, 11, 20);  // 0: behind it
//
// A search costs as much as there are buffers alive in the interval (k log k), not as were ever
// placed: 100,000 of a long program take their addresses in a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tpuc {

class AddressSpace {
 public:
  AddressSpace(int64_t capacity, int64_t granule) : capacity_(capacity), granule_(granule) {}
  // The address, or -1 where no gap is large enough. Positions are 0 or more, both included.
  int64_t Find(int64_t bytes, int64_t from, int64_t to) const;
  // Find and take it.
  int64_t Place(int64_t bytes, int64_t from, int64_t to);
  int64_t Rounded(int64_t bytes) const;
  int64_t extent() const { return extent_; }  // highest address in use, over all time
  // Most bytes free in one piece over the interval.
  int64_t LargestGap(int64_t from, int64_t to) const;
  int64_t steps() const { return steps_; }  // taken intervals looked at so far

 private:
  struct Taken {
    int64_t offset, bytes, from, to;
    int next;  // in taken_: starts at the same position; -1 at the end
  };
  using Span = std::pair<int64_t, int64_t>;  // address, end
  // What is taken at some time of the interval, by address.
  std::vector<Span> During(int64_t from, int64_t to) const;
  bool Collect(size_t node, int64_t low, int64_t high, int64_t from, int64_t to, size_t most,
               std::vector<Span>* out) const;
  void Index(int number);

  int64_t capacity_, granule_;
  int64_t extent_ = 0;
  std::vector<Taken> taken_;
  // A tree over start positions: the leaf of position p is node positions_ + p, the parent of node
  // n is n / 2; each holds the latest end of the intervals that start below it, or -1.
  int64_t positions_ = 0;
  std::vector<int64_t> latest_;
  std::vector<int> first_;  // by start position: in taken_, or -1
  // The first of taken_ sorted by address: where most intervals are alive it is quicker to walk.
  mutable std::vector<Taken> by_address_;
  mutable int64_t steps_ = 0;
};

}  // namespace tpuc
