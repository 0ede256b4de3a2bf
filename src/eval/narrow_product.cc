// Narrow products (narrow_product.h). What is left of a run when no whole vector fits is done by
// half and quarter vectors, then one by one: nothing is read beyond a run.
#include "src/eval/narrow_product.h"

#include <algorithm>
#include <tuple>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/eval/narrow_product.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tpuc::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How many vectors of D may be loaded from `left` places at a step of 1 or 2 (whose last load reads
// one place more than it uses).
template <class D>
int64_t Loadable(D d, int64_t left, int64_t step) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  return step == 1 ? left / lanes : step == 2 ? (left - 1) / lanes : 0;
}

template <class D, typename T>
HWY_ATTR hn::Vec<D> LoadStep(D d, const T* from, int64_t step) {
  if (step == 1) return hn::LoadU(d, from);
  hn::Vec<D> even, odd;
  hn::LoadInterleaved2(d, from, even, odd);
  return even;
}

// c[j] = sum over p of x[p] * line[p][j * step], for as many j from *at on as vectors of D cover.
template <class D, typename T>
HWY_ATTR void ShallowVectors(D d, const OffsetRun& run, absl::Span<const T> x, const T* const* line,
                             int64_t* at, T* c) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t v = Loadable(d, run.count - *at, run.step);
  for (; v > 1; v -= 2, *at += 2 * lanes) {  // two share the factors
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
    for (size_t p = 0; p < x.size(); ++p) {
      const auto factor = hn::Set(d, x[p]);
      const T* from = line[p] + *at * run.step;
      sum0 = hn::MulAdd(factor, LoadStep(d, from, run.step), sum0);
      sum1 = hn::MulAdd(factor, LoadStep(d, from + lanes * run.step, run.step), sum1);
    }
    hn::StoreU(sum0, d, c + *at);
    hn::StoreU(sum1, d, c + *at + lanes);
  }
  for (; v > 0; --v, *at += lanes) {
    auto sum = hn::Zero(d);
    for (size_t p = 0; p < x.size(); ++p) {
      sum = hn::MulAdd(hn::Set(d, x[p]), LoadStep(d, line[p] + *at * run.step, run.step), sum);
    }
    hn::StoreU(sum, d, c + *at);
  }
}

// c[j] for all of a run.
template <typename T>
HWY_ATTR void ShallowRun(const OffsetRun& run, absl::Span<const T> x, const T* const* line, T* c) {
  int64_t at = 0;
  ShallowVectors<hn::ScalableTag<T>, T>({}, run, x, line, &at, c);
  ShallowVectors<hn::CappedTag<T, 8>, T>({}, run, x, line, &at, c);
  ShallowVectors<hn::CappedTag<T, 4>, T>({}, run, x, line, &at, c);
  for (; at < run.count; ++at) {
    T sum{0};
    for (size_t p = 0; p < x.size(); ++p) sum += x[p] * line[p][at * run.step];
    c[at] = sum;
  }
}

// Rows of a small image, so many places from one to the next, most of which are in a row; 0 where
// the runs are not such.
inline int64_t PitchOf(absl::Span<const OffsetRun> runs, const int64_t* column) {
  constexpr int64_t kNarrow = 24;  // vectors cover little of shorter rows
  if (runs.size() < 2 || runs[0].count > kNarrow) return 0;
  const int64_t pitch = column[runs[1].first] - column[runs[0].first];
  if (pitch < runs[0].count || pitch > 2 * runs[0].count) return 0;
  for (size_t r = 0; r < runs.size(); ++r) {
    const int64_t start = column[runs[0].first] + static_cast<int64_t>(r) * pitch;
    const bool like_first = runs[r].count == runs[0].count && runs[r].step == 1;
    if (!like_first || column[runs[r].first] != start) return 0;
  }
  return pitch;
}

template <typename T>
HWY_ATTR void Shallow(int64_t m, int64_t n, int64_t k, const Indexed<T>& a, const Indexed<T>& b,
                      absl::Span<const OffsetRun> runs, T* c) {
  std::vector<T> x(k);
  std::vector<const T*> line(k);
  const auto start = [&](const OffsetRun& run) {
    for (int64_t p = 0; p < k; ++p) line[p] = b.data + b.row[p] + b.column[run.first];
  };
  const int64_t pitch = PitchOf(runs, b.column);
  const int64_t whole = pitch * (static_cast<int64_t>(runs.size()) - 1);
  std::vector<T> image(pitch > 0 ? whole + runs[0].count : 0);
  for (int64_t i = 0; i < m; ++i, c += n) {
    for (int64_t p = 0; p < k; ++p) x[p] = a.data[a.row[i] + a.column[p]];
    if (pitch > 0) {  // the places between rows, too: one run instead of many short ones
      start(runs[0]);
      ShallowRun<T>({0, static_cast<int64_t>(image.size())}, x, line.data(), image.data());
      const T* from = image.data();
      for (const OffsetRun& run : runs) {
        std::copy_n(from, run.count, c + run.first);
        from += pitch;
      }
      continue;
    }
    for (const OffsetRun& run : runs) {
      start(run);
      ShallowRun<T>(run, x, line.data(), c + run.first);
    }
  }
}

