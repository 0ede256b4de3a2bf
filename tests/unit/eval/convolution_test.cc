// convolution against its definition in f64: windows, groups, gradients of kernels, and inputs of
// several megabytes, which are padded a few images at a time.
#include <cmath>

#include "src/eval/inputs.h"
#include "tests/unit/eval/literals.h"

namespace tpuc {
namespace {

struct Case {
  const char* what;
  int64_t n, ci, h, w;  // input, batch first
  int64_t o, kh, kw;
  WindowDim y, x;
  int64_t feature_groups = 1, batch_groups = 1;
  DimLabels labels = {"bf01", "oi01", "bf01"};
};

// Sizes in the order of the labels.
Dims Ordered(const std::string& order, int64_t first, char first_name, int64_t second,
             char second_name, int64_t rows, int64_t columns) {
  Dims dims;
  for (char c : order) {
    dims.push_back(c == first_name ? first : c == second_name ? second : c == '0' ? rows : columns);
  }
  return dims;
}

int64_t At(const Dims& dims, const std::string& order, int64_t first, char first_name,
           int64_t second, int64_t row, int64_t column) {
  int64_t at = 0;
  for (size_t d = 0; d < order.size(); ++d) {
    const char c = order[d];
    at = at * dims[d] + (c == first_name ? first : c == '0' ? row : c == '1' ? column : second);
  }
  return at;
}

int64_t OutSize(int64_t size, const WindowDim& w) {
  const int64_t padded = (size - 1) * w.base_dilation + 1 + w.pad_low + w.pad_high;
  const int64_t window = (w.size - 1) * w.window_dilation + 1;
  return padded < window ? 0 : (padded - window) / w.stride + 1;
}

// The input's index that place `k` of the window sees at output position `p`; -1: padding.
int64_t Seen(int64_t p, int64_t k, int64_t size, const WindowDim& w) {
  const int64_t place = w.reversed ? w.size - 1 - k : k;
  const int64_t at = p * w.stride + place * w.window_dilation - w.pad_low;
  if (at < 0 || at % w.base_dilation != 0 || at / w.base_dilation >= size) return -1;
  return at / w.base_dilation;
}

void Check(Case c) {
  SCOPED_TRACE(c.what);
  c.y.size = c.kh;
  c.x.size = c.kw;
  const int64_t groups = std::max(c.feature_groups, c.batch_groups);
  const int64_t features = c.ci / c.feature_groups, batch = c.n / c.batch_groups;
  const int64_t oh = OutSize(c.h, c.y), ow = OutSize(c.w, c.x);
  const Dims in_dims = Ordered(c.labels.lhs, c.n, 'b', c.ci, 'f', c.h, c.w);
  const Dims kernel_dims = Ordered(c.labels.rhs, features, 'i', c.o, 'o', c.kh, c.kw);
  const Dims out_dims = Ordered(c.labels.output, batch, 'b', c.o, 'f', oh, ow);
  const Literal x = GenerateInput(Shape::Array(Type::kF32, in_dims), 0, 1);
  const Literal k = GenerateInput(Shape::Array(Type::kF32, kernel_dims), 1, 1);
  const Literal got = Eval(Op::kConvolution, Type::kF32, out_dims, {x, k},
                           {{AttrId::kWindow, Window{{c.y, c.x}}},
                            {AttrId::kDimLabels, c.labels},
                            {AttrId::kFeatureGroupCount, c.feature_groups},
                            {AttrId::kBatchGroupCount, c.batch_groups}});
  const int64_t step = oh * ow > 10'000 ? 7 : 1;  // of the positions looked at
  double worst = 0, scale = 1e-30;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t o = 0; o < c.o; ++o) {
      const int64_t group = o / (c.o / groups);
      const int64_t image = c.batch_groups > 1 ? group * batch + b : b;
      for (int64_t p = 0; p < oh; p += step) {
        for (int64_t q = 0; q < ow; q += step) {
          double sum = 0;
          for (int64_t i = 0; i < c.kh; ++i) {
            const int64_t row = Seen(p, i, c.h, c.y);
            for (int64_t j = 0; row >= 0 && j < c.kw; ++j) {
              const int64_t column = Seen(q, j, c.w, c.x);
              for (int64_t f = 0; column >= 0 && f < features; ++f) {
                const int64_t feature = c.feature_groups > 1 ? group * features + f : f;
                sum += double{x.data<float>()[At(in_dims, c.labels.lhs, image, 'b', feature, row,
                                                 column)]} *
                       double{k.data<float>()[At(kernel_dims, c.labels.rhs, f, 'i', o, i, j)]};
              }
            }
          }
          scale = std::max(scale, std::abs(sum));
          const int64_t at = At(out_dims, c.labels.output, b, 'b', o, p, q);
          worst = std::max(worst, std::abs(sum - got.data<float>()[at]));
        }
      }
    }
  }
  EXPECT_LT(worst / scale, 2e-6);
}

