// Producers inlined into their readers: which they are, and the readers' values as the definitions
// give them, in f64.
#include "src/eval/inlining.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "src/eval/evaluator.h"
#include "src/eval/plan.h"
#include "tests/unit/eval/modules.h"

namespace tpuc {
namespace {

// What each step computes for itself, by name.
std::map<std::string, std::vector<std::string>> Producers(const Module& module) {
  const Plan plan = MakePlan(*module.entry, false);
  std::map<std::string, std::vector<std::string>> all;
  for (const auto& [step, inlined] : plan.inlined) {
    std::vector<std::string>& names = all[std::string(module.entry->instructions[step]->name)];
    for (int i : inlined.producers) names.emplace_back(module.entry->instructions[i]->name);
  }
  return all;
}

// An array of up to four dimensions in f64.
struct Array {
  std::vector<int64_t> dims;
  std::vector<double> values;

  explicit Array(std::vector<int64_t> d) : dims(std::move(d)) {
    int64_t size = 1;
    for (int64_t n : dims) size *= n;
    values.resize(size);
  }
  double& At(int64_t a, int64_t b, int64_t c, int64_t d) {
    return values[((a * dims[1] + b) * dims[2] + c) * dims[3] + d];
  }
};

template <typename T>
Literal ToLiteral(const Array& x, Type type) {
  Literal literal(Shape::Array(type, Dims(x.dims.begin(), x.dims.end())));
  for (int64_t i = 0; i < literal.size(); ++i) literal.data<T>()[i] = static_cast<T>(x.values[i]);
  return literal;
}

// The largest difference, of the largest value.
template <typename T>
double Difference(const Literal& found, const Array& expected) {
  EXPECT_EQ(found.size(), static_cast<int64_t>(expected.values.size()));
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < found.size(); ++i) {
    worst =
        std::max(worst, std::fabs(static_cast<double>(found.data<T>()[i]) - expected.values[i]));
    largest = std::max(largest, std::fabs(expected.values[i]));
  }
  return worst / largest;
}

// Values that floats hold exactly, without order.
Array Some(std::vector<int64_t> dims, int64_t seed) {
  Array x(std::move(dims));
  for (size_t i = 0; i < x.values.size(); ++i) {
    const int64_t k = static_cast<int64_t>(i) * 7919 + seed * 104729;
    x.values[i] = static_cast<double>((k % 251 + k % 17 * 3) % 64 - 30) / 16;
  }
  return x;
}

// A convolution of images [n, c, h, w] with kernels [o, c / groups, y, x], zeros beyond the edge.
Array Convolution(Array x, Array k, int64_t stride, int64_t pad, int64_t groups) {
  const int64_t h = (x.dims[2] + 2 * pad - k.dims[2]) / stride + 1;
  const int64_t w = (x.dims[3] + 2 * pad - k.dims[3]) / stride + 1;
  Array out({x.dims[0], k.dims[0], h, w});
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    for (int64_t o = 0; o < k.dims[0]; ++o) {
      const int64_t first = o / (k.dims[0] / groups) * k.dims[1];
      for (int64_t c = 0; c < k.dims[1]; ++c) {
        for (int64_t i = 0; i < h * w * k.dims[2] * k.dims[3]; ++i) {
          const int64_t b = i % k.dims[3], a = i / k.dims[3] % k.dims[2];
          const int64_t at = i / (k.dims[2] * k.dims[3]), y = at / w, z = at % w;
          const int64_t from_y = y * stride + a - pad, from_z = z * stride + b - pad;
          if (from_y < 0 || from_y >= x.dims[2] || from_z < 0 || from_z >= x.dims[3]) continue;
          out.At(n, o, y, z) += x.At(n, first + c, from_y, from_z) * k.At(o, c, a, b);
        }
      }
    }
  }
  return out;
}