// A vector of the next values at a step of 1 or 2. Of these there are as many as lanes, and one
// more.
template <int kStep, class D, typename T>
HWY_INLINE HWY_ATTR hn::Vec<D> LoadAll(D d, const T* from) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStep == 2) {
    return hn::ConcatEven(d, hn::LoadU(d, from + hn::Lanes(d)), hn::LoadU(d, from));
  }
#endif
  return hn::LoadU(d, from);
}

// The same of `left` values, at most as many as lanes, and zeros after them. Only where a vector
// can be loaded in part.
template <int kStep, class D, typename T>
HWY_INLINE HWY_ATTR hn::Vec<D> LoadSome(D d, const T* from, size_t left) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStep == 2) {
    const size_t lanes = hn::Lanes(d), wide = 2 * left - 1, low = std::min(wide, lanes);
    return hn::ConcatEven(d, hn::MaskedLoad(hn::FirstN(d, wide - low), d, from + lanes),
                          hn::MaskedLoad(hn::FirstN(d, low), d, from));
  }
#endif
  return hn::MaskedLoad(hn::FirstN(d, left), d, from);
}

// Sums over the runs' places (kStep apart in b) of a * b[0], a * b[1] and a * b[2], in the lanes of
// sums[0..2]; what vectors do not cover, one by one, in their first lanes.
template <int kStep, typename T>
HWY_ATTR void DeepColumns(const T* a, const int64_t* a_at, const T* const* b, const int64_t* b_at,
                          absl::Span<const OffsetRun> runs, T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::LoadU(d, sums), s1 = hn::LoadU(d, sums + lanes),
       s2 = hn::LoadU(d, sums + 2 * lanes);
  T rest[3] = {};
  for (const OffsetRun& run : runs) {
    const T* x = a + a_at[run.first];
    const T *y0 = b[0] + b_at[run.first], *y1 = b[1] + b_at[run.first],
            *y2 = b[2] + b_at[run.first];
    int64_t i = 0;
    for (; i + lanes < run.count; i += lanes) {
      const auto v = LoadAll<1>(d, x + i);
      s0 = hn::MulAdd(v, LoadAll<kStep>(d, y0 + i * kStep), s0);
      s1 = hn::MulAdd(v, LoadAll<kStep>(d, y1 + i * kStep), s1);
      s2 = hn::MulAdd(v, LoadAll<kStep>(d, y2 + i * kStep), s2);
    }
    if constexpr (!HWY_MEM_OPS_MIGHT_FAULT) {
      const size_t left = static_cast<size_t>(run.count - i);
      const auto v = LoadSome<1>(d, x + i, left);
      s0 = hn::MulAdd(v, LoadSome<kStep>(d, y0 + i * kStep, left), s0);
      s1 = hn::MulAdd(v, LoadSome<kStep>(d, y1 + i * kStep, left), s1);
      s2 = hn::MulAdd(v, LoadSome<kStep>(d, y2 + i * kStep, left), s2);
      continue;
    }
    for (; i < run.count; ++i) {
      rest[0] += x[i] * y0[i * kStep];
      rest[1] += x[i] * y1[i * kStep];
      rest[2] += x[i] * y2[i * kStep];
    }
  }
  hn::StoreU(s0, d, sums);
  hn::StoreU(s1, d, sums + lanes);
  hn::StoreU(s2, d, sums + 2 * lanes);
  for (int64_t l = 0; l < 3; ++l) sums[l * lanes] += rest[l];
}

// One run at any step.
template <typename T>
void DeepRun(const T* a, const int64_t* a_at, const T* const* b, const int64_t* b_at,
             const OffsetRun& run, int64_t lanes, T* sums) {
  for (int64_t l = 0; l < 3; ++l) {
    const T *x = a + a_at[run.first], *y = b[l] + b_at[run.first];
    for (int64_t i = 0; i < run.count; ++i) {
      sums[l * lanes] += x[i * run.step] * y[i * run.other_step];
    }
  }
}

