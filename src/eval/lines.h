// How tables of offsets lie in memory: what is together, or a step apart, is packed in lines; and
// lines of the next block are fetched while this one is computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "src/eval/gemm.h"

namespace tpuc {

// Offsets that ascend by one. Within a dimension they do, so that both ends tell most of it.
inline bool Contiguous(const int64_t* offsets, int64_t n) {
  if (offsets[n - 1] - offsets[0] != n - 1) return false;
  for (int64_t i = 1; i < n; ++i) {
    if (offsets[i] != offsets[0] + i) return false;
  }
  return true;
}

// Offsets that ascend by two.
inline bool Doubled(const int64_t* offsets, int64_t n) {
  if (offsets[n - 1] - offsets[0] != 2 * (n - 1)) return false;
  for (int64_t i = 1; i < n; ++i) {
    if (offsets[i] != offsets[0] + 2 * i) return false;
  }
  return true;
}

// Runs of offsets that lie a step apart: n of them in parts, [0] = 0 and the last = n. The step is
// that at an end, 1 rather than another. Few parts only: none where they are shorter than pays.
struct Parts {
  int64_t step = 1;
  std::vector<int64_t> starts;
  bool empty() const { return starts.empty(); }
};
inline Parts PartsOf(const int64_t* offsets, int64_t n) {
  constexpr int64_t kShort = 16;
  const int64_t first = n > 1 ? offsets[1] - offsets[0] : 1;
  const int64_t last = n > 1 ? offsets[n - 1] - offsets[n - 2] : 1;
  Parts parts{last == 1 ? 1 : first, {0}};
  for (int64_t i = 1; i < n; ++i) {
    if (offsets[i] == offsets[i - 1] + parts.step) continue;
    parts.starts.push_back(i);
    if (static_cast<int64_t>(parts.starts.size()) * kShort > n + kShort) return {};
  }
  parts.starts.push_back(n);
  return parts;
}

// The columns of A, or the rows of B, lie together in lines long enough for a product to compute
// them one by one as it packs them.
inline bool LiesInLines(absl::Span<const int64_t> columns) {
  constexpr int64_t kLong = 512;
  int64_t first = 0;
  const int64_t n = static_cast<int64_t>(columns.size());
  for (int64_t i = 1; i <= n; ++i) {
    if (i < n && columns[i] == columns[i - 1] + 1) continue;
    if (i - first < kLong) return false;
    first = i;
  }
  return n > 0;
}

// What the next block of a product reads, brought near while this one is computed. Lines of memory,
// as far as they lie together.
template <typename T>
class Ahead {
 public:
  // Shared out among so many calls of Take.
  explicit Ahead(int64_t calls) : calls_(std::max<int64_t>(1, calls)) {}
  // The block x[i0 ..., j0 ...] of an operand.
  void Add(const Indexed<T>& x, int64_t i0, int64_t rows, int64_t j0, int64_t columns) {
    if (x.data == nullptr || rows <= 0 || columns <= 0) return;
    if (Contiguous(x.column + j0, columns)) {
      for (int64_t i = i0; i < i0 + rows; ++i) AddLine(x.data + x.row[i] + x.column[j0], columns);
    } else if (x.row[i0 + rows - 1] - x.row[i0] == rows - 1) {
      for (int64_t j = j0; j < j0 + columns; ++j) AddLine(x.data + x.row[i0] + x.column[j], rows);
    }
    each_ = (total_ + calls_ - 1) / calls_;
  }
  void Take() {
    for (int64_t n = each_; n > 0 && line_ < lines_.size(); --n) {
      __builtin_prefetch(lines_[line_].first + at_, 0, 2);
      at_ += kLine;
      if (at_ >= lines_[line_].second) {
        at_ = 0;
        ++line_;
      }
    }
  }

 private:
  static constexpr int64_t kLine = 64;  // bytes
  void AddLine(const T* from, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    lines_.push_back({reinterpret_cast<const char*>(from), bytes});
    total_ += (bytes + kLine - 1) / kLine;
  }

  const int64_t calls_;
  std::vector<std::pair<const char*, int64_t>> lines_;
  size_t line_ = 0;
  int64_t at_ = 0, total_ = 0, each_ = 0;
};

}  // namespace tpuc
