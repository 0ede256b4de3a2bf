// fft (linalg.h): complex transforms in f64, dimension by dimension. Sizes that are powers of two
// go by Stockham's radix 2, others by Bluestein's chirp over a power of two.
#include <cmath>
#include <complex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/eval/linalg.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

using C = std::complex<double>;
const double kPi = std::acos(-1.0);

C Turn(double fraction) { return {std::cos(2 * kPi * fraction), std::sin(2 * kPi * fraction)}; }

// x, of a power of two points, in place; sign -1 forward, +1 backward, without scaling.
void PowerOfTwo(std::vector<C>* x, int sign) {
  const int64_t n = static_cast<int64_t>(x->size());
  std::vector<C> other(n), roots(n / 2);
  for (int64_t i = 0; i < n / 2; ++i) {
    roots[i] = Turn(sign * static_cast<double>(i) / static_cast<double>(n));
  }
  for (int64_t half = n / 2, stride = 1; half >= 1; half /= 2, stride *= 2) {
    for (int64_t p = 0; p < half; ++p) {
      const C w = roots[p * stride];
      for (int64_t q = 0; q < stride; ++q) {
        const C a = (*x)[q + stride * p], b = (*x)[q + stride * (p + half)], d = a - b;
        other[q + stride * 2 * p] = a + b;
        other[q + stride * (2 * p + 1)] = {d.real() * w.real() - d.imag() * w.imag(),
                                           d.real() * w.imag() + d.imag() * w.real()};
      }
    }
    x->swap(other);
  }
}

void Transform(std::vector<C>* x, int sign) {
  const int64_t n = static_cast<int64_t>(x->size());
  if (n <= 1) return;
  if ((n & (n - 1)) == 0) return PowerOfTwo(x, sign);
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  std::vector<C> chirp(n), a(m), b(m);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t square = static_cast<int64_t>(static_cast<__int128>(i) * i % (2 * n));
    chirp[i] = Turn(sign * static_cast<double>(square) / static_cast<double>(2 * n));
    a[i] = (*x)[i] * chirp[i];
    b[i] = std::conj(chirp[i]);
    if (i > 0) b[m - i] = std::conj(chirp[i]);
  }
  PowerOfTwo(&a, -1);
  PowerOfTwo(&b, -1);
  for (int64_t i = 0; i < m; ++i) a[i] *= b[i];
  PowerOfTwo(&a, 1);
  for (int64_t i = 0; i < n; ++i) (*x)[i] = a[i] * chirp[i] / static_cast<double>(m);
}

// Transforms along dimension d of an array of `dims`.
void Along(const Dims& dims, int64_t d, int sign, std::vector<C>* values) {
  int64_t inner = 1;
  for (size_t k = d + 1; k < dims.size(); ++k) inner *= dims[k];
  const int64_t n = dims[d], lines = static_cast<int64_t>(values->size()) / n;
  std::vector<C> line(n);
  for (int64_t l = 0; l < lines; ++l) {
    C* first = values->data() + l / inner * inner * n + l % inner;
    for (int64_t i = 0; i < n; ++i) line[i] = first[i * inner];
    Transform(&line, sign);
    for (int64_t i = 0; i < n; ++i) first[i * inner] = line[i];
  }
}

template <typename F>
void ForValues(const Literal& x, F&& f) {
  VisitNumber(x.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value;
    for (int64_t i = 0; i < x.size(); ++i) {
      Widen(x.shape().type, x.bytes(), i, 1, &value);
      f(i, C(value));
    }
  });
}

void Put(const std::vector<C>& values, Literal* out) {
  VisitNumber(out->shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (kIsComplex<T>) {
        out->data<T>()[i] = T(values[i]);
      } else {
        const T real = static_cast<T>(values[i].real());
        Narrow(out->shape().type, &real, 1, out->bytes(), static_cast<int64_t>(i));
      }
    }
  });
}

// The first `size` of the last dimension's `from`.
std::vector<C> Crop(const std::vector<C>& values, int64_t from, int64_t size) {
  std::vector<C> cropped;
  for (size_t line = 0; line < values.size(); line += from) {
    cropped.insert(cropped.end(), values.begin() + line, values.begin() + line + size);
  }
  return cropped;
}

}  // namespace

bool EvalFft(const Literal& a, absl::string_view type, const Ints& lengths, Literal* out,
             std::string* error) {
  const bool numbers = IsFloat(a.shape().type) || ClassOf(a.shape().type) == TypeClass::kComplex;
  if (!numbers) {
    *error = absl::StrCat("fft of ", TypeName(a.shape().type));
    return false;
  }
  if (out->size() == 0) return true;
  const int64_t rank = a.shape().rank(), count = static_cast<int64_t>(lengths.size());
  std::vector<C> values(a.size());
  ForValues(a, [&](int64_t i, C x) { values[i] = x; });
  Dims dims = a.shape().dims;
  if (type == "FFT" || type == "RFFT") {
    for (int64_t d = rank - count; d < rank; ++d) Along(dims, d, -1, &values);
    if (type == "RFFT") values = Crop(values, dims.back(), lengths.back() / 2 + 1);
    Put(values, out);
    return true;
  }
  double points = 1;
  for (int64_t length : lengths) points *= static_cast<double>(length);
  for (C& x : values) x /= points;
  if (type == "IFFT") {
    for (int64_t d = rank - count; d < rank; ++d) Along(dims, d, 1, &values);
  } else {  // IRFFT: the outer dimensions, then the half spectrum of each line
    for (int64_t d = rank - count; d + 1 < rank; ++d) Along(dims, d, 1, &values);
    const int64_t half = dims.back(), n = lengths.back();
    std::vector<C> lines(values.size() / half * n);
    for (size_t line = 0; line < values.size() / half; ++line) {
      for (int64_t i = 0; i < n; ++i) {
        const C x = i < half ? values[line * half + i] : std::conj(values[line * half + n - i]);
        const bool edge = i == 0 || 2 * i == n;
        lines[line * n + i] = edge ? C(x.real()) : x;
      }
    }
    dims.back() = n;
    values = std::move(lines);
    Along(dims, rank - 1, 1, &values);
  }
  Put(values, out);
  return true;
}

}  // namespace tpuc
