// Blocked matrix product (gemm.h): pack a block of B and a strip of A, multiply panels of kRows
// rows by two vectors of columns held in registers.
#include "src/eval/gemm.h"

#include <algorithm>
#include <vector>

#include "src/eval/lines.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/eval/gemm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tpuc::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRows = 6;
constexpr int64_t kStrip = 20 * kRows;  // rows of A packed at once
constexpr int64_t kColumns = 1024;      // columns of B packed at once

// The n elements of an operand from an offset on, a step apart; those that do not lie together are
// put together in `room`.
template <typename T>
HWY_ATTR const T* LineOf(const Indexed<T>& x, int64_t offset, int64_t n, int64_t step, T* room) {
  if (step == 1) return x.Line(offset, n, room);
  const T* from = x.data + offset;
  if (step == 2) {  // vectorises
    for (int64_t i = 0; i < n; ++i) room[i] = from[i * 2];
  } else {
    for (int64_t i = 0; i < n; ++i) room[i] = from[i * step];
  }
  return room;
}

// A line of at most `width` values (two vectors), padded with zeros.
template <typename T>
HWY_ATTR void PackLine(const T* from, int64_t n, int64_t width, T* to) {
  if (n < width) {
    std::copy_n(from, n, to);
    std::fill(to + n, to + width, T{0});
    return;
  }
  const hn::ScalableTag<T> d;
  const int64_t lanes = width / 2;
  hn::StoreU(hn::LoadU(d, from), d, to);
  hn::StoreU(hn::LoadU(d, from + lanes), d, to + lanes);
}

// to[q * step + l] = line[l][q] for four lines: turned in registers, four places at a time.
template <typename T>
HWY_ATTR void PackFour(const T* const* line, int64_t n, int64_t step, T* to) {
  int64_t q = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const hn::FixedTag<T, 4> d;
    for (; q + 4 <= n; q += 4, to += 4 * step) {
      const auto a = hn::LoadU(d, line[0] + q), b = hn::LoadU(d, line[1] + q);
      const auto e = hn::LoadU(d, line[2] + q), f = hn::LoadU(d, line[3] + q);
      const auto low0 = hn::InterleaveLower(d, a, b), high0 = hn::InterleaveUpper(d, a, b);
      const auto low1 = hn::InterleaveLower(d, e, f), high1 = hn::InterleaveUpper(d, e, f);
      hn::StoreU(hn::ConcatLowerLower(d, low1, low0), d, to);
      hn::StoreU(hn::ConcatUpperUpper(d, low1, low0), d, to + step);
      hn::StoreU(hn::ConcatLowerLower(d, high1, high0), d, to + 2 * step);
      hn::StoreU(hn::ConcatUpperUpper(d, high1, high0), d, to + 3 * step);
    }
  }
#endif
  for (; q < n; ++q, to += step) {
    for (int64_t l = 0; l < 4; ++l) to[l] = line[l][q];
  }
}

// The same for as many lines as there are.
template <typename T>
HWY_ATTR void PackLines(const std::vector<const T*>& line, int64_t n, int64_t step, T* to) {
  size_t l = 0;
  for (; l + 4 <= line.size(); l += 4) PackFour(line.data() + l, n, step, to + l);
  for (; l < line.size(); ++l) {
    for (int64_t q = 0; q < n; ++q) to[q * step + static_cast<int64_t>(l)] = line[l][q];
  }
}

// Panels of `width` columns: out[panel][p][lane], padded with zeros.
template <typename T>
HWY_ATTR void PackColumns(const Indexed<T>& b, int64_t p0, int64_t depth, int64_t j0, int64_t count,
                          int64_t width, T* out) {
  const Parts parts = PartsOf(b.row + p0, depth);
  const bool along = depth > 1 && !parts.empty();  // the depth; where it is better
  const bool wide = count > width || (b.computed && !along);
  if (wide && Contiguous(b.column + j0, count)) {  // whole lines: memory is read in order
    std::vector<T> room(b.computed ? count : 0);
    for (int64_t p = 0; p < depth; ++p) {
      const T* line = b.Line(b.row[p0 + p] + b.column[j0], count, room.data());
      T* to = out + p * width;
      for (int64_t j = 0; j < count; j += width, to += depth * width) {
        PackLine(line + j, std::min(width, count - j), width, to);
      }
    }
    return;
  }
  std::vector<const T*> lines;
  for (int64_t j = 0; j < count; j += width) {
    const int64_t w = std::min(width, count - j);
    const int64_t* column = b.column + j0 + j;
    const bool unit = Contiguous(column, w), doubled = w == width && Doubled(column, w);
    if (along && (!unit || b.computed)) {  // a few places at a time
      const int64_t places = b.computed ? depth : 128;
      std::vector<T> room(b.computed || parts.step != 1 ? width * places : 0);
      for (size_t part = 0; part + 1 < parts.starts.size(); ++part) {
        const int64_t end = parts.starts[part + 1];
        for (int64_t p = parts.starts[part]; p < end; p += places) {
          const int64_t n = std::min(places, end - p);
          lines.clear();
          for (int64_t l = 0; l < w; ++l) {
            const int64_t offset = b.row[p0 + p] + column[l];
            lines.push_back(
                LineOf(b, offset, n, parts.step, room.empty() ? nullptr : &room[l * places]));
          }
          PackLines(lines, n, width, out + p * width);
          for (int64_t q = 0; w < width && q < n; ++q) {
            std::fill(out + (p + q) * width + w, out + (p + q + 1) * width, T{0});
          }
        }
      }
      out += depth * width;
      continue;
    }
    for (int64_t p = 0; p < depth; ++p, out += width) {
      const T* row = b.data + b.row[p0 + p];
      if (unit) {
        PackLine(row + column[0], w, width, out);
      } else if (doubled) {
        for (int64_t l = 0; l < width; ++l) out[l] = row[column[0] + l * 2];
      } else {
        for (int64_t l = 0; l < w; ++l) out[l] = row[column[l]];
        std::fill(out + w, out + width, T{0});
      }
    }
  }
}

