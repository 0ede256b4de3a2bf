// Batch normalisation (norm.h). Formulas: XLA's operation semantics of batch-norm-*; variance is
// E[x^2] - E[x]^2 taken as the mean square distance, epsilon inside the root.
#include "src/eval/norm.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

std::vector<double> Load(const Literal& x) {
  std::vector<double> values(x.size());
  VisitCompute(x.shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> wide(x.size());
    Widen(x.shape().type, x.bytes(), 0, x.size(), wide.data());
    for (size_t i = 0; i < wide.size(); ++i) values[i] = static_cast<double>(wide[i]);
  });
  return values;
}

void Store(const std::vector<double>& values, Literal* x) {
  VisitCompute(x->shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> narrow(values.size());
    for (size_t i = 0; i < values.size(); ++i) narrow[i] = static_cast<T>(values[i]);
    Narrow(x->shape().type, narrow.data(), x->size(), x->bytes(), 0);
  });
}

// The feature of element i.
struct Features {
  int64_t inner = 1, count = 1;
  int64_t operator()(size_t i) const { return static_cast<int64_t>(i) / inner % count; }
};

struct Statistics {
  std::vector<double> mean, variance;
};
Statistics StatisticsOf(const std::vector<double>& x, const Features& feature) {
  const int64_t each = static_cast<int64_t>(x.size()) / std::max<int64_t>(1, feature.count);
  Statistics s{std::vector<double>(feature.count), std::vector<double>(feature.count)};
  for (size_t i = 0; i < x.size(); ++i) s.mean[feature(i)] += x[i];
  for (double& m : s.mean) m /= static_cast<double>(each);
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - s.mean[feature(i)];
    s.variance[feature(i)] += d * d;
  }
  for (double& v : s.variance) v /= static_cast<double>(each);
  return s;
}

}  // namespace

bool EvalBatchNorm(const Instruction& in, absl::Span<const Literal* const> operands,
                   absl::Span<Literal* const> outs, std::string* error) {
  const Literal& a = *operands[0];
  if (!IsFloat(a.shape().type)) {
    *error = absl::StrCat(OpName(in.op), " of ", TypeName(a.shape().type));
    return false;
  }
  const int64_t index = in.IntAttr(AttrId::kFeatureIndex);
  const double epsilon = std::get<double>(*in.Find(AttrId::kEpsilon));
  Features feature;
  feature.count = a.shape().dims[index];
  for (int64_t d = index + 1; d < a.shape().rank(); ++d) feature.inner *= a.shape().dims[d];
  const std::vector<double> x = Load(a), scale = Load(*operands[1]);
  std::vector<double> y(x.size());
  if (in.op == Op::kBatchNormGrad) {
    const std::vector<double> mean = Load(*operands[2]), variance = Load(*operands[3]);
    const std::vector<double> dy = Load(*operands[4]);
    const double each = static_cast<double>(x.size()) / static_cast<double>(feature.count);
    std::vector<double> d_scale(feature.count), d_offset(feature.count);
    const auto normal = [&](size_t i) {
      const int64_t f = feature(i);
      return (x[i] - mean[f]) / std::sqrt(variance[f] + epsilon);
    };
    for (size_t i = 0; i < x.size(); ++i) {
      d_scale[feature(i)] += dy[i] * normal(i);
      d_offset[feature(i)] += dy[i];
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t f = feature(i);
      y[i] = scale[f] / std::sqrt(variance[f] + epsilon) *
             (dy[i] - d_offset[f] / each - normal(i) * d_scale[f] / each);
    }
    Store(y, outs[0]);
    Store(d_scale, outs[1]);
    Store(d_offset, outs[2]);
    return true;
  }
  const std::vector<double> offset = Load(*operands[2]);
  const bool training = in.op == Op::kBatchNormTraining;
  const Statistics s =
      training ? StatisticsOf(x, feature) : Statistics{Load(*operands[3]), Load(*operands[4])};
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t f = feature(i);
    y[i] = (x[i] - s.mean[f]) / std::sqrt(s.variance[f] + epsilon) * scale[f] + offset[f];
  }
  Store(y, outs[0]);
  if (training) {
    Store(s.mean, outs[1]);
    Store(s.variance, outs[2]);
  }
  return true;
}

}  // namespace tpuc
