// convolution (contract.h): the input is padded and dilated into an array of its own; then output
// position and window place are strides of it, which makes the convolution of an image a matrix
// product: output feature by position, of depth (window place, input feature). Feature and batch
// groups are products of their own. An input that is computed where it is read is so a part at a
// time, before the parts are padded or multiplied.
#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/contract.h"
#include "src/eval/images.h"
#include "src/eval/lines.h"
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

// How many of so many features, `places` deep each, to sum up at once, at most `most`: such that
// depths fill the blocks of a product.
int64_t BestPart(int64_t features, int64_t places, int64_t most) {
  const auto blocks = [&](int64_t part) {
    const int64_t whole = features / part, rest = features % part;
    const auto of = [&](int64_t n) { return (n * places + kGemmDepth - 1) / kGemmDepth; };
    return whole * of(part) + of(rest);
  };
  int64_t best = 1;
  for (int64_t part = 2; part <= std::min(features, most); ++part) {
    if (blocks(part) <= blocks(best)) best = part;
  }
  return best;
}

int64_t Size(const Ints& table) { return static_cast<int64_t>(table.size()); }

// A product for each image and group, [output][position]: that is the result as it lies where its
// order is batch, feature, positions. Features last, as most programs have them, and no groups:
// images are rows, so that outputs lie side by side.
class Convolution {
 public:
  Convolution(const Elements& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
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
        converts_(round || !IsNative(lhs.shape().type) || !IsFloat(lhs.shape().type) ||
                  rhs.shape().type != lhs.shape().type || out.shape().type != lhs.shape().type),
        padded_(lhs, window, n_.lhs_batch, n_.lhs_spatial),
        part_(lhs_, by_depth() ? n_.lhs_feature : n_.lhs_batch) {}

  // What the padded images, or parts of a computed input, that are looked at together take, in
  // bytes. Operands that are converted are so each time: all images then are.
  int64_t ChooseParts() {
    constexpr int64_t kCached = int64_t{4} << 20, kNear = int64_t{1} << 19,
                      kLarge = int64_t{256} << 20;  // bytes
    const auto fit = [](int64_t most, int64_t bytes, int64_t count) {
      return std::clamp<int64_t>(most / std::max<int64_t>(1, bytes), 1, count);
    };
    at_once_ = images_;
    int64_t each = padded_.image_bytes();
    if (by_depth()) {
      each = part_.index_bytes();
      at_once_ = BestPart(features(), places(), fit(kNear, each, features()));
    } else if (!converts_ && in_order() && !trivial_) {
      // A large kernel (a gradient's other operand) is read again for each part.
      const bool large = rows_ && rhs_.byte_size() > kCached;
      at_once_ = fit(large ? kLarge : kCached, each, images_);
    } else if (!converts_ && in_order() && !lhs_.array() && n_.lhs_batch == 0) {
      at_once_ = fit(kNear, each, images_);
    }
    int64_t bytes = 0;
    return __builtin_mul_overflow(each, at_once_, &bytes) ? std::numeric_limits<int64_t>::max()
                                                          : bytes;
  }

  bool Run(Literal* out, std::string* error) {
    FillTables(out->shape().dims);
    turned_ = rows_ && (by_depth() || at_once_ == images_) &&
              PanelsTaken(outputs(), batch_ * Size(image_.free)) <
                  PanelsTaken(batch_ * Size(image_.free), outputs());
    const auto [dims, to] = ProductOf(out->shape().dims);
    const bool in_place = to.strides == RowMajorStrides(dims);
    std::optional<Literal> own;
    if (!in_place) own.emplace(Shape::Array(out->shape().type, dims));
    Literal* product = in_place ? out : &*own;
    if (InLines()) {
      if (!MultiplyLines(product, error)) return false;
    } else if (by_depth()) {
      if (!MultiplyByDepth(product, error)) return false;
    } else {
      for (int64_t first = 0; first < images_; first += at_once_) {
        if (!Multiply(first, std::min(at_once_, images_ - first), product, error)) return false;
      }
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
  int64_t places() const {  // of a window
    int64_t count = 1;
    for (const WindowDim& w : window_.dims) count *= w.size;
    return count;
  }
  bool in_order() const { return batch_groups_ == 1 || batch_ == 1; }  // images as in the result
  // Computed features lie further apart than images: sums go on from one part of them to the next.
  bool by_depth() const {
    return !lhs_.array() && trivial_ && rows_ && !converts_ && n_.lhs_feature == 0;
  }

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
    Dims dims;
    View to;
    const auto add = [&](int64_t size, int64_t d) {
      dims.push_back(size);
      to.strides.push_back(out[d]);
    };
    if (turned_) add(outputs(), n_.out_feature);
    add(batch_, n_.out_batch);
    if (!rows_) add(groups() * outputs(), n_.out_feature);
    for (int64_t d : n_.out_spatial) add(out_dims[d], d);
    if (rows_ && !turned_) add(outputs(), n_.out_feature);
    return {dims, to};
  }

  // Positions of all images, as they lie in the input.
  std::vector<int64_t> AllRows(int64_t images) const {
    std::vector<int64_t> rows;
    for (int64_t b = 0; b < images; ++b) {
      for (int64_t position : image_.free) rows.push_back(b * in_[n_.lhs_batch] + position);
    }
    return rows;
  }

  // A computed input lies such that products compute it as they pack it.
  bool InLines() const {
    if (lhs_.array() || !trivial_ || converts_ || groups() > 1) return false;
    if (by_depth()) return LiesInLines(image_.contract);
    const std::vector<int64_t>& free = image_.free;
    return !rows_ && LiesInLines(free) && free.back() - free[0] + 1 == Size(free);
  }
  bool MultiplyLines(Literal* product, std::string* error) {
    bool computed = true;
    const bool known = VisitCompute(product->shape().type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_floating_point_v<T>) {
        const LineSource<T> lines = [&](int64_t first, int64_t count, T* to) {
          uint8_t* bytes = reinterpret_cast<uint8_t*>(to);
          computed = computed && lhs_.Compute(first, count, bytes, error);
        };
        ProductOfLines<T>(lines, product->data<T>());
      }
    });
    return known && computed;
  }
  template <typename T>
  void ProductOfLines(const LineSource<T>& lines, T* product) const {
    const int64_t depth = Size(image_.contract);
    const T* weights = rhs_.data<T>();
    const int64_t *free = weights_.free.data(), *contract = weights_.contract.data();
    const int64_t* places = image_.contract.data();
    const T* source = reinterpret_cast<const T*>(lhs_.source());
    if (by_depth()) {
      const std::vector<int64_t> rows = AllRows(images_);
      const int64_t m = Size(rows), n = outputs();
      if (turned_) {
        return Gemm(n, m, depth, {weights, free, contract}, {source, places, rows.data(), &lines},
                    product);
      }
      return Gemm(m, n, depth, {source, rows.data(), places, &lines}, {weights, contract, free},
                  product);
    }
    PackedRows<T> packed;
    const int64_t n = Size(image_.free);
    for (int64_t b = 0; b < images_; ++b, product += outputs() * n) {
      const int64_t image = b * in_[n_.lhs_batch];
      Gemm(outputs(), n, depth, {weights, free, contract},
           {source ? source + image : nullptr, places, image_.free.data(), &lines, image}, product,
           &packed);
    }
  }