// Panels of kRows rows: out[panel][p][lane], padded with zeros.
template <typename T>
HWY_ATTR void PackRows(const Indexed<T>& a, int64_t i0, int64_t count, int64_t p0, int64_t depth,
                       T* out) {
  const Parts parts = PartsOf(a.column + p0, depth);
  std::vector<const T*> lines;
  std::vector<T> room(a.computed || parts.step != 1 ? kRows * depth : 0);
  for (int64_t i = 0; i < count; i += kRows, out += kRows * depth) {
    const int64_t w = std::min(kRows, count - i);
    for (size_t part = 0; part + 1 < parts.starts.size(); ++part) {
      const int64_t first = parts.starts[part], n = parts.starts[part + 1] - first;
      lines.clear();
      for (int64_t l = 0; l < w; ++l) {
        const int64_t offset = a.column[p0 + first] + a.row[i0 + i + l];
        lines.push_back(
            LineOf(a, offset, n, parts.step, room.empty() ? nullptr : &room[l * depth]));
      }
      PackLines(lines, n, kRows, out + first * kRows);
    }
    for (int64_t l = 0; l < kRows; ++l) {
      if (l >= w) {
        for (int64_t p = 0; p < depth; ++p) out[p * kRows + l] = T{0};
      } else if (parts.empty()) {
        const T* row = a.data + a.row[i0 + i + l];
        const int64_t* column = a.column + p0;
        for (int64_t p = 0; p < depth; ++p) out[p * kRows + l] = row[column[p]];
      }
    }
  }
}

// Rows that are written soon.
template <typename T>
void PrefetchRows(const T* c, int64_t stride, int64_t rows, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; j += kLine) __builtin_prefetch(c + i * stride + j, 1, 3);
  }
}

// Where a panel's rows of two vectors go: added to what is there, or in its place.
template <typename T>
struct PanelRows {
  T* first;
  int64_t stride, rows;
  bool add;

  template <class V>
  HWY_INLINE HWY_ATTR void Put(int64_t i, V left, V right) const {
    const hn::ScalableTag<T> d;
    if (i >= rows) return;
    T *low = first + i * stride, *high = low + hn::Lanes(d);
    // + 0 where nothing is added: a sum of nothing but underflow is +0, not -0
    hn::StoreU(hn::Add(add ? hn::LoadU(d, low) : hn::Zero(d), left), d, low);
    hn::StoreU(hn::Add(add ? hn::LoadU(d, high) : hn::Zero(d), right), d, high);
  }
};

// c[rows x columns] = a panel * b panel, plus what is there if `add`; rows <= kRows, columns <= 2
// vectors.
template <typename T>
HWY_ATTR void Panel(int64_t depth, const T* a, const T* b, T* c, int64_t stride, int64_t rows,
                    int64_t columns, bool add) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s00 = hn::Zero(d), s01 = hn::Zero(d), s10 = hn::Zero(d), s11 = hn::Zero(d);
  auto s20 = hn::Zero(d), s21 = hn::Zero(d), s30 = hn::Zero(d), s31 = hn::Zero(d);
  auto s40 = hn::Zero(d), s41 = hn::Zero(d), s50 = hn::Zero(d), s51 = hn::Zero(d);
  for (int64_t p = 0; p < depth; ++p, a += kRows, b += 2 * lanes) {
    const auto b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
    const auto row = [&](int64_t i, auto& left, auto& right) HWY_ATTR {
      const auto x = hn::Set(d, a[i]);
      left = hn::MulAdd(x, b0, left);
      right = hn::MulAdd(x, b1, right);
    };
    row(0, s00, s01);
    row(1, s10, s11);
    row(2, s20, s21);
    row(3, s30, s31);
    row(4, s40, s41);
    row(5, s50, s51);
  }
  HWY_ALIGN T sums[kRows * 2 * hn::MaxLanes(hn::ScalableTag<T>())];
  const bool whole = columns == 2 * lanes;
  const PanelRows<T> to{whole ? c : sums, whole ? stride : 2 * lanes, whole ? rows : kRows,
                        whole && add};
  to.Put(0, s00, s01);
  to.Put(1, s10, s11);
  to.Put(2, s20, s21);
  to.Put(3, s30, s31);
  to.Put(4, s40, s41);
  to.Put(5, s50, s51);
  if (whole) return;
  for (int64_t i = 0; i < rows; ++i) {
    T* to = c + i * stride;
    const T* from = sums + i * 2 * lanes;
    for (int64_t j = 0; j < columns; ++j) to[j] = (add ? to[j] : T{0}) + from[j];
  }
}