template <typename T>
HWY_ATTR void Deep(int64_t m, int64_t n, const Indexed<T>& a, const Indexed<T>& b,
                   absl::Span<const OffsetRun> runs, T* c) {
  constexpr size_t kNear = 16;  // runs whose places stay near while all columns take them
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t triples = (n + 2) / 3;
  std::vector<T> sums(m * triples * 3 * lanes, T{0});
  for (size_t first = 0; first < runs.size(); first += kNear) {
    const absl::Span<const OffsetRun> some = runs.subspan(first, kNear);
    const auto all = [&](int64_t step, int64_t other) {
      return std::all_of(some.begin(), some.end(), [&](const OffsetRun& run) {
        return run.step == step && run.other_step == other;
      });
    };
    const bool together = all(1, 1), every_second = all(1, 2);
    T* to = sums.data();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; j += 3, to += 3 * lanes) {
        const T* columns[3];
        for (int64_t l = 0; l < 3; ++l) columns[l] = b.data + b.column[std::min(j + l, n - 1)];
        const T* row = a.data + a.row[i];
        if (together) {
          DeepColumns<1>(row, a.column, columns, b.row, some, to);
        } else if (every_second) {
          DeepColumns<2>(row, a.column, columns, b.row, some, to);
        } else {
          for (const OffsetRun& run : some) DeepRun(row, a.column, columns, b.row, run, lanes, to);
        }
      }
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const T* from = sums.data() + (i * triples * 3 + j) * lanes;
      T sum{0};
      for (int64_t l = 0; l < lanes; ++l) sum += from[l];
      *c++ = sum;
    }
  }
}

void ShallowF32(int64_t m, int64_t n, int64_t k, const Indexed<float>& a, const Indexed<float>& b,
                absl::Span<const OffsetRun> runs, float* c) {
  Shallow(m, n, k, a, b, runs, c);
}
void ShallowF64(int64_t m, int64_t n, int64_t k, const Indexed<double>& a, const Indexed<double>& b,
                absl::Span<const OffsetRun> runs, double* c) {
  Shallow(m, n, k, a, b, runs, c);
}
void DeepF32(int64_t m, int64_t n, const Indexed<float>& a, const Indexed<float>& b,
             absl::Span<const OffsetRun> runs, float* c) {
  Deep(m, n, a, b, runs, c);
}
void DeepF64(int64_t m, int64_t n, const Indexed<double>& a, const Indexed<double>& b,
             absl::Span<const OffsetRun> runs, double* c) {
  Deep(m, n, a, b, runs, c);
}

}  // namespace tpuc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc {

HWY_EXPORT(ShallowF32);
HWY_EXPORT(ShallowF64);
HWY_EXPORT(DeepF32);
HWY_EXPORT(DeepF64);

void ShallowProduct(int64_t m, int64_t n, int64_t k, const Indexed<float>& a,
                    const Indexed<float>& b, absl::Span<const OffsetRun> runs, float* c) {
  HWY_DYNAMIC_DISPATCH(ShallowF32)(m, n, k, a, b, runs, c);
}
void ShallowProduct(int64_t m, int64_t n, int64_t k, const Indexed<double>& a,
                    const Indexed<double>& b, absl::Span<const OffsetRun> runs, double* c) {
  HWY_DYNAMIC_DISPATCH(ShallowF64)(m, n, k, a, b, runs, c);
}
void DeepProduct(int64_t m, int64_t n, const Indexed<float>& a, const Indexed<float>& b,
                 absl::Span<const OffsetRun> runs, float* c) {
  HWY_DYNAMIC_DISPATCH(DeepF32)(m, n, a, b, runs, c);
}
void DeepProduct(int64_t m, int64_t n, const Indexed<double>& a, const Indexed<double>& b,
                 absl::Span<const OffsetRun> runs, double* c) {
  HWY_DYNAMIC_DISPATCH(DeepF64)(m, n, a, b, runs, c);
}

namespace {

// Runs of places whose steps in all lists stay the same.
template <typename Step>
std::vector<OffsetRun> Runs(int64_t size, Step step) {
  std::vector<OffsetRun> runs;
  for (int64_t j = 0; j < size;) {
    OffsetRun run{j++, 1};
    if (j < size) std::tie(run.step, run.other_step) = step(j);
    while (j < size && step(j) == std::pair{run.step, run.other_step}) ++j;
    run.count = j - run.first;
    runs.push_back(run);
  }
  return runs;
}

}  // namespace

std::vector<OffsetRun> RunsOf(const std::vector<int64_t>& offsets) {
  return Runs(static_cast<int64_t>(offsets.size()), [&](int64_t j) {
    return std::pair{offsets[j] - offsets[j - 1], int64_t{1}};
  });
}

std::vector<OffsetRun> CommonRuns(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return Runs(static_cast<int64_t>(a.size()), [&](int64_t j) {
    return std::pair{a[j] - a[j - 1], b[j] - b[j - 1]};
  });
}

}  // namespace tpuc
#endif  // HWY_ONCE