// Its gradient by the kernel, [y, x, c / groups, o], given that by its result.
Array KernelGradient(Array x, Array dy, int64_t size, int64_t pad, bool depthwise) {
  Array out({size, size, depthwise ? 1 : x.dims[1], dy.dims[1]});
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    for (int64_t o = 0; o < dy.dims[1]; ++o) {
      for (int64_t c = 0; c < x.dims[1]; ++c) {
        if (depthwise && c != o) continue;
        for (int64_t i = 0; i < dy.dims[2] * dy.dims[3] * size * size; ++i) {
          const int64_t b = i % size, a = i / size % size, at = i / (size * size);
          const int64_t y = at / dy.dims[3], z = at % dy.dims[3];
          const int64_t from_y = y + a - pad, from_z = z + b - pad;
          if (from_y < 0 || from_y >= x.dims[2] || from_z < 0 || from_z >= x.dims[3]) continue;
          out.At(a, b, depthwise ? 0 : c, o) += x.At(n, c, from_y, from_z) * dy.At(n, o, y, z);
        }
      }
    }
  }
  return out;
}

struct Moments {
  std::vector<double> mean, variance;
};
Moments MomentsOf(Array x) {
  Moments m{std::vector<double>(x.dims[1]), std::vector<double>(x.dims[1])};
  const double each = static_cast<double>(x.dims[0] * x.dims[2] * x.dims[3]);
  const auto all = [&](auto f) {
    for (size_t i = 0; i < x.values.size(); ++i) {
      f(x.values[i], static_cast<int64_t>(i) / (x.dims[2] * x.dims[3]) % x.dims[1]);
    }
  };
  all([&](double v, int64_t c) { m.mean[c] += v / each; });
  all([&](double v, int64_t c) { m.variance[c] += (v - m.mean[c]) * (v - m.mean[c]) / each; });
  return m;
}

constexpr double kEpsilon = 0.125, kScale = 1.5, kOffset = 0.25, kTop = 1.0;

// f of each element, its normalised value and its feature.
Array Map(Array x, const Moments& m, const std::function<double(double, double, int64_t)>& f) {
  for (size_t i = 0; i < x.values.size(); ++i) {
    const int64_t c = static_cast<int64_t>(i) / (x.dims[2] * x.dims[3]) % x.dims[1];
    const double distance = (x.values[i] - m.mean[c]) / std::sqrt(m.variance[c] + kEpsilon);
    x.values[i] = f(x.values[i], distance * kScale + kOffset, c);
  }
  return x;
}

std::string Shape4(const std::vector<int64_t>& d) {
  return absl::StrCat("f32[", d[0], ",", d[1], ",", d[2], ",", d[3], "]");
}

// x, normalised and clamped, for what `readers` do with it.
std::unique_ptr<Module> NormModule(const std::vector<int64_t>& d, int64_t outputs, bool f64,
                                   const std::string& readers) {
  const std::string text = absl::StrReplaceAll(std::string(R"(
ENTRY e {
  x = BIG parameter(0)
  dy = BIG parameter(1)
  k = f32[$O,$C,1,1] parameter(2)
  kd = f32[$C,1,3,3] parameter(3)
  dz = f32[$N,$O,$H,$W] parameter(4)
  s = f32[] constant(1.5)
  scale = f32[$C] broadcast(s), dimensions={}
  o = f32[] constant(0.25)
  offset = f32[$C] broadcast(o), dimensions={}
  bn = (BIG, f32[$C], f32[$C]) batch-norm-training(x, scale, offset), epsilon=0.125, feature_index=1
  n = BIG get-tuple-element(bn), index=0
  mean = f32[$C] get-tuple-element(bn), index=1
  variance = f32[$C] get-tuple-element(bn), index=2
  z = f32[] constant(0)
  zeros = BIG broadcast(z), dimensions={}
  t = f32[] constant(1)
  tops = BIG broadcast(t), dimensions={}
)") + readers + "}\n",
                                               {{"BIG", Shape4(d)},
                                                {"$O", absl::StrCat(outputs)},
                                                {"$N", absl::StrCat(d[0])},
                                                {"$C", absl::StrCat(d[1])},
                                                {"$H", absl::StrCat(d[2])},
                                                {"$W", absl::StrCat(d[3])}});
  return Parse(f64 ? absl::StrReplaceAll(text, {{"f32", "f64"}}) : text);
}

