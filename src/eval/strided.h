// Copies between strided views of arrays: what broadcast, transpose, slice, reverse, pad and
// concatenate are made of. Elements are moved as bytes, so any type goes.
//
//   transpose f32[2,3]{dimensions 1,0}: dims {3,2}, from strides {1,3}, to strides {2,1}
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/native.h"
#include "src/ir/shape.h"

namespace tpuc {

struct View {
  int64_t offset = 0;  // of element (0, ..., 0), in elements
  Dims strides;        // a dimension each, in elements; 0 repeats, negative reverses
};

// Row-major strides of an array.
Dims RowMajorStrides(const Dims& dims);

// to[i] = from[i] for every index i within dims. The views must stay within the arrays, and no
// two indices may share a place of `to`. bytes: size of an element, 1, 2, 4, 8 or 16.
void CopyStrided(const Dims& dims, const uint8_t* from, const View& from_view, uint8_t* to,
                 const View& to_view, int64_t bytes);

// Offsets of all indices of `dims` by the given strides, row major.
std::vector<int64_t> StridedOffsets(const Dims& dims, const Dims& strides);
// Offsets of all indices of the given dimensions of a row-major array, the last named fastest.
std::vector<int64_t> IndexOffsets(const Dims& dims, const std::vector<int64_t>& chosen);

// n copies of the element at `from`.
void FillElements(const uint8_t* from, int64_t bytes, int64_t n, uint8_t* to);

struct Bytes16 {
  uint64_t low, high;
};

// Calls f(TypeTag<T>) with a plain type of that size.
template <typename F>
void VisitElementSize(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      f(TypeTag<uint8_t>{});
      break;
    case 2:
      f(TypeTag<uint16_t>{});
      break;
    case 4:
      f(TypeTag<uint32_t>{});
      break;
    case 8:
      f(TypeTag<uint64_t>{});
      break;
    case 16:
      f(TypeTag<Bytes16>{});
      break;
    default:
      break;
  }
}

}  // namespace tpuc
