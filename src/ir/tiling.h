// Arrays as a device memory holds them: dimensions in layout order, cut into tiles, padded.
//
//   bf16[16,256]{1,0:T(8,128)(2,1)}: tiles of 8x128, inside a tile pairs of rows side by side.
//
// The bytes between a logical (row-major) literal and device memory; DeviceBytes (shape.h) is the
// size. No memory spaces, no addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/ir/literal.h"
#include "src/ir/shape.h"

namespace tpuc {

// For a dense array: element offset (in elements, tile padding included) = sum over the logical
// dimensions d of offset[d][index[d]]. Holds for every layout whose '*' tile dimensions merge
// dimensions that another cannot see; `separable` is false otherwise.
struct TiledOffsets {
  bool separable = true;
  std::vector<std::vector<int64_t>> offset;  // by logical dimension, then index
  int64_t elements = 1;                      // of the padded array
};
TiledOffsets OffsetsOf(const Shape& shape);

// Elements that share a 32-bit word of a tiled array: 2 of 16 bits, 8 of s4 and u4, 4 of all other
// narrow types, 1 of wider ones. Rows side by side, the first in the low bits.
int PackedElements(Type type);

// What is wrong with the layout of a shape (of a tuple's elements): not every dimension once, or an
// element size that is no power of two. Empty if nothing is; without a layout nothing is.
std::string LayoutProblem(const Shape& shape);

// The logical literal's bytes in the layout of `device_shape` (same dimensions and type; padding
// is zero; types narrower than a byte are packed, low bits first, where the layout has E(n)).
// `literal` is an array that is not elided; DeviceBytes(device_shape) must be allocatable.
std::vector<uint8_t> PackToDevice(const Literal& literal, const Shape& device_shape);
// The reverse; `bytes` holds at least DeviceBytes(device_shape) bytes.
Literal UnpackFromDevice(absl::Span<const uint8_t> bytes, const Shape& device_shape);

}  // namespace tpuc