WindowDim Pad(int64_t low, int64_t high, int64_t stride = 1, int64_t base = 1, int64_t window = 1,
              bool reversed = false) {
  return {0, stride, low, high, base, window, reversed};
}

TEST(Convolution, Windows) {
  Check({"same", 2, 3, 9, 11, 5, 3, 3, Pad(1, 1), Pad(1, 1)});
  Check({"strided", 2, 3, 9, 12, 5, 3, 3, Pad(1, 1, 2), Pad(0, 1, 3)});
  Check({"transposed", 2, 3, 5, 6, 5, 3, 3, Pad(2, 3, 1, 2), Pad(1, 2, 1, 3)});
  Check({"dilated, reversed", 2, 3, 9, 12, 5, 3, 2, Pad(2, 2, 1, 1, 2), Pad(0, 0, 1, 1, 3, true)});
  Check({"cropped", 2, 3, 9, 12, 5, 3, 3, Pad(-2, 1), Pad(1, -3, 2, 2)});
  Check({"no padding", 3, 4, 8, 8, 6, 2, 2, Pad(0, 0, 2), Pad(0, 0, 2)});
}

TEST(Convolution, OrdersOfDimensions) {
  for (const char* lhs : {"bf01", "b01f", "fb01", "01bf"}) {
    for (const char* rhs : {"oi01", "01io", "io01"}) {
      for (const char* out : {"bf01", "b01f", "01bf"}) {
        Check({"same", 3, 4, 7, 6, 5, 3, 3, Pad(1, 1), Pad(1, 1), 1, 1, {lhs, rhs, out}});
        Check({"1x1", 3, 4, 7, 6, 5, 1, 1, Pad(0, 0), Pad(0, 0), 1, 1, {lhs, rhs, out}});
        Check({"groups", 3, 4, 7, 6, 6, 3, 3, Pad(1, 1), Pad(1, 1), 2, 1, {lhs, rhs, out}});
        Check({"batch groups", 6, 4, 7, 6, 6, 3, 3, Pad(1, 1), Pad(1, 0), 1, 3, {lhs, rhs, out}});
      }
    }
  }
}

// Widths around those of vectors, with and without a step.
TEST(Convolution, Depthwise) {
  for (int64_t width : {1, 3, 4, 7, 8, 14, 15, 16, 17, 31, 33, 56}) {
    Check({"stride 1", 2, 5, 6, width, 5, 3, 3, Pad(1, 1), Pad(1, 1), 5});
    Check({"stride 2", 2, 5, 6, width, 5, 3, 3, Pad(1, 1, 2), Pad(1, 1, 2), 5});
    Check({"stride 3, two outputs", 2, 5, 6, width, 10, 3, 3, Pad(1, 1, 3), Pad(1, 1, 3), 5});
    Check({"gradient of the input", 2, 5, 6, width, 5, 3, 3, Pad(1, 2, 1, 2), Pad(1, 2, 1, 2), 5});
  }
}

// The window is the gradient of the result; images are what is summed over.
TEST(Convolution, GradientsOfKernels) {
  const DimLabels labels{"fb01", "io01", "01bf"};
  for (int64_t width : {7, 14, 16, 17, 33}) {
    Check({"depthwise", 6, 8, 40, width, 6, 40, width, Pad(1, 1), Pad(1, 1), 1, 6, labels});
    Check({"depthwise, stride 2", 6, 8, 41, 2 * width - 1, 6, 21, width, Pad(1, 1, 1, 1, 2),
           Pad(1, 1, 1, 1, 2), 1, 6, labels});
    Check({"1x1", 6, 8, 40, width, 10, 40, width, Pad(0, 0), Pad(0, 0), 1, 1, labels});
  }
}

TEST(Convolution, ManyImages) {
  Check({"same", 7, 2, 300, 400, 3, 3, 3, Pad(1, 1), Pad(1, 1)});
  Check({"features last",
         7,
         2,
         300,
         400,
         3,
         2,
         3,
         Pad(1, 0),
         Pad(1, 1),
         1,
         1,
         {"b01f", "01io", "b01f"}});
  Check({"result in another order",
         7,
         2,
         300,
         400,
         3,
         2,
         3,
         Pad(1, 0),
         Pad(1, 1),
         1,
         1,
         {"bf01", "01io", "01fb"}});
  Check({"depthwise", 7, 2, 300, 400, 2, 3, 3, Pad(1, 1), Pad(1, 1), 2});
  Check({"batch groups", 7, 2, 300, 400, 7, 3, 3, Pad(1, 1), Pad(1, 1), 1, 7});
  Check({"batch groups of two", 6, 2, 300, 400, 3, 3, 3, Pad(1, 1), Pad(1, 1), 1, 3});
}

}  // namespace
}  // namespace tpuc
