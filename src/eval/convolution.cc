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

// Images with their padding (zeros) and gaps, a few at a time so that they stay in the cache;
// negative padding crops. An image is one index of the batch dimension.
class PaddedImages {
 public:
  PaddedImages(const Literal& lhs, const Window& window, const Numbers3& n)
      : lhs_(lhs), batch_(n.lhs_batch), taken_(lhs.shape().dims), placed_(taken_.size(), {0, 1}) {
    from_.strides = RowMajorStrides(taken_);
    Dims dims = taken_;
    dims[batch_] = 1;
    for (size_t i = 0; i < n.lhs_spatial.size(); ++i) {
      const WindowDim& w = window.dims[i];
      const int64_t d = n.lhs_spatial[i], size = dims[d], step = w.base_dilation;
      const int64_t dilated = size == 0 ? 0 : (size - 1) * step + 1;
      dims[d] = std::max<int64_t>(0, dilated + w.pad_low + w.pad_high);
      const int64_t skipped = w.pad_low < 0 ? (-w.pad_low + step - 1) / step : 0;
      const int64_t first = w.pad_low + skipped * step;
      const int64_t fit = first >= dims[d] ? 0 : (dims[d] - 1 - first) / step + 1;
      taken_[d] = std::clamp<int64_t>(size - skipped, 0, fit);
      from_.offset += skipped * from_.strides[d];
      placed_[d] = {first, step};
    }
    image_ = Shape::Array(lhs.shape().type, dims);
  }

  int64_t image_bytes() const { return image_.LiteralBytes(); }
  // Room for that many images; their strides.
  Dims Reserve(int64_t images) {
    Shape shape = image_;
    shape.dims[batch_] = images;
    literal_ = Literal(shape);
    return RowMajorStrides(shape.dims);
  }
  // The images from `first` on; what lies beyond them is left over.
  const Literal& Fill(int64_t first, int64_t count) {
    View from = from_, to{0, RowMajorStrides(literal_.shape().dims)};
    from.offset += first * from.strides[batch_];
    for (size_t d = 0; d < placed_.size(); ++d) {
      to.offset += placed_[d].first * to.strides[d];
      to.strides[d] *= placed_[d].second;
    }
    taken_[batch_] = count;
    CopyStrided(taken_, lhs_.bytes(), from, literal_.bytes(), to,
                LiteralBytesOf(lhs_.shape().type));
    return literal_;
  }

 private:
  const Literal& lhs_;
  int64_t batch_;
  Dims taken_;
  std::vector<std::pair<int64_t, int64_t>> placed_;  // first place, step
  View from_;
  Shape image_;
  Literal literal_;
};

// The places of a sum: the window's, of an input feature. In the order of the input, so that it is
// read in order.
struct Depth {
  struct Dim {
    int64_t size, lhs, rhs;  // strides
  };
  std::vector<Dim> dims;