template <typename T>
std::vector<Literal> RunWith(const Module& module, const std::vector<Array>& inputs, Type type) {
  std::vector<Literal> literals;
  for (const Array& input : inputs) literals.push_back(ToLiteral<T>(input, type));
  DiagSink diags;
  auto result = Evaluate(module, std::move(literals), {}, &diags);
  EXPECT_TRUE(result) << diags.Render();
  return result ? result->elements() : std::vector<Literal>();
}

// Convolutions and gradients of their kernels, pointwise and depthwise, read the clamped values.
template <typename T>
void CheckConvolutions(const std::vector<int64_t>& d, int64_t outputs, Type type, double limit) {
  const auto module = NormModule(d, outputs, type == Type::kF64, R"(
  c = BIG clamp(zeros, n, tops)
  wide = f32[$N,$O,$H,$W] convolution(c, k), window={size=1x1}, dim_labels=bf01_oi01->bf01
  deep = BIG convolution(c, kd), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=$C
  gw = f32[1,1,$C,$O] convolution(c, dz), window={size=$Hx$W}, dim_labels=fb01_io01->01bf
  gd = f32[3,3,1,$C] convolution(c, dy), window={size=$Hx$W pad=1_1x1_1}, dim_labels=fb01_io01->01bf, batch_group_count=$C
  ROOT all = (f32[$N,$O,$H,$W], BIG, f32[1,1,$C,$O], f32[3,3,1,$C], f32[$C], f32[$C]) tuple(wide, deep, gw, gd, mean, variance)
)");
  ASSERT_TRUE(module);
  const std::vector<std::string> computed{"n", "c"};
  EXPECT_EQ(Producers(*module),
            (std::map<std::string, std::vector<std::string>>{
                {"wide", computed}, {"deep", computed}, {"gw", computed}, {"gd", computed}}));
  const Array x = Some(d, 1), dy = Some(d, 2), k = Some({outputs, d[1], 1, 1}, 3);
  const Array kd = Some({d[1], 1, 3, 3}, 4), dz = Some({d[0], outputs, d[2], d[3]}, 5);
  const std::vector<Literal> out = RunWith<T>(*module, {x, dy, k, kd, dz}, type);
  ASSERT_EQ(out.size(), 6u);
  const Moments m = MomentsOf(x);
  const Array c = Map(x, m, [](double, double n, int64_t) { return std::clamp(n, 0.0, kTop); });
  EXPECT_LT(Difference<T>(out[0], Convolution(c, k, 1, 0, 1)), limit);
  EXPECT_LT(Difference<T>(out[1], Convolution(c, kd, 1, 1, d[1])), limit);
  EXPECT_LT(Difference<T>(out[2], KernelGradient(c, dz, 1, 0, false)), limit);
  EXPECT_LT(Difference<T>(out[3], KernelGradient(c, dy, 3, 1, true)), limit);
  for (int64_t i = 0; i < d[1]; ++i) {
    EXPECT_NEAR(static_cast<double>(out[4].data<T>()[i]), m.mean[i], limit);
    EXPECT_NEAR(static_cast<double>(out[5].data<T>()[i]), m.variance[i], limit);
  }
}

// Planes of long lines, few rows, few columns; small planes, some of which at a time.
TEST(Inlining, ConvolutionsReadWhatTheyCompute) {
  CheckConvolutions<float>({3, 6, 96, 96}, 8, Type::kF32, 2e-6);
  CheckConvolutions<float>({1, 97, 40, 40}, 4, Type::kF32, 2e-6);
  CheckConvolutions<float>({20, 41, 14, 14}, 33, Type::kF32, 2e-6);
  CheckConvolutions<float>({3, 100, 19, 27}, 3, Type::kF32,
                           2e-6);  // 513 places: lines end anywhere
  CheckConvolutions<float>({130, 2, 19, 27}, 8, Type::kF32, 2e-6);
  CheckConvolutions<double>({2, 33, 50, 50}, 5, Type::kF64, 1e-13);
}

