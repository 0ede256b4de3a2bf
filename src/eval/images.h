// The input of a convolution in parts that stay in the cache: some images padded and dilated, or
// some indices of a dimension of an array that is computed where it is read.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/eval/elements.h"
#include "src/ir/hlo.h"

namespace tpuc {

// Some indices of one dimension of a computed array.
class Part {
 public:
  Part(const Elements& of, int64_t dim);

  int64_t index_bytes() const;  // of one index
  // The indices from `first` on. The first call makes the room; later ones take no more, and what
  // lies beyond them is left over.
  bool Fill(int64_t first, int64_t count, std::string* error);
  const Literal& literal() const { return literal_; }

 private:
  const Elements& of_;
  int64_t dim_, outer_ = 1, inner_ = 1;
  Literal literal_;
};

// Images with their padding (zeros) and gaps; negative padding crops. An image is one index of the
// batch dimension.
class PaddedImages {
 public:
  PaddedImages(const Elements& of, const Window& window, int64_t batch, const Ints& spatial);

  int64_t image_bytes() const { return image_.LiteralBytes(); }
  // Room for that many images; their strides.
  Dims Reserve(int64_t images);
  // The images from `first` on; what lies beyond them is left over.
  bool Fill(int64_t first, int64_t count, std::string* error);
  const Literal& literal() const { return literal_; }

 private:
  void Copy(const Dims& taken, const uint8_t* from, int64_t from_offset, int64_t to_offset);
  bool FillComputed(int64_t first, int64_t count, std::string* error);

  const Elements& of_;
  int64_t batch_;
  Dims taken_, skipped_;  // of each dimension of the array: how many indices, after how many
  std::vector<std::pair<int64_t, int64_t>> placed_;  // where they go: the first, step
  Shape image_;
  Literal literal_, run_;
};

}  // namespace tpuc