  void Add(int64_t size, int64_t lhs, int64_t rhs) { dims.push_back({size, lhs, rhs}); }
  std::vector<int64_t> Offsets(bool of_rhs) const {
    Dims sizes, strides;
    for (const Dim& d : dims) {
      sizes.push_back(d.size);
      strides.push_back(of_rhs ? d.rhs : d.lhs);
    }
    return StridedOffsets(sizes, strides);
  }
  void Sort() {
    std::stable_sort(dims.begin(), dims.end(),
                     [](const Dim& a, const Dim& b) { return a.lhs > b.lhs; });
  }
};

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
  const bool round = RoundsToBF16(attrs, options);
  const Type type = lhs.shape().type;
  const bool trivial = IsTrivial(window);
  const bool converts =
      round || !IsNative(type) || rhs.shape().type != type || out->shape().type != type;
  const int64_t images = lhs.shape().dims[n.lhs_batch], batch = images / batch_groups;
  const bool in_order = batch_groups == 1 || batch == 1;  // images are those of the result
  PaddedImages padded(lhs, window, n);
  // Images at a time. Operands that are converted are so each time.
  constexpr int64_t kCached = int64_t{4} << 20;  // bytes
  int64_t at_once = images;
  if (!trivial && !converts && in_order) {
    at_once = std::clamp<int64_t>(kCached / std::max<int64_t>(1, padded.image_bytes()), 1, images);
  }
  const int64_t limit = options.memory_limit > 0 ? options.memory_limit : DefaultMemoryLimit();
  int64_t bytes = 0;
  if (__builtin_mul_overflow(padded.image_bytes(), at_once, &bytes) || bytes > limit) {
    *error = absl::StrCat("a convolution whose padded input takes more than ", limit, " bytes");
    return false;
  }
  const Dims in = trivial ? RowMajorStrides(lhs.shape().dims) : padded.Reserve(at_once);
  const Dims kernel = RowMajorStrides(rhs.shape().dims);
  const Dims& out_dims = out->shape().dims;
  const int64_t features = rhs.shape().dims[n.rhs_in];
  const int64_t outputs = rhs.shape().dims[n.rhs_out] / groups;

  Dims spatial, spatial_strides;
  Depth depth;
  int64_t reversed = 0;  // where the kernel's table starts
  for (size_t i = 0; i < window.dims.size(); ++i) {
    const WindowDim& w = window.dims[i];
    spatial.push_back(out_dims[n.out_spatial[i]]);
    spatial_strides.push_back(w.stride * in[n.lhs_spatial[i]]);
    const int64_t stride = kernel[n.rhs_spatial[i]];
    depth.Add(w.size, w.window_dilation * in[n.lhs_spatial[i]], w.reversed ? -stride : stride);
    if (w.reversed) reversed += (w.size - 1) * stride;
  }
  depth.Add(features, in[n.lhs_feature], kernel[n.rhs_in]);
  depth.Sort();

  // A product for each image and group, [output][position]: that is the result as it lies where
  // its order is batch, feature, positions. Features last, as most programs have them: images are
  // rows, so that outputs lie side by side.
  const bool rows = groups == 1 && n.out_feature + 1 == static_cast<int64_t>(out_dims.size());
  Side image{{}, StridedOffsets(spatial, spatial_strides), depth.Offsets(false)};
  Side weights{{}, StridedOffsets({outputs}, {kernel[n.rhs_out]}), depth.Offsets(true)};
  Shift(&weights.contract, reversed);
  const Dims out_strides = RowMajorStrides(out_dims);
  Dims product_dims{batch};
  View to{0, {out_strides[n.out_batch]}};
  if (!rows) product_dims.push_back(groups * outputs);
  if (!rows) to.strides.push_back(out_strides[n.out_feature]);
  product_dims.insert(product_dims.end(), spatial.begin(), spatial.end());
  for (int64_t d : n.out_spatial) to.strides.push_back(out_strides[d]);
  if (rows) product_dims.push_back(outputs);
  if (rows) to.strides.push_back(out_strides[n.out_feature]);
  const bool in_place = to.strides == RowMajorStrides(product_dims);
  std::optional<Literal> own;
  if (!in_place) own.emplace(Shape::Array(out->shape().type, product_dims));
  Literal* product = in_place ? out : &*own;
  const int64_t per_image = product->size() / std::max<int64_t>(1, in_order ? images : 1);

  for (int64_t first = 0; first < images; first += at_once) {
    const int64_t count = std::min(at_once, images - first);
    const Literal& input = trivial ? lhs : padded.Fill(first, count);
    Side left = weights, right = image;
    for (int64_t b = 0; b < (batch_groups > 1 ? batch : count); ++b) {
      const int64_t of_image = b * in[n.lhs_batch];
      if (rows) {
        const std::vector<int64_t>& positions = image.free;
        if (b == 0) right.free.clear();
        for (int64_t position : positions) right.free.push_back(of_image + position);
        continue;
      }
      for (int64_t g = 0; g < (batch_groups > 1 ? count / batch : groups); ++g) {
        const int64_t group = batch_groups > 1 ? first / batch + g : g;
        right.batch.push_back(of_image + g * (batch_groups > 1 ? batch * in[n.lhs_batch]
                                                               : features * in[n.lhs_feature]));
        left.batch.push_back(group * outputs * kernel[n.rhs_out]);
      }
    }
    if (rows) left.batch = right.batch = {0};
    const bool ok =
        rows ? Contract(input, rhs, right, left, round, product, error, first * per_image)
             : Contract(rhs, input, left, right, round, product, error, first * per_image);
    if (!ok) return false;
  }
  if (in_place) return true;
  CopyStrided(product_dims, product->bytes(), {0, RowMajorStrides(product_dims)}, out->bytes(), to,
              LiteralBytesOf(out->shape().type));
  return true;
}

}  // namespace tpuc
