// convolution (contract.h): the input is padded and dilated into an array of its own; then output
// position and window place are strides of it, which makes the convolution of an image a matrix
// product: output feature by position, of depth (window place, input feature). Feature and batch
// groups are products of their own.
#include <algorithm>
#include <limits>

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

// A product for each image and group, [output][position]: that is the result as it lies where its
// order is batch, feature, positions. Features last, as most programs have them, and no groups:
// images are rows, so that outputs lie side by side.
class Convolution {
 public:
  Convolution(const Literal& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
              const Window& window, bool round, const Literal& out)
      : lhs_(lhs),
        rhs_(rhs),
        window_(window),
        n_(NumbersOf(*FindAttr<DimLabels>(attrs, AttrId::kDimLabels))),
        feature_groups_(IntOf(attrs, AttrId::kFeatureGroupCount, 1)),
        batch_groups_(IntOf(attrs, AttrId::kBatchGroupCount, 1)),
        images_(lhs.shape().dims[n_.lhs_batch]),
        batch_(images_ / batch_groups_),
        round_(round),
        rows_(groups() == 1 && n_.out_feature + 1 == out.shape().rank()),
        trivial_(IsTrivial(window)),
        padded_(lhs, window, n_) {}

  // What the padded images that are looked at together take. Operands that are converted are so
  // each time: all images then are.
  int64_t ChooseImages(Type out) {
    constexpr int64_t kCached = int64_t{4} << 20;  // bytes
    const Type type = lhs_.shape().type;
    const bool converts = round_ || !IsNative(type) || rhs_.shape().type != type || out != type;
    at_once_ = images_;
    if (!trivial_ && !converts && in_order()) {
      at_once_ =
          std::clamp<int64_t>(kCached / std::max<int64_t>(1, padded_.image_bytes()), 1, images_);
    }
    int64_t bytes = 0;
    return __builtin_mul_overflow(padded_.image_bytes(), at_once_, &bytes)
               ? std::numeric_limits<int64_t>::max()
               : bytes;
  }

  bool Run(Literal* out, std::string* error) {
    FillTables(out->shape().dims);
    const auto [dims, to] = ProductOf(out->shape().dims);
    const bool in_place = to.strides == RowMajorStrides(dims);
    std::optional<Literal> own;
    if (!in_place) own.emplace(Shape::Array(out->shape().type, dims));
    Literal* product = in_place ? out : &*own;
    for (int64_t first = 0; first < images_; first += at_once_) {
      if (!Multiply(first, std::min(at_once_, images_ - first), product, error)) return false;
    }
    if (in_place) return true;
    CopyStrided(dims, product->bytes(), {0, RowMajorStrides(dims)}, out->bytes(), to,
                LiteralBytesOf(out->shape().type));
    return true;
  }

 private:
  int64_t groups() const { return std::max(feature_groups_, batch_groups_); }
  int64_t outputs() const { return rhs_.shape().dims[n_.rhs_out] / groups(); }  // of a group
  int64_t features() const { return rhs_.shape().dims[n_.rhs_in]; }
  bool in_order() const { return batch_groups_ == 1 || batch_ == 1; }  // images as in the result

  void FillTables(const Dims& out_dims) {
    in_ = trivial_ ? RowMajorStrides(lhs_.shape().dims) : padded_.Reserve(at_once_);
    const Dims kernel = RowMajorStrides(rhs_.shape().dims);
    Dims spatial, strides;
    Depth depth;
    int64_t reversed = 0;  // where the kernel's table starts
    for (size_t i = 0; i < window_.dims.size(); ++i) {
      const WindowDim& w = window_.dims[i];
      const int64_t of_lhs = in_[n_.lhs_spatial[i]], of_rhs = kernel[n_.rhs_spatial[i]];
      spatial.push_back(out_dims[n_.out_spatial[i]]);
      strides.push_back(w.stride * of_lhs);
      depth.Add(w.size, w.window_dilation * of_lhs, w.reversed ? -of_rhs : of_rhs);
      if (w.reversed) reversed += (w.size - 1) * of_rhs;
    }
    depth.Add(features(), in_[n_.lhs_feature], kernel[n_.rhs_in]);
    depth.Sort();
    image_ = {{}, StridedOffsets(spatial, strides), depth.Offsets(false)};
    weights_ = {{}, StridedOffsets({outputs()}, {kernel[n_.rhs_out]}), depth.Offsets(true)};
    Shift(&weights_.contract, reversed);
    group_ = outputs() * kernel[n_.rhs_out];
  }

