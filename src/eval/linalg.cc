// Factors and solves (linalg.h): plain column loops on one matrix at a time.
#include "src/eval/linalg.h"

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

double Conj(double x) { return x; }
std::complex<double> Conj(std::complex<double> x) { return std::conj(x); }
double Real(double x) { return x; }
double Real(std::complex<double> x) { return x.real(); }

// Calls f(W{}) with the wide type of a float or complex type: double or complex<double>.
template <typename F>
bool VisitWide(Type type, F&& f) {
  if (ClassOf(type) == TypeClass::kComplex) return f(TypeTag<std::complex<double>>{}), true;
  if (IsFloat(type)) return f(TypeTag<double>{}), true;
  return false;
}

template <typename W>
std::vector<W> Load(const Literal& x, int64_t first, int64_t n) {
  std::vector<W> wide(n);
  VisitNumber(x.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!kIsComplex<T> || kIsComplex<W>) {
      std::vector<T> values(n);
      Widen(x.shape().type, x.bytes(), first, n, values.data());
      for (int64_t i = 0; i < n; ++i) wide[i] = W(values[i]);
    }
  });
  return wide;
}

template <typename W>
void Store(const std::vector<W>& wide, int64_t first, Literal* x) {
  VisitNumber(x->shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsComplex<T> == kIsComplex<W>) {
      std::vector<T> values(wide.size());
      for (size_t i = 0; i < wide.size(); ++i) values[i] = T(wide[i]);
      Narrow(x->shape().type, values.data(), static_cast<int64_t>(wide.size()), x->bytes(), first);
    }
  });
}

// a: n x n, its lower triangle read; becomes L.
template <typename W>
void Factor(int64_t n, std::vector<W>* a) {
  std::vector<W>& m = *a;
  bool definite = true;
  for (int64_t j = 0; j < n && definite; ++j) {
    double pivot = Real(m[j * n + j]);
    for (int64_t k = 0; k < j; ++k) pivot -= Real(m[j * n + k] * Conj(m[j * n + k]));
    definite = pivot > 0;
    const double root = std::sqrt(pivot);
    m[j * n + j] = root;
    for (int64_t i = j + 1; i < n; ++i) {
      W sum = m[i * n + j];
      for (int64_t k = 0; k < j; ++k) sum -= m[i * n + k] * Conj(m[j * n + k]);
      m[i * n + j] = sum / root;
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (j > i) m[i * n + j] = 0;
      if (!definite) m[i * n + j] = std::numeric_limits<double>::quiet_NaN();
    }
  }
}

template <typename W>
void ConjugateTranspose(int64_t n, std::vector<W>* a) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const W x = (*a)[i * n + j];
      (*a)[i * n + j] = Conj((*a)[j * n + i]);
      (*a)[j * n + i] = Conj(x);
    }
    (*a)[i * n + i] = Conj((*a)[i * n + i]);
  }
}

}  // namespace

bool EvalCholesky(const Literal& a, bool lower, Literal* out, std::string* error) {
  const int64_t n = a.shape().dims.back();
  const bool typed = VisitWide(a.shape().type, [&](auto tag) {
    using W = typename decltype(tag)::type;
    for (int64_t at = 0; at < a.size(); at += n * n) {
      std::vector<W> m = Load<W>(a, at, n * n);
      if (!lower) ConjugateTranspose(n, &m);
      Factor(n, &m);
      if (!lower) ConjugateTranspose(n, &m);
      Store(m, at, out);
    }
  });
  if (!typed) *error = absl::StrCat("cholesky of ", TypeName(a.shape().type));
  return typed;
}

bool EvalTriangularSolve(const Literal& a, const Literal& b, absl::Span<const Attr> attrs,
                         Literal* out, std::string* error) {
  const auto flag = [&](AttrId id) {
    const bool* value = FindAttr<bool>(attrs, id);
    return value != nullptr && *value;
  };
  const bool left = flag(AttrId::kLeftSide), unit = flag(AttrId::kUnitDiagonal);
  const absl::string_view transpose = WordOf(attrs, AttrId::kTransposeA);
  const bool transposed = transpose == "TRANSPOSE" || transpose == "ADJOINT";
  const bool adjoint = transpose == "ADJOINT", lower = flag(AttrId::kLower);
  const int64_t n = a.shape().dims.back(), rank = b.shape().rank();
  const int64_t rows = b.shape().dims[rank - 2], columns = b.shape().dims[rank - 1];
  const bool typed = VisitWide(a.shape().type, [&](auto tag) {
    using W = typename decltype(tag)::type;
    const int64_t batches = n == 0 ? 0 : a.size() / (n * n);
    for (int64_t batch = 0; batch < batches; ++batch) {
      const std::vector<W> m = Load<W>(a, batch * n * n, n * n);
      std::vector<W> x = Load<W>(b, batch * rows * columns, rows * columns);
      // On the right side, the transposed problem op(a)^T x^T = b^T.
      const auto at = [&](int64_t i, int64_t j) {
        const W value = transposed == left ? m[j * n + i] : m[i * n + j];
        return adjoint ? Conj(value) : value;
      };
      const auto place = [&](int64_t i, int64_t c) {
        return left ? i * columns + c : c * columns + i;
      };
      const bool forward = lower == (transposed != left);
      const int64_t count = left ? columns : rows;
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = forward ? step : n - 1 - step;
        for (int64_t c = 0; c < count; ++c) {
          W sum = x[place(i, c)];
          for (int64_t k = forward ? 0 : i + 1; k < (forward ? i : n); ++k) {
            sum -= at(i, k) * x[place(k, c)];
          }
          x[place(i, c)] = unit ? sum : sum / at(i, i);
        }
      }
      Store(x, batch * rows * columns, out);
    }
  });
  if (!typed) *error = absl::StrCat("triangular-solve of ", TypeName(a.shape().type));
  return typed;
}

}  // namespace tpuc