// The array whose dimensions stand as the labels say, of images [b, f, 0, 1].
Array Ordered(Array x, const std::string& labels) {
  const std::string from = "bf01";
  Array out({0, 0, 0, 0});
  int64_t strides[4], stride = 1;
  for (size_t d = 4; d-- > 0;) {
    const size_t i = from.find(labels[d]);
    out.dims[d] = x.dims[i];
    strides[i] = stride;
    stride *= x.dims[i];
  }
  out.values.resize(x.values.size());
  for (int64_t i = 0; i < stride; ++i) {
    int64_t at = 0, rest = i;
    for (size_t d = 4; d-- > 0; rest /= x.dims[d]) at += rest % x.dims[d] * strides[d];
    out.values[at] = x.values[i];
  }
  return out;
}

// Wherever images and features stand, padded or not, in groups or not.
TEST(Inlining, AnyOrderOfDimensions) {
  const Array x = Some({3, 8, 76, 75}, 1);
  Array c = x;
  for (double& v : c.values) v = std::clamp(v, 0.0, kTop);
  struct Case {
    int64_t size, pad, stride, groups;
  };
  for (const char* labels : {"bf01", "fb01", "01bf", "b01f", "f01b", "0b1f"}) {
    for (const Case& v : {Case{1, 0, 1, 1}, {1, 0, 2, 1}, {3, 1, 1, 1}, {3, 2, 2, 4}}) {
      const Array k = Some({8, 8 / v.groups, v.size, v.size}, 2);
      const Array ordered = Ordered(x, labels);
      const Array expected = Convolution(c, k, v.stride, v.pad, v.groups);
      const auto module = Parse(absl::StrReplaceAll(
          R"(
ENTRY e {
  x = BIG parameter(0)
  k = KERNEL parameter(1)
  z = f32[] constant(0)
  zeros = BIG broadcast(z), dimensions={}
  t = f32[] constant(1)
  tops = BIG broadcast(t), dimensions={}
  c = BIG clamp(zeros, x, tops)
  y = OUT convolution(c, k), window={size=SxS stride=TxT pad=P_PxP_P}, dim_labels=LABELS_oi01->bf01, feature_group_count=GROUPS
  ROOT all = (OUT) tuple(y)
}
)",
          {{"BIG", Shape4(ordered.dims)},
           {"KERNEL", Shape4(k.dims)},
           {"OUT", Shape4(expected.dims)},
           {"SxS", absl::StrCat(v.size, "x", v.size)},
           {"TxT", absl::StrCat(v.stride, "x", v.stride)},
           {"P_PxP_P", absl::StrCat(v.pad, "_", v.pad, "x", v.pad, "_", v.pad)},
           {"LABELS", labels},
           {"GROUPS", absl::StrCat(v.groups)}}));
      ASSERT_TRUE(module);
      EXPECT_EQ(Producers(*module),
                (std::map<std::string, std::vector<std::string>>{{"y", {"c"}}}));
      const std::vector<Literal> out = RunWith<float>(*module, {ordered, k}, Type::kF32);
      ASSERT_EQ(out.size(), 1u);
      EXPECT_LT(Difference<float>(out[0], expected), 1e-6) << labels << " " << v.size << v.stride;
    }
  }
}

