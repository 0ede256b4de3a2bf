// Copies and computations of parts of a convolution's input (images.h).
#include "src/eval/images.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "src/eval/strided.h"

namespace tpuc {
namespace {

int64_t ProductOf(absl::Span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

Part::Part(const Elements& of, int64_t dim) : of_(of), dim_(dim) {
  const absl::Span<const int64_t> dims = of.shape().dims;
  outer_ = ProductOf(dims.subspan(0, dim));
  inner_ = ProductOf(dims.subspan(dim + 1));
}

int64_t Part::index_bytes() const { return outer_ * inner_ * LiteralBytesOf(of_.shape().type); }

bool Part::Fill(int64_t first, int64_t count, std::string* error) {
  if (literal_.byte_size() == 0) {
    Shape shape = of_.shape();
    shape.dims[dim_] = count;
    literal_ = Literal(shape, Literal::Unwritten());
  }
  const int64_t size = of_.shape().dims[dim_], room = literal_.shape().dims[dim_];
  uint8_t* to = literal_.bytes();
  for (int64_t o = 0; o < outer_; ++o) {
    if (!of_.Compute((o * size + first) * inner_, count * inner_, to, error)) return false;
    to += room * inner_ * LiteralBytesOf(of_.shape().type);
  }
  return true;
}

PaddedImages::PaddedImages(const Elements& of, const Window& window, int64_t batch,
                           const Ints& spatial)
    : of_(of), batch_(batch), taken_(of.shape().dims), skipped_(taken_.size(), 0) {
  placed_.assign(taken_.size(), {0, 1});
  Dims dims = taken_;
  dims[batch_] = 1;
  for (size_t i = 0; i < spatial.size(); ++i) {
    const WindowDim& w = window.dims[i];
    const int64_t d = spatial[i], size = dims[d], step = w.base_dilation;
    const int64_t dilated = size == 0 ? 0 : (size - 1) * step + 1;
    dims[d] = std::max<int64_t>(0, dilated + w.pad_low + w.pad_high);
    skipped_[d] = w.pad_low < 0 ? (-w.pad_low + step - 1) / step : 0;
    const int64_t first = w.pad_low + skipped_[d] * step;
    const int64_t fit = first >= dims[d] ? 0 : (dims[d] - 1 - first) / step + 1;
    taken_[d] = std::clamp<int64_t>(size - skipped_[d], 0, fit);
    placed_[d] = {first, step};
  }
  image_ = Shape::Array(of.shape().type, dims);
}

Dims PaddedImages::Reserve(int64_t images) {
  Shape shape = image_;
  shape.dims[batch_] = images;
  literal_ = Literal(shape);
  return RowMajorStrides(shape.dims);
}

// The last dimensions, of which `taken` has the sizes.
void PaddedImages::Copy(const Dims& taken, const uint8_t* from, int64_t from_offset,
                        int64_t to_offset) {
  const Dims from_strides = RowMajorStrides(of_.shape().dims);
  const Dims to_strides = RowMajorStrides(literal_.shape().dims);
  View from_view{from_offset, {}}, to_view{to_offset, {}};
  for (size_t d = placed_.size() - taken.size(); d < placed_.size(); ++d) {
    from_view.offset += skipped_[d] * from_strides[d];
    from_view.strides.push_back(from_strides[d]);
    to_view.offset += placed_[d].first * to_strides[d];
    to_view.strides.push_back(placed_[d].second * to_strides[d]);
  }
  CopyStrided(taken, from, from_view, literal_.bytes(), to_view, LiteralBytesOf(image_.type));
}

bool PaddedImages::Fill(int64_t first, int64_t count, std::string* error) {
  taken_[batch_] = count;
  if (!of_.array()) return FillComputed(first, count, error);
  Copy(taken_, of_.array()->bytes(), first * RowMajorStrides(of_.shape().dims)[batch_], 0);
  return true;
}

// In runs of elements that lie together and in the cache: the last dimensions, a place of the
// others each.
bool PaddedImages::FillComputed(int64_t first, int64_t count, std::string* error) {
  constexpr int64_t kMost = int64_t{1} << 16;  // elements of a run
  Dims sizes = of_.shape().dims;
  sizes[batch_] = count;
  size_t split = static_cast<size_t>(batch_);  // images are some: those before it lie apart
  while (split < sizes.size() && ProductOf(absl::MakeSpan(sizes).subspan(split)) > kMost) ++split;
  const Dims from = RowMajorStrides(of_.shape().dims);
  const Dims to = RowMajorStrides(literal_.shape().dims);
  const int64_t run = ProductOf(absl::MakeSpan(sizes).subspan(split));
  if (run_.size() != run || run_.shape().rank() == 0) {
    run_ = Literal(Shape::Array(image_.type, {run}), Literal::Unwritten());
  }
  const Dims taken(taken_.begin() + static_cast<int64_t>(split), taken_.end());
  Dims places(taken_.begin(), taken_.begin() + static_cast<int64_t>(split)), froms, tos;
  int64_t from_first = first * from[batch_], to_first = 0;
  for (size_t d = 0; d < split; ++d) {
    from_first += skipped_[d] * from[d];
    to_first += placed_[d].first * to[d];
    froms.push_back(from[d]);
    tos.push_back(placed_[d].second * to[d]);
  }
  const std::vector<int64_t> read = StridedOffsets(places, froms);
  const std::vector<int64_t> written = StridedOffsets(places, tos);
  for (size_t i = 0; i < read.size(); ++i) {
    if (!of_.Compute(from_first + read[i], run, run_.bytes(), error)) return false;
    Copy(taken, run_.bytes(), 0, to_first + written[i]);
  }
  return true;
}

}  // namespace tpuc
