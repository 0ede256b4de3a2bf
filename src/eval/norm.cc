// Batch normalisation (norm.h). The operand is walked in runs of one feature:
// [outer][feature][run]; where runs are long, one feature after the other, so that what one pass
// has read is near for the next. Formulas: XLA's operation semantics of batch-norm-*; the variance
// is the mean square distance from the mean, epsilon stands inside the root. Sums and what is made
// of them are in f64; an element is then made in the type that it computes in.
#include "src/eval/norm.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/eval/blocks.h"
#include "src/ir/native.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/eval/norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tpuc::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Vector = std::vector<double>;  // one value a feature

Vector Load(const Literal& x) {
  Vector values(x.size());
  for (int64_t i = 0; i < x.size(); ++i) {
    values[i] = ElementAsDouble(x.shape().type, x.bytes(), i);
  }
  return values;
}

void Store(const Vector& values, Literal* x) {
  VisitCompute(x->shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      const T narrow = static_cast<T>(values[i]);
      Narrow(x->shape().type, &narrow, 1, x->bytes(), static_cast<int64_t>(i));
    }
  });
}

struct Runs {
  int64_t outer = 1, features = 1, run = 1;
  Runs(const Literal& x, int64_t index) {
    const Dims& dims = x.shape().dims;
    for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
      (d < index ? outer : d == index ? features : run) *= dims[d];
    }
  }
  double each() const { return static_cast<double>(outer * run); }
  int64_t At(int64_t o, int64_t feature) const { return (o * features + feature) * run; }
};

struct Range {
  int64_t first, last;  // features first, ..., last - 1
};
template <typename F>
void ForRanges(const Runs& runs, F&& f) {
  constexpr int64_t kNear = 16384;  // elements that one pass over an image leaves near
  const int64_t step = std::max<int64_t>(1, kNear / std::max<int64_t>(1, runs.run));
  for (int64_t c = 0; c < runs.features; c += step) {
    f(Range{c, std::min(c + step, runs.features)});
  }
}

// Calls f(feature, first element, count) for blocks of at most kBlock elements of one feature.
template <typename F>
void ForOuter(const Runs& runs, Range range, int64_t outer, F&& f) {
  int64_t at = runs.At(outer, range.first);
  for (int64_t c = range.first; c < range.last; ++c, at += runs.run) {
    for (int64_t i = 0; i < runs.run; i += kBlock) {
      f(c, at + i, std::min(kBlock, runs.run - i));
    }
  }
}
template <typename F>
void ForRuns(const Runs& runs, Range range, F&& f) {
  for (int64_t o = 0; o < runs.outer; ++o) ForOuter(runs, range, o, f);
}

// A few values of an operand, widened where they must be.
template <typename T>
class Reader {
 public:
  explicit Reader(const Literal& x) : x_(x) {}
  const T* At(int64_t first, int64_t n) {
    const Type type = x_.shape().type;
    if (IsNative(type)) return x_.data<T>() + first;
    Widen(type, x_.bytes(), first, n, buffer_);
    return buffer_;
  }

 private:
  const Literal& x_;
  T buffer_[kBlock];
};

// Where results go, narrowed where they must be.
template <typename T>
class Writer {
 public:
  explicit Writer(Literal* x) : x_(x), native_(IsNative(x->shape().type)) {}
  T* At(int64_t first) { return native_ ? x_->data<T>() + first : buffer_; }
  void Done(int64_t first, int64_t n) {
    if (!native_) Narrow(x_->shape().type, buffer_, n, x_->bytes(), first);
  }

 private:
  Literal* x_;
  const bool native_;
  T buffer_[kBlock];
};

// Vectors of f64 from T.
template <class D, typename T>
HWY_ATTR hn::Vec<D> LoadWide(D d, const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), from));
  } else {
    return hn::LoadU(d, from);
  }
}