// The gradient of a clamped batch-norm: a select that only the batch-norm-grad reads.
TEST(Inlining, GradientsAreComputedWhereTheyAreRead) {
  const std::vector<int64_t> d{3, 5, 100, 90};
  const auto module = NormModule(d, 2, false, R"(
  low = pred[$N,$C,$H,$W] compare(n, zeros), direction=GE
  high = pred[$N,$C,$H,$W] compare(n, tops), direction=LE
  within = pred[$N,$C,$H,$W] and(low, high)
  grad = BIG select(within, dy, zeros)
  g = (BIG, f32[$C], f32[$C]) batch-norm-grad(x, scale, mean, variance, grad), epsilon=0.125, feature_index=1
  dx = BIG get-tuple-element(g), index=0
  ds = f32[$C] get-tuple-element(g), index=1
  db = f32[$C] get-tuple-element(g), index=2
  ROOT all = (BIG, f32[$C], f32[$C]) tuple(dx, ds, db)
)");
  ASSERT_TRUE(module);
  EXPECT_EQ(Producers(*module), (std::map<std::string, std::vector<std::string>>{
                                    {"g", {"n", "low", "high", "within", "grad"}}}));
  const Array x = Some(d, 1), dy = Some(d, 2);
  const std::vector<Literal> out = RunWith<float>(
      *module, {x, dy, Some({2, 5, 1, 1}, 3), Some({5, 1, 3, 3}, 4), Some({3, 2, 100, 90}, 5)},
      Type::kF32);
  ASSERT_EQ(out.size(), 3u);
  const Moments m = MomentsOf(x);
  const double each = static_cast<double>(d[0] * d[2] * d[3]);
  std::vector<double> of_scale(d[1]), of_offset(d[1]);
  size_t i = 0;
  Map(x, m, [&](double, double n, int64_t c) {
    const double grad = n >= 0 && n <= kTop ? dy.values[i] : 0;
    of_offset[c] += grad;
    of_scale[c] += grad * (n - kOffset) / kScale;
    return ++i, n;
  });
  i = 0;
  const Array dx = Map(x, m, [&](double, double n, int64_t c) {
    const double grad = n >= 0 && n <= kTop ? dy.values[i++] : (++i, 0.0);
    const double distance = (n - kOffset) / kScale;
    return kScale / std::sqrt(m.variance[c] + kEpsilon) *
           (grad - of_offset[c] / each - distance * of_scale[c] / each);
  });
  EXPECT_LT(Difference<float>(out[0], dx), 2e-6);
  for (int64_t c = 0; c < d[1]; ++c) {
    EXPECT_NEAR(out[1].data<float>()[c], of_scale[c], 1e-5 * std::fabs(of_scale[c]) + 1e-3);
    EXPECT_NEAR(out[2].data<float>()[c], of_offset[c], 1e-5 * std::fabs(of_offset[c]) + 1e-3);
  }
}

// Somebody reads the array itself; or more would live than if it were one.
TEST(Inlining, ArraysThatAreMade) {
  for (const std::string rest : {
           "wide = f32[$N,$O,$H,$W] convolution(c, k), window={size=1x1}, "
           "dim_labels=bf01_oi01->bf01\n"
           "ROOT all = (f32[$N,$O,$H,$W], BIG) tuple(wide, c)",
           "wide = f32[$N,$O,$H,$W] convolution(c, k), window={size=1x1}, "
           "dim_labels=bf01_oi01->bf01\n"
           "up = BIG reverse(n), dimensions={1}\n"
           "ROOT all = (f32[$N,$O,$H,$W], BIG) tuple(wide, up)",
           "both = BIG add(x, dy)\n"
           "ROOT wide = f32[$N,$O,$H,$W] convolution(both, k), window={size=1x1}, "
           "dim_labels=bf01_oi01->bf01",
           "e = BIG exponential(x)\n"
           "ROOT wide = f32[$N,$O,$H,$W] convolution(e, k), window={size=1x1}, "
           "dim_labels=bf01_oi01->bf01",
           "ROOT same = BIG convolution(dy, f), window={size=1x1}, dim_labels=bf01_oi01->bf01\n",
       }) {
    const auto module = NormModule(
        {3, 6, 96, 96}, 8, false,
        "c = BIG clamp(zeros, n, tops)\nf = f32[$C,$C,1,1] broadcast(s), dimensions={}\n" + rest +
            "\n");
    ASSERT_TRUE(module);
    const auto producers = Producers(*module);
    // Of the second, what only the convolution reads is still computed there, from n.
    const bool partly = rest.find("reverse") != std::string::npos;
    EXPECT_EQ(producers.size(), partly ? 1u : 0u) << rest;
    if (partly) {
      EXPECT_EQ(producers.at("wide"), std::vector<std::string>{"c"});
    }
  }
}

}  // namespace
}  // namespace tpuc
