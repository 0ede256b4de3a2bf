// First fit over time (address_space.h).
#include "passes/address_space.h"

#include <algorithm>
#include <limits>

namespace tpuc {

int64_t AddressSpace::Rounded(int64_t bytes) const {
  if (bytes > std::numeric_limits<int64_t>::max() - granule_) return bytes;
  return (bytes + granule_ - 1) / granule_ * granule_;
}

void AddressSpace::Index(int number) {
  Taken& t = taken_[number];
  if (t.from >= positions_) {
    positions_ = std::max<int64_t>(positions_, 64);
    while (positions_ <= t.from) positions_ *= 2;
    first_.resize(positions_, -1);
    latest_.assign(2 * positions_, -1);
    for (int n = 0; n < number; ++n) {
      int64_t& latest = latest_[positions_ + taken_[n].from];
      latest = std::max(latest, taken_[n].to);
    }
    for (int64_t n = positions_ - 1; n > 0; --n) {
      latest_[n] = std::max(latest_[2 * n], latest_[2 * n + 1]);
    }
  }
  t.next = first_[t.from];
  first_[t.from] = number;
  for (int64_t n = positions_ + t.from; n > 0; n /= 2) latest_[n] = std::max(latest_[n], t.to);
}

// Adds what below `node`, whose starts are low..high, overlaps the interval; false where that is
// more than `most`.
bool AddressSpace::Collect(size_t node, int64_t low, int64_t high, int64_t from, int64_t to,
                           size_t most, std::vector<Span>* out) const {
  if (low > to || latest_[node] < from) return true;
  if (low == high) {
    for (int n = first_[low]; n >= 0; n = taken_[n].next) {
      const Taken& t = taken_[n];
      ++steps_;
      if (t.to >= from) out->push_back({t.offset, t.offset + t.bytes});
    }
    return out->size() <= most;
  }
  const int64_t middle = low + (high - low) / 2;
  return Collect(2 * node, low, middle, from, to, most, out) &&
         Collect(2 * node + 1, middle + 1, high, from, to, most, out);
}

std::vector<AddressSpace::Span> AddressSpace::During(int64_t from, int64_t to) const {
  std::vector<Span> out;
  if (taken_.empty()) return out;
  const size_t most = 64 + taken_.size() / 16;
  if (Collect(1, 0, positions_ - 1, from, to, most, &out)) {
    std::sort(out.begin(), out.end());
    return out;
  }
  auto lower = [](const Taken& a, const Taken& b) { return a.offset < b.offset; };
  const size_t sorted = by_address_.size();
  by_address_.insert(by_address_.end(), taken_.begin() + sorted, taken_.end());
  std::sort(by_address_.begin() + sorted, by_address_.end(), lower);
  std::inplace_merge(by_address_.begin(), by_address_.begin() + sorted, by_address_.end(), lower);
  out.clear();
  for (const Taken& t : by_address_) {
    if (t.to >= from && t.from <= to) out.push_back({t.offset, t.offset + t.bytes});
  }
  steps_ += static_cast<int64_t>(by_address_.size());
  return out;
}

int64_t AddressSpace::Find(int64_t bytes, int64_t from, int64_t to) const {
  bytes = Rounded(bytes);
  int64_t at = 0;
  for (const auto& [offset, end] : During(from, to)) {
    if (offset - at >= bytes) break;
    at = std::max(at, end);
  }
  return bytes <= capacity_ && at <= capacity_ - bytes ? at : -1;
}

int64_t AddressSpace::Place(int64_t bytes, int64_t from, int64_t to) {
  const int64_t at = Find(bytes, from, to);
  bytes = Rounded(bytes);
  if (at < 0 || bytes == 0) return at;
  taken_.push_back({at, bytes, from, to, -1});
  Index(static_cast<int>(taken_.size()) - 1);
  extent_ = std::max(extent_, at + bytes);
  return at;
}

int64_t AddressSpace::LargestGap(int64_t from, int64_t to) const {
  int64_t at = 0, largest = 0;
  for (const auto& [offset, end] : During(from, to)) {
    largest = std::max(largest, offset - at);
    at = std::max(at, end);
  }
  return std::max(largest, capacity_ - at);
}

}  // namespace tpuc