  // The dimensions of the product, and where they lie in the result.
  std::pair<Dims, View> ProductOf(const Dims& out_dims) const {
    const Dims out = RowMajorStrides(out_dims);
    Dims dims{batch_};
    View to{0, {out[n_.out_batch]}};
    const auto feature = [&] {
      dims.push_back(groups() * outputs());
      to.strides.push_back(out[n_.out_feature]);
    };
    if (!rows_) feature();
    for (int64_t d : n_.out_spatial) {
      dims.push_back(out_dims[d]);
      to.strides.push_back(out[d]);
    }
    if (rows_) feature();
    return {dims, to};
  }

  // The products of the images from `first` on.
  bool Multiply(int64_t first, int64_t count, Literal* product, std::string* error) {
    const Literal& input = trivial_ ? lhs_ : padded_.Fill(first, count);
    const int64_t image = in_[n_.lhs_batch];
    const int64_t start = in_order() ? product->size() / images_ * first : 0;
    if (rows_) {
      Side rows{{0}, {}, image_.contract};
      for (int64_t b = 0; b < count; ++b) {
        for (int64_t position : image_.free) rows.free.push_back(b * image + position);
      }
      weights_.batch = {0};
      return Contract(input, rhs_, rows, weights_, round_, product, error, start);
    }
    image_.batch.clear();
    weights_.batch.clear();
    const bool by_batch = batch_groups_ > 1;  // a group is some of the images, or some features
    const int64_t step = by_batch ? batch_ * image : features() * in_[n_.lhs_feature];
    const int64_t first_group = by_batch ? first / batch_ : 0;
    for (int64_t b = 0; b < (by_batch ? batch_ : count); ++b) {
      for (int64_t g = 0; g < (by_batch ? count / batch_ : feature_groups_); ++g) {
        image_.batch.push_back(b * image + g * step);
        weights_.batch.push_back((first_group + g) * group_);
      }
    }
    return Contract(rhs_, input, weights_, image_, round_, product, error, start, &runs_);
  }

  const Literal &lhs_, &rhs_;
  const Window& window_;
  const Numbers3 n_;
  const int64_t feature_groups_, batch_groups_, images_, batch_;
  const bool round_, rows_, trivial_;
  PaddedImages padded_;
  int64_t at_once_ = 0;
  Dims in_;               // strides of the images
  Side image_, weights_;  // tables of one image, of one group's kernel
  SideRuns runs_;         // of both
  int64_t group_ = 0;     // from one group's kernel to the next
};

}  // namespace

bool EvalConvolution(const Literal& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
                     const EvalOptions& options, Literal* out, std::string* error) {
  const Window* given = FindAttr<Window>(attrs, AttrId::kWindow);
  const Window window = given ? *given : Window{};
  if (out->size() == 0) return true;
  const Numbers3 n = NumbersOf(*FindAttr<DimLabels>(attrs, AttrId::kDimLabels));
  for (size_t i = 0; i < window.dims.size(); ++i) {
    if (window.dims[i].size == rhs.shape().dims[n.rhs_spatial[i]]) continue;
    *error = "a convolution whose window has other sizes than its kernel";
    return false;
  }
  Convolution convolution(lhs, rhs, attrs, window, RoundsToBF16(attrs, options), *out);
  const int64_t limit = options.memory_limit > 0 ? options.memory_limit : DefaultMemoryLimit();
  if (convolution.ChooseImages(out->shape().type) > limit) {
    *error = absl::StrCat("a convolution whose padded input takes more than ", limit, " bytes");
    return false;
  }
  return convolution.Run(out, error);
}

}  // namespace tpuc