// Two sums over i of (first, second) = f(x[i], y[i]); several of each at once, so that none waits
// for its last addition.
template <typename T, typename F>
HWY_ATTR void AddPairs(const T* x, const T* y, int64_t n, F f, double* first, double* second) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto f0 = hn::Zero(d), f1 = hn::Zero(d), f2 = hn::Zero(d), f3 = hn::Zero(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    f(d, x + i, y + i, f0, s0);
    f(d, x + i + lanes, y + i + lanes, f1, s1);
    f(d, x + i + 2 * lanes, y + i + 2 * lanes, f2, s2);
    f(d, x + i + 3 * lanes, y + i + 3 * lanes, f3, s3);
  }
  for (; i + lanes <= n; i += lanes) f(d, x + i, y + i, f0, s0);
  *first += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(f0, f1), hn::Add(f2, f3))));
  *second += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  const hn::CappedTag<double, 1> one;
  auto f_rest = hn::Zero(one), s_rest = hn::Zero(one);
  for (; i < n; ++i) f(one, x + i, y + i, f_rest, s_rest);
  *first += hn::GetLane(f_rest);
  *second += hn::GetLane(s_rest);
}

// Adds the sums of x[i] - about and of its square.
template <typename T>
HWY_ATTR void AddMoments(const T* x, double about, int64_t n, double* sum, double* squares) {
  const auto add = [about](auto d, const T* at, const T*, auto& of_x, auto& of_squares) HWY_ATTR {
    const auto value = hn::Sub(LoadWide(d, at), hn::Set(d, about));
    of_x = hn::Add(of_x, value);
    of_squares = hn::MulAdd(value, value, of_squares);
  };
  AddPairs(x, x, n, add, sum, squares);
}

// Adds the sums of (x[i] - mean) * y[i] and of y[i].
template <typename T>
HWY_ATTR void AddSums(const T* x, double mean, const T* y, int64_t n, double* products,
                      double* sum) {
  const auto add = [mean](auto d, const T* at, const T* of, auto& product, auto& of_y) HWY_ATTR {
    const auto value = LoadWide(d, of);
    product = hn::MulAdd(hn::Sub(LoadWide(d, at), hn::Set(d, mean)), value, product);
    of_y = hn::Add(of_y, value);
  };
  AddPairs(x, y, n, add, products, sum);
}

// Mean and variance in one pass: of the distances from a value near the mean, so that little
// cancels; f64 then leaves more than the result can hold.
template <typename T>
void Statistics(const Literal& a, const Runs& runs, Range range, Vector* mean, Vector* variance) {
  Reader<T> in(a);
  Vector about(range.last - range.first);
  const auto look = [&](int64_t c, int64_t first, int64_t n) {
    double sum = 0, squares = 0;
    AddMoments(in.At(first, n), 0.0, n, &sum, &squares);
    about[c - range.first] = std::isfinite(sum) ? sum / static_cast<double>(n) : 0.0;
  };
  if (runs.outer > 0) ForOuter(runs, range, 0, look);
  ForRuns(runs, range, [&](int64_t c, int64_t first, int64_t n) {
    AddMoments(in.At(first, n), about[c - range.first], n, &(*mean)[c], &(*variance)[c]);
  });
  for (int64_t c = range.first; c < range.last; ++c) {
    const double offset = (*mean)[c] / runs.each();
    const double square = (*variance)[c] / runs.each() - offset * offset;
    (*variance)[c] = square < 0 ? 0.0 : square;  // NaN stays
    (*mean)[c] = about[c - range.first] + offset;
  }
}

// The mean, and what is left of it, times `factor`, where T has no more places: x - centre loses
// nothing near the mean.
template <typename T>
std::pair<double, double> Centre(double mean, double factor) {
  const double centre = static_cast<double>(static_cast<T>(mean));
  return {centre, std::isfinite(centre) ? (centre - mean) * factor : 0.0};
}

// Calls run(d, i) for vectors of n values, and for what they leave one by one.
template <typename T, typename F>
HWY_INLINE HWY_ATTR void ForVectors(int64_t n, const F& run) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) run(d, i);
  for (; i < n; ++i) run(hn::CappedTag<T, 1>(), i);
}

