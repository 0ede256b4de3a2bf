// convolution (contract.h): the input is padded and dilated into an array of its own; then output
// position and window place are strides of it, which makes the convolution of an image a matrix
// product: output feature by position, of depth (window place, input feature). Feature and batch
// groups are products of their own.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/contract.h"
#include "src/eval/operation.h"
#include "src/eval/strided.h"

namespace tpuc {
namespace {

struct Numbers3 {  // which dimension of each array is what
  int64_t lhs_batch, lhs_feature, rhs_in, rhs_out, out_batch, out_feature;
  Ints lhs_spatial, rhs_spatial, out_spatial;
};

Numbers3 NumbersOf(const DimLabels& labels) {
  const auto at = [](const std::string& part, char c) {
    return static_cast<int64_t>(part.find(c));
  };
  Numbers3 n{at(labels.lhs, 'b'),
             at(labels.lhs, 'f'),
             at(labels.rhs, 'i'),
             at(labels.rhs, 'o'),
             at(labels.output, 'b'),
             at(labels.output, 'f'),
             {},
             {},
             {}};
  for (size_t i = 0; i + 2 < labels.lhs.size(); ++i) {
    const char digit = static_cast<char>('0' + i);
    n.lhs_spatial.push_back(at(labels.lhs, digit));
    n.rhs_spatial.push_back(at(labels.rhs, digit));
    n.out_spatial.push_back(at(labels.output, digit));
  }
  return n;
}

// The input with its padding (zeros) and gaps; negative padding crops.
Literal Padded(const Literal& lhs, const Window& window, const Ints& spatial) {
  Dims dims = lhs.shape().dims, taken = dims;
  View from{0, RowMajorStrides(lhs.shape().dims)};
  std::vector<std::pair<int64_t, int64_t>> placed(dims.size(), {0, 1});  // first place, step
  for (size_t i = 0; i < spatial.size(); ++i) {
    const WindowDim& w = window.dims[i];
    const int64_t d = spatial[i], size = dims[d], step = w.base_dilation;
    const int64_t dilated = size == 0 ? 0 : (size - 1) * step + 1;
    dims[d] = std::max<int64_t>(0, dilated + w.pad_low + w.pad_high);
    const int64_t skipped = w.pad_low < 0 ? (-w.pad_low + step - 1) / step : 0;
    const int64_t first = w.pad_low + skipped * step;
    const int64_t fit = first >= dims[d] ? 0 : (dims[d] - 1 - first) / step + 1;
    taken[d] = std::clamp<int64_t>(size - skipped, 0, fit);
    from.offset += skipped * from.strides[d];
    placed[d] = {first, step};
  }
  Literal padded(Shape::Array(lhs.shape().type, dims));
  View to{0, RowMajorStrides(dims)};
  for (size_t d = 0; d < dims.size(); ++d) {
    to.offset += placed[d].first * to.strides[d];
    to.strides[d] *= placed[d].second;
  }
  CopyStrided(taken, lhs.bytes(), from, padded.bytes(), to, LiteralBytesOf(lhs.shape().type));
  return padded;
}

int64_t PaddedBytes(const Literal& lhs, const Window& window, const Ints& spatial) {
  Shape shape = lhs.shape();
  for (size_t i = 0; i < spatial.size(); ++i) {
    const WindowDim& w = window.dims[i];
    const int64_t size = shape.dims[spatial[i]];
    const int64_t dilated = size == 0 ? 0 : (size - 1) * w.base_dilation + 1;
    shape.dims[spatial[i]] = std::max<int64_t>(0, dilated + w.pad_low + w.pad_high);
  }
  return shape.LiteralBytes();
}

void Shift(std::vector<int64_t>* table, int64_t by) {
  for (int64_t& x : *table) x += by;
}

bool IsTrivial(const Window& window) {
  return std::all_of(window.dims.begin(), window.dims.end(), [](const WindowDim& w) {
    return w.pad_low == 0 && w.pad_high == 0 && w.base_dilation == 1;
  });
}

}  // namespace

bool EvalConvolution(const Literal& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
                     const EvalOptions& options, Literal* out, std::string* error) {
  const Numbers3 n = NumbersOf(*FindAttr<DimLabels>(attrs, AttrId::kDimLabels));
  const Window* given = FindAttr<Window>(attrs, AttrId::kWindow);
  const Window window = given ? *given : Window{};
  const int64_t feature_groups = IntOf(attrs, AttrId::kFeatureGroupCount, 1);
  const int64_t batch_groups = IntOf(attrs, AttrId::kBatchGroupCount, 1);
  const int64_t groups = std::max(feature_groups, batch_groups);
  if (out->size() == 0) return true;
  for (size_t i = 0; i < window.dims.size(); ++i) {
    if (window.dims[i].size == rhs.shape().dims[n.rhs_spatial[i]]) continue;
    *error = "a convolution whose window has other sizes than its kernel";
    return false;
  }
  const int64_t limit = options.memory_limit > 0 ? options.memory_limit : DefaultMemoryLimit();
  if (PaddedBytes(lhs, window, n.lhs_spatial) > limit) {
    *error = absl::StrCat("a convolution whose padded input takes more than ", limit, " bytes");
    return false;
  }
  std::optional<Literal> padded;
  if (!IsTrivial(window)) padded = Padded(lhs, window, n.lhs_spatial);
  const Literal& input = padded ? *padded : lhs;
  const Dims in = RowMajorStrides(input.shape().dims), kernel = RowMajorStrides(rhs.shape().dims);
  const Dims& out_dims = out->shape().dims;
  const int64_t batch = lhs.shape().dims[n.lhs_batch] / batch_groups;
  const int64_t features = rhs.shape().dims[n.rhs_in];
  const int64_t outputs = rhs.shape().dims[n.rhs_out] / groups;

  Dims spatial, spatial_strides, depth_dims, depth_lhs, depth_rhs;
  int64_t reversed = 0;  // where the kernel's table starts
  for (size_t i = 0; i < window.dims.size(); ++i) {
    const WindowDim& w = window.dims[i];
    spatial.push_back(out_dims[n.out_spatial[i]]);
    spatial_strides.push_back(w.stride * in[n.lhs_spatial[i]]);
    depth_dims.push_back(w.size);
    depth_lhs.push_back(w.window_dilation * in[n.lhs_spatial[i]]);
    const int64_t stride = kernel[n.rhs_spatial[i]];
    depth_rhs.push_back(w.reversed ? -stride : stride);
    if (w.reversed) reversed += (w.size - 1) * stride;
  }
  depth_dims.push_back(features);
  depth_lhs.push_back(in[n.lhs_feature]);
  depth_rhs.push_back(kernel[n.rhs_in]);
  const int64_t lhs_step =
      feature_groups > 1 ? features * in[n.lhs_feature] : batch * in[n.lhs_batch];

  // A product for each image and group, [output][position]: that is the result as it lies where
  // its order is batch, feature, positions.
  Side image{{}, StridedOffsets(spatial, spatial_strides), StridedOffsets(depth_dims, depth_lhs)};
  Side weights{
      {}, StridedOffsets({outputs}, {kernel[n.rhs_out]}), StridedOffsets(depth_dims, depth_rhs)};
  Shift(&weights.contract, reversed);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t g = 0; g < groups; ++g) {
      image.batch.push_back(b * in[n.lhs_batch] + g * lhs_step);
      weights.batch.push_back(g * outputs * kernel[n.rhs_out]);
    }
  }
  Dims product_dims{batch, groups * outputs};
  product_dims.insert(product_dims.end(), spatial.begin(), spatial.end());
  const Dims out_strides = RowMajorStrides(out_dims);
  View to{0, {out_strides[n.out_batch], out_strides[n.out_feature]}};
  for (int64_t d : n.out_spatial) to.strides.push_back(out_strides[d]);
  const bool round = RoundsToBF16(attrs, options);
  if (to.strides == RowMajorStrides(product_dims)) {
    return Contract(rhs, input, weights, image, round, out, error);
  }
  // Features last, as most programs have them: images are rows, so that outputs lie side by side.
  if (groups == 1 && n.out_feature + 1 == static_cast<int64_t>(out_dims.size())) {
    Side rows{{0}, {}, image.contract}, columns{{0}, weights.free, weights.contract};
    for (int64_t b : image.batch) {
      for (int64_t position : image.free) rows.free.push_back(b + position);
    }
    product_dims.assign(1, batch);
    product_dims.insert(product_dims.end(), spatial.begin(), spatial.end());
    product_dims.push_back(outputs);
    to.strides.erase(to.strides.begin() + 1);
    to.strides.push_back(out_strides[n.out_feature]);
    if (to.strides == RowMajorStrides(product_dims)) {
      return Contract(input, rhs, rows, columns, round, out, error);
    }
    Literal product(Shape::Array(out->shape().type, product_dims));
    if (!Contract(input, rhs, rows, columns, round, &product, error)) return false;
    CopyStrided(product_dims, product.bytes(), {0, RowMajorStrides(product_dims)}, out->bytes(), to,
                LiteralBytesOf(out->shape().type));
    return true;
  }
  Literal product(Shape::Array(out->shape().type, product_dims));
  if (!Contract(rhs, input, weights, image, round, &product, error)) return false;
  CopyStrided(product_dims, product.bytes(), {0, RowMajorStrides(product_dims)}, out->bytes(), to,
              LiteralBytesOf(out->shape().type));
  return true;
}

}  // namespace tpuc