  // All images; some features at a time.
  bool MultiplyByDepth(Literal* product, std::string* error) {
    std::memset(product->bytes(), 0, product->byte_size());
    Side rows{{0}, AllRows(images_), {}}, weights{{0}, weights_.free, {}};
    for (int64_t first = 0; first < features(); first += at_once_) {
      const int64_t count = std::min(at_once_, features() - first);
      if (!part_.Fill(first, count, error)) return false;
      const auto part = [&](const Ints& all) {
        return Ints(all.begin() + first * places(), all.begin() + (first + count) * places());
      };
      rows.contract = part(image_.contract);
      Shift(&rows.contract, -first * in_[n_.lhs_feature]);
      weights.contract = part(weights_.contract);
      if (turned_) {
        AddContract(rhs_, part_.literal(), weights, rows, product);
      } else {
        AddContract(part_.literal(), rhs_, rows, weights, product);
      }
    }
    return true;
  }

  // The products of the images from `first` on.
  bool Multiply(int64_t first, int64_t count, Literal* product, std::string* error) {
    const Literal* input = lhs_.array();
    if (!trivial_) {
      if (!padded_.Fill(first, count, error)) return false;
      input = &padded_.literal();
    } else if (!input) {
      if (!part_.Fill(first, count, error)) return false;
      input = &part_.literal();
    }
    const int64_t image = in_[n_.lhs_batch];
    const int64_t start = in_order() ? product->size() / images_ * first : 0;
    if (rows_) {
      const Side rows{{0}, AllRows(count), image_.contract};
      weights_.batch = {0};
      if (turned_) return Contract(rhs_, *input, weights_, rows, round_, product, error);
      return Contract(*input, rhs_, rows, weights_, round_, product, error, start);
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
    return Contract(rhs_, *input, weights_, image_, round_, product, error, start, &runs_);
  }

  const Elements& lhs_;
  const Literal& rhs_;
  const Window& window_;
  const Numbers3 n_;
  const int64_t feature_groups_, batch_groups_, images_, batch_;
  const bool round_, rows_, trivial_, converts_;
  bool turned_ = false;  // rows, but outputs are these, images columns
  PaddedImages padded_;
  Part part_;  // of a computed input
  int64_t at_once_ = 0;
  Dims in_;               // strides of the images
  Side image_, weights_;  // tables of one image, of one group's kernel
  SideRuns runs_;         // of both
  int64_t group_ = 0;     // from one group's kernel to the next
};

}  // namespace

bool EvalConvolution(const Elements& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
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
  if (convolution.ChooseParts() > limit) {
    *error = absl::StrCat("a convolution whose padded input takes more than ", limit, " bytes");
    return false;
  }
  return convolution.Run(out, error);
}

}  // namespace tpuc
