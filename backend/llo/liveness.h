// Which virtual registers of one class are live at block borders: backward data flow on bit sets.
//
// A register is live where a later read may see the value it holds *and* some write of it can have
// come before; the second half keeps a register that is first written under a predicate (which
// reads the old value) from being live all the way up to the entry.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/isa/isa.h"
#include "backend/llo/llo.h"

namespace tpuc::llo {

class BitSet {
 public:
  explicit BitSet(int size = 0) : words_((size + 63) / 64) {}
  bool Has(int i) const { return words_[i >> 6] >> (i & 63) & 1; }
  void Add(int i) { words_[i >> 6] |= uint64_t{1} << (i & 63); }
  void Remove(int i) { words_[i >> 6] &= ~(uint64_t{1} << (i & 63)); }
  bool Merge(const BitSet& o);  // union; true if it grew
  void Intersect(const BitSet& o);
  void Subtract(const BitSet& o);
  bool operator==(const BitSet& o) const { return words_ == o.words_; }
  int Count() const;
  // Calls f(i) for each member, in rising order.
  template <typename F>
  void ForEach(F f) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t bits = words_[w]; bits != 0; bits &= bits - 1) {
        f(static_cast<int>(w * 64 + __builtin_ctzll(bits)));
      }
    }
  }

 private:
  std::vector<uint64_t> words_;
};

struct Liveness {
  std::vector<BitSet> in, out;  // by block
};
Liveness ComputeLiveness(const Function& function, isa::RegClass cls);

}  // namespace tpuc::llo