template <typename T>
HWY_ATTR void Blocked(int64_t m, int64_t n, int64_t k, const Indexed<T>& a, const Indexed<T>& b,
                      T* c, PackedRows<T>* packed, bool add) {
  constexpr int64_t kMostKept = int64_t{1} << 21;  // elements of A worth keeping
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  if (k == 0 && !add) std::fill_n(c, m * n, T{0});
  const int64_t columns = std::min(kColumns, (n + width - 1) / width * width);
  const int64_t deepest = std::min(kGemmDepth, k), rounded = (m + kRows - 1) / kRows * kRows;
  std::vector<T> packed_b(columns * deepest), own;
  const bool keep = packed && rounded * k <= kMostKept;
  const bool filled = keep && packed->filled;
  std::vector<T>& packed_a = keep ? packed->panels : own;
  packed_a.resize(keep ? rounded * k : std::min(kStrip, rounded) * deepest);
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    const int64_t nj = std::min(kColumns, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kGemmDepth) {
      const int64_t depth = std::min(kGemmDepth, k - p0);
      PackColumns(b, p0, depth, j0, nj, width, packed_b.data());
      const bool deeper = p0 + kGemmDepth < k;
      const int64_t next_p = deeper ? p0 + kGemmDepth : 0, next_j = deeper ? j0 : j0 + kColumns;
      const int64_t panels = (nj + width - 1) / width * (rounded / kRows);
      const int64_t next_depth = next_j < n ? std::min(kGemmDepth, k - next_p) : 0;
      Ahead<T> ahead(panels);
      ahead.Add(b, next_p, next_depth, next_j, std::min(kColumns, n - next_j));
      for (int64_t i0 = 0; i0 < m; i0 += kStrip) {
        const int64_t mi = std::min(kStrip, m - i0);
        T* strip = packed_a.data() + (keep ? p0 * rounded + i0 * depth : 0);
        if (!filled && (!keep || j0 == 0)) PackRows(a, i0, mi, p0, depth, strip);
        for (int64_t j = 0; j < nj; j += width) {
          for (int64_t i = 0; i < mi; i += kRows) {
            ahead.Take();
            const bool below = i + kRows < mi;
            T* next = below ? c + (i0 + i + kRows) * n + j0 + j : c + i0 * n + j0 + j + width;
            const int64_t more = below ? mi - i - kRows : j + width < nj ? mi : 0;
            PrefetchRows(next, n, std::min(kRows, more), width);
            Panel(depth, strip + i * depth, packed_b.data() + j * depth, c + (i0 + i) * n + j0 + j,
                  n, std::min(kRows, mi - i), std::min(width, nj - j), add || p0 > 0);
          }
        }
      }
    }
  }
  if (keep) packed->filled = true;
}

int64_t PanelMultiplications(int64_t m, int64_t n) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  return (m + kRows - 1) / kRows * kRows * ((n + width - 1) / width * width);
}

void GemmF32(int64_t m, int64_t n, int64_t k, const Indexed<float>& a, const Indexed<float>& b,
             float* c, PackedRows<float>* packed, bool add) {
  Blocked(m, n, k, a, b, c, packed, add);
}
void GemmF64(int64_t m, int64_t n, int64_t k, const Indexed<double>& a, const Indexed<double>& b,
             double* c, PackedRows<double>* packed, bool add) {
  Blocked(m, n, k, a, b, c, packed, add);
}

}  // namespace tpuc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc {

HWY_EXPORT(PanelMultiplications);
HWY_EXPORT(GemmF32);
HWY_EXPORT(GemmF64);

int64_t PanelsTaken(int64_t m, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(PanelMultiplications)(m, n);
}

void Gemm(int64_t m, int64_t n, int64_t k, const Indexed<float>& a, const Indexed<float>& b,
          float* c, PackedRows<float>* packed, bool add) {
  HWY_DYNAMIC_DISPATCH(GemmF32)(m, n, k, a, b, c, packed, add);
}
void Gemm(int64_t m, int64_t n, int64_t k, const Indexed<double>& a, const Indexed<double>& b,
          double* c, PackedRows<double>* packed, bool add) {
  HWY_DYNAMIC_DISPATCH(GemmF64)(m, n, k, a, b, c, packed, add);
}

}  // namespace tpuc
#endif  // HWY_ONCE