// y = (x - centre) * factor + addend, of feature c; within the bounds, as clamp has it.
template <bool kClamps, typename T>
HWY_ATTR void ScaleRun(const T* x, const NormMoments& by, NormBounds bounds, int64_t c, int64_t n,
                       T* y) {
  const T centre = static_cast<T>(by.centre[c]), factor = static_cast<T>(by.factor[c]);
  const T addend = static_cast<T>(by.addend[c]);
  const T least = static_cast<T>(bounds.low), most = static_cast<T>(bounds.high);
  const auto run = [&](auto d, int64_t i) HWY_ATTR {
    const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, centre));
    auto value = hn::MulAdd(distance, hn::Set(d, factor), hn::Set(d, addend));
    if constexpr (kClamps) {
      const auto low = hn::Set(d, least), high = hn::Set(d, most);
      value = hn::IfThenElse(hn::Ge(low, value), low, value);
      value = hn::IfThenElse(hn::Le(high, value), high, value);
    }
    hn::StoreU(value, d, y + i);
  };
  ForVectors<T>(n, run);
}

// The same feature by feature.
template <typename T>
void Scale(const Literal& a, const Runs& runs, Range range, const NormMoments& by, Literal* out,
           const PartDone& written) {
  Reader<T> in(a);
  Writer<T> to(out);
  for (int64_t o = 0; o < runs.outer; ++o) {
    ForOuter(runs, range, o, [&](int64_t c, int64_t first, int64_t n) {
      ScaleRun<false>(in.At(first, n), by, {}, c, n, to.At(first));
      to.Done(first, n);
    });
    if (written) written(runs.At(o, range.first), (range.last - range.first) * runs.run);
  }
}

struct OfGradient {
  double centre, of_x, of_dy, rest;
};
// dx = dy * of_dy + (x - centre) * of_x + rest.
template <typename T>
HWY_ATTR void GradientRun(const T* x, const T* dy, const OfGradient& by, int64_t n, T* dx) {
  const T centre = static_cast<T>(by.centre), of_x = static_cast<T>(by.of_x);
  const T of_dy = static_cast<T>(by.of_dy), rest = static_cast<T>(by.rest);
  const auto run = [&](auto d, int64_t i) HWY_ATTR {
    const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, centre));
    const auto of_distance = hn::MulAdd(distance, hn::Set(d, of_x), hn::Set(d, rest));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, dy + i), hn::Set(d, of_dy), of_distance), d, dx + i);
  };
  ForVectors<T>(n, run);
}

template <typename T>
void Gradient(absl::Span<const Literal* const> operands, const Runs& runs, double epsilon,
              absl::Span<Literal* const> outs, const PartDone& wanted) {
  const Vector scale = Load(*operands[1]), mean = Load(*operands[2]), variance = Load(*operands[3]);
  Reader<T> in(*operands[0]), grad(*operands[4]);
  Vector root(runs.features), d_scale(runs.features), d_offset(runs.features);
  for (int64_t c = 0; c < runs.features; ++c) root[c] = std::sqrt(variance[c] + epsilon);
  // scale / root * (dy - d_offset / n - (x - mean) / root * d_scale / n), as a sum of three.
  Vector of_dy(runs.features), of_x(runs.features), centre(runs.features), rest(runs.features);
  Writer<T> to(outs[0]);
  ForRanges(runs, [&](Range range) {
    for (int64_t o = 0; o < runs.outer; ++o) {
      if (wanted) wanted(runs.At(o, range.first), (range.last - range.first) * runs.run);
      ForOuter(runs, range, o, [&](int64_t c, int64_t first, int64_t n) {
        const T *x = in.At(first, n), *dy = grad.At(first, n);
        AddSums(x, mean[c], dy, n, &d_scale[c], &d_offset[c]);
      });
    }
    for (int64_t c = range.first; c < range.last; ++c) {
      d_scale[c] /= root[c];
      of_dy[c] = scale[c] / root[c];
      of_x[c] = -of_dy[c] / root[c] * d_scale[c] / runs.each();
      std::tie(centre[c], rest[c]) = Centre<T>(mean[c], of_x[c]);
      rest[c] -= of_dy[c] * d_offset[c] / runs.each();
    }
    ForRuns(runs, range, [&](int64_t c, int64_t first, int64_t n) {
      GradientRun(in.At(first, n), grad.At(first, n), {centre[c], of_x[c], of_dy[c], rest[c]}, n,
                  to.At(first));
      to.Done(first, n);
    });
  });
  Store(d_scale, outs[1]);
  Store(d_offset, outs[2]);
}

// training and inference.
template <typename T>
void Normalise(const Instruction& in, absl::Span<const Literal* const> operands, const Runs& runs,
               double epsilon, absl::Span<Literal* const> outs, const NormHooks& hooks) {
  const Literal& a = *operands[0];
  const bool training = in.op == Op::kBatchNormTraining;
  NormMoments own, &by = hooks.moments != nullptr ? *hooks.moments : own;
  const bool known = !by.mean.empty();
  const Vector scale = Load(*operands[1]), offset = Load(*operands[2]);
  if (!known) {
    by.mean = training ? Vector(runs.features) : Load(*operands[3]);
    by.variance = training ? Vector(runs.features) : Load(*operands[4]);
    by.centre = by.factor = by.addend = Vector(runs.features);
    by.run = runs.run;
  }
  ForRanges(runs, [&](Range range) {
    if (training && !known) Statistics<T>(a, runs, range, &by.mean, &by.variance);
    for (int64_t c = range.first; !known && c < range.last; ++c) {
      by.factor[c] = scale[c] / std::sqrt(by.variance[c] + epsilon);
      const auto [centre, rest] = Centre<T>(by.mean[c], by.factor[c]);
      by.centre[c] = centre;
      by.addend[c] = offset[c] + rest;
    }
    if (outs[0] != nullptr) Scale<T>(a, runs, range, by, outs[0], hooks.written);
  });
  if (!training) return;
  Store(by.mean, outs[1]);
  Store(by.variance, outs[2]);
}

}  // namespace

bool BatchNorm(const Instruction& in, absl::Span<const Literal* const> operands,
               absl::Span<Literal* const> outs, std::string* error, const NormHooks& hooks) {
  const Literal& a = *operands[0];
  const Type type = a.shape().type;
  const bool to_other = outs[0] != nullptr && outs[0]->shape().type != type;
  const bool other = in.op == Op::kBatchNormGrad && operands[4]->shape().type != type;
  if (!IsFloat(type) || to_other || other) {
    *error = absl::StrCat(OpName(in.op), " of ", TypeName(type), " to ",
                          TypeName(to_other ? outs[0]->shape().type : type));
    return false;
  }
  const double epsilon = std::get<double>(*in.Find(AttrId::kEpsilon));
  const Runs runs(a, in.IntAttr(AttrId::kFeatureIndex));
  return VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      if (in.op != Op::kBatchNormGrad)
        return Normalise<T>(in, operands, runs, epsilon, outs, hooks);
      Gradient<T>(operands, runs, epsilon, outs, hooks.wanted);
      if (hooks.written) hooks.written(0, a.size());
    }
  });
}

void NormaliseBlock(const NormMoments& moments, const NormBounds* bounds, const Literal& x,
                    int64_t first, Literal* out) {
  VisitCompute(x.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      Reader<T> in(x);
      Writer<T> to(out);
      const int64_t features = static_cast<int64_t>(moments.factor.size());
      for (int64_t i = 0, n = 0; i < x.size(); i += n) {
        const int64_t at = first + i, c = at / moments.run % features;
        n = std::min({x.size() - i, moments.run - at % moments.run, kBlock});
        if (bounds != nullptr) {
          ScaleRun<true>(in.At(i, n), moments, *bounds, c, n, to.At(i));
        } else {
          ScaleRun<false>(in.At(i, n), moments, {}, c, n, to.At(i));
        }
        to.Done(i, n);
      }
    }
  });
}

}  // namespace tpuc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tpuc {

HWY_EXPORT(BatchNorm);
HWY_EXPORT(NormaliseBlock);

bool EvalBatchNorm(const Instruction& in, absl::Span<const Literal* const> operands,
                   absl::Span<Literal* const> outs, std::string* error, const NormHooks& hooks) {
  return HWY_DYNAMIC_DISPATCH(BatchNorm)(in, operands, outs, error, hooks);
}

void EvalNormalise(const NormMoments& moments, const NormBounds* bounds, const Literal& x,
                   int64_t first, Literal* out) {
  HWY_DYNAMIC_DISPATCH(NormaliseBlock)(moments, bounds, x, first, out);
}

}  // namespace tpuc
#endif  // HWY_ONCE
